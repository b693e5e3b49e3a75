"""Kernels of a step measured by themselves, unchanged and changed, as predictions are made from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernels.ops.conv.problem import Conv
from kernels.ops.gemm.problem import Gemm
from kernels.problem import Problem
from macro.changes.base import CONFIDENCE, Asked, Before, Forecast, Part
from macro.explaining import repeat

MODEL = 0.1  # of a part: by so much is what a kernel does alone not what it does in a step; see docs/whatif.md
NARROWER = 1.645 / 1.960  # of an interval of 95 %, one of 90
PRODUCTS = ("gemm", "packing")
RATE, LAUNCHES = 30e9, 60  # FLOP/s of a kernel at least; launches that a ratio of two needs
LARGE = 0.01  # of a step: what a kernel takes that is measured
FEW = "a kernel by itself had too few rounds: a longer --budget"
LEAST = 256  # of a product's sizes, so that it stays a large one
# Of a framework's row the kernel of this suite that makes the same calls.
GEMMS = {"pytorch": "torch", "pytorch-compile": "torch", "keras-torch": "torch", "numpy": "numpy"}


@dataclass(frozen=True)
class Ratio:
    """Time changed over time unchanged, with an interval of CONFIDENCE."""

    value: float
    low: float
    high: float


def part(what: str, seconds: float, ratio: Ratio) -> Part:
    """What becomes of so many seconds of a step."""
    change = seconds * (ratio.value - 1)
    half = max(ratio.high - ratio.value, ratio.value - ratio.low) * seconds
    return around(what, change, half)


def around(what: str, change: float, half: float) -> Part:
    """With what its model may err beside its error."""
    half = (half**2 + (MODEL * change) ** 2) ** 0.5
    return Part(what, change, change - half, change + half)


def measured(benchmark: str, options: Mapping[str, Any], seconds: float) -> Ratio:
    """Of the second of two cases over the first. Raises SuiteError."""
    import micro
    from kernels.errors import Unavailable

    assert CONFIDENCE == 0.9
    run = micro.measure(micro.plan(benchmark, **options, budget=f"{seconds:.1f}s"))
    found = [x for x in run.comparisons if x.ratio is not None]
    if not found:
        reasons = [x.reason for x in run.results if x.reason] + [x.reason for x in run.comparisons if x.reason]
        raise Unavailable(next(iter(reasons), "nothing could be measured"))
    one = found[0]
    assert one.ratio is not None
    if one.low is None or one.high is None:
        raise Unavailable(FEW)
    return Ratio(one.ratio, *(one.ratio + (end - one.ratio) * NARROWER for end in (one.low, one.high)))


def problems(before: Before, kind: type[Problem], columns: Sequence[str]) -> dict[Problem, float]:
    """Each problem of this kind as the framework has it, and the seconds that rows with it take in these columns; of
    rows with several each its share of their FLOP."""
    seconds: dict[Problem, float] = {}
    for _, x, took in by_row(before, kind, columns):
        seconds[x] = seconds.get(x, 0.0) + took
    return seconds


def by_row(before: Before, kind: type[Problem], columns: Sequence[str]) -> Iterator[tuple[str, Problem, float]]:
    """The same with the names of their rows."""
    for (names, column), took in before.cells.items():
        found = list(_called(before, names, kind)) if column in columns else []
        whole = sum(x.flops for _, x in found)
        yield from ((name, x, took * x.flops / whole) for name, x in found)


def _called(before: Before, names: Sequence[str], kind: type[Problem]) -> Iterator[tuple[str, Problem]]:
    for row in (before.rows[name] for name in names if name in before.rows):
        if kind is Gemm and row.product is not None:
            yield row.name, repeat.as_called(row, before.side, before.rows)
        else:
            yield from ((row.name, x) for x in row.problems if isinstance(x, kind))


def swapped(asked: Asked, field: str) -> Forecast:
    """Each product of the step alone in both settings, which differ in this field; the rest stays as it is."""
    other = asked.changed.setting
    changed = {"threads": other.threads or asked.threads, "heap": other.heap, "preload": other.preload}
    return products(asked, {"vary": field, field: f"{alike(asked)[field]},{changed[field]}"})


def products(asked: Asked, how: Mapping[str, Any]) -> Forecast:
    """Each product of the step by itself, in the two cases that these options say."""
    variant = GEMMS.get(asked.unchanged.row)
    if variant is None:
        return Forecast(why=f"no kernel here calls the products of {asked.unchanged.framework.name}")
    return each(asked, problems(asked.before, Gemm, PRODUCTS), "gemm", {"variant": variant, **how})


def convolutions(asked: Asked, how: Mapping[str, Any]) -> Forecast:
    """Each convolution of the step by itself, in the two cases that these options say."""
    return each(asked, problems(asked.before, Conv, ("convolution", "layout reorder")), "conv", how)


def alike(asked: Asked) -> dict[str, Any]:
    """The settings of the unchanged step, as options."""
    setting = asked.unchanged.setting
    return {"threads": asked.threads, "heap": setting.heap, "preload": setting.preload}


def each(asked: Asked, seconds: Mapping[Problem, float], benchmark: str, how: Mapping[str, Any]) -> Forecast:
    """Of each problem the ratio alone times its seconds in the step: those that are at least a hundredth of it, which
    share the time; what is smaller is taken to change as the rest of them does."""
    large = {x: took for x, took in seconds.items() if took >= LARGE * asked.before.seconds}
    if not large:
        whole = sum(seconds.values())
        return Forecast((Part("kernels of which none takes a hundredth of the step", 0.0, -whole / 2, whole / 2),))
    each_has, how, parts = asked.alone / len(large), {**alike(asked), **how}, list[Part]()
    for x, took in large.items():
        options = {**axes(smaller(x, each_has * RATE / LAUNCHES)), **how, "cold": "all"}
        parts.append(part(x.name, took, measured(benchmark, options, each_has)))
    if small := sum(seconds.values()) - sum(large.values()):
        share = sum(x.seconds for x in parts) / sum(large.values())
        parts.append(around("the smaller ones", share * small, abs(share * small)))
    return Forecast(tuple(parts))


def timed(benchmark: str, x: Problem, how: Mapping[str, Any], seconds: float) -> tuple[float, float, float]:
    """Seconds of one kernel by itself, and the ends of their interval. Raises SuiteError."""
    import micro
    from kernels.errors import Unavailable

    options = {**axes(x), **how, "cold": "all"}
    run = micro.measure(micro.plan(benchmark, **options, budget=f"{seconds:.1f}s"))
    for one in run.results:
        if one.role == "measured" and one.seconds is not None:
            if one.seconds.low is None or one.seconds.high is None:
                raise Unavailable(FEW)
            return one.seconds.median, one.seconds.low, one.seconds.high
    raise Unavailable(next((x.reason for x in run.results if x.reason), "nothing could be measured"))


def apart(benchmark: str, x: Problem, other: Problem, how: Mapping[str, Any], seconds: float) -> Ratio:
    """Of another problem over one, which do other work, one after the other. Raises SuiteError."""
    (a, low_a, high_a), (b, low_b, high_b) = (timed(benchmark, one, how, max(1.0, seconds / 2)) for one in (x, other))
    error = (((high_a - low_a) / a / 2) ** 2 + ((high_b - low_b) / b / 2) ** 2) ** 0.5 * NARROWER
    return Ratio(b / a, b / a * (1 - error), b / a * (1 + error))


def added(x: Problem, how: Mapping[str, Any], seconds: float) -> Part:
    """A product that the step does not have yet: as many seconds as it takes by itself. Raises SuiteError."""
    less = smaller(x, seconds * RATE / LAUNCHES)
    took, low, high = (one * x.flops / less.flops for one in timed("gemm", less, how, seconds))
    return around(x.name, took, NARROWER * (high - low) / 2)


def smaller(x: Problem, flops: float) -> Problem:
    """The same with its largest sizes halved until it is so little work: a ratio of large kernels changes little, and
    a second of each launch would leave no time for rounds. Of a convolution fewer images alone."""
    while x.flops > flops:
        sizes = ("n",) if isinstance(x, Conv) else ("m", "n", "k")
        name = max(sizes, key=lambda one: int(getattr(x, one)))
        if getattr(x, name) < 2 * (1 if isinstance(x, Conv) else LEAST):
            break
        x = replace(x, **{name: getattr(x, name) // 2})
    return x


def axes(x: Problem) -> dict[str, Any]:
    """As options."""
    return repeat.axes(x) if isinstance(x, Conv) else {"m": x.m, "n": x.n, "k": x.k, "trans": x.trans}  # type: ignore[attr-defined]


def together(*forecasts: Forecast) -> Forecast:
    """Of several parts of a step; unknown where one is."""
    if why := next((x.why for x in forecasts if x.why), None):
        return Forecast(why=why)
    return Forecast(tuple(x for one in forecasts for x in one.parts))
