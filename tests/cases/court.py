"""Cases as data, and the judgment of a report: its patterns here, its document in judgment.py."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernels import suite

HERE = Path(__file__).parent
BUDGET, LONGEST = "20s", 400  # of watching; seconds of a command
FIRST = 4  # lines of a report that count as its beginning


@dataclass(frozen=True)
class Case:
    """A script, and what is true of it; see the head of cases.toml."""

    name: str
    source: str  # a public report of the like
    first: Sequence[str] = ()
    must: Sequence[str] = ()
    must_not: Sequence[str] = ()
    cause: Mapping[str, Any] = field(default_factory=dict)
    remedy: Sequence[Sequence[str]] = ()  # replacements in the script's text
    bound: str = ""  # the advice whose saving must not be below the true one
    clock: str = "processor"  # by which the truth is measured
    steady: bool = True  # steps do not grow, so that two runs compare
    advice: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @property
    def script(self) -> Path:
        """The script's file."""
        return HERE / "scripts" / f"{self.name}.py"

    def faults(self, report: str) -> Iterator[str]:
        """Yield what is wrong with a report's text."""
        report = report[max(0, report.find("A step")) :]  # the script's output comes before
        begin = "\n".join(report.splitlines()[:FIRST])
        yield from (f"not first: {x}" for x in self.first if not re.search(x, begin))
        yield from (f"missing: {x}" for x in self.must if not re.search(x, report))
        yield from (f"said: {x}" for x in self.must_not if re.search(x, report))


def explained(case: Case, document: Path) -> subprocess.CompletedProcess[str]:
    """Explain a case's script; return the report, whose document is written to a file. Raises TimeoutExpired."""
    words = suite.child("macro", "explain", case.script, "--budget", BUDGET, "-q", "--json", document)
    environment = suite.environment()
    return subprocess.run(words, env=environment, capture_output=True, text=True, check=False, timeout=LONGEST)


def cases() -> list[Case]:
    """Return all cases, by name."""
    table = tomllib.loads((HERE / "cases.toml").read_text("utf-8"))
    return [Case(name, **fields) for name, fields in sorted(table.items())]
