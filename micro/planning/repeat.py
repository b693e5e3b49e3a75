"""Command lines that repeat a case."""

from __future__ import annotations

import shlex
from dataclasses import asdict, dataclass, fields

from kernels.devices import kind_of
from kernels.setting import KNOBS
from micro.planning.contest import Case

PEAKS = {"fma": "peak/fp32", "mma": "peak/coarse"}  # contests of micro.cpu's grid


@dataclass(frozen=True)
class Repeat:
    """Builder of command lines that repeat single cases of a command.

    `swept`: (operation, axis or setting) to be written always, since the command's default may differ."""

    command: str = "gemm"
    swept: frozenset[tuple[str, str]] = frozenset()

    def line(self, case: Case) -> str:
        """Return the line that repeats a case, or the command that contains it if it takes no axes."""
        device = f" --device {case.setting.device}"
        if self.command == "selftest" and case.role == "measured":
            return "python -m micro.selftest"
        if asdict(case.problem).get("after", "none") != "none":  # multiply-adds behind others
            return "python -m micro.cpu --clock"
        if self.command == "cpu" and case.problem.op in PEAKS and case.role == "measured":
            return f"python -m micro.cpu --grid --only {PEAKS[case.problem.op]}"
        # --isa is an axis of multiply-adds, and a setting of all other operations.
        if case.role == "ceiling" or self.command == "ceiling" or case.problem.op in ("fma", "mma"):
            threads = f" --threads {case.setting.threads}" if case.setting.threads > 1 else ""
            return "python -m micro.ceiling" + threads + (device if kind_of(case.setting.device).own_clock else "")
        words = [f"python -m micro.{self.command}", *self._axes(case)]
        words.append(f"--variant {shlex.quote(case.variant)} --threads {case.setting.threads}")
        for name in KNOBS:
            swept = (case.problem.op, name) in self.swept
            if name not in ("threads", "device") and (swept or name in case.setting.changed):
                words.append(f"--{name} {KNOBS[name].typed(case.setting.values[name])}")
        return " ".join(words) + device * ("device" in case.setting.changed)

    def _axes(self, case: Case) -> list[str]:
        values, words = asdict(case.problem), []
        for axis in fields(case.problem):
            value = str(values[axis.name])
            if values[axis.name] != axis.default or (case.problem.op, axis.name) in self.swept:
                words.append(f"--{axis.name.replace('_', '-')}{'=' if value.startswith('-') else ' '}{value}")
        return words
