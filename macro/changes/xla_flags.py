"""A flag for XLA's CPU compiler, in XLA_FLAGS behind those that are set already."""

from __future__ import annotations

import os

from macro.changes.base import FUNCTIONS, Asked, Before, Change, Effect, Forecast, Seen, Step

NAME = "XLA_FLAGS"
ROWS = ("jax", "keras-jax", "tensorflow-xla")
OTHERS = 0.05  # of the samples, in functions that did not run before


def applies(step: Step, value: str) -> str | None:
    if step.row not in ROWS:
        return f"{step.framework.name} is not compiled by XLA"
    if not value.startswith("--xla_"):
        return f"{value} is no flag of XLA's: they begin with --xla_"
    return "it is set already" if value in _set(step).split() else None


def _set(step: Step) -> str:
    return str(step.setting.knobs.get("variables", {}).get(NAME, os.environ.get(NAME, "")))


def took(before: Before, after: Seen) -> Effect:
    """Check that the flag is in the process, and that other functions run.
    XLA ignores flags that its build does not have."""
    old, new = before.variables.get(NAME, "").split(), after.variables.get(NAME, "").split()
    fresh = sum(count for name, count in after.symbols.items() if name not in before.symbols)
    share = fresh / max(1, sum(after.symbols.values()))
    flags = " ".join(x for x in new if x not in old)
    text = f"{NAME} has {flags or 'nothing more'}; {100 * share:.0f} % of samples in functions that did not run before"
    return Effect(bool(flags) and share >= OTHERS, text)


def brings(asked: Asked) -> Forecast:
    return Forecast(why="what XLA compiles with it is not known before")


CHANGE = Change(
    "xla-flags",
    "XLA compiles with this flag too",
    applies,
    lambda step, value: step.with_variables({NAME: f"{_set(step)} {value}".strip()}),
    took,
    brings,
    takes="--xla_cpu_enable_fast_math=true",
    costs="the last bits of results, and more where a flag trades accuracy",
    looks=(FUNCTIONS,),
    alone=False,
    tries=lambda step: (),
)
