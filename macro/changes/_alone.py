"""Kernels of a step measured by themselves, unchanged and changed, as predictions are made from."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from kernels.errors import Unavailable, UsageError
from kernels.ops.conv.problem import Conv
from kernels.ops.gemm.problem import Gemm
from kernels.ops.pooling.problem import STRIDE, Pooling
from kernels.ops.update.problem import Update
from kernels.problem import Problem
from macro.changes.base import CONFIDENCE, Asked, Before, Forecast, Part, Step
from macro.explaining import repeat
from macro.networks.layer import Node
from macro.networks.layers.pool import Pool

if TYPE_CHECKING:
    from reports.record import Comparison, Run

T = TypeVar("T")
NARROWER = 1.645 / 1.960  # of an interval of 95 %, one of 90
PRODUCTS = ("gemm", "packing")
CONVOLUTIONS = ("convolution", "layout reorder")
ROUNDS = 10  # of both cases of a kernel that fit into its seconds
SLOW = 30e9  # FLOP/s of a product whose step has none that tells better
TRIES, WIDE = 2, 0.1  # of a kernel, whose ratio shall be known to ± so much
LARGE = 0.01  # of a step: what a kernel takes that is measured
FEW = "a kernel by itself had too few rounds: a longer --budget"
LEAST = 256  # of a product's sizes, so that it stays a large one
# Of a framework's row the kernel of this suite that makes the same calls.
GEMMS = {"pytorch": "torch", "pytorch-compile": "torch", "keras-torch": "torch", "numpy": "numpy"}
SIZES = {
    Gemm: (("m", "n", "k"), LEAST),
    Update: (("m", "n"), LEAST),
    Conv: (("n",), 1),
    Pooling: (("images",), 1),
}  # of which a smaller problem has less, and how much at least
BENCHMARKS: Mapping[type[Problem], str] = {Gemm: "gemm", Update: "update", Conv: "conv", Pooling: "elementwise"}


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
    """With an error of so many seconds on both sides."""
    return Part(what, change, change - half, change + half)


def unknown(what: str, seconds: float) -> Part:
    """Of so many seconds of which nobody knows more than that a part of them may go, or come."""
    return Part(what, 0.0, -seconds / 2, seconds / 2)


def measured(benchmark: str, options: Mapping[str, Any], seconds: float) -> Ratio:
    """Of the second of two cases over the first. Raises SuiteError."""

    def take() -> Ratio | None:
        ran = run(benchmark, options, seconds)
        return _ratio(ran, ran.comparisons)

    return _tried(take)


def _tried(take: Callable[[], T | None]) -> T:
    """Once more where there were too few rounds, as while others had the processor. Raises Unavailable."""
    for _ in range(TRIES):
        if (found := take()) is not None:
            return found
    raise Unavailable(FEW)


def ratios(xs: Collection[Problem], how: Mapping[str, Any], seconds: float) -> dict[Problem, Ratio | None]:
    """The same of several problems of one kind, operands out of cache; None of what had too few rounds. But for
    poolings they are in one run, whose kernels start once and share the time. Raises SuiteError."""
    (kind,) = {type(x) for x in xs}
    benchmark, how = BENCHMARKS[kind], {**how, "cold": "all"}
    if kind is Pooling:  # a file of problems is of a benchmark's first operation
        return {x: measured(benchmark, {**_unvaried(x, how), **how}, seconds / len(xs)) for x in xs}
    with tempfile.TemporaryDirectory(prefix="kernelgap-alone-") as folder:
        path = Path(folder, "problems.json")
        path.write_text(json.dumps({"source": "a step", "problems": [asdict(x) for x in xs]}), "utf-8")
        ran = run(benchmark, {"shapes": path, **how}, seconds)
    of = {(one.contest, one.name): kind(**one.problem) for one in ran.results if one.role == "measured"}
    return {x: _ratio(ran, [one for one in ran.comparisons if of[one.contest, one.baseline] == x]) for x in xs}


def _unvaried(x: Problem, how: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in asdict(x).items() if name not in how}


def run(benchmark: str, options: Mapping[str, Any], seconds: float) -> Run:
    """What micro measures, of about so many seconds. Raises SuiteError."""
    import micro

    return micro.measure(micro.plan(benchmark, **options, budget=f"{max(1.0, seconds):.1f}s"))


def _ratio(ran: Run, found: Iterable[Comparison]) -> Ratio | None:
    """Of the first of these; None where it has no interval. Raises SuiteError where there is none."""
    assert CONFIDENCE == 0.9
    one = next((x for x in found if x.ratio is not None), None)
    if one is None or one.ratio is None:
        reasons = [x.reason for x in ran.results if x.reason] + [x.reason for x in ran.comparisons if x.reason]
        raise Unavailable(next(iter(reasons), "nothing could be measured"))
    if one.low is None or one.high is None:
        return None
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
    return each(asked, problems(asked.before, Gemm, PRODUCTS), {"variant": variant, **how})


def convolutions(asked: Asked, how: Mapping[str, Any]) -> Forecast:
    """Each convolution of the step by itself, in the two cases that these options say."""
    return each(asked, problems(asked.before, Conv, CONVOLUTIONS), how)


def poolings(asked: Asked, how: Mapping[str, Any]) -> Forecast:
    """Each pooling of the step by itself, forward and gradient at once."""
    seconds: dict[Problem, float] = {}
    others = asked.before.kinds("pooling")
    for node in asked.unchanged.plan.network.nodes:
        took = sum(x for (rows, kind), x in asked.before.cells.items() if kind == "pooling" and _of(node.name, rows))
        if took and (pool := pooling(node, asked.unchanged)) is not None:
            seconds[pool] = seconds.get(pool, 0.0) + took
            others -= took
    found = each(asked, seconds, how) if seconds else Forecast()
    rest = (unknown("other poolings", others),) if others >= LARGE * asked.before.seconds else ()
    return Forecast((*found.parts, *rest))


def _of(name: str, rows: Sequence[str]) -> bool:
    """Whether all of these rows are a layer's."""
    return bool(rows) and all(row.rpartition(" ")[0] == name for row in rows)


