"""Records with usual values in every field: a test names the fields that it is about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from kernels.ops.conv.problem import Conv
from micro.planning.contest import Case
from reports.record import TIMED, Comparison, Contest, Environment, Result, Run, Seconds
from reports.stats import SHOWN


def environment(**changes: Any) -> Environment:
    return replace(Environment("0", {}, {}, "", ""), **changes)


def spread(median: float, share: float = 0.1) -> Seconds:
    """Return a median within an interval of ± `share`."""
    return Seconds(median, (1 - share) * median, (1 + share) * median, SHOWN)


def result(name: str = "gemm/m:8/variant:openblas/threads:1", **changes: Any) -> Result:
    """Return a product measured in 1 µs; a status without a time has none."""
    plain = {"contest": "c", "role": "measured", "op": "gemm", "problem": {"m": 8}, "variant": "openblas"}
    fields: dict[str, Any] = {**plain, "device": "cpu", "threads": 1, "status": "ok"} | changes
    if fields["status"] in TIMED:
        fields.setdefault("seconds", spread(1e-6))
    return Result(name, **fields)


def comparison(baseline: str = "a", contender: str = "b", ratio: float | None = 1.5, **changes: Any) -> Comparison:
    """Return the ratio of two results by name, within ± 5 %, slower."""
    low, high = (None, None) if ratio is None else (0.95 * ratio, 1.05 * ratio)
    plain = Comparison("c", "variant", baseline, contender, ratio, low, high, SHOWN, "slower", None, 0.01, 0.01)
    return replace(plain, **changes)


def contest(*results: Result, **changes: Any) -> Contest:
    """Return a contest of these results, which compares nothing."""
    fields = {"contest": results[0].contest if results else "c", "question": "?", "differs": "variant"}
    return Contest(**{**fields, "results": results, "comparisons": ()} | changes)


def run(*contests: Contest, **changes: Any) -> Run:
    """Return a run of these contests on some CPU."""
    where = environment(facts={"device": {"model": "Some CPU"}}, started="2026-11-21T16:00:00")
    return Run(**{"environment": where, "contests": contests} | changes)


# Products and convolutions, whose names say their sizes


def case(m: int, trans: str = "nn", variant: str = "openblas", contest: str = "c", **changes: Any) -> Result:
    """Return a product at 2 GFLOP/s, 40 % of a ceiling of multiply-adds."""
    seconds = 1e-6 * m
    plain: dict[str, Any] = {
        "contest": contest,
        "problem": {"m": m, "n": 8, "k": 8, "trans": trans},
        "variant": variant,
        "seconds": spread(seconds),
        "flops_per_second": 2e9,
        "bytes_per_second": 1e9,
        "percent_of_ceiling": 40.0,
        "ceiling": "FMA avx2",
        "axes": {"trans": "word"},
        "samples": tuple(seconds * (1 + i / 100) for i in range(10)),
        "rounds": tuple(range(10)),
    }
    name = f"gemm/m:{m}/n:8/k:8/{'' if trans == 'nn' else 'trans:nt/'}variant:{variant}/threads:1"
    return result(**{"name": name} | plain | changes)


FMA = case(1, name="fma", role="ceiling", op="fma", problem={"isa": "avx2"}, flops_per_second=5e9)


def convolution(edge: int, variant: str, seconds: float, **problem: Any) -> Result:
    """Return a convolution by a filter of so many rows and columns."""
    sizes = {"n": 2, "c": 4, "h": 9, "w": 9, "k": 8, "r": edge, "s": edge, "stride": 1, "dilation": 1, "groups": 1}
    values = sizes | {"direction": "forward"} | problem
    name = f"conv/r:{edge}/direction:{values['direction']}/variant:{variant}/threads:1"
    return case(1, variant=variant, name=name, op="conv", problem=values, seconds=spread(seconds))


def compared(contender: Result, baseline: Result, value: float | None = 1.5, **changes: Any) -> Comparison:
    fields = {"contest": baseline.contest, "differs": "trans"} | changes
    return comparison(baseline.name, contender.name, value, **fields)


def transposed(m: int, variant: str = "openblas", kind: str = "nn-nt", **changes: Any) -> Contest:
    """Return NT against NN; `changes` are the comparison's."""
    name = f"{kind}/gemm/m:{m}/n:8/k:8/variant:{variant}"
    nn, nt = (case(m, trans, variant, name) for trans in ("nn", "nt"))
    question = f"is {variant} slower with a transposed operand?"
    return contest(nn, nt, FMA, question=question, differs="trans", comparisons=(compared(nt, nn, **changes),))


# Cases of micro, by their seconds


def timed(case: Case, seconds: float | None, **changes: Any) -> Result:
    """Return a measured case; without seconds one that failed."""
    fields: dict[str, Any] = {"contest": "x", "op": case.problem.op, "problem": asdict(case.problem)}
    fields |= {"variant": case.variant, "threads": case.setting.threads}
    fields |= {"status": "failed", "reason": "hangs"} if seconds is None else {"seconds": spread(seconds, 0.02)}
    return result(case.name, **fields | changes)


def over(a: Result, b: Result, half: float = 0.01, verdict: str = "", **changes: Any) -> Comparison:
    """Return the second over the first; `half` of the interval, in units of the ratio."""
    ratio = b.seconds.median / a.seconds.median if a.seconds and b.seconds else None
    low, high = (None, None) if ratio is None else ((1 - half) * ratio, (1 + half) * ratio)
    usual = "faster" if high and high < 0.99 else "slower" if low and low > 1.01 else "unresolved"
    fields = {"contest": "x", "low": low, "high": high, "verdict": verdict or usual} | changes
    return comparison(a.name, b.name, **{"ratio": ratio} | fields)


def layer(problem: Conv, variant: str, seconds: float, setup: float = 0.0, held: int = 0) -> Result:
    """Return a convolution."""
    return timed(Case(problem, variant), seconds, setup_seconds=setup, workspace=held)


def ranked(word: str, *results: Result, half: float = 0.01, in_turn: bool = False) -> Contest:
    """Return each against the first, or against the one before it; `half` of every ratio's interval."""
    bases = results if in_turn else results[:1] * len(results)
    every = tuple(over(base, x, half) for base, x in zip(bases, results[1:], strict=False))
    problem = results[0].name.partition("/variant:")[0]
    return contest(*results, contest=f"{word}/{problem}", comparisons=every)


def contested(
    word: str, problem: Conv, times: Mapping[str, float], setups: Mapping[str, float] | None = None, half: float = 0.01
) -> Contest:
    """Return variants by their milliseconds, and seconds to prepare them."""
    rows = (layer(problem, k, 1e-3 * t, (setups or {}).get(k, 0.0)) for k, t in times.items())
    return ranked(word, *rows, half=half)


LAYER = Conv(16, 96, 27, 27, 256, 5, 5, pad=2)
TIMES = {"torch": 138.0, "direct": 127.0, "fft-pyfftw-kept": 57.5}


def short(rounds: int = 2, problem: Conv = LAYER) -> Contest:
    """Return a contest timed by so few rounds that there is no ratio."""
    full = contested("algorithms", problem, TIMES)
    unknown = tuple(replace(x, ratio=None, low=None, high=None, verdict="unresolved") for x in full.comparisons)
    results = tuple(replace(x, samples=(x.seconds.median,) * rounds) for x in full.results if x.seconds)
    return replace(full, comparisons=unknown, results=results)
