"""Parts of a prediction: seconds of a step's rows times the measured ratios of their isolated kernels."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from kernels.devices import open_device
from kernels.errors import Unavailable, UsageError
from kernels.ops.conv.problem import Conv
from kernels.ops.gemm.problem import Gemm
from kernels.ops.pooling.problem import STRIDE, Pooling
from kernels.ops.recurrent.problem import Recurrent
from kernels.problem import Problem
from macro.changes import _alone, _reuse
from macro.changes.base import BaselineProfile, Forecast, Part, PredictionInput, Ratio, Step
from macro.explaining import repeat
from macro.networks import layers
from macro.networks.layer import Node

Spent: TypeAlias = "dict[Problem, dict[str, float]]"  # seconds of a step by problem and row
PRODUCTS, CELLS = ("gemm", "packing"), ("recurrent cell",)
HAVE_PRODUCTS = (*PRODUCTS, *CELLS, "attention")  # kinds of work that contain products
PAGE_FAULTS = "page faults"
CONVOLUTIONS = ("convolution", "layout reorder")
ROUNDS = 10  # of both cases, which must fit into a kernel's share of the time
OF_MALLOC = ("MALLOC_", "GLIBC_TUNABLES")  # prefixes of variables of malloc, which change no kernel
PASSES = (
    "element-wise",
    "reduction",
    "softmax and loss",
    "normalization",
    "copy",
    "indexing",
    "clear",
)  # over activations
LARGE = 0.01  # least share of a step of a problem that is measured
MOST = 0.1  # largest share of a step that a prediction may leave unknown
# The suite's variant that makes the same library calls, by framework
GEMMS = {"pytorch": "torch", "pytorch-compile": "torch", "keras-torch": "torch", "numpy": "numpy"}


def part(what: str, seconds: float, ratio: Ratio) -> Part:
    """Return the part for kernels that take `seconds` of the unchanged step and change by `ratio`."""
    change = seconds * (ratio.value - 1)
    half = max(ratio.high - ratio.value, ratio.value - ratio.low) * seconds
    return around(what, change, half, seconds)


def around(what: str, change: float, half: float, of: float = 0.0) -> Part:
    """Return a part of `change` ± `half` seconds, for kernels of `of` unchanged seconds."""
    return Part(what, change, change - half, change + half, of)


def unknown(what: str, seconds: float) -> Part:
    """Return a part of unknown change: 0 ± half of the kernels' `seconds`."""
    return Part(what, 0.0, -seconds / 2, seconds / 2)


def gathered(rows: Iterable[tuple[str, Problem, float]]) -> Spent:
    """Sum (row, problem, seconds) into seconds by problem and row."""
    spent: Spent = {}
    for row, x, took in rows:
        of = spent.setdefault(x, {})
        of[row] = of.get(row, 0.0) + took
    return spent


def total(spent: Spent) -> float:
    """Sum the seconds of all problems."""
    return sum(sum(of.values()) for of in spent.values())


def by_row(
    before: BaselineProfile, kind: type[Problem], columns: Sequence[str]
) -> Iterator[tuple[str, Problem, float]]:
    """Yield (row, problem of type `kind`, seconds in `columns`), a cell's seconds divided by FLOP."""
    for (names, column), took in before.cells.items():
        problems = list(_called(before, names, kind)) if column in columns else []
        flops = sum(x.flops for _, x in problems)
        yield from ((name, x, took * x.flops / flops) for name, x in problems)


def _called(before: BaselineProfile, names: Sequence[str], kind: type[Problem]) -> Iterator[tuple[str, Problem]]:
    for row in (before.rows[name] for name in names if name in before.rows):
        if kind is Gemm and row.product is not None:
            yield row.name, repeat.as_called(row, before.side, before.rows)
        else:
            yield from ((row.name, x) for x in row.problems if isinstance(x, kind))


def swapped(asked: PredictionInput, field: str) -> Forecast:
    """Predict products by measuring each in isolation in both settings, which differ in `field`."""
    other = asked.changed.setting
    changed = {"threads": other.threads or asked.threads, "heap": other.heap, "preload": other.preload}
    return products(asked, {"vary": field, field: f"{alike(asked)[field]},{changed[field]}"})


