"""Messages about scripts that end before they were asked to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from macro.watching.script import Script
from reports.units import counted

LATE = {"failed": "the script failed: ", "profiler": "", "unseen": "watching it failed: "}  # by how; its reason
MARK = (
    "mark it with two lines, `from kernelgap import step` and `with step():` around each step (python -m macro explain "
    "--help), or name a function that is one, --step module:function"
)


class Ended(Exception):
    """The script has ended by itself, or failed. `how`: words of the runner; `reason`: why, where it failed; `steps`
    that were seen before any was watched."""

    def __init__(self, how: str, reason: str, steps: int = 0) -> None:
        super().__init__(reason)
        self.how, self.reason, self.steps = how, reason, steps


def late(end: Ended) -> str:
    """Describe an end after enough steps were watched."""
    return LATE[end.how] + end.reason if end.how in LATE else "the script ended by itself"


def unseen(script: Script, torch: bool, held: bool) -> str:
    """Return the reason why no step was seen."""
    if held:
        return "its own torch.profiler.profile is on: run it without, or --wait 5m waits until that has stopped"
    if script.step and ":" in script.step:
        return f"--step {script.step} was not called so often; --wait 5m waits longer"
    why = " and no module was called" if torch else ", nor was torch imported"
    return f"no optimizer has stepped{why}: {MARK}; --wait 5m waits longer"


def early(end: Ended, program: Mapping[str, Any]) -> str:
    """Describe an end before enough steps were watched; `program`: the script's facts, if it came so far."""
    reason = f": {end.reason}" if end.reason else ""
    if end.how == "failed":
        missing = " (--python PATH names the interpreter that has it)" if "ModuleNotFoundError" in end.reason else ""
        return f"it fails before a step was watched{reason}{missing}"
    if end.how in LATE:
        return f"it cannot be watched{reason}"
    if program or end.steps:
        steps = "" if program else f" ({counted(end.steps, 'step')})"
        return f"it ended before enough of its steps were watched{steps}{reason}: let it run for longer, more epochs"
    if reason:
        return f"it ended before a step was watched{reason} (its own words stand behind --)"
    return f"it ended without a step that could be told: {MARK}"
