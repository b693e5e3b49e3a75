"""Switches of the adapter of PyTorch."""

from __future__ import annotations

from macro.changes.base import Step


def refused(step: Step, knob: str, value: object, compiled: bool = False) -> str | None:
    """Return the reason why a knob of PyTorch's adapter cannot be set to `value`, or None.
    It is another framework, or the knob is set already. `compiled`: the compiled row has the knob too."""
    if step.row.removesuffix("-compile" if compiled else "") != "pytorch":
        return f"no switch of {step.framework.name}'s is known here"
    return "it is made already" if step.knob(knob) == value else None
