"""Recordings of the sides of a network's explanation, NAME-a.kg and NAME-b.kg, like those of scripts.

`macro explain FILE.kg` explains one of them alone, or the gap between two, whenever and wherever they were made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from kernels.errors import UsageError
from macro.timing.entry import Plan
from macro.watching import kg
from macro.watching.recording import Recording
from macro.watching.watch import Side

MESSAGE = ("kind", "seq", "t_mono_ns")  # keys of a worker's report that are the message's


def recording(plan: Plan, side: Side) -> Recording:
    """Return the recording of all processes that count."""
    entry = side.entry
    about = {
        "script": f"{plan.network.name} {entry.framework.name}",
        "arguments": ["--batch", str(plan.batch), "--phase", plan.phase],
        "interpreter": "",
        "heap": entry.setting.heap,
        "threads": entry.setting.threads,
        "step": f"this suite's loop, batch {plan.batch}",
    }
    facts = {name: value for name, value in entry.identity.items() if name not in MESSAGE}
    return Recording({**facts, **about}, list(side.processes))


def keep(plan: Plan, sides: Sequence[Side], run_file: Path, say: Callable[[str], None]) -> bool:
    """Write the recordings beside the run file, over those of a part of it; False where there was no room."""
    for i, side in enumerate(sides):
        path = kg.beside(run_file, i, len(sides))
        try:
            kg.write(recording(plan, side), path)
        except UsageError as error:
            say(f"macro explain: {error}")
            return False
        say(f"recording: {path}")
    return True
