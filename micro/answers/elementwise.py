"""Answers of micro/elementwise.py: a sentence for each comparison that has a ratio."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

from micro.findings.select import verdict
from micro.planning.contest import Case, parse
from reports import record, units
from reports.record import Run

LEVELS = ("L1", "L2", "L3")

Sentence = Callable[[Case, Case, str], str]


def _variant(what: str) -> Sentence:
    """Return a sentence on variants: `… by C takes 1.2 times as long as by B`."""
    return lambda a, b, ratio: f"{what}: {b.variant} takes {ratio} times what {a.variant} takes"


def _field(name: str, what: str) -> Sentence:
    def say(a: Case, b: Case, ratio: str) -> str:
        first, second = asdict(a.problem)[name], asdict(b.problem)[name]
        return f"{what}: {second} takes {ratio} times what {first} takes, by {a.variant}"

    return say


SENTENCES: dict[str, Sentence] = {
    "activation": lambda a, b, ratio: _variant(f"{_kind(a)} of {units_of(a)}")(a, b, ratio),
    "function": _field("kind", "A function against ReLU"),
    "provider": lambda a, b, ratio: _variant(f"Whose {_kind(a)}")(a, b, ratio),
    "place": lambda a, b, ratio: f"In place {_kind(a)} takes {ratio} times what it takes out of place, by {a.variant}",
    "fused": _variant("Fused against parts"),
    "rivals": _variant("Library against library"),
    "doubled": lambda a, b, ratio: (
        f"A {getattr(b.problem, 'before', '')} before the loss's own softmax takes {ratio} times a step without it, "
        f"by {a.variant}" + ("; the answer is the same" if getattr(b.problem, "before", "") == "log-softmax" else "")
    ),
    "labels": _field("labels", "Labels"),
    "labels-made": lambda a, b, ratio: f"Writing the rows of labels first takes {ratio} times a step with indices",
    "loss": lambda a, b, ratio: f"Gradient and loss take {ratio} times what the loss alone takes",
    "bias": _variant("Bias and ReLU"),
    "after-product": _variant("Bias and ReLU behind a product"),
    "inside-product": _variant("Bias and ReLU inside the product"),
    "mask": _variant("Dropout, forward and backward"),
    "relu-place": lambda a, b, ratio: (
        f"ReLU after max-pooling takes {ratio} times what it takes before it ({b.variant}); the answers are one"
    ),
    "index": _variant("The gradient of max-pooling"),
    "layout": _field("layout", "Pooling"),
    "pool": _field("pool", "Pooling"),
    "statistics": _variant("Mean and variance"),
    "mode": _field("mode", "Batch normalization"),
    "lrn": _variant("Local response normalization"),
    "cast": _field("convert", "Conversion against copy"),
    "clear": _variant("Clearing memory"),
}


def _kind(case: Case) -> str:
    problem: Any = case.problem
    return f"{problem.kind}" + ("'s gradient" if problem.phase == "dgrad" else "")


def units_of(case: Case) -> str:
    return f"{getattr(case.problem, 'count', 0)} elements"


def answer(run: Run) -> list[str]:
    """Report each comparison with the place and bandwidth of its operands, then the function libraries."""
    caches = run.environment.facts.get("device", {}).get("caches", [])
    sentences = [sentence for contest in run.contests for sentence in _contest(contest, caches)]
    return [*sentences, *_mathematics(run)]


def _contest(contest: record.Contest, caches: list[int]) -> Iterator[str]:
    say = SENTENCES.get(contest.contest.partition("/")[0])
    if say is None:
        return
    results = {result.name: result for result in contest.results}
    for comparison in contest.comparisons:
        if comparison.ratio is None:
            continue
        first, second = parse(comparison.baseline), parse(comparison.contender)
        shown = units.ratio(comparison.ratio, comparison.low, comparison.high)
        where = _where(contest, results[comparison.contender], second, caches)
        yield f"{say(first, second, shown)} ({_at(second)}; {where}): {verdict(comparison)}."


def _at(case: Case) -> str:
    """Format a problem: `softmax 64×26752`."""
    problem: Any = case.problem
    names = (
        "images",
        "channels",
        "maps",
        "size",
        "batch",
        "classes",
        "rows",
        "cols",
        "terms",
        "count",
        "units",
        "values",
    )
    values = asdict(problem)
    extents = [str(values[name]) for name in names if name in values]
    window = f", window {problem.window}" if problem.op == "pooling" else ""
    both = ", forward and gradients" if problem.op == "norm" and problem.phase == "step" else ""
    return f"{problem.op} {'×'.join(x for x in extents if x != '0')}{window}{both}"


def level(nbytes: int, caches: list[int]) -> str:
    """Return the first cache that holds so many bytes, or memory.

    A GPU reports one cache, its second level."""
    sizes = sorted(caches)
    names = LEVELS if len(sizes) > 1 else LEVELS[1:]
    return next((name for name, size in zip(names, sizes, strict=False) if nbytes <= size), "memory")


def _where(contest: record.Contest, result: record.Result, case: Case, caches: list[int]) -> str:
    """Format size, cache level and bandwidth: `13.1 MiB: L3, 45.7 GB/s, 54 % of its reads`."""
    nbytes = case.problem.footprint
    text = f"{units.binary(nbytes)}: {level(nbytes, caches)}"
    if not result.bytes_per_second:
        return text
    text += f", {units.scaled(result.bytes_per_second, 'B/s')}"
    reads = [x for x in contest.results if x.role == "ceiling" and x.op == "stream" and x.bytes_per_second]
    if case.setting.device != "cpu" and result.ceiling is None:
        return text  # a read of so little is mostly its launches
    near = min(reads, key=lambda x: abs(int(x.problem.get("size", 0)) - nbytes), default=None)
    if near is None or not near.bytes_per_second:
        return text
    return f"{text}, {units.percent(100 * result.bytes_per_second / near.bytes_per_second)} of reads there"


def _mathematics(run: Run) -> Iterator[str]:
    """Report which library's functions each variant called, if any."""
    kernels: dict[str, str] = {}
    for result in run.results:
        if result.role == "measured" and result.op in ("activation", "softmax") and result.kernel and result.seconds:
            kernels.setdefault(result.variant.partition("-")[0], result.kernel)
    if kernels:
        yield "Whose functions: " + "; ".join(f"{name}: {kernel}" for name, kernel in kernels.items()) + "."
