"""Changes of a step's settings: threads, the libraries' instruction set, batch size, torch.compile."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from kernels import isa
from kernels.devices.cpu import cores, instruction_sets
from kernels.errors import UsageError
from kernels.openmp import NAMED
from kernels.ops.gemm.problem import Gemm
from kernels.problem import Problem
from macro.changes import _alone, _parts, products
from macro.changes.base import (
    FAULTS,
    FUNCTIONS,
    BaselineProfile,
    Change,
    Effect,
    Forecast,
    PredictionInput,
    ProcessSnapshot,
    Step,
)
from macro.frameworks import find

PASSES = (*_parts.PASSES, "optimizer")
LARGE = 1 << 22  # elements of the ReLU pass whose ratio stands for all passes


def _applies_threads(step: Step, value: str) -> str | None:
    if not value.isdecimal() or not 1 <= int(value) <= cores():
        return f"give a number: this process may use 1 to {cores()} cores"
    return f"the step already has threads={value}" if int(value) == step.setting.threads else None


def _tries_threads(step: Step) -> list[str]:
    """Return 1, half of the cores and all cores, without the present number of threads."""
    return [str(count) for count in sorted({1, max(1, cores() // 2), cores()} - {step.setting.threads})]


def _took_threads(before: BaselineProfile, after: ProcessSnapshot) -> Effect:
    was, now = (x.identity.get("threads") for x in (before, after))
    return Effect(was != now, f"threads {was} before, {now} with the change")


def _brings_threads(asked: PredictionInput) -> Forecast:
    """Predict products, convolutions and poolings in isolation, memory passes like PyTorch's ReLU."""
    before = asked.before
    multiplied = before.kinds(*_parts.HAVE_PRODUCTS), lambda x: _parts.swapped(x, "threads")
    if _parts.GEMMS.get(asked.unchanged.row) != "torch":  # NumPy's passes have one thread, its convolutions partly more
        forecast, others = multiplied[1](asked), before.kinds(*_parts.CONVOLUTIONS)
        return _parts.together(forecast, Forecast((_parts.unknown("convolutions", others),) if others else ()))
    both = f"{asked.threads},{asked.changed.setting.threads}"
    how = {"variant": "torch", "vary": "threads", "threads": both}
    convolutions = before.kinds(*_parts.CONVOLUTIONS), lambda x: _parts.convolutions(x, how)
    poolings = before.kinds("pooling"), lambda x: _parts.poolings(x, how)
    seconds = before.kinds(*PASSES)
    return _parts.shared(asked, multiplied, convolutions, poolings, (seconds, partial(_passes, how=how)))


def _passes(asked: PredictionInput, how: Mapping[str, Any]) -> Forecast:
    seconds = asked.before.kinds(*PASSES)
    if seconds < _parts.LARGE * asked.before.seconds:
        return Forecast((_parts.unknown("passes over data", seconds),))
    relu = {"count": LARGE, "kind": "relu", "phase": "forward", "cold": "all"}
    ratio = _alone.measured("elementwise", {**_parts.alike(asked), **how, **relu}, asked.alone)
    return Forecast((_parts.part("passes over data", seconds, ratio),))


def _applies_isa(step: Step, value: str) -> str | None:
    try:
        isa.variables(value)
    except UsageError as error:
        return str(error).removeprefix("--isa ")
    here, named = instruction_sets(), NAMED.get(value)
    if value in isa.SETS and named not in here[:-1]:
        return "already this processor's widest set" if named in here else "this processor lacks this set"
    return None


def _took_isa(before: BaselineProfile, after: ProcessSnapshot) -> Effect:
    was, now = ({**seen.identity, "capability": seen.flag("capability")} for seen in (before, after))
    names = ("blas", "dnn", "dispatch", "capability")
    different = [(name, was.get(name), now.get(name)) for name in names if was.get(name) != now.get(name)]
    if different:
        return Effect(True, "; ".join(f"{name} {a}, now {b}" for name, a, b in different))
    return products.others(before, after)


def _brings_isa(asked: PredictionInput) -> Forecast:
    if _parts.GEMMS.get(asked.unchanged.row) != "numpy":
        return Forecast(why="MKL and oneDNN do not report which instructions they use")
    value = asked.changed.setting.knobs["variables"]["OPENBLAS_CORETYPE"]
    return _parts.products(asked, {"vary": "isa", "isa": f"default,{value}"})


def _applies_batch(step: Step, value: str) -> str | None:
    if step.script is not None:
        return "a script sets its batch itself"
    if not value.isdecimal() or int(value) < 1:
        return "must be 1 or more"
    return f"the batch is already {value}" if int(value) == step.plan.batch else None


