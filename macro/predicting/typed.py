"""The shell file with which a user's program runs as a changed step did."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from kernels import heap
from kernels.libs import preload
from macro.changes.base import Step
from micro.worker.process import POOLS


def variables(unchanged: Step, changed: Step) -> dict[str, str]:
    """Return the variables of the changed step's process that the unchanged one lacks."""
    new, old = (_variables(step) for step in (changed, unchanged))
    return {name: value for name, value in new.items() if old.get(name) != value}


def _variables(step: Step) -> dict[str, str]:
    setting = step.setting
    settings = heap.variables(setting.heap) | preload.variables(setting.preload) | setting.knobs.get("variables", {})
    return dict.fromkeys(POOLS, str(setting.threads)) | {name: str(value) for name, value in settings.items()}


def shell(unchanged: Step, changed: Step, code: Sequence[str], about: str) -> str:
    """Format a file to be sourced: variables, and as comments what is to be written into the program."""
    lines = [f"# {about}", *(f"# In the program: {line}" for line in code if line)]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in variables(unchanged, changed).items()]
    return "\n".join(lines) + "\n"
