"""Two witnesses of a row: what the trace says and what the replayed calls took."""

from __future__ import annotations

import math

import pytest

from macro.explaining.rows import groups
from macro.explaining.witnesses import Agreement, agreement, closure
from macro.watching.watch import Side
from tests.macro.watched import KNOWN, attribution, side

FORWARD, UPDATE, LOSS, OUTSIDE = ("fc1 forward",), ("fc1 update",), ("loss",), ("in no span",)
TOLD = attribution(
    {
        (FORWARD, "gemm"): [0.4, 0.4, 0.4],
        (FORWARD, "packing"): [0.1, 0.1, 0.1],
        (UPDATE, "optimizer"): [0.2, 0.2, 0.2],
        (LOSS, "softmax and loss"): [0.04, 0.04, 0.04],
        (OUTSIDE, "interpreter"): [0.2, 0.2, 0.2],
    }
)


def replayed(*seconds: list[float], calls: list[tuple[list[str], str]] | None = None) -> Side:
    """Of a step of one second: each call's seconds, a replay each."""
    made = side([1.0, 1.0, 1.0])
    made.processes[0].calls = calls or [(["fc1 forward"], "gemm"), (["fc1 update"], "update")]
    made.processes[0].replays = [(1.0, row) for row in seconds]
    return made


def verdicts(found: list[Agreement]) -> dict[str, str]:
    return {x.row: x.verdict for x in found}


def test_rows_agree_or_do_not_and_small_ones_are_not_asked() -> None:
    found = agreement("a", replayed([0.46, 0.3], [0.46, 0.3]), [TOLD], {}, KNOWN)
    assert verdicts(found) == {"fc1 forward": "agree", "fc1 update": "disagree"}
    assert [(x.side, x.trace, x.replay) for x in found] == [
        ("a", pytest.approx(0.5), pytest.approx(0.46)),
        ("a", pytest.approx(0.2), pytest.approx(0.3)),
    ]


@pytest.mark.parametrize(
    ("again", "verdict"), [(0.551, "disagree"), (0.549, "agree"), (0.451, "agree"), (0.449, "disagree")]
)
def test_a_tenth_of_the_row_is_the_margin(again: float, verdict: str) -> None:
    found = agreement("a", replayed([again, 0.2], [again, 0.2]), [TOLD], {}, KNOWN)
    assert verdicts(found)["fc1 forward"] == verdict


@pytest.mark.parametrize(
    ("replays", "verdict"),
    [((0.250, 0.251), "cannot tell"), ((0.195, 0.205), "cannot tell"), ((0.6, 0.61), "disagree")],
)
def test_what_scatters_agrees_only_where_a_tenth_is_excluded(replays: tuple[float, float], verdict: str) -> None:
    scattered = attribution({(UPDATE, "optimizer"): [0.15, 0.2, 0.25, 0.2]})
    (found,) = agreement("b", replayed(*([0.5, x] for x in replays)), [scattered], {}, KNOWN)
    assert found.sigma == pytest.approx(math.hypot(math.sqrt(0.005 / 3 / 4), (replays[1] - replays[0]) / 2))
    assert found.verdict == verdict


def test_steps_of_one_round_are_one_of_it() -> None:
    """Twenty of two rounds that differ by a third are no twenty."""
    steps = [0.16] * 10 + [0.24] * 10
    told = attribution({(UPDATE, "optimizer"): steps}, rounds=[0] * 10 + [1] * 10)
    (found,) = agreement("b", replayed([0.5, 0.2], [0.5, 0.2]), [told], {}, KNOWN)
    assert (found.trace, found.sigma, found.verdict) == (pytest.approx(0.2), pytest.approx(0.04), "cannot tell")


def test_one_replay_tells_nothing() -> None:
    assert verdicts(agreement("a", replayed([0.5, 0.2]), [TOLD], {}, KNOWN))["fc1 forward"] == "cannot tell"


def test_a_row_that_is_not_replayed_has_one_witness() -> None:
    (_, found) = agreement("a", replayed([0.5], calls=[(["fc1 forward"], "gemm")]), [TOLD], {}, KNOWN)
    assert (found.row, found.verdict, found.replay) == ("fc1 update", "one witness", None)
    assert {x.verdict for x in agreement("a", side([1.0]), [TOLD], {}, KNOWN)} == {"one witness"}


def test_rows_of_one_group_are_one_row_of_both_witnesses() -> None:
    group = groups([["fc1 forward", "fc1 activation"]], {})
    calls = [(["fc1 forward"], "gemm"), (["fc1 activation"], "element-wise")]
    told = attribution({(("fc1 forward", "fc1 activation"), "gemm"): [0.5, 0.5]})
    (found,) = agreement("a", replayed([0.3, 0.2], [0.3, 0.2], calls=calls), [told], group, KNOWN)
    assert (found.row, found.verdict) == ("fc1 forward + activation", "agree")
    assert found.replay == pytest.approx(0.5)


def test_a_replay_closes_with_and_without_what_only_frees() -> None:
    calls = [(["fc1 forward"], "gemm"), (["free gradients"], "free")]
    told = closure(replayed([0.8, 0.2], [0.9, 0.3], [0.7, 0.1], calls=calls))
    assert told == {"replay": pytest.approx(1.0), "replay without frees": pytest.approx(0.8)}
    assert closure(side([1.0])) == {"replay": None, "replay without frees": None}


def test_a_recording_that_does_more_than_the_step_is_caught() -> None:
    """An `add` that was in place, replayed as one that is not."""
    calls = [(["fc1 forward"], "gemm"), (["fc1 update"], "update"), (["fc1 update"], "copy")]
    told = closure(replayed([0.8, 0.2, 0.1], [0.8, 0.2, 0.1], calls=calls))
    assert told["replay"] == pytest.approx(1.1)