def _took_batch(before: BaselineProfile, after: ProcessSnapshot) -> Effect:
    was, now = (x.identity.get("batch") for x in (before, after))
    return Effect(was != now, f"{was} samples before, {now} with the change")


def _brings_batch(asked: PredictionInput) -> Forecast:
    """Predict products, convolutions and poolings in isolation, passes over activations in proportion."""
    variant = _parts.GEMMS.get(asked.unchanged.row)
    if variant is None:
        return Forecast(why=f"this suite has no kernel that calls the products of {asked.unchanged.framework.name}")
    before, batches = asked.before, (asked.unchanged.plan.batch, asked.changed.plan.batch)
    parts: list[tuple[float, Callable[[PredictionInput], Forecast]]] = []
    rows = list(_parts.by_row(before, Gemm, _parts.PRODUCTS))
    for axis in ("m", "n", "k"):
        spent = _parts.gathered(row for row in rows if _axis(row[1], row[0], batches[0]) == axis)
        how = _along(axis, batches, variant)
        parts.append((_parts.total(spent), partial(_parts.each, spent=spent, how=how)))
    grows: tuple[str, ...] = _parts.PASSES
    more = batches[1] / batches[0] - 1
    if variant == "torch":
        images = {name: _along(name, batches, variant) for name in ("n", "images")}
        parts.append((before.kinds(*_parts.CONVOLUTIONS), partial(_parts.convolutions, how=images["n"])))
        parts.append((before.kinds("pooling"), partial(_parts.poolings, how=images["images"])))
    else:
        grows = (*grows, *_parts.CONVOLUTIONS, "pooling")
    passed = more * sum(took for (rows, kind), took in before.cells.items() if kind in grows and not _updates(rows))
    passes = Forecast((_parts.around("passes over activations", passed, abs(passed) / 10),))
    known, forecast = _parts.gathered(rows), _parts.shared(asked, *parts)
    forecast = _parts.with_rest(asked, "other products", _parts.HAVE_PRODUCTS, known, forecast)
    return _parts.together(forecast, passes)


def _along(axis: str, batches: tuple[int, int], variant: str) -> dict[str, Any]:
    return {"variant": variant, "vary": axis, axis: f"{batches[0]},{batches[1]}"}


def _updates(rows: tuple[str, ...]) -> bool:
    return bool(rows) and all(row.endswith(" update") for row in rows)


def _axis(x: Problem, row: str, batch: int) -> str | None:
    """Return the axis of a row's product that is the batch (k of a wgrad, by preference), or None."""
    order = ("k", "m", "n") if row.endswith("wgrad") else ("m", "n", "k")
    sizes = asdict(x)
    return next((name for name in order if sizes[name] == batch), None)


def _applies_compiled(step: Step, value: str) -> str | None:
    if step.knob("update") == "in wgrad":
        return "the backward pass updates the weights, which this suite does not compile"
    return None if step.row == "pytorch" else "only PyTorch has torch.compile"


def _took_compiled(before: BaselineProfile, after: ProcessSnapshot) -> Effect:
    there = after.flag("compile") is True
    return Effect(there, "PyTorch's kernels are compiled" if there else "the step runs eagerly")


CHANGES = (
    Change(
        "threads",
        "run the step with this many threads",
        _applies_threads,
        lambda step, value: replace(step, setting=replace(step.setting, threads=int(value))),
        _took_threads,
        _brings_threads,
        takes="2",
        tries=_tries_threads,
        costs="cores; the last bits of results",
        trial="threads={}",
        memory=True,
        looks=(FAULTS,),
    ),
    Change(
        "isa",
        "limit libraries to this instruction set, OpenBLAS to this kernel family",
        _applies_isa,
        lambda step, value: step.with_variables(isa.variables(value)),
        _took_isa,
        _brings_isa,
        takes="avx2",
        tries=lambda step: ("avx2",),
        costs="the last bits of results",
        looks=(FUNCTIONS,),
    ),
    Change(
        "batch",
        "run the step at this batch size, which is other work",
        _applies_batch,
        lambda step, value: replace(step, plan=replace(step.plan, batch=int(value))),
        _took_batch,
        _brings_batch,
        takes="128",
        costs="what a step learns; memory",
        tries=lambda step: (),
        memory=True,
        looks=(FAULTS,),
    ),
    Change(
        "compile",
        "torch.compile",
        _applies_compiled,
        lambda step, value: replace(step, framework=find("pytorch-compile")),
        _took_compiled,
        lambda asked: Forecast(why="fusion changes the kernels and how long their results stay in memory"),
        saves=("dispatch", "interpreter", "element-wise", "reduction", "softmax and loss", "normalization", "copy"),
        code="model = torch.compile(model)",
        costs="half a minute of compilation; the last bits of results",
        looks=(),
        alone=False,
    ),
)
