"""Frameworks that build another network than the one that is asked for: each is told by the name of its mistake."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from macro.equality import defects, proof
from macro.equality.answer import Answer
from macro.frameworks import find
from macro.processes.job import Setting
from tests.macro.equality import odd_networks

NAMED = {
    "frozen": "frozen batch norm: ",
    "ceil": "poolings that round up: ",
    "shifted": "padding more below and right, as SAME has it: ",
    "biased": "biases too many (conv2.bias): conv2.bias has 8 parameters where the network has 0",
    "squared": "another loss (squared): ",
    "wider": "loss 0 differs by ",  # no mistake that has a name
}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, proof.Verdict]:
    rows = [find(f"{odd_networks.__file__}:{name}") for name in odd_networks.ROWS]
    folder: Path = tmp_path_factory.mktemp("odd")
    found = proof.prove(
        odd_networks.NET, odd_networks.NET.batch, [(x, Setting()) for x in rows], folder, lambda _: None
    )
    return dict(zip(odd_networks.ROWS, found, strict=True))


def test_the_right_one_is_equal(verdicts: dict[str, proof.Verdict]) -> None:
    assert verdicts["right"].equal, verdicts["right"].why


def test_a_mistake_that_makes_no_difference_has_no_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On sizes that fit, poolings that round up are the same."""
    right = Answer("numpy", {}, {"parameters": {}}, (1.0,), {})
    monkeypatch.setattr(defects, "_suspects", lambda network: iter([("poolings that round up", network)]))
    monkeypatch.setattr(defects, "ask", lambda *given: right)
    assert defects._of_the_layers(right, right, odd_networks.NET, 8, tmp_path) is None
    far = replace(right, losses=(2.0,))
    assert defects._of_the_layers(right, far, odd_networks.NET, 8, tmp_path) == "poolings that round up"


@pytest.mark.parametrize("name", NAMED)
def test_a_mistake_has_its_name(name: str, verdicts: dict[str, proof.Verdict]) -> None:
    verdict = verdicts[name]
    assert not verdict.equal and verdict.why is not None and verdict.why.startswith(NAMED[name])
