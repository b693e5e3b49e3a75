"""Problem files for `--shapes`: JSON, convolutions in benchdnn's words, a network, or a library's log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

from kernels.errors import UsageError
from kernels.ops.conv.problem import Conv
from kernels.ops.gemm.problem import Gemm
from micro.planning import benchdnn, conv_layers, json_schema, library_log
from micro.planning.benchmark import Benchmark
from micro.planning.library_log import Calls
from micro.planning.network import SHAPES, document
from reports import units

SHOWN = 3  # lines of a list that are no problem, shown in full
SUFFIXES = ("", ".json", ".txt")  # of files in micro/shapes, tried if a name has no suffix
CONVOLUTIONS = "oneDNN's convolutions of float32 in two dimensions"
PRODUCTS = "MKL's SGEMM, cuBLAS's Sgemm and GemmEx, and oneDNN's floating-point products of two matrices"
OF_CONVOLUTIONS = "a log with convolutions: run the application with ONEDNN_VERBOSE=1"
ORDER = "Convolutions are measured channels first (NCHW), whatever the layout in the log."
OF_PRODUCTS = "a log with products: run the application with MKL_VERBOSE=1, ONEDNN_VERBOSE=1 or CUBLAS_LOGINFO_DBG=1"


@dataclass(frozen=True)
class Written:
    """Contents of a problem file: distinct problems, a log's by descending time, and sentences on them.

    `calls`: calls of each problem in a log, or in a network's step; `log`: all calls of a log, also those that are
    left out; `then`: published times of a problem."""

    problems: Sequence[Any]
    sentences: Sequence[str] = ()
    calls: Mapping[Any, Calls] = field(default_factory=dict)
    log: Calls | None = None
    then: Mapping[Any, str] = field(default_factory=dict)


def read(benchmark: Benchmark, path: Path) -> Written:
    """Read a file of problems. Raises UsageError."""
    if benchdnn.is_descriptor(str(path)) and not path.exists():
        return _described(benchmark, path, str(path))
    try:
        text = _resolved(path).read_text("utf-8", errors="replace")
        if benchdnn.is_product_list(text):
            return _described(benchmark, path, text, Gemm)
        if benchdnn.is_list(text):
            return _described(benchmark, path, text)
        if not text.lstrip().startswith("{"):
            return _logged(benchmark, path, text)
        if benchmark.problem is Conv and "network" in json_schema.parsed(text):
            return of_network(conv_layers.of_record(document(text.encode())))
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


def _resolved(path: Path) -> Path:
    """Return the path; a bare name that does not exist here is searched in micro/shapes."""
    if path.exists() or path.parent != Path():
        return path
    return next((shipped for suffix in SUFFIXES if (shipped := SHAPES / f"{path}{suffix}").exists()), path)


def _rows(benchmark: Benchmark, text: str) -> list[dict[str, Any]]:
    """Return the fields of each problem, by name. Raises ValueError."""
    record = json_schema.parsed(text)
    json_schema.check(record, {"problems": list, "source": str}, ["problems"])
    hints = get_type_hints(benchmark.problem)
    types = {field.name: hints[field.name] for field in fields(benchmark.problem)}
    needed = [field.name for field in fields(benchmark.problem) if field.default is MISSING]
    for i, row in enumerate(record["problems"], 1):
        json_schema.check(row, types | json_schema.REMARKS, needed, f"problem {i}: ")
    return [{name: row[name] for name in types if name in row} for row in record["problems"]]


def _described(benchmark: Benchmark, path: Path, text: str, kind: type[Conv | Gemm] = Conv) -> Written:
    """Parse convolutions or products in benchdnn's notation. Raises UsageError."""
    name, word = ("conv", "convolutions") if kind is Conv else ("gemm", "products")
    if benchmark.problem is not kind:
        raise UsageError(f"--shapes {path}: benchdnn {word} belong to python -m micro.{name}")
    try:
        listed = benchdnn.read(text) if kind is Conv else benchdnn.read_products(text)
    except ValueError as error:
        raise UsageError(f"--shapes {path}: {error}") from None
    kinds = [f"{reason} {units.counted(count, 'time')}" for reason, count in listed.left_out.items()]
    more = len(listed.unread) - SHOWN
    reasons = ", ".join([*kinds, *listed.unread[:SHOWN], *[f"{units.counted(more, 'more line')}"] * (more > 0)])
    if not listed.problems:
        raise UsageError(f"--shapes {path}: no problem in the file can be measured: {reasons or 'the file is empty'}")
    if listed.taken == 1 and not reasons:
        return Written(listed.problems)
    cases = f"{len(listed.problems)} cases including passes" if kind is Conv else f"{len(listed.problems)} distinct"
    total = listed.taken + sum(listed.left_out.values()) + len(listed.unread)
    sentence = f"{path.name}: {listed.taken} of {total} {word} used, {cases}; left out: {reasons or 'nothing'}."
    return Written(listed.problems, [sentence])


