"""What is added to users' scripts, and when an explanation of it is right."""

from __future__ import annotations

from typing import Any

import pytest

from micro.command.soak_own import ADDED, MODULES, Injection, injections, judged
from reports.explanation import Bar, Cell, Explanation

ONE = Injection("mlp", "fc1", "extra copy", 60, ("copy",))


def test_twelve_are_drawn_each_kind_twice_and_always_the_same() -> None:
    drawn = injections()
    assert [one.what for one in drawn] == [*ADDED, *ADDED] and drawn == injections()
    assert all(one.path in MODULES[one.script] for one in drawn)


@pytest.mark.parametrize("one", injections(), ids=lambda one: one.title)
def test_a_script_with_something_added_is_a_script(one: Injection) -> None:
    source = one.source()
    compile(source, one.script, "exec")
    assert f".get_submodule({one.path!r}), {one.many})" in source


def cell(row: str, column: str, gap: float) -> Cell:
    amount: dict[str, Any] = {"a": None, "b": None}
    return Cell(row, column, 0.05 + gap, 0.05, gap, gap, None, None, amount, amount, (row,))


def explained(cells: tuple[Cell, ...], gap: float = 0.01) -> Explanation:
    both: dict[str, Any] = {"a": 0.1, "b": 0.1 - gap}
    bars = [Bar(x.column, x.a, x.b, x.low, x.high, True) for x in cells]
    words: Any = ("mlp.py", 0, "step", 1, "wall", 1, 1.0, "a", "b")
    rest: Any = (gap, (gap, gap), 0.0, cells, both, both, both, (), {}, both, both)
    return Explanation(*words, both, *rest, bars={"cause": tuple(bars)})


def test_the_right_kind_module_and_size_are_right() -> None:
    found = explained((cell("net.fc1 forward", "copy", 0.008), cell("net.fc1 forward", "malloc", 0.0015)))
    assert judged(ONE, found)[0]


@pytest.mark.parametrize(
    ("cells", "fault"),
    [
        ((cell("net.fc1 forward", "gemm", 0.009), cell("net.fc1 forward", "copy", 0.001)), "kind"),
        ((cell("net.fc2 forward", "copy", 0.01),), "module"),
        ((cell("net.fc1 forward", "copy", 0.005),), "size"),
    ],
)
def test_what_is_wrong_is_told(cells: tuple[Cell, ...], fault: str) -> None:
    right, text = judged(ONE, explained(cells))
    assert not right and fault in text.partition("WRONG")[2]


def test_nothing_certain_is_missed() -> None:
    assert judged(ONE, explained(())) == (False, "MISSED: no cause is certain, the gap is +10.0 ms")
