"""Whole documents of explanations, value by value: of sides watched by hand and of recorded steps.

`GOLDEN=write` rewrites what is expected. Numbers are compared to 12 digits: the last ones are the BLAS's.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernels.ops.gemm.problem import Gemm
from macro.explaining import document
from macro.explaining import repeat as repeating
from macro.timing.entry import Plan
from macro.watching import perf
from macro.watching.library_log import Logged
from macro.watching.watch import Side
from reports import attribution
from tests.macro.explaining.sides import CLEARS, FAST, NET, PACKS, PLAN, SLOW, recorded, side
from tests.macro.watched import GEMM, PYTHON

GOLDEN = Path(__file__).parent / "golden"


def by_hand() -> list[Side]:
    one = side("numpy", SLOW, more=(PACKS, CLEARS, PYTHON))
    product = Gemm(one.entry.setting.threads, 3, 4, "nt", ld_pad=3)
    one.logged, one.entry.identity = Logged([product]), {"version": "1", "blas": "x"}
    return [one, side("jax", FAST)]


def heaps() -> list[Side]:
    return [side("numpy", SLOW, more=(PACKS, CLEARS, PYTHON)), side("numpy", FAST, heap="keep")]


def without_spans() -> list[Side]:
    sides = by_hand()
    sides[1].processes[0].traces = False
    return sides


def of_the_trace() -> list[Side]:
    """Recorded steps with all their samples against the same with no sample in a product."""
    sides = [side("numpy", []), side("pytorch", [])]
    for number, one in enumerate(sides):
        (made,) = one.processes = [recorded()]
        made.rounds = list(range(len(made.steps)))
        plain = [(end - start) * 1e-9 * (2 - number) for start, end, *_ in made.steps]
        made.levels = {"P0": plain, "P1": [1.1 * x for x in plain], "P3": [1.2 * x for x in plain]}
        made.faults, made.system = [0.0, 5.0], [0.0, 2e-5]
        made.samples = [x for x in made.samples if number == 0 or x.symbol != GEMM[0]]
    return sides


def spans_alone() -> list[Side]:
    sides = of_the_trace()
    for one in sides:
        one.processes[0].samples = []
    return sides


ASKED: dict[str, tuple[Callable[[], list[Side]], Plan, bool]] = {
    "by-hand": (by_hand, PLAN, True),
    "heaps": (heaps, PLAN, False),
    "without-spans": (without_spans, replace(PLAN, generations=5), False),
    "recorded": (of_the_trace, Plan(NET, 128, "step", 1.0, 1, asked="my net.json"), False),
    "spans-alone": (spans_alone, Plan(NET, 128, "gradient", 1.0, 1), True),
}


def same(seen: Any, want: Any) -> bool:
    """Keys in their order, words and counts exactly, other numbers to 12 digits."""
    if isinstance(want, dict):
        return isinstance(seen, dict) and list(seen) == list(want) and all(same(seen[x], want[x]) for x in want)
    if isinstance(want, list):
        return isinstance(seen, list) and len(seen) == len(want) and all(map(same, seen, want))
    if isinstance(want, float):
        return isinstance(seen, float) and seen == pytest.approx(want, rel=1e-12, abs=1e-15)
    return type(seen) is type(want) and bool(seen == want)


@pytest.mark.parametrize("name", ASKED)
def test_a_document_is_as_it_was(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf, "missing", lambda: None)
    monkeypatch.setattr(perf, "sees_kernel", lambda: True)
    monkeypatch.setattr(repeating, "best", lambda again: ("c", 1e-3) if "gemm" in again.benchmark else None)
    sides, plan, kernels = ASKED[name]
    told = document.explain(plan, sides(), 3.0, kernels)
    written, text = json.dumps(attribution.note(told).data), attribution.text(told) + "\n"
    files = GOLDEN / f"{name}.json", GOLDEN / f"{name}.txt"
    if os.environ.get("GOLDEN") == "write":
        files[0].write_text(written.replace('}, {"row"', '},\n{"row"') + "\n", "utf-8")
        files[1].write_text(text, "utf-8")
    assert same(json.loads(written), json.loads(files[0].read_text("utf-8")))
    assert text == files[1].read_text("utf-8"), "if this is as it should be: make golden, and read the diff"


def test_every_golden_belongs_to_a_document() -> None:
    assert {path.stem for path in GOLDEN.glob("*")} == set(ASKED)


def test_a_document_of_another_number_is_another() -> None:
    want = json.loads((GOLDEN / "by-hand.json").read_text("utf-8"))
    assert same(want, want)
    assert not same({**want, "gap": want["gap"] * (1 + 1e-9)}, want)
    assert not same(dict(reversed(want.items())), want)
    assert not same({**want, "cells": want["cells"][1:]}, want)
