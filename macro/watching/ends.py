"""Messages about watched scripts: forecasts of the time needed, and reasons for an early end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernels.errors import LaunchError
from macro.timing.entry import FEWEST
from macro.watching import load
from macro.watching.script import Script
from macro.watching.trials import FEWEST as TURNS
from macro.watching.trials import SHARE
from reports import units

# Seconds with short steps, on an idle machine if they are not those of waiting:
WAITING = 2.5  # from a script's start to its settled memory, in any case
START = 3.5  # in this time besides: imports, first steps, traced blocks
INSIDE = 3.0  # for the last samples, operations timed in isolation and the script's end
CEILINGS = 5.0  # for measuring the machine's ceilings and attributing the time of steps
ROUND = 3.3  # plain blocks that last as long as a round on average
SLOW = 0.5  # seconds of a block from which on START does not cover the blocks until memory is settled
BUSY = 1.25  # ratio to the time on an idle machine from which on it is named

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


class Short(LaunchError):
    """Refusal of a script with too few steps for its memory to settle; `steps`: how many it takes, 0: unknown."""

    def __init__(self, text: str, steps: int) -> None:
        super().__init__(text)
        self.steps = steps


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
        steps = "" if program else f" ({units.counted(end.steps, 'step')})"
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


def explaining(scripts: int, runs: int, seconds: float, busy: float) -> str:
    """Return the forecast of `macro explain`: `runs` of each script, with `seconds` of watching each.

    `busy`: how many times as long work takes as on an idle machine."""
    starts, after = starting(busy) * scripts * runs, busy * (INSIDE * scripts * runs + CEILINGS)
    about = f"{starts:.0f} s until memory use is stable, {after:.0f} s for operations by themselves and ceilings"
    return total(seconds * runs + starts + after, f"{seconds * runs:.0f} s of watching, {about}", busy)


def starting(busy: float) -> float:
    """Return the seconds until a script's memory is settled."""
    return WAITING + busy * START


def total(seconds: float, parts: str, busy: float) -> str:
    """Format a forecast with its parts, and how busy the machine is."""
    why = f" (this machine is busy: work takes {busy:.1f} times as long as on an idle one)" if busy >= BUSY else ""
    return f"about {seconds:.0f} s in all: {parts}{why}"


def report_slow(
    step: float, count: int, seconds: float, say: Callable[[str], None], settling: float, fewest: int
) -> None:
    """Report the forecast for a script with long steps, after its first block.

    `count`: steps of a block; `settling`: blocks until memory is settled; `fewest`: rounds at least."""
    if (block := step * count) >= SLOW:
        settling *= block
        rest = settling + _rest(1, seconds, block, load.busy(), fewest)
        about = f"about {rest:.0f} s more, {settling:.0f} s of it until memory use is stable"
        say(f"a step takes {units.seconds(step)}: {about}")


def settled(took: float, scripts: int, seconds: float, block: float, busy: float) -> str:
    """Return the forecast once memory is settled; `block`: seconds of a block, summed over the scripts."""
    rest = _rest(scripts, seconds, block, busy)
    return f"memory use is stable after {took:.0f} s: about {rest:.0f} s more"


def _rest(scripts: int, seconds: float, block: float, busy: float, fewest: int = FEWEST) -> float:
    """Return the seconds of `fewest` rounds or more, trials if there are many rounds, and all that follows."""
    rounds = max((1 - SHARE) * seconds, fewest * ROUND * block)
    rounds += max(SHARE * seconds, TURNS * block) if fewest == FEWEST else 0.0
    return rounds + busy * (INSIDE * scripts + CEILINGS)
