"""`--shapes`: problems from a JSON file that a person wrote, or from what a library logged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, get_type_hints

from kernels.errors import UsageError
from micro.planning import library_log, written
from micro.planning.benchmark import Benchmark
from micro.planning.library_log import Calls


@dataclass(frozen=True)
class Written:
    """What a file holds: each different problem once, those of a log by their time, and what the log says besides."""

    problems: Sequence[Any]
    sentences: Sequence[str] = ()


def read(benchmark: Benchmark, path: Path) -> Written:
    """Raises UsageError."""
    try:
        text = path.read_text("utf-8", errors="replace")
        if not text.lstrip().startswith("{"):
            return _logged(benchmark, path, text)
        rows = _rows(benchmark, text)
    except OSError as error:
        raise UsageError(f"--shapes {path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"--shapes {path}: not a list of problems like micro/shapes/fc.json ({error})") from None
    problems = []
    for i, row in enumerate(rows, 1):
        try:
            problems.append(benchmark.problem(**row))
        except UsageError as error:
            raise UsageError(f"--shapes {path}: problem {i}: {error}") from None
    return Written(list(dict.fromkeys(problems)))


def _rows(benchmark: Benchmark, text: str) -> list[dict[str, Any]]:
    """The fields of each problem, by name. Raises ValueError."""
    record = written.parsed(text)
    written.check(record, {"problems": list, "source": str}, ["problems"])
    hints = get_type_hints(benchmark.problem)
    types = {field.name: hints[field.name] for field in fields(benchmark.problem)}
    needed = [field.name for field in fields(benchmark.problem) if field.default is MISSING]
    for i, row in enumerate(record["problems"], 1):
        written.check(row, types | written.REMARKS, needed, f"problem {i}: ")
    return [{name: row[name] for name in types if name in row} for row in record["problems"]]


def _logged(benchmark: Benchmark, path: Path, text: str) -> Written:
    """Problems from what a library logged."""
    log = library_log.read(text)
    taken = {problem: calls for problem, calls in log.products.items() if isinstance(problem, benchmark.problem)}
    if not taken:
        others = f"; it holds {_listed(log.others, None)}" if log.others else ""
        raise UsageError(
            f"--shapes {path}: neither JSON like micro/shapes/fc.json nor a log with products: run the application "
            f"with MKL_VERBOSE=1, ONEDNN_VERBOSE=1 or CUBLAS_LOGINFO_DBG=1{others}"
        )
    taken = dict(sorted(taken.items(), key=lambda item: -(item[1].seconds or 0.0)))
    products = sum(taken.values(), Calls(0, 0.0))
    whole = sum(log.others.values(), products)
    lines = [
        f"{path.name}: {products.count} of {whole.count} calls are taken{_share(products, whole)}; left out: "
        f"{_listed(log.others, whole) if log.others else 'nothing'}."
    ]
    lines += [f"{problem.name}: {_times(calls.count)}{_share(calls, whole)}" for problem, calls in taken.items()]
    return Written(list(taken), lines)


def _listed(others: Mapping[str, Calls], whole: Calls | None) -> str:
    """What else was called, the longest first."""
    ranked = sorted(others.items(), key=lambda item: (-(item[1].seconds or 0.0), -item[1].count))
    return ", ".join(f"{name} {_times(calls.count)}{_share(calls, whole) if whole else ''}" for name, calls in ranked)


def _times(count: int) -> str:
    return f"{count} time{'s' * (count != 1)}"


def _share(calls: Calls, whole: Calls) -> str:
    """Of the logged time; nothing where a call did not say its own."""
    if calls.seconds is None or not whole.seconds:
        return ""
    return f" ({calls.seconds / whole.seconds:.1%} of the logged time)"
