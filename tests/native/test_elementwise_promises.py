"""What tests/native/elementwise.py says of a measurement, on measurements made by hand."""

from __future__ import annotations

from typing import Any

import pytest

from kernels.catalog import find
from reports.record import Comparison
from tests.native import elementwise

promises: Any = elementwise


def told(*ratios: float | None, width: float = 0.01) -> list[tuple[str, Comparison]]:
    """Rivals by number, each so many times as slow as ours."""
    found = []
    for i, ratio in enumerate(ratios):
        ends = (ratio - width, ratio + width) if ratio else (None, None)
        why = None if ratio else "skipped"
        found.append((f"rival{i}", Comparison("x", "y", "a", "b", ratio, *ends, 0.95, "same", why, 0.01, 0.01)))
    return found


def test_the_best_rival_counts() -> None:
    promise = next(iter(promises.streams()))
    text, held = promises.say(promise, told(1.3, 0.97, None, 1.1))
    assert held and text == (
        "copy of 64 KiB: 0.970 [0.960, 0.980] of the rate of the best of 3, rival1; promised 0.95: held"
    )
    assert promises.say(promise, told(1.3, 0.93, None, 1.1))[1] is False
    assert promises.say(promise, told(0.945))[1], "it is missed where the whole interval lies below"


def test_softmax_is_told_by_the_bytes_of_both() -> None:
    promise = next(iter(promises.softmax()))
    assert promise.bytes_of_both == pytest.approx(1, abs=1e-4)
    text, held = promises.say(promise, told(0.6))
    assert "0.600 [0.590, 0.610] of the rate of a read of 13.1 MiB; promised 0.8: not held" in text and not held


def test_nothing_measured_is_not_held() -> None:
    promise = next(iter(promises.transposes()))
    assert promises.say(promise, told(None)) == ("transposition of 256×256: nothing could be measured: skipped", False)


def test_every_case_is_one_that_can_be_measured() -> None:
    for part in promises.PARTS.values():
        for promise in part():
            for case in (promise.ours, *promise.rivals):
                assert find(case.problem.op, case.variant).accepts(case.problem) is None
