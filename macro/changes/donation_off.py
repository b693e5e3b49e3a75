"""JAX's step without the donation of its parameters: new ones are written beside the old ones."""

from __future__ import annotations

from macro.changes.base import FAULTS, Asked, Before, Change, Effect, Forecast, Seen, Step


def applies(step: Step, value: str) -> str | None:
    if step.row != "jax":
        return f"{step.framework.name} takes no arguments as donated"
    if step.plan.phase != "step":
        return f"a {step.plan.phase} keeps its parameters"
    return "it is made already" if step.knob("donated") is False else None


def took(before: Before, after: Seen) -> Effect:
    donated = after.flag("donated")
    return Effect(donated == "nothing", f"donated: {donated}")


def brings(asked: Asked) -> Forecast:
    """Predict nothing but certain page faults: the kernels are the same, and write elsewhere."""
    return Forecast()


CHANGE = Change(
    "donation-off",
    "the step's parameters are not donated (donate_argnums)",
    applies,
    lambda step, value: step.with_knob("donated", False),
    took,
    brings,
    code="jax.jit(step)",
    costs="memory: the parameters twice",
    tries=lambda step: (),
    memory=True,
    looks=(FAULTS,),
    alone=False,
)
