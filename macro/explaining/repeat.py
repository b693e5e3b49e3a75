"""The benchmark that measures a cell's work in isolation, and how much faster its best variant is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from kernels.errors import SuiteError
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import SIDES
from kernels.ops.gemm.problem import Gemm
from kernels.ops.pooling.problem import STRIDE
from macro.explaining.operation_call import Call
from macro.explaining.operation_work import alone, alone_command, command_line, work_of
from macro.explaining.rows import Row
from macro.networks.layer import Node, size
from macro.networks.layers import BatchNorm, Dropout, LocalResponseNorm, Pool
from macro.processes.job import Setting
from macro.timing import results
from macro.timing.entry import Plan
from macro.watching.recording import Recording
from macro.watching.watch import Side
from reports.explanation import Breakdown, Cell, Fastest, Headroom

MOST = 3  # at most so many operations of a breakdown are measured

POOLS = {"max": "max", "average": "avg"}
WINDOWS = (2, 3)
LRN = (5, 0.75, 2.0)  # size, beta and k of the normalization that micro measures
DROPOUT = 0.01  # least dropout rate that micro measures

STORED = {"forward": "nt", "dgrad": "nn", "wgrad": "tn"}  # of weights outputs × inputs, as PyTorch keeps them
BUDGET = "4s"  # of measuring one cell's variants
Kernels = tuple[str, dict[str, Any]]  # a benchmark of micro, and its options (axes and settings)
PASSES = ("element-wise", "softmax and loss", "reduction", "optimizer", "pooling", "normalization", "random numbers")


def product(cell: Cell, by_name: Mapping[str, Row]) -> Row | None:
    """Return the row of a cell's matrix product, or None unless there is exactly one."""
    rows = [by_name[name] for name in cell.members if name in by_name and by_name[name].product]
    return rows[0] if len(rows) == 1 else None


def convolution(cell: Cell, by_name: Mapping[str, Row]) -> Conv | None:
    """Return a cell's largest convolution by FLOP, or None."""
    convolutions = [
        x for name in cell.members if name in by_name for x in by_name[name].problems if isinstance(x, Conv)
    ]
    return max(convolutions, key=lambda x: x.flops, default=None)


def axes(problem: Conv) -> dict[str, Any]:
    """Return the non-default axes of a convolution as options, equal padding of all sides as `pad`."""
    sides = SIDES if problem.pad else ()
    plain = {x.name: x.default for x in fields(problem)}
    return {name: value for name, value in asdict(problem).items() if value != plain[name] and name not in sides}


def transposition(cell: Cell, side: Side, by_name: Mapping[str, Row]) -> str | None:
    """Return the transposition of a cell's GEMM, row-major (such as NT); None for other cells."""
    row = product(cell, by_name)
    return as_called(row, side, by_name).trans.upper() if row is not None and cell.column == "gemm" else None


def _sizes(p: Gemm) -> tuple[int, ...]:
    """Return sizes that are equal for a product and its transpose, (AB)ᵀ = BᵀAᵀ."""
    return (p.k, *sorted((p.m, p.n)))


def as_called(row: Row, side: Side, by_name: Mapping[str, Row]) -> Gemm:
    """Return a row's GEMM as the library logged it, or else with the transposition of the weights' layout."""
    p, kind = row.product, row.name.rpartition(" ")[2]
    assert p is not None
    same = [x for x in side.logged.products if _sizes(x) == _sizes(p)]
    alike = [x for x in by_name.values() if x.product is not None and _sizes(x.product) == _sizes(p)]
    if len(same) == len(alike) == 1:
        return replace(same[0], ld_pad=0)
    if side.entry.built.get("layout") != "outputs x inputs":
        return p
    m, n = (p.n, p.m) if kind == "wgrad" else (p.m, p.n)
    return replace(p, m=m, n=n, trans=STORED[kind])


def repeat(cell: Cell, plan: Plan, sides: Sequence[Side], by_name: Mapping[str, Row]) -> Kernels | None:
    """Return the benchmark that measures a cell in isolation as the slower side runs it, or None."""
    side = sides[cell.gap <= 0]
    row = product(cell, by_name)
    if row is not None and cell.column in ("gemm", "packing"):
        p = as_called(row, side, by_name)
        return "gemm", {"m": p.m, "n": p.n, "k": p.k, "trans": p.trans, **_settings(side.entry.setting)}
    if cell.column == "convolution" and (conv := convolution(cell, by_name)) is not None:
        return "conv", {**axes(conv), **_settings(side.entry.setting)}
    if cell.column == "OS memory":
        return "memory", {"faults": True}
    passes = _pass(cell, plan, by_name)
    return (passes[0], {**passes[1], **_settings(side.entry.setting)}) if passes else None


def command(cell: Cell, plan: Plan, sides: Sequence[Side], by_name: Mapping[str, Row]) -> str:
    """Return the command that measures a cell in isolation, or without such a benchmark, the side's steps."""
    again = repeat(cell, plan, sides, by_name)
    return command_line(*again) if again else results.repeat(plan, sides[cell.gap <= 0].entry)


def _settings(setting: Setting) -> dict[str, Any]:
    """Return threads and heap as options if they differ from their defaults."""
    plain = Setting()
    threads = {"threads": setting.threads} if setting.threads != plain.threads else {}
    return {**threads, "heap": setting.heap} if setting.heap != plain.heap else threads


