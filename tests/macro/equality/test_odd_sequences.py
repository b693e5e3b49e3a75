"""Frameworks with a mistake in layers of sequences: each is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from macro.equality import proof
from macro.frameworks import find
from macro.processes.job import Setting
from tests.macro.equality import odd_sequences

NAMED = {
    "words": "words counted for sequences: the batch is 2, not 18",
    "swapped": "swapped axes (batch and steps): ",
    "double": "double bias (lstm): lstm.state_bias has 28 parameters where the network has 0",
    "forget": "missing forget bias: ",
    "short": "length off by one (without the last step): ",
    "carried": "state not reset between passes: ",
}


def verdicts(network: odd_sequences.Network, names: list[str], folder: Path) -> dict[str, proof.Verdict]:
    rows = [(find(f"{odd_sequences.__file__}:{name}"), Setting()) for name in names]
    return dict(zip(names, proof.prove(network, network.batch, rows, folder, lambda text: None), strict=True))


@pytest.mark.usefixtures("own_state")
def test_mistakes_in_sequences_have_names(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="no torch: pip install torch")
    results = verdicts(odd_sequences.MASKED, ["right", *NAMED], tmp_path)
    assert results["right"].equal, results["right"].why
    wrong = {name: results[name].why or "" for name in NAMED}
    assert {name: why for name, why in wrong.items() if not why.startswith(NAMED[name])} == {}


@pytest.mark.usefixtures("own_state")
def test_a_gru_that_resets_before_the_product_is_named(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="no torch: pip install torch")
    results = verdicts(odd_sequences.GRU, ["right", "reset"], tmp_path)
    assert results["right"].equal, results["right"].why
    assert (results["reset"].why or "").startswith("wrong reset of the GRU: ")
