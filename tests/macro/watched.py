"""Processes watched by hand: a step is so many milliseconds of spans, samples and switches."""

from __future__ import annotations

from typing import Any

from macro.explaining.attribute import Attribution, Key
from macro.explaining.rows import Row, rows
from macro.frameworks import find
from macro.networks.base import chain
from macro.processes.job import Setting
from macro.timing.entry import Entry
from macro.watching.perf import Sample
from macro.watching.recording import Watched
from macro.watching.watch import Side

MS = 1_000_000  # nanoseconds
NET = chain("tiny", "a test", 16, (6, 5, 3), rate=0.1)
KNOWN: dict[str, Row] = rows(NET, NET.batch)
GEMM = ("sgemm_kernel_HASWELL", "/usr/lib/libopenblas.so")
PYTHON = ("_PyEval_EvalFrameDefault", "/usr/lib/libpython3.11.so.1.0")


def span(
    start: float, end: float, *names: str, column: str | None = "gemm", thread: int | None = None, **more: Any
) -> dict[str, Any]:
    """From and to in milliseconds."""
    told = {"start": int(start * MS), "end": int(end * MS), "name": "x", "rows": list(names)}
    return {**told, "column": column, **({"thread": thread} if thread else {}), **more}


def sample(at: float, what: tuple[str, str] = GEMM, thread: int = 1) -> Sample:
    return Sample(thread, int(at * MS), *what)


def watched(*steps: tuple[float, float], **more: Any) -> Watched:
    """Steps from and to in milliseconds, of one round unless told; all of their time is the processor's."""
    made = Watched(**{"period": MS, **more})
    made.steps = [(int(a * MS), int(b * MS), (b - a) * 1e-3, 0.0) for a, b in steps]
    made.rounds = made.rounds or [0] * len(steps)
    return made


def attribution(cells: dict[Key, list[float]], rounds: list[int] | None = None, **more: Any) -> Attribution:
    """Seconds of each step by cell; each step a round unless told."""
    count = len(next(iter(cells.values())))
    return Attribution(count, rounds or list(range(count)), dict(cells), **more)


def side(plain: list[float], faults: list[float] | None = None, name: str = "numpy", **more: Any) -> Side:
    """One process whose plain steps took so many seconds."""
    process = Watched(levels={"P0": plain, "P3": [2 * x for x in plain]}, faults=faults or [0.0], **more)
    return Side(Entry(find(name), Setting()), [process])
