"""What `micro.selftest --soak elementwise` says of its promises, on measurements made by hand."""

from __future__ import annotations

import pytest

from kernels.catalog import find
from micro.command.soak_elementwise import judged
from micro.contests import soak
from reports.record import Comparison


def rivals(*ratios: float | None, width: float = 0.01) -> list[tuple[str, Comparison]]:
    """Rivals by number, each so many times as slow as ours."""
    found = []
    for i, ratio in enumerate(ratios):
        ends = (ratio - width, ratio + width) if ratio else (None, None)
        why = None if ratio else "skipped"
        found.append((f"rival{i}", Comparison("x", "y", "a", "b", ratio, *ends, 0.95, "same", why, 0.01, 0.01)))
    return found


def test_the_best_rival_counts() -> None:
    promise = next(iter(soak.streams()))
    figure = judged(promise, rivals(1.3, 0.97, None, 1.1))
    assert figure.say() == (
        "copy of 64 KiB: 0.970 [0.960, 0.980] of the rate of the best of 3, rival1; promised 0.95: held"
    )
    assert not judged(promise, rivals(1.3, 0.93, None, 1.1)).held
    assert judged(promise, rivals(0.945)).held, "it is missed where the whole interval lies below"


def test_softmax_is_judged_by_the_bytes_of_both() -> None:
    promise = next(iter(soak.softmax()))
    assert promise.bytes_of_both == pytest.approx(1, abs=1e-4)
    figure = judged(promise, rivals(0.6))
    assert figure.found == "0.600 [0.590, 0.610] of the rate of a read of 13.1 MiB" and not figure.held


def test_nothing_measured_is_not_held() -> None:
    figure = judged(next(iter(soak.transposes())), rivals(None))
    assert (figure.found, figure.held) == ("nothing could be measured: skipped", False)


def test_every_case_is_one_that_can_be_measured() -> None:
    for promise in (*soak.streams(), *soak.transposes(), *soak.softmax()):
        for case in (promise.ours, *promise.rivals):
            assert find(case.problem.op, case.variant).accepts(case.problem) is None
