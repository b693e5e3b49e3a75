"""`--shapes`: problems from a JSON file that a person wrote, or from what a library logged."""

from __future__ import annotations

from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_type_hints

from kernels.errors import UsageError
from micro.planning import library_log, written
from micro.planning.benchmark import Benchmark


def read(benchmark: Benchmark, path: Path) -> list[Any]:
    """Each different problem once. Raises UsageError."""
    try:
        text = path.read_text("utf-8", errors="replace")
        if not text.lstrip().startswith("{"):
            return _logged(benchmark, path, text)
        rows = _rows(benchmark, text)
    except OSError as error:
        raise UsageError(f"--shapes {path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"--shapes {path}: not a list of problems like micro/shapes/fc.json ({error})") from None
    found = []
    for i, row in enumerate(rows, 1):
        try:
            found.append(benchmark.problem(**row))
        except UsageError as error:
            raise UsageError(f"--shapes {path}: problem {i}: {error}") from None
    return list(dict.fromkeys(found))


def _rows(benchmark: Benchmark, text: str) -> list[dict[str, Any]]:
    """The fields of each problem, by name. Raises ValueError."""
    told = written.parsed(text)
    written.check(told, {"problems": list, "source": str}, ["problems"])
    hints = get_type_hints(benchmark.problem)
    known = {field.name: hints[field.name] for field in fields(benchmark.problem)}
    needed = [field.name for field in fields(benchmark.problem) if field.default is MISSING]
    for i, row in enumerate(told["problems"], 1):
        written.check(row, known | written.REMARKS, needed, f"problem {i}: ")
    return [{name: row[name] for name in known if name in row} for row in told["problems"]]


def _logged(benchmark: Benchmark, path: Path, text: str) -> list[Any]:
    """Problems from what a library logged."""
    found = [problem for problem in library_log.read(text) if isinstance(problem, benchmark.problem)]
    if not found:
        raise UsageError(
            f"--shapes {path}: neither JSON like micro/shapes/fc.json nor a log with products: run the application "
            "with MKL_VERBOSE=1, ONEDNN_VERBOSE=1 or CUBLAS_LOGINFO_DBG=1"
        )
    return list(found)