def of_network(step: conv_layers.Convolutions) -> Written:
    """Return the convolutions of a training step of a network."""
    calls: dict[Conv, Calls] = {}
    then: dict[Conv, str] = {}
    for layer in step.layers:
        for problem in layer.passes():
            calls[problem] = calls.get(problem, Calls(0, None)) + Calls(layer.count, None)
            if published := layer.published(problem.direction, step.measured):
                then[problem] = published
    different = len({layer.problem for layer in step.layers})
    count = sum(layer.count for layer in step.layers)
    lines = [f"{step.name}: {count} convolutions, {different} distinct, batch {step.batch}."]
    return Written(list(calls), lines, calls, then=then)


def _logged(benchmark: Benchmark, path: Path, text: str) -> Written:
    """Return the problems in a library's log. Raises UsageError."""
    log = library_log.read(text)
    taken, others = log.of(benchmark.problem), log.beside(benchmark.problem)
    if not taken:
        of_conv = benchmark.problem is Conv
        if others:
            measured, other = CONVOLUTIONS if of_conv else PRODUCTS, _elsewhere(benchmark, path, log)
            raise UsageError(
                f"--shapes {path}: none of this log's calls can be measured here, only {measured}; "
                f"it contains {_listed(others, None)}{other}"
            )
        wanted = OF_CONVOLUTIONS if of_conv else OF_PRODUCTS
        raise UsageError(f"--shapes {path}: neither JSON like micro/shapes/fc.json nor {wanted}")
    taken = dict(sorted(taken.items(), key=lambda item: -(item[1].seconds or 0.0)))
    ours = sum(taken.values(), Calls(0, 0.0))
    total = sum(others.values(), ours)
    lines = [
        f"{path.name}: {ours.count} of {total.count} calls used{share(ours, total)}; left out: "
        f"{_listed(others, total) if others else 'nothing'}{_elsewhere(benchmark, path, log)}."
    ]
    lines += [ORDER] if benchmark.problem is Conv else []
    lines += [
        f"{problem.name}: {units.counted(calls.count, 'time')}{share(calls, total)}" for problem, calls in taken.items()
    ]
    return Written(list(taken), lines, taken, total)


def _elsewhere(benchmark: Benchmark, path: Path, log: library_log.Log) -> str:
    """Return a hint to the command that measures the log's other operation; empty if it has no calls."""
    name, word, kind = ("gemm", "products", Gemm) if benchmark.problem is Conv else ("conv", "convolutions", Conv)
    return f"; for its {word}: python -m micro.{name} --shapes {path}" if log.of(kind) else ""


def _listed(others: Mapping[str, Calls], log: Calls | None) -> str:
    """Format the calls that are left out, those with the most time first."""
    ranked = sorted(others.items(), key=lambda item: (-(item[1].seconds or 0.0), -item[1].count))
    return ", ".join(
        f"{name} {units.counted(calls.count, 'time')}{share(calls, log) if log else ''}" for name, calls in ranked
    )


def share(calls: Calls, total: Calls) -> str:
    """Format the calls' share of the logged time; empty if a call has no time."""
    if calls.seconds is None or not total.seconds:
        return ""
    return f" ({calls.seconds / total.seconds:.1%} of the logged time)"
