"""Messages about watched scripts: forecasts of the time needed, and reasons for an early end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from macro.timing.entry import FEWEST
from macro.watching.script import Script
from reports.units import counted

START = 15.0  # seconds until a script has taken its first steps and its memory is settled
INSIDE = 6.0  # seconds for the last samples, operations timed in isolation and the script's end
CEILINGS = 10.0  # seconds for measuring the machine's ceilings and attributing the time of steps
ROUND = 3.0  # blocks in a round on average: every third round has more

RELATIVE = "attempted relative import"  # in Python's message
LATE = {"failed": "the script failed: ", "profiler": "", "unseen": "watching the script failed: "}  # by `how`: a prefix
MARK = (
    "mark steps by `from kernelgap import step` and `with step():` around each (python -m macro explain train.py "
    "--help), or name a function that runs a step, --step module:function"
)


class Ended(Exception):
    """End of a script: `how` the runner calls it, `reason` of a failure, `steps` run before watching."""

    def __init__(self, how: str, reason: str, steps: int = 0) -> None:
        super().__init__(reason)
        self.how, self.reason, self.steps = how, reason, steps


def late(end: Ended) -> str:
    """Describe an end after enough steps were watched."""
    return LATE[end.how] + end.reason if end.how in LATE else "the script ended by itself"


def unseen(script: Script, torch: bool, held: bool) -> str:
    """Return the reason why no step was detected; `held`: the script's own profiler was active."""
    if held:
        return "the script's own torch.profiler.profile is active: remove it, or wait for its end by --wait 5m"
    if script.step and ":" in script.step:
        return f"--step {script.step} was not called often enough; --wait 5m waits longer"
    why = " and no module was called" if torch else ", nor was torch imported"
    return f"no optimizer has stepped{why}: {MARK}; --wait 5m waits longer"


def early(end: Ended, program: Mapping[str, Any], script: Script) -> str:
    """Describe an end before enough steps were watched; `program`: facts received until then."""
    reason = f": {end.reason}" if end.reason else ""
    if end.how == "failed":
        return f"failed before a step was watched{reason}{_remedy(end.reason, script)}"
    if end.how in LATE:
        return f"cannot be watched{reason}"
    if program or end.steps:
        steps = "" if program else f" ({counted(end.steps, 'step')})"
        return f"ended before enough steps were watched{steps}{reason}: let the script run longer, e.g. more epochs"
    if reason:
        return f"ended before a step was watched{reason} (the script's arguments follow --)"
    return f"ended without a step that could be detected: {MARK}"


def _remedy(reason: str, script: Script) -> str:
    """Return what to do after a failed import, in parentheses; empty after other failures."""
    if "ModuleNotFoundError" in reason:
        return " (--python PATH: an interpreter that has the module)"
    if RELATIVE in reason and not script.module and (module := script.as_module()):
        return " (run it as a module of its package: -m {}, from {})".format(*module)
    return ""


def explaining(scripts: int, runs: int, seconds: float) -> str:
    """Return the forecast of `macro explain`: `runs` of each script, with `seconds` of watching each."""
    starts, after = START * scripts * runs, INSIDE * scripts * runs + CEILINGS
    return _total(
        seconds * runs,
        "watching",
        f"{starts:.0f} s until memory use is stable, {after:.0f} s for operations by themselves and ceilings",
        starts + after,
    )


def changing(processes: int, seconds: float) -> str:
    """Return the forecast of a command that changes a script and starts `processes` one after another."""
    starts = START * processes + INSIDE
    return _total(seconds, "measuring", f"{starts:.0f} s until memory use is stable", starts)


def _total(seconds: float, what: str, beside: str, more: float) -> str:
    return f"about {seconds + more:.0f} s in all: {seconds:.0f} s of {what}, {beside}"


def settled(took: float, scripts: int, seconds: float, block: float) -> str:
    """Return the forecast once memory is settled; `block`: seconds of a block, summed over the scripts."""
    rest = max(seconds, FEWEST * ROUND * block) + INSIDE * scripts
    return f"memory use is stable after {took:.0f} s: watching takes about {rest:.0f} s more"
