"""Changes of a script's float32 to bfloat16: its forward pass by autocast, or its matrix products alone."""

from __future__ import annotations

from macro.changes.base import BaselineProfile, Change, Effect, Forecast, ProcessSnapshot, Step

ROUNDED = "16 bits of each product's inputs"


def _applies(step: Step, value: str) -> str | None:
    return None if step.script is not None else "networks are compared in one type; change a script"


def _change(name: str, about: str, flag: str, active: str, costs: str, code: str, trial: str) -> Change:
    """Return a change of a script; `flag`, `active`: what its process reports, and what that means in words."""

    def took(before: BaselineProfile, after: ProcessSnapshot) -> Effect:
        there = after.flag(flag) == "bfloat16"
        return Effect(there, f"{active} {'bfloat16' if there else 'float32'}")

    return Change(
        name,
        about,
        _applies,
        lambda step, value: step,
        took,
        lambda asked: Forecast(why="only trials of a script predict it"),
        costs=costs,
        code=code,
        trial=trial,
        memory=True,
        looks=(),
        alone=False,
    )


CHANGES = (
    _change(
        "bf16-autocast",
        "the forward pass of a script's modules in bfloat16 (torch.autocast)",
        "autocast",
        "modules are called in",
        f"{ROUNDED} and outputs",
        "with torch.autocast('cpu', torch.bfloat16): output = model(x)",
        "bf16",
    ),
    _change(
        "bf16-products",
        "matrix products of a script's float32 in bfloat16 (torch.set_float32_matmul_precision)",
        "products",
        "products of float32 run in",
        ROUNDED,
        "torch.set_float32_matmul_precision('medium')",
        "products",
    ),
)