def pooling(node: Node, step: Step) -> Pooling | None:
    """What a layer computes, where a kernel of this suite does the same: square images and windows without padding."""
    layer = node.layer
    if not isinstance(layer, Pool) or layer.stride != STRIDE or any(layer.pads):
        return None
    (channels, size, width), phase = node.inputs[0], "forward" if step.plan.phase == "forward" else "step"
    mode = {"max": "max", "average": "avg"}[layer.mode]
    try:
        same = Pooling(step.plan.batch, channels, size, layer.window, mode, phase=phase)
    except UsageError:
        return None
    return same if size == width and node.output == (channels, same.edge, same.edge) else None


def alike(asked: Asked) -> dict[str, Any]:
    """The settings of the unchanged step, as options."""
    setting = asked.unchanged.setting
    return {"threads": asked.threads, "heap": setting.heap, "preload": setting.preload}


def each(asked: Asked, seconds: Mapping[Problem, float], how: Mapping[str, Any]) -> Forecast:
    """Of each problem the ratio alone times its seconds in the step: those that are at least a hundredth of it, which
    share the time; what is smaller is taken to change as the rest of them does."""
    large = {x: took for x, took in seconds.items() if took >= LARGE * asked.before.seconds}
    if not large:
        whole = sum(seconds.values())
        return Forecast((unknown("kernels of which none takes a hundredth of the step", whole),))
    fits = asked.alone / (2 * ROUNDS * sum(large.values()))
    of = {x: smaller(x, fits * x.flops, how.get("vary")) for x in large}
    found = _known(dict.fromkeys(of.values()), {**alike(asked), **how}, asked.alone)
    parts = [part(x.name, took, found[of[x]]) for x, took in large.items()]
    if small := sum(seconds.values()) - sum(large.values()):
        share = sum(x.seconds for x in parts) / sum(large.values())
        parts.append(around("the smaller ones", share * small, abs(share * small)))
    return Forecast(tuple(parts))


def _known(xs: Collection[Problem], how: Mapping[str, Any], seconds: float) -> dict[Problem, Ratio]:
    """Their ratios; once more of those that are known badly, of which the better one counts. Raises SuiteError."""
    found: dict[Problem, Ratio] = {}
    for _ in range(TRIES):
        left = [x for x in xs if x not in found or found[x].high - found[x].low > 2 * WIDE]
        for x, ratio in ratios(left, how, seconds).items() if left else ():
            if ratio is not None and (x not in found or ratio.high - ratio.low < found[x].high - found[x].low):
                found[x] = ratio
    if len(found) < len(xs):
        raise Unavailable(FEW)
    return found


def added(asked: Asked, x: Problem, variant: str) -> Part:
    """A product that the step does not have yet: as many seconds as it takes by itself. Raises SuiteError."""
    own = problems(asked.before, Gemm, PRODUCTS)
    rate = sum(one.flops for one in own) / took if (took := sum(own.values())) else SLOW
    less = smaller(x, rate * asked.alone / ROUNDS)
    how = {"variant": variant, **alike(asked), **asdict(less), "cold": "all"}

    def take() -> Part | None:
        ran, scale = run(BENCHMARKS[type(x)], how, asked.alone), x.flops / less.flops
        one = next((one.seconds for one in ran.results if one.role == "measured"), None)
        if one is None:
            raise Unavailable(next((one.reason for one in ran.results if one.reason), "nothing could be measured"))
        if one.low is None or one.high is None:
            return None
        return around(x.name, scale * one.median, scale * NARROWER * (one.high - one.low) / 2)

    return _tried(take)


def smaller(x: Problem, flops: float, varied: str | None = None) -> Problem:
    """The same with its largest sizes halved until it is so little work, where the time is short: a ratio of large
    kernels changes little. Of images alone fewer; the axis that is varied stays."""
    names, least = SIZES[type(x)]
    names = tuple(name for name in names if name != varied)
    while names and x.flops > flops:
        name = max(names, key=lambda one: int(getattr(x, one)))
        if getattr(x, name) < 2 * least:
            break
        x = replace(x, **{name: getattr(x, name) // 2})
    return x


def together(*forecasts: Forecast) -> Forecast:
    """Of several parts of a step; unknown where one is."""
    if why := next((x.why for x in forecasts if x.why), None):
        return Forecast(why=why)
    return Forecast(tuple(x for one in forecasts for x in one.parts))


def shared(asked: Asked, *forecasts: tuple[float, Callable[[Asked], Forecast]]) -> Forecast:
    """Of parts of a step that are measured one after the other: each has of the time the share that it has of the
    step, `seconds`."""
    whole = sum(seconds for seconds, _ in forecasts) or 1.0
    return together(*(brings(replace(asked, alone=asked.alone * seconds / whole)) for seconds, brings in forecasts))
