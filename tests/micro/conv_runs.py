"""Runs of micro.conv made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace

from kernels.ops.conv.problem import Conv
from micro.planning.contest import Case
from reports import record
from reports.record import Comparison, Environment, Result, Run, Seconds
from reports.stats import SHOWN


def result(problem: Conv, variant: str, seconds: float, setup: float = 0.0, held: int = 0) -> Result:
    """Known to 2 %."""
    name = Case(problem, variant).name
    timed = Seconds(seconds, 0.98 * seconds, 1.02 * seconds, SHOWN)
    plain = Result(name, "x", "measured", "conv", asdict(problem), variant, "cpu", 1, "ok", seconds=timed)
    return record.Result(**{**vars(plain), "setup_seconds": setup, "workspace": held})


def contest(word: str, *results: Result, half: float = 0.01, in_turn: bool = False) -> record.Contest:
    """Each against the first, or the one before it; `half` of every ratio's interval."""
    compared = []
    for i, x in enumerate(results[1:], 1):
        base = results[i - 1 if in_turn else 0]
        assert x.seconds and base.seconds
        ratio = x.seconds.median / base.seconds.median
        ends = (1 - half) * ratio, (1 + half) * ratio
        verdict = "faster" if ends[1] < 0.99 else "slower" if ends[0] > 1.01 else "unresolved"
        names = base.name, x.name
        compared.append(Comparison(word, "variant", *names, ratio, *ends, SHOWN, verdict, None, 0.01, 0.01))
    problem = results[0].name.partition("/variant:")[0]
    return record.Contest(f"{word}/{problem}", "?", "variant", results, tuple(compared))


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
    compared = tuple(replace(x, ratio=None, low=None, high=None, verdict="unresolved") for x in full.comparisons)
    timed = tuple(replace(x, samples=(x.seconds.median,) * rounds) for x in full.results if x.seconds)
    return replace(full, comparisons=compared, results=timed)


def run(*contests: record.Contest) -> Run:
    facts = {"device": {"model": "Some CPU"}}
    return Run(Environment("0", facts, {}, "", "2026-11-23T16:00:00"), contests)
