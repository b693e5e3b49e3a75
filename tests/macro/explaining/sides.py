"""The two sides of an explanation, watched by hand or recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from macro.frameworks import find
from macro.networks import find as network
from macro.processes.job import Setting
from macro.timing.entry import Entry, Plan
from macro.watching.perf import parsed
from macro.watching.recording import Watched
from macro.watching.watch import Side
from tests.macro.watched import GEMM, MS, sample, span, watched

TRACES = Path(__file__).parents[1] / "traces"
NET = network("fcn-r")
PLAN = Plan(NET, 128, "step", 1.0, 1)
PACKS = ("sgemm_incopy_HASWELL", GEMM[1])
CLEARS = ("clear_page_erms", "[kernel.kallsyms]")
ROUNDS = 8
SLOW = ["fc1 wgrad"] * 4 + ["fc1 update"] * 2 + ["loss"] + ["nothing"] * 3
FAST = ["fc1 wgrad"] * 3 + ["fc1 update"] * 2 + ["loss"]
COLUMNS = {"fc1 wgrad": "gemm", "fc1 update": "update", "loss": "softmax"}


def side(name: str, rows: list[str], heap: str = "default", more: Any = ()) -> Side:
    """Each millisecond of each step a sample in a span of that row; `more`: samples of the last of them."""
    count, spans, samples, steps = len(rows), [], [], []
    for number in range(ROUNDS):
        start = 100.0 * number
        steps.append((start, start + count))
        for i, row in enumerate(rows):
            at = start + i + 0.5
            if row in COLUMNS:
                made = {"product": 1.0} if COLUMNS[row] == "gemm" else {}
                spans.append({**span(at - 0.4, at + 0.4, row, column=COLUMNS[row]), **made})
            last = rows[i:].count("nothing") - 1
            samples.append(sample(at, more[last] if row == "nothing" else GEMM))
    made = watched(*steps, spans=spans, samples=samples, rounds=list(range(ROUNDS)))
    plain = [count * 1e-3] * ROUNDS
    made.levels = {"P0": plain, "P1": plain, "P3": [2 * x for x in plain], "P0'": [plain[0]]}
    made.faults, made.system, made.watched_system = [7.0], [0.001], [0.0012]
    made.calls = [(["fc1 wgrad"], "gemm")]
    made.replays = [(count * 1e-3, [3.9e-3])] * 2
    entry = Entry(find(name), Setting(heap=heap), built={"layout": "inputs x outputs"})
    return Side(entry, [made])


def recorded() -> Watched:
    """Eight steps of NumPy's, with spans, samples and switches."""
    words, told = ("start", "end", "rows", "column"), json.loads((TRACES / "numpy-spans.json").read_text("utf-8"))
    at = told["from"]
    spans = [dict(zip(words, (a + at, b + at, [row], column), strict=True)) for a, b, row, column in told["spans"]]
    made = Watched(rounds=[0] * len(told["steps"]), spans=spans, period=MS)
    made.steps = [(a + at, b + at, cpu * 1e-9, blocked * 1e-9) for a, b, cpu, blocked in told["steps"]]
    made.samples, made.switches, _ = parsed((TRACES / "numpy.perf").read_text("utf-8"))
    return made