def _pass(cell: Cell, plan: Plan, by_name: Mapping[str, Row]) -> Kernels | None:
    """Return the benchmark of a cell that is a memory pass of a single row, or of the loss; else None."""
    rows = [by_name[name] for name in cell.members if name in by_name]
    if cell.column == "optimizer":  # micro.update also has it fused with the layer's wgrad
        rows = [row for row in rows if row.name.endswith("update")]
    if len(rows) != 1 or cell.column not in PASSES:
        return None
    (row,) = rows
    if row.name == "loss":
        return "elementwise", {"batch": plan.batch * plan.network.places, "classes": plan.network.classes}
    node = next((x for x in plan.network.nodes if x.name == row.layer), None)
    role = row.name.removeprefix(f"{row.layer} ")
    if node is not None and (options := image_pass(node, role, plan.batch)):
        return "elementwise", options
    if node is not None and row.name.endswith("update") and plan.network.optimizer != "sgd":
        return "optimizer", {"rule": plan.network.rule, "tensors": 1, "size": node.count}
    if node is not None and row.name.endswith("update") and node.layer.kind == "dense":
        *steps, inputs = node.inputs[0]
        return "update", {"m": inputs, "n": node.output[-1], "k": plan.batch * size(steps)}
    if node is None or " activation" not in row.name:
        return None
    phase = "dgrad" if row.name.endswith("gradient") else "forward"
    return "elementwise", {"count": plan.batch * size(node.output), "kind": node.activation, "phase": phase}


def best(again: Kernels) -> tuple[str, float] | None:
    """Measure a benchmark with cold caches, as in a step; return the fastest variant and its seconds.

    None if it is no product, convolution or element-wise pass, includes the forward pass, or cannot be measured."""
    benchmark, options = again
    both = options.get("phase") == "step" or "units" in options
    if benchmark not in ("gemm", "elementwise", "conv") or both:
        return None
    import micro

    try:
        run = micro.measure(micro.plan(benchmark, **options, cold="all", budget=BUDGET))
    except SuiteError:
        return None
    timed = [(r.seconds.median, r.variant) for r in run.results if r.role == "measured" and r.seconds]
    return (min(timed)[1], min(timed)[0]) if timed else None


def headroom(cells: Sequence[Cell], plan: Plan, sides: Sequence[Side], by_name: Mapping[str, Row]) -> list[Headroom]:
    """Measure each named cell in isolation; compare the best variant with the slower side's time."""
    measured = []
    for cell in cells:
        again = repeat(cell, plan, sides, by_name)
        if cell.column == "packing" or again is None:  # packing is a part of its product
            continue
        try:
            fastest = best(again)
        except KeyboardInterrupt:  # the watched rounds are still reported
            break
        if fastest is not None:
            variant, seconds = fastest
            took = max(cell.a, cell.b)
            measured.append(Headroom(cell.row, command_line(*again), variant, seconds, took, 1 - seconds / took))
    return measured


def image_pass(node: Node, role: str, batch: int) -> dict[str, Any] | None:
    """Return options of micro.elementwise for a layer's pass (gradients include forward), or None."""
    layer, given = node.layer, node.inputs[0]
    if role not in ("forward", "gradient"):
        return None
    if isinstance(layer, Dropout) and layer.share >= DROPOUT:
        return {"units": batch * size(given), "rate": layer.share}
    if len(given) != 3 or given[1] != given[2]:
        return None
    both = {"phase": "step"} if role == "gradient" else {}
    sizes = {"images": batch, "maps": given[0], "size": given[1]}
    if isinstance(layer, BatchNorm):
        return {**sizes, **({"mode": "frozen"} if layer.frozen else {}), **both}
    if isinstance(layer, LocalResponseNorm) and (layer.size, layer.beta, layer.k) == LRN:
        return {**sizes, "method": "lrn", **both}
    unpadded = isinstance(layer, Pool) and layer.rounding == "floor" and not any(layer.pads)
    if isinstance(layer, Pool) and unpadded and layer.window in WINDOWS and layer.stride == STRIDE:
        sizes = {"images": batch, "channels": given[0], "size": given[1], "window": layer.window}
        return {**sizes, "pool": POOLS[layer.mode], **both}
    return None


def benchmarks(call: Call) -> list[Kernels]:
    """Return the benchmarks of a call's work: dgrad and wgrad if a convolution's call computes both."""
    again = alone(call)
    if again is None:
        return []
    benchmark, options = again
    both = options.get("direction") == "dgrad" and all(call.arguments[10][:2])
    directions = ("dgrad", "wgrad") if both else (options.get("direction"),)
    return [(benchmark, {**options, "direction": x} if x else options) for x in directions]


def fastest(breakdown: Breakdown, recording: Recording) -> Iterator[Fastest]:
    """Measure the largest call of the longest cells; yield its best time against its share of the cell."""
    work, measured = work_of(recording.called), 0
    for cell in breakdown.cells:
        key = ((cell.row,), cell.column)
        if measured == MOST or key not in work.largest:
            continue
        size, call = work.largest[key]
        timed = [best(kernel) for kernel in benchmarks(call)]
        if not timed or None in timed:
            continue
        variant = " and ".join(dict.fromkeys(pair[0] for pair in timed if pair))
        seconds = sum(pair[1] for pair in timed if pair)
        took = cell.a * size / max(work.flops[key], work.bytes[key])
        left = (took - seconds) * cell.a / took
        yield Fastest(cell.row, alone_command(call), variant, seconds, took, left)
        measured += 1