def products(asked: PredictionInput, how: Mapping[str, Any]) -> Forecast:
    """Predict products outside attention, and PyTorch's recurrent layers, by measuring each in isolation."""
    step, before = asked.unchanged, asked.before
    variant = GEMMS.get(step.row)
    if variant is None:
        return Forecast(why=f"this suite has no kernel that calls the products of {step.framework.name}")
    called = {"variant": variant, **how}
    if step.row.removesuffix("-compile") != "pytorch" or step.script is not None or not step.has("recurrent"):
        return _products(asked, called, HAVE_PRODUCTS)
    apart = tuple(kind for kind in HAVE_PRODUCTS if kind not in CELLS)
    return shared(
        asked,
        (before.kinds(*PRODUCTS), lambda x: _products(x, called, apart)),
        (before.kinds(*CELLS), lambda x: recurrences(x, how)),
    )


def _products(asked: PredictionInput, how: Mapping[str, Any], have: Sequence[str]) -> Forecast:
    """Predict matrix products among the kinds of work `have`."""
    spent = _known(asked, Gemm, "other products", PRODUCTS, have)
    return with_rest(asked, "other products", have, spent, each(asked, spent, how))


def convolutions(asked: PredictionInput, how: Mapping[str, Any]) -> Forecast:
    """Predict convolutions by measuring each in isolation; `how`: options of the two cases."""
    spent = _known(asked, Conv, "other convolutions", CONVOLUTIONS, CONVOLUTIONS)
    return with_rest(asked, "other convolutions", CONVOLUTIONS, spent, each(asked, spent, how))


def with_rest(asked: PredictionInput, what: str, kinds: Sequence[str], known: Spent, forecast: Forecast) -> Forecast:
    """Add an unknown part for the rest of these kinds outside the known problems, if LARGE or more."""
    rest = asked.before.kinds(*kinds) - total(known)
    more = (unknown(what, rest),) if rest >= LARGE * asked.before.seconds else ()
    return Forecast((*forecast.parts, *more), forecast.why)


def _known(asked: PredictionInput, kind: type[Problem], what: str, kinds: Sequence[str], have: Sequence[str]) -> Spent:
    """Return the step's known problems. Raises Unavailable if most time of kinds `have` is in others."""
    spent = gathered(by_row(asked.before, kind, kinds))
    rest = asked.before.kinds(*have) - total(spent)
    if rest > max(total(spent), MOST * asked.before.seconds):
        raise Unavailable(
            f"{what} take {100 * rest / asked.before.seconds:.0f} % of the step, and this suite has no kernels for them"
        )
    return spent


def poolings(asked: PredictionInput, how: Mapping[str, Any]) -> Forecast:
    """Predict poolings by measuring each in isolation, forward and gradient together."""
    rows: list[tuple[str, Problem, float]] = []
    for node in asked.unchanged.plan.network.nodes:
        took = sum(x for (rows, kind), x in asked.before.cells.items() if kind == "pooling" and _of(node.name, rows))
        if took and (pool := pooling(node, asked.unchanged)) is not None:
            rows.append((node.name, pool, took))
    spent = gathered(rows)
    return with_rest(asked, "other poolings", ("pooling",), spent, each(asked, spent, how) if spent else Forecast())


def recurrences(
    asked: PredictionInput,
    how: Mapping[str, Any],
    takes: Callable[[layers.Recurrent], bool] = lambda layer: True,
    kinds: Sequence[str] = CELLS,
) -> Forecast:
    """Predict PyTorch's recurrent layers that a change `takes` by measuring one direction of each in isolation.

    `kinds`: kinds of work that change with a layer. Raises Unavailable if other recurrent layers take more than MOST of
    the step."""
    plan, rows = asked.unchanged.plan, dict[str, list[tuple[str, Problem, float]]]()
    seconds, known = asked.before.seconds, 0.0
    for node in plan.network.nodes:
        layer, cells = node.layer, [x for x in asked.before.cells.items() if _of(node.name, x[0][0])]
        if not isinstance(layer, layers.Recurrent):
            continue
        known += sum(x for (_, kind), x in cells if kind in CELLS)
        if takes(layer):
            want = "forward" if plan.phase == "forward" else "step"
            major = "tnc" if asked.before.flag("major") == "time" else "ntc"
            sizes = (node.inputs[0][0], plan.batch, node.inputs[0][1], layer.hidden, layer.cell, major, want)
            took = sum(x for (_, kind), x in cells if kind in kinds)
            loops = layer.unrolled and not asked.unchanged.knob("sequence")
            rows.setdefault("torch-cells" if loops else "torch", []).append((node.name, Recurrent(*sizes), took))
    if (rest := asked.before.kinds(*CELLS) - known) > MOST * seconds:
        raise Unavailable(f"recurrent layers of unknown rows take {rest / seconds:.0%} of the step")
    parts = [
        (total(spent := gathered(x)), partial(each, spent=spent, how={"variant": v, **how})) for v, x in rows.items()
    ]
    return shared(asked, *parts)


