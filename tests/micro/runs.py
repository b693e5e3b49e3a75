"""Runs made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from kernels.ops.conv.problem import Conv
from micro.planning.contest import Case
from reports import record
from reports.record import Comparison, Environment, Result, Run, Seconds
from reports.stats import SHOWN


def timed(case: Case, seconds: float | None, **changes: Any) -> Result:
    """A measured case; without seconds one that failed."""
    status: record.Status = "failed" if seconds is None else "ok"
    known = None if seconds is None else Seconds(seconds, 0.98 * seconds, 1.02 * seconds, SHOWN)
    op, problem, threads = case.problem.op, asdict(case.problem), case.setting.threads
    head = case.name, "x", "measured", op, problem, case.variant, "cpu", threads, status, None if known else "hangs"
    return replace(Result(*head, seconds=known), **changes)  # type: ignore[arg-type]


def compared(a: Result, b: Result, half: float = 0.01, verdict: str = "", **changes: Any) -> Comparison:
    """The second over the first; `half` of the interval, in units of the ratio."""
    ratio = b.seconds.median / a.seconds.median if a.seconds and b.seconds else None
    low, high = (None, None) if ratio is None else ((1 - half) * ratio, (1 + half) * ratio)
    usual = "faster" if high and high < 0.99 else "slower" if low and low > 1.01 else "unresolved"
    names = "x", "variant", a.name, b.name
    plain = Comparison(*names, ratio, low, high, SHOWN, verdict or usual, None, 0.01, 0.01)
    return replace(plain, **changes)


def result(problem: Conv, variant: str, seconds: float, setup: float = 0.0, held: int = 0) -> Result:
    """A convolution."""
    return timed(Case(problem, variant), seconds, setup_seconds=setup, workspace=held)


def contest(word: str, *results: Result, half: float = 0.01, in_turn: bool = False) -> record.Contest:
    """Each against the first, or the one before it; `half` of every ratio's interval."""
    bases = results if in_turn else results[:1] * len(results)
    every = tuple(compared(base, x, half) for base, x in zip(bases, results[1:], strict=False))
    problem = results[0].name.partition("/variant:")[0]
    return record.Contest(f"{word}/{problem}", "?", "variant", results, every)


def contested(
    word: str, problem: Conv, times: Mapping[str, float], setups: Mapping[str, float] | None = None, half: float = 0.01
) -> record.Contest:
    """Variants by their milliseconds, and seconds to prepare them."""
    return contest(
        word, *(result(problem, k, 1e-3 * t, (setups or {}).get(k, 0.0)) for k, t in times.items()), half=half
    )


LAYER = Conv(16, 96, 27, 27, 256, 5, 5, pad=2)
TIMES = {"torch": 138.0, "direct": 127.0, "fft-pyfftw-kept": 57.5}


def short(rounds: int = 2, problem: Conv = LAYER) -> record.Contest:
    """Timed by so few rounds that there is no ratio."""
    full = contested("algorithms", problem, TIMES)
    unknown = tuple(replace(x, ratio=None, low=None, high=None, verdict="unresolved") for x in full.comparisons)
    results = tuple(replace(x, samples=(x.seconds.median,) * rounds) for x in full.results if x.seconds)
    return replace(full, comparisons=unknown, results=results)


def run(*contests: record.Contest) -> Run:
    facts = {"device": {"model": "Some CPU"}}
    return Run(Environment("0", facts, {}, "", "2026-11-23T16:00:00"), contests)
