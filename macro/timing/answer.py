"""What a run of frameworks says, in sentences."""

from __future__ import annotations

from macro.timing.turns import Plan
from reports import units
from reports.figures.steps import floor
from reports.record import Result, Run

INSIDE = {
    "forward": "the products, biases and activations of one batch",
    "gradient": "forward, loss and every gradient but the input's",
    "step": "forward, loss, every gradient but the input's, and the update",
}
WAITS = 0.01  # of a step: what waits less is not spoken of


def sentences(plan: Plan, run: Run) -> list[str]:
    """What is inside; each framework's time; the floor; where the operating system's memory shows."""
    net = plan.network
    asked = {"network": net.name, "batch": plan.batch, "phase": plan.phase}  # a file may hold runs of others
    timed = [r for r in run.results if r.role == "measured" and r.seconds and asked.items() <= r.problem.items()]
    flops = net.flops(plan.batch, plan.phase)
    lines = [
        f"A {plan.phase} of {net.name}, batch {plan.batch}: {units.scaled(flops, 'FLOP')}, "
        f"{net.parameters / 1e6:.1f} M parameters; inside: {INSIDE[plan.phase]}; the batch lies in memory, nothing "
        "is read."
    ]
    for result in sorted(timed, key=lambda r: r.seconds.median if r.seconds else 0.0):
        lines.append(_one(result, timed))
    return lines


def _one(result: Result, timed: list[Result]) -> str:
    assert result.seconds is not None
    step = result.step or {}
    least = floor(result, timed)
    near = ""
    if least is not None and least.seconds and least is not result:
        near = f", {result.seconds.median / least.seconds.median:.2f} times kernels-only"
    kind = "wall"
    if result.clock == "cpu":
        waits = step.get("blocked", 0.0) > WAITS * result.seconds.median
        kind = "processor and waiting" if waits else "processor"
    return (
        f"{result.variant} (heap {result.heap}, division {result.problem['division']}): "
        f"{units.seconds(result.seconds.median)} of {kind} time, {units.percent(result.percent_of_ceiling)} of the "
        f"FMA peak{near}; {step.get('faults', 0):.0f} page faults and {units.seconds(step.get('system', 0.0))} of "
        "system time a step."
    )
