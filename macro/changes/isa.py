"""An instruction set for libraries, or a kernel family for OpenBLAS, by the variables that they read."""

from __future__ import annotations

from kernels import isa
from kernels.devices.cpu import instruction_sets
from kernels.errors import UsageError
from kernels.openmp import NAMED
from macro.changes import _parts, products
from macro.changes.base import FUNCTIONS, Asked, Before, Change, Effect, Forecast, Seen, Step


def applies(step: Step, value: str) -> str | None:
    try:
        isa.variables(value)
    except UsageError as error:
        return str(error).removeprefix("--isa ")
    here, named = instruction_sets(), NAMED.get(value)
    if value in isa.SETS and named not in here[:-1]:
        return "this processor has no wider vectors" if named in here else "this processor has none of it"
    return None


def took(before: Before, after: Seen) -> Effect:
    was, now = ({**seen.identity, "capability": seen.flag("capability")} for seen in (before, after))
    names = ("blas", "dnn", "dispatch", "capability")
    different = [(name, was.get(name), now.get(name)) for name in names if was.get(name) != now.get(name)]
    if different:
        return Effect(True, "; ".join(f"{name} {a}, now {b}" for name, a, b in different))
    return products.others(before, after)


def brings(asked: Asked) -> Forecast:
    if _parts.GEMMS.get(asked.unchanged.row) != "numpy":
        return Forecast(why="MKL and oneDNN do not say which instructions they took")
    value = asked.changed.setting.knobs["variables"]["OPENBLAS_CORETYPE"]
    return _parts.products(asked, {"vary": "isa", "isa": f"default,{value}"})


CHANGE = Change(
    "isa",
    "libraries take this instruction set, OpenBLAS this family of kernels",
    applies,
    lambda step, value: step.with_variables(isa.variables(value)),
    took,
    brings,
    takes="avx2",
    tries=lambda step: ("avx2",),
    costs="the last bits of results",
    looks=(FUNCTIONS,),
)
