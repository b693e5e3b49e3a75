"""Rare long steps apart from regular ones."""

from __future__ import annotations

from typing import Any

import pytest

from macro.explaining import breakdown, long_steps
from macro.watching.recording import Recording, Watched
from reports.explanation import Line, LongKind

COUNTED = {"steps": 300, "long": 3, "seconds": 3.9, "long seconds": 0.9}
LINES = {"steps": 300, "lines": {"/x/train.py:88": ["main", "evaluate()", 0.8], "/x/train.py:80": ["main", "f()", 0.1]}}


def described(**changed: Any) -> object:
    return long_steps.describe(Recording({"counted": {**COUNTED, **changed}, "long lines": LINES}))


def test_they_are_described_with_their_share_and_line() -> None:
    long = described()
    assert long is not None
    assert vars(long) == {
        "count": 3,
        "every": 100.0,
        "seconds": pytest.approx(0.3),
        "share": pytest.approx(0.9 / 3.9),
        "place": "/x/train.py:88",
        "text": "evaluate()",
        "kinds": (LongKind(Line("/x/train.py", 88, "main", "evaluate()", pytest.approx(0.3)), 100.0),),
    }


def test_kinds_of_long_steps_are_by_function() -> None:
    lines = {"/x/a.py:8": ["save", "dump()", 0.2, 2], "/x/a.py:9": ["save", "sync()", 0.4, 4]}
    lines |= {"/x/a.py:20": ["<module>", "evaluate()", 0.9, 3], "/x/a.py:21": ["<module>", "log()", 0.02, 1]}
    long = long_steps.describe(Recording({"counted": COUNTED, "long lines": {"steps": 240, "lines": lines}}))
    assert long is not None and (long.place, long.text) == ("/x/a.py:20", "evaluate()")
    kinds = [(x.line.number, x.line.text, round(x.line.seconds, 3), x.every) for x in long.kinds]
    assert kinds == [(20, "evaluate()", 0.3, 80.0), (9, "sync()", 0.1, 40.0)]


@pytest.mark.parametrize("changed", [{"long": 1}, {"long": 40}, {"long seconds": 0.05}, {"steps": 19}])
def test_few_steps_or_little_time_are_no_class(changed: dict[str, Any]) -> None:
    assert described(**changed) is None


def test_a_recording_that_counts_none_has_none() -> None:
    assert long_steps.describe(Recording({})) is None


def test_lines_are_of_all_steps_unless_long_ones_are_apart() -> None:
    program = {"lines": {"steps": 10, "lines": {"/x/train.py:80": ["main", "f()", 0.02]}}, "long lines": LINES}
    apart, together = (breakdown._lines(program, 1.0, with_long=with_long) for with_long in (False, True))
    assert [(x.number, x.seconds) for x in apart] == [(80, pytest.approx(0.002))]
    each = [(88, pytest.approx(0.8 / 300)), (80, pytest.approx(0.002 + 0.1 / 300))]
    assert [(x.number, x.seconds) for x in together] == each


def test_regular_steps_are_left() -> None:
    steps = [(i * 10**9, i * 10**9 + (400 if i == 2 else 8) * 10**6, 0.0, 0.0) for i in range(4)]
    process = Watched(
        levels={"P0": [0.005, 0.104], "P3": [0.1]},
        plain=[[0.005] * 3, [0.005, 0.005, 0.302], [0.4]],
        steps=steps,
        rounds=[0, 0, 1, 1],
    )
    left = long_steps.regular(process)
    assert left.levels["P0"] == pytest.approx([0.005, 0.005]) and left.levels["P3"] == [0.1]
    assert left.steps == [steps[0], steps[1], steps[3]] and left.rounds == [0, 0, 1]
    assert long_steps.regular(Watched()) == Watched()
    assert long_steps.regular(Watched(plain=[[0.3, 0.005]]), [process]).levels["P0"] == [0.005]


def test_where_steps_vary_only_far_ones_are_long() -> None:
    steps = [0.02 + 0.002 * (i * 7 % 40) for i in range(80)]  # quartiles of 40 and 80 ms
    process = Watched(plain=[[x] for x in steps])
    for long, there in ((0.15, False), (0.3, True)):
        counted = {"steps": 80, "long": 4, "seconds": 4.0, "long seconds": 4 * long}
        described = long_steps.describe(Recording({"counted": counted, "long lines": LINES}, [process]))
        assert (described is not None) is there
