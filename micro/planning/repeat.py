"""The line that repeats a case."""

from __future__ import annotations

import shlex
from collections.abc import Collection
from dataclasses import fields

from kernels.devices import runs
from kernels.launch import Setting
from micro.planning.contest import Case


def command(module: str, case: Case, swept: Collection[tuple[str, str]] = ()) -> str:
    """The line that repeats a case; of a command without axes the whole of it. `swept`: operation and axis, named
    whatever their value, since the command's own default is another, or several."""
    device = case.setting.device
    if module == "selftest" and case.role == "measured":
        return "python -m micro.selftest"
    # Of multiply-adds --isa is an axis, everyone else's a setting.
    if case.role == "ceiling" or module == "ceiling" or case.problem.op in ("fma", "mma"):
        return "python -m micro.ceiling" + (f" --device {device}" if runs(device) != "cpu" else "")
    words = [f"python -m micro.{module}"]
    for axis in fields(case.problem):
        value = getattr(case.problem, axis.name)
        if value != axis.default or (case.problem.op, axis.name) in swept:
            words.append(f"--{axis.name.replace('_', '-')}{'=' if str(value).startswith('-') else ' '}{value}")
    words.append(f"--variant {shlex.quote(case.variant)} --threads {case.setting.threads}")
    for name in ("isa", "data", "heap"):
        if (value := getattr(case.setting, name)) != getattr(Setting(), name):
            words.append(f"--{name} {value}")
    if case.setting.cold:
        words.append(f"--cold {','.join(case.setting.cold)}")
    return " ".join(words) + (f" --device {device}" if device != "cpu" else "")
