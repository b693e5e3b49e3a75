"""Note which test runs which mutated line. Executed at the start of every Python process while tests.soak.mutants maps.

MUTANTS_LINES names a JSON file of {file: lines}; each (test, file, line) that is seen is appended to MUTANTS_REACHED.
Line 0 stands for a file's functions: a test that calls any of them.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

LINES: dict[str, list[int]] = json.loads(Path(os.environ["MUTANTS_LINES"]).read_text("utf-8"))
noted: set[tuple[str, str, int]] = set()
of_code: dict[CodeType, dict[int, list[int]]] = {}


def note(test: str, file: str, line: int) -> None:
    """Write what has not been written by this process."""
    seen = (test, file, line)
    if seen not in noted:
        noted.add(seen)
        with open(os.environ["MUTANTS_REACHED"], "a") as to:
            to.write(json.dumps(seen) + "\n")


def mutated(code: CodeType) -> dict[int, list[int]]:
    """Return, by the lines at which this code stops, the mutated lines that begin there or in the lines after it."""
    if code not in of_code:
        stops = sorted({line for *_, line in code.co_lines() if line})
        of_code[code] = lines = {}
        for line in LINES[code.co_filename]:
            before = [stop for stop in stops if stop <= line]
            if before and line <= stops[-1]:
                lines.setdefault(before[-1], []).append(line)
    return of_code[code]


def enter(frame: FrameType, event: str, argument: object) -> Any:
    """Trace a call: of code with mutated lines each line, of other code of their files that it ran."""
    code = frame.f_code
    if code.co_filename not in LINES:
        return None
    test, function = os.environ.get("MUTANTS_TEST", ""), code.co_flags & 1  # CO_OPTIMIZED: no module, no class
    note(test, code.co_filename, 0)
    lines = mutated(code)

    def step(frame: FrameType, event: str, argument: object) -> Any:
        for line in lines.get(frame.f_lineno, ()) if event == "line" else ():
            note(test if function else "", code.co_filename, line)
        return step

    return step if lines else None


threading.settrace(enter)
sys.settrace(enter)
