"""A script's own step times, by blocks, and set beside watched ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from micro.command import examples, soak_plain


def test_blocks_are_means_of_steps_behind_the_first_seconds() -> None:
    steps = [1.0] * 4 + [0.04, 0.05, 0.06, 0.2, 0.01]
    assert soak_plain.blocks(steps) == pytest.approx([0.05, 0.2])


@pytest.mark.parametrize(("plain", "held"), [(0.01, True), (0.0105, False)])
def test_the_interval_of_five_ratios_that_agree_decides(
    plain: float, held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soak_plain, "_plain", lambda script, number: plain * (1 + 0.001 * number))
    monkeypatch.setattr(soak_plain, "_own", lambda script, number: 0.01)
    assert [one.held for one in soak_plain.figures()] == [held] * 4


def test_pairs_that_differ_go_on_until_their_mean_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for spread, pairs in ((0.03, 12), (0.2, soak_plain.MOST)):
        monkeypatch.setattr(soak_plain, "_plain", lambda script, number, by=spread: 0.01 * (1 + by * (-1) ** number))
        monkeypatch.setattr(soak_plain, "_own", lambda script, number: 0.01)
        assert next(soak_plain.figures()).found.endswith(f" of {pairs} pairs")


def test_what_a_script_printed_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examples, "folder", lambda: tmp_path)
    (tmp_path / "own-mlp-1.txt").write_text("".join(f"{i} 0.1 step {0.5:.6f}\n" for i in range(20)))
    assert soak_plain._own("mlp", 1) == 0.5
