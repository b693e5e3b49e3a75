"""Sentences about a run of frameworks."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from macro.timing import ratios
from macro.timing.entry import Plan
from reports import units
from reports.figures.steps import FLOOR, floor
from reports.record import Result, Run

KINDS = {  # words for the forward passes of layers, by the layer's kind
    "dense": "products",
    "conv": "convolutions",
    "pool": "poolings",
    "norm": "normalizations",
    "lrn": "normalizations",
    "dropout": "dropouts",
    "add": "sums",
    "shortcut": "shortcuts",
    "concat": "copies",
}
INSIDE = {
    "forward": "the {}, biases and activations of one batch",
    "gradient": "forward, loss and every gradient except the input's",
    "step": "forward, loss, every gradient except the input's, and the update",
}
WAITS = 0.01  # least share of a step of a difference in system time that is reported
BUSY = 0.1  # least difference in busy cores that is reported


def sentences(plan: Plan, run: Run) -> list[str]:
    """Return sentences on the step's work, each framework's time, and frameworks below kernels-only."""
    net = plan.network
    asked = {"network": net.name, "batch": plan.batch, "phase": plan.phase}  # a file may hold runs of others
    timed = [r for r in run.results if r.role == "measured" and r.seconds and asked.items() <= r.problem.items()]
    flops = net.flops(plan.batch, plan.phase)
    lines = [
        f"A {plan.phase} of {net.name}, batch {plan.batch}: {units.scaled(flops, 'FLOP')}, "
        f"{net.parameters / 1e6:.1f} M parameters; includes {_inside(plan)}; the batch is in memory, nothing is "
        "loaded."
    ]
    for result in sorted(timed, key=lambda r: r.seconds.median if r.seconds else 0.0):
        lines.append(_sentence(result, timed))
    return [*lines, *_below(plan, timed)]


def _inside(plan: Plan) -> str:
    there = {node.layer.kind for node in plan.network.nodes}
    words = dict.fromkeys(word for kind, word in KINDS.items() if kind in there)
    moving = plan.phase == "step" and any(x.state and not x.layer.data().get("frozen") for x in plan.network.nodes)
    return INSIDE[plan.phase].format(", ".join(words)) + " and the running statistics" * moving


def _times(result: Result, least: Result, timed: Sequence[Result]) -> str:
    """Format a ratio as `1.13 [1.08, 1.19] times kernels-only`."""
    assert result.seconds is not None and least.seconds is not None
    ratio, through = ratios.over(result, least, timed)
    if ratio is None:
        return f"{result.seconds.median / least.seconds.median:.2f} times {FLOOR}, no interval"
    return f"{units.ratio(ratio.center, ratio.low, ratio.high)} times {FLOOR}{through}"


def _below(plan: Plan, timed: list[Result]) -> list[str]:
    """Return a line for each framework that is faster than kernels-only, whether significant or not."""
    lines = []
    for result in timed:
        least = floor(result, timed)
        if least is None or least is result or not least.seconds or not result.seconds:
            continue
        times, certain = over(result, least, timed)
        if times >= 1:
            continue
        sure = "" if certain else " (may be chance)"
        lines.append(
            f"{result.variant} (heap {result.heap}) is below {FLOOR}, {_times(result, least, timed)}{sure}: {FLOOR} "
            f"runs each product by the kernel that was fastest in a few calls, and is no bound{apart(result, least)}. "
            f"Why: {_explained(plan, result)}"
        )
    return lines


def over(result: Result, least: Result, timed: Sequence[Result]) -> tuple[float, bool]:
    """Return the ratio of a result's time to that of `least`, and whether it is significantly below 1."""
    assert result.seconds is not None and least.seconds is not None
    ratio, _ = ratios.over(result, least, timed)
    if ratio is None:
        return result.seconds.median / least.seconds.median, False
    return ratio.center, ratio.high < 1


def apart(result: Result, least: Result) -> str:
    """Describe how two steps differ in system time and busy cores; "" if by little."""
    ours, theirs = least.step or {}, result.step or {}
    assert result.seconds is not None
    differences, more = [], (theirs.get("system", 0.0) - ours.get("system", 0.0)) / result.threads
    if abs(more) > WAITS * result.seconds.median:
        differences.append(f"{units.seconds(abs(more))} {'more' if more > 0 else 'less'} in the operating system")
    busy, floor_busy = (x.get("utilization", 0.0) * result.threads for x in (theirs, ours))
    if result.threads > 1 and abs(busy - floor_busy) > BUSY:
        differences.append(f"{busy:.2f} busy cores against {floor_busy:.2f} of {FLOOR}")
    return f"; {result.variant} has {' and '.join(differences)}" if differences else ""


def _explained(plan: Plan, result: Result) -> str:
    """Return the command that explains a framework's time against kernels-only."""
    return (
        f"python -m macro explain {plan.named} {FLOOR} {shlex.quote(result.variant)} --batch {plan.batch} "
        f"--phase {plan.phase} --threads {result.threads} --heap {result.heap}"
    )


def _sentence(result: Result, timed: list[Result]) -> str:
    assert result.seconds is not None
    step = result.step or {}
    least = floor(result, timed)
    near = ""
    if least is not None and least.seconds and least is not result:
        near = f", {_times(result, least, timed)}"
    kind = "GPU" if result.clock == "event" else "wall"
    if result.clock == "cpu":
        waits = step.get("blocked", 0.0) > WAITS * result.seconds.median
        kind = "processor and waiting" if waits else "processor"
    place = f"{result.device}, " * (len({r.device for r in timed}) > 1)
    place += f"{units.counted(result.threads, 'thread')}, " * (len({r.threads for r in timed}) > 1)
    return (
        f"{result.variant} ({place}heap {result.heap}, division {result.problem['division']}): "
        f"{units.seconds(result.seconds.median)} of {kind} time{near}."
    )
