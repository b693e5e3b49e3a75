"""One program's step made by hand, whose rows, kinds, modules and residual agree; for its pictures and its text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reports import step
from reports.explanation import Breakdown, Module, Part, Share
from reports.record import Environment, Run


def module(path: str, depth: int, seconds: float, column: str = "gemm", count: int = 1) -> Module:
    return Module(path, depth, count, {"forward": seconds}, column)


def part(
    row: str, seconds: float, work: float | None = None, nbytes: float | None = None, column: str = "gemm"
) -> Part:
    unit, rate = "FLOP" if column in ("gemm", "convolution") else "bytes", work / seconds if work else None
    return Part(row, row, "forward", column, seconds, seconds, seconds, work, unit, "nominal", rate, None, bytes=nbytes)


def share(name: str, seconds: float, work: float | None = None, unit: str | None = None) -> Share:
    return Share(name, seconds, seconds, seconds, work, unit, work / seconds if work else None)


FOUND = Breakdown(  # 100 ms, of which 9 ms are in no row
    name="train.py",
    program={"script": "train.py", "step": "optimizer.step()", "heap": "keep", "framework": "pytorch", "version": "2"},
    threads=1,
    clock="processor and waiting",
    rounds=20,
    seconds=1.0,
    step={"a": 0.1},
    interval=(0.097, 0.103),
    cells=(
        part("net.a.x forward", 0.05, 5e9, 5e7),
        part("net.b forward", 0.0195, 2e9, column="convolution"),  # whose bytes are not known
        part("net.a forward", 0.01, 1e9, 5e8),
        part("net.b.y forward", 0.0095, column="copy"),
        part("(data loader) data", 0.0008, column="data"),
        part("net.b.z forward", 0.0005, 5e7, 5e5),
        part("(loss) loss", 0.0007, 7e7, 7e5),  # too small to be drawn
    ),
    residual={"a": 0.009},
    kinds=(
        share("gemm", 0.0612, 6.12e9, "FLOP"),
        share("convolution", 0.0195, 2e9, "FLOP"),
        share("copy", 0.0095),
        share("data", 0.0008),
    ),
    modules=(
        module("net", 0, 0.0895),
        module("net.a", 1, 0.06),
        module("net.a.x", 2, 0.05),
        module("net.b", 1, 0.0295, "convolution"),
        module("net.b.y", 2, 0.0095, "copy"),
        module("net.b.z", 2, 0.0005),
        module("(data loader)", 0, 0.0008, "data"),
        module("(loss)", 0, 0.0007),
    ),
    levels={"a": {"P3": 1.02}},
    faults={},
    system={"a": 0.0},
    closure={"a": {}},
    ceilings={"flops": 2e11, "bytes": 2e10},
)


def noted(*every: Breakdown) -> Run:
    """A run with these."""
    facts = {"device": {"model": "a CPU"}}
    environment = Environment("d", facts, {}, "python -m macro explain train.py", "2026-11-24T10:00")
    return Run(environment, notes=tuple(map(step.note, every)))


def found(**changes: Any) -> Breakdown:
    return replace(FOUND, **changes)