def _of(name: str, rows: Sequence[str]) -> bool:
    """Return whether all of these rows belong to the layer of this name."""
    return bool(rows) and all(row.rpartition(" ")[0] == name for row in rows)


def pooling(node: Node, step: Step) -> Pooling | None:
    """Return a layer's pooling as a problem of the suite (square, unpadded), or None if it has none."""
    layer = node.layer
    if not isinstance(layer, layers.Pool) or layer.stride != STRIDE or any(layer.pads):
        return None
    (channels, size, width), phase = node.inputs[0], "forward" if step.plan.phase == "forward" else "step"
    mode = {"max": "max", "average": "avg"}[layer.mode]
    try:
        same = Pooling(step.plan.batch, channels, size, layer.window, mode, phase=phase)
    except UsageError:
        return None
    return same if size == width and node.output == (channels, same.edge, same.edge) else None


def alike(asked: PredictionInput) -> dict[str, Any]:
    """Return the settings of the unchanged step as options of a benchmark.

    Raises Unavailable if isolated kernels would run in other settings: another Python, or without its variables.
    """
    setting, script = asked.unchanged.setting, asked.unchanged.script
    if script is not None and os.path.abspath(script.python) != os.path.abspath(sys.executable):
        raise Unavailable(f"kernels are measured in this Python, and {script.python} may have others")
    if steering := [x for x in setting.knobs.get("variables", {}) if not x.startswith(OF_MALLOC)]:
        raise Unavailable(f"kernels by themselves would be measured without {steering[0]}, which the step sets")
    return {"threads": asked.threads, "heap": setting.heap, "preload": setting.preload}


def each(asked: PredictionInput, spent: Spent, how: Mapping[str, Any]) -> Forecast:
    """Predict each problem as its seconds in the step times its ratio measured in isolation.

    Problems of LARGE of the step or more share the time and are measured with operands cached as in the step; smaller
    problems are assumed to change like these. A problem far larger than the last-level cache is reduced, as allocating,
    filling and checking it would take longer than its rounds. Raises TooFewRounds if problems of more than MOST of the
    step, or all problems, have no ratio."""
    large = {x: took for x, of in spent.items() if (took := sum(of.values())) >= LARGE * asked.before.seconds}
    if not large:
        return Forecast((unknown("kernels of less than 1 % of the step each", total(spent)),))
    fits = _alone.SHARES[0] * asked.alone / (2 * ROUNDS * sum(max(spent[x].values()) for x in large))
    most = 2 * open_device("cpu").limits().usable_cache
    of = {x: _alone.smaller(x, min(fits, most / x.bytes) * x.flops, how.get("vary")) for x in large}
    cold = {of[x]: _reuse.cold(asked, max(spent[x], key=spent[x].__getitem__), x) for x in large}
    ratios = _alone.known(cold, {**alike(asked), **how}, asked.alone)
    lost = {x: took for x, took in large.items() if of[x] not in ratios}
    if len(lost) == len(large) or sum(lost.values()) > MOST * asked.before.seconds:
        raise _alone.TooFewRounds
    parts = [part(x.name, took, ratios[of[x]]) for x, took in large.items() if x not in lost]
    if small := total(spent) - sum(large.values()):
        share = sum(x.seconds for x in parts) / sum(x.of for x in parts)
        parts.append(around("the smaller ones", share * small, abs(share * small), small))
    return Forecast((*parts, *(unknown(x.name, took) for x, took in lost.items())))


def together(*forecasts: Forecast) -> Forecast:
    """Join forecasts for different parts of a step; not predictable if any forecast is not."""
    if why := next((x.why for x in forecasts if x.why), None):
        return Forecast(why=why)
    return Forecast(tuple(x for forecast in forecasts for x in forecast.parts))


def shared(asked: PredictionInput, *forecasts: tuple[float, Callable[[PredictionInput], Forecast]]) -> Forecast:
    """Run (seconds, prediction) pairs one after another; each gets a share of the time by its seconds.

    Raises TooFewRounds if kernels of more than MOST of the step had too few rounds."""
    all_seconds, predicted = sum(seconds for seconds, _ in forecasts), []
    for seconds, brings in forecasts:
        if not seconds:
            continue
        try:
            predicted.append(brings(replace(asked, alone=asked.alone * seconds / all_seconds)))
        except _alone.TooFewRounds:
            if seconds > MOST * asked.before.seconds:
                raise
            predicted.append(Forecast((unknown("kernels that had too few rounds", seconds),)))
    return together(*predicted)
