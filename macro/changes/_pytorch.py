"""Switches of the adapter of PyTorch."""

from __future__ import annotations

from macro.changes.base import Step


def refused(step: Step, knob: str, value: object, compiled: bool = False) -> str | None:
    """Why its knob is not set to this: another framework, or it is set already. `compiled`: its compiled row too."""
    if step.row.removesuffix("-compile" if compiled else "") != "pytorch":
        return f"no switch of {step.framework.name}'s is known here"
    return "it is made already" if step.knob(knob) == value else None
