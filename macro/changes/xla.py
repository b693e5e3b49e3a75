"""XLA's compiled steps: a flag for its CPU compiler, and JAX's step without the donation of its parameters.

The flag stands in XLA_FLAGS behind those that are set already. Without donation new parameters lie beside the old ones.
"""

from __future__ import annotations

import os

from macro.changes.base import FAULTS, FUNCTIONS, Asked, Before, Change, Effect, Forecast, Seen, Step

NAME = "XLA_FLAGS"
ROWS = ("jax", "keras-jax", "tensorflow-xla")
OTHERS = 0.05  # of the samples, in functions that did not run before


def _applies_flag(step: Step, value: str) -> str | None:
    if step.row not in ROWS:
        return f"{step.framework.name} is not compiled by XLA"
    if not value.startswith("--xla_"):
        return f"{value} is no flag of XLA's: they begin with --xla_"
    return "it is set already" if value in _set(step).split() else None


def _set(step: Step) -> str:
    return str(step.setting.knobs.get("variables", {}).get(NAME, os.environ.get(NAME, "")))


def _took_flag(before: Before, after: Seen) -> Effect:
    """Check that the flag is in the process, and that other functions run.
    XLA ignores flags that its build does not have."""
    old, new = before.variables.get(NAME, "").split(), after.variables.get(NAME, "").split()
    fresh = sum(count for name, count in after.symbols.items() if name not in before.symbols)
    share = fresh / max(1, sum(after.symbols.values()))
    flags = " ".join(x for x in new if x not in old)
    text = f"{NAME} has {flags or 'nothing more'}; {100 * share:.0f} % of samples in functions that did not run before"
    return Effect(bool(flags) and share >= OTHERS, text)


def _brings_flag(asked: Asked) -> Forecast:
    return Forecast(why="what XLA compiles with it is not known before")


def _applies_donation(step: Step, value: str) -> str | None:
    if step.row != "jax":
        return f"{step.framework.name} takes no arguments as donated"
    if step.plan.phase != "step":
        return f"a {step.plan.phase} keeps its parameters"
    return "it is made already" if step.knob("donated") is False else None


def _took_donation(before: Before, after: Seen) -> Effect:
    donated = after.flag("donated")
    return Effect(donated == "nothing", f"donated: {donated}")


def _brings_donation(asked: Asked) -> Forecast:
    """Predict nothing but certain page faults: the kernels are the same, and write elsewhere."""
    return Forecast()


CHANGES = (
    Change(
        "xla-flags",
        "XLA compiles with this flag too",
        _applies_flag,
        lambda step, value: step.with_variables({NAME: f"{_set(step)} {value}".strip()}),
        _took_flag,
        _brings_flag,
        takes="--xla_cpu_enable_fast_math=true",
        costs="the last bits of results, and more where a flag trades accuracy",
        looks=(FUNCTIONS,),
        alone=False,
        tries=lambda step: (),
    ),
    Change(
        "donation-off",
        "the step's parameters are not donated (donate_argnums)",
        _applies_donation,
        lambda step, value: step.with_knob("donated", False),
        _took_donation,
        _brings_donation,
        code="jax.jit(step)",
        costs="memory: the parameters twice",
        tries=lambda step: (),
        memory=True,
        looks=(FAULTS,),
        alone=False,
    ),
)
