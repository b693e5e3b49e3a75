"""What run files of before a field do not hold, for each field that was added and is needed to show them.

Records say these things themselves now, so nothing is added here for a new operation.
"""

from __future__ import annotations

from collections.abc import Mapping

from reports import units
from reports.record import Result

AXES = {"trans": "word", "kind": "word", "size": "bytes"}


def axes(result: Result) -> Mapping[str, str]:
    """How the axes of a result are said: `Result.axes`."""
    return AXES if result.axes is None else result.axes


def ceiling(result: Result) -> str:
    """What a ceiling is called: its `Result.ceiling`."""
    problem = result.problem
    if result.ceiling is not None:
        return result.ceiling
    if result.op == "fma":
        return f"FMA {problem.get('isa', '')}"
    if result.op == "mma":
        return f"tensor cores {problem['dtype']}, {problem['unit']}"
    return f"read {units.binary(problem['size'])}"
