"""`python -m tests.soak causes`: what it says of explanations made by hand."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from reports import attribution
from reports.explanation import Bar, Explanation
from tests.reports.made_gap import told
from tests.soak import causes
from tests.soak.causes import KINDS, Kind, Named
from tests.soak.conftest import Answer

EQUAL = Kind("it against itself", [("it", "it")], pairs=20)
HEAP, TWICE = Kind("heap default against keep", [("it", "it")], "OS memory"), KINDS["twice"]


def bar(name: str, gap: float, sure: bool = True) -> Bar:
    return Bar(name, 0.2 + gap, 0.2, gap - 0.001, gap + 0.001, sure)


def explained(*of_causes: Bar, layers: Sequence[Bar] = ()) -> Explanation:
    """Return an explanation of steps of 0.5 s and 0.4 s: a difference is worth a word from 5 ms on."""
    bars = {"cause": of_causes, "layer": tuple(layers), "phase": ()}
    return told([], step={"a": 0.5, "b": 0.4}, gap=0.1, interval=(0.09, 0.11), bars=bars)


@pytest.mark.parametrize(
    ("kind", "bars", "words"),
    [
        (HEAP, [bar("OS memory", 0.1), bar("gemm", 0.02, sure=False)], "OS memory +100 ms for certain: right"),
        (HEAP, [bar("OS memory", 0.1), bar("gemm", -0.02)], "OS memory +100 ms, gemm −20.0 ms for certain: right"),
        (HEAP, [bar("OS memory", -0.1)], "OS memory −100 ms for certain: WRONG"),
        (HEAP, [bar("OS memory", 0.1, sure=False)], "nothing for certain: MISSED"),
        (HEAP, [bar("OS memory", 0.0049)], "nothing for certain: MISSED"),
        (HEAP, [bar("gemm", 0.1)], "gemm +100 ms for certain: MISSED"),
        (EQUAL, [bar("gemm", 0.02, sure=False)], "nothing for certain: right"),
        (EQUAL, [bar("gemm", -0.02)], "gemm −20.0 ms for certain: WRONG"),
    ],
)
def test_a_cause_is_right_by_name_and_sign(kind: Kind, bars: list[Bar], words: str) -> None:
    assert causes.line(kind, causes.certain(explained(*bars))) == words


def test_of_equal_sides_no_layer_may_be_certain() -> None:
    named = causes.certain(explained(layers=[bar("fc2", 0.02)]))
    assert causes.line(EQUAL, named) == "layer fc2 for certain: WRONG"


GEMM, MEMORY, BOTH, NONE = (
    Named(seconds, ()) for seconds in ({"gemm": 1.0}, {"OS memory": 1.0}, {"OS memory": 1.0, "gemm": -1.0}, {})
)


@pytest.mark.usefixtures("own_state")
@pytest.mark.parametrize(
    ("kind", "seen", "text", "held"),
    [
        (HEAP, [MEMORY] * 7 + [BOTH] * 2 + [NONE], "OS memory is certain in 9 of 10; wrong: gemm in 2", True),
        (HEAP, [MEMORY] * 8 + [GEMM] + [NONE], "OS memory is certain in 8 of 10; wrong: gemm in 1", False),
        (EQUAL, [NONE] * 19 + [GEMM], "1 of 20 name anything; wrong: gemm in 1", True),
        (EQUAL, [NONE] * 18 + [GEMM, MEMORY], "2 of 20 name anything; wrong: gemm in 1, OS memory in 1", False),
        (
            KINDS["twice"],
            [Named({"gemm": 1.0, "packing": 0.5})] * 10,
            "gemm is certain in 10 of 10; wrong: nothing",
            True,
        ),
    ],
)
def test_a_kind_is_held_by_its_share(kind: Kind, seen: list[Named], text: str, held: bool) -> None:
    figure = causes.together(kind, seen)
    assert (figure.value, figure.held) == (text, held)


@pytest.mark.usefixtures("own_state")
def test_a_miss_on_a_busy_machine_is_not_judged() -> None:
    quiet, busy = (Named({}, (), taken) for taken in (0.05, 0.5))
    assert causes.together(HEAP, [quiet] * 6 + [busy] * 4).busy is None
    figure = causes.together(HEAP, [quiet] * 4 + [busy] * 6)
    assert figure.busy is not None and figure.busy.startswith("others had the cores for 50% of the time; empty ")
    assert causes.together(HEAP, [Named({"OS memory": 1.0}, (), 0.5)] * 10).busy is None, "nothing is missed"
    closure: dict[str, dict[str, float | None]] = {"a": {"threads": 0.9}, "b": {"threads": 0.7}}
    assert causes.certain(dataclasses.replace(explained(), closure=closure)).taken == pytest.approx(0.3)


def test_every_pair_of_a_kind_is_measured(macro: Callable[[Answer], list[str]], own_state: Path) -> None:
    stems = macro(lambda stem, again: [attribution.note(explained(bar("OS memory", 0.1)))])
    first, *pairs, last = causes.figures("heap")
    assert stems == [f"heap-{number:02}" for number in range(1, 11)] and len(pairs) == 10
    assert first.value.startswith("10 of 10 are to be measured, about 16 min")
    assert last.held and last.value == "OS memory is certain in 10 of 10; wrong: nothing"


def test_equal_pairs_are_watched_as_unequal_ones_are() -> None:
    forms = {tuple(words[4:-3]) for name in ("twice", "copy") for words in [KINDS[name].question(1)]}
    equal = {tuple(words[4 : words.index("--runs")]) for words in map(KINDS["equal"].question, (1, 2))}
    assert forms < equal and len(equal) == len(causes.FORMS)
    assert all(words[2] == words[3] for words in map(KINDS["equal"].question, (1, 2)))
