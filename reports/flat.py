"""A run without its nesting: rows for tables of any format, and names that are unique in the run.

A name in an export is the question, then every axis and setting of the case, those at their default too:
`nn-nt/gemm/m:64/n:2048/k:3344/trans:nn/dtype:fp32/…/variant:openblas/threads:1/cold:none`. Words of the
contest that the case repeats are left out, so that two cases differ in nothing but what sets them apart:
google-benchmark's `compare.py filters FILE trans:nn trans:nt` matches names in which its filter, a regular
expression, was replaced wherever it stood.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator
from dataclasses import fields
from typing import Any

from reports.record import Comparison, Contest, Environment, Result, Run

COLUMNS = (
    *("contest", "role", "name", "op", "variant", "device", "threads", "status", "reason"),
    *("median_seconds", "low_seconds", "high_seconds", "flops_per_second", "bytes_per_second"),
    *("percent_of_ceiling", "ceiling", "peak_flops_per_second", "peak_bytes_per_second", "error", "error_bound"),
    *("kernel", "isa_observed", "blas", "clock", "launches", "uses", "repeat"),
    *("against", "ratio", "ratio_low", "ratio_high", "next_low", "next_high", "verdict"),
)
SHARED = ("op", "variant", "device", "threads")  # columns of a comparison, where both sides have the same


def samples(run: Run) -> list[dict[str, Any]]:
    """Return a row for each sample of a case, in the order taken: seconds of one use, and `rejected`."""
    return [
        {"contest": x.contest, "name": x.name, "round": number, "seconds": seconds, "rejected": number in x.rejected}
        for x in run.results
        if x.role == "measured"
        for number, seconds in zip(x.rounds or range(len(x.samples)), x.samples, strict=True)
    ]


def results(run: Run) -> list[dict[str, Any]]:
    """Return a row for each case, in base units; `None` if a figure is unknown or the case lacks the axis.

    Its ratio is that of the first comparison in which it is the contender. Ceilings are not rows but columns of the
    cases in the same contest."""
    axes = list(dict.fromkeys(axis for result in run.measured for axis in result.problem))
    rows = []
    for contest, result, compared in _with_comparisons(run):
        times = result.seconds
        derived = {
            "median_seconds": times.median if times else None,
            "low_seconds": times.low if times else None,
            "high_seconds": times.high if times else None,
            "against": compared.baseline if compared else None,
            "ratio": compared.ratio if compared else None,
            "ratio_low": compared.low if compared else None,
            "ratio_high": compared.high if compared else None,
            "next_low": compared.next_low if compared else None,
            "next_high": compared.next_high if compared else None,
            "verdict": compared.verdict if compared else None,
            **_peaks(contest, result),
        }
        row = {name: derived[name] if name in derived else getattr(result, name) for name in COLUMNS}
        rows.append(row | {_column(axis, COLUMNS): result.problem.get(axis) for axis in axes})
    return rows


def _with_comparisons(run: Run) -> Iterator[tuple[Contest, Result, Comparison | None]]:
    for contest in run.contests:
        first = {comparison.contender: comparison for comparison in reversed(contest.comparisons)}
        yield from ((contest, x, first.get(x.name)) for x in contest.measured)


def _peaks(contest: Contest, case: Result) -> dict[str, float | None]:
    """Return FLOP/s and bytes/s of the ceilings in a case's contest, on as many threads.

    For each kind it is the ceiling that the case's share refers to, or any of that kind."""
    timed = [x for x in contest.results if x.role == "ceiling" and x.seconds and x.device == case.device]
    beside = [x for x in timed if x.threads == case.threads] or [x for x in timed if x.threads == 1]
    peaks: dict[str, float | None] = {}
    for column, reads in (("peak_flops_per_second", False), ("peak_bytes_per_second", True)):
        kind = [x for x in beside if x.by_reads == reads]
        meant = [x for x in kind if (case.ceiling or "").startswith(x.ceiling or "")] or kind
        rates = [x.bytes_per_second if reads else x.flops_per_second for x in meant]
        rate = rates[0] if len(rates) == 1 else None
        peaks[column] = rate * (case.threads // meant[0].threads) if rate else None
    return peaks


def comparisons(run: Run) -> list[dict[str, Any]]:
    """Return a row for each comparison, with the axes of its two cases; `None` if the two differ there."""
    names = [field.name for field in fields(Comparison)]
    taken = {*names, *SHARED, "baseline_seconds", "contender_seconds"}
    axes = list(dict.fromkeys(axis for result in run.measured for axis in result.problem))
    rows = []
    for contest in run.contests:
        for comparison, second, first in contest.compared:
            row = {name: getattr(comparison, name) for name in names}
            row["notes"] = "; ".join(comparison.notes)
            row["path"] = ", ".join(comparison.path)
            row["replicates"] = len(comparison.replicates)
            row["baseline_seconds"] = first.seconds.median if first.seconds else None
            row["contender_seconds"] = second.seconds.median if second.seconds else None
            for name in SHARED:
                row[name] = _common(getattr(first, name), getattr(second, name))
            for axis in axes:
                row[_column(axis, taken)] = _common(first.problem.get(axis), second.problem.get(axis))
            rows.append(row)
    return rows


def named(run: Run) -> list[list[tuple[str, Result]]]:
    """Return each contest's measured results, each with a name that no other result of the run has."""
    taken: set[str] = set()
    by_contest = []
    for contest in run.contests:
        again = 1
        names = [_name(contest, result) for result in contest.measured]
        while not taken.isdisjoint(names):  # the same question twice, as in the self-test
            again += 1
            names = [_name(contest, result, again) for result in contest.measured]
        taken.update(names)
        by_contest.append(list(zip(names, contest.measured, strict=True)))
    return by_contest


def accepted(result: Result) -> list[int]:
    """Return the indices of the samples that enter a ratio: those of rounds that were not rejected."""
    rejected = set(result.rejected)
    return [i for i, number in enumerate(result.rounds or range(len(result.samples))) if number not in rejected]


def timed(result: Result) -> list[int]:
    """Return the indices of the samples that enter a time: the accepted ones, or all if none is accepted."""
    return accepted(result) or list(range(len(result.samples)))


def log_ratios(first: Result, second: Result) -> list[float]:
    """Return for each accepted round the logarithm of the second's time over the first's."""
    return [math.log(second.samples[i] / first.samples[i]) for i in accepted(first)]


def versions(environment: Environment) -> dict[str, str]:
    """Return the known versions of hardware and software, each on one line, by name."""
    facts = environment.facts
    by_name = {
        "digest": environment.digest,
        "cpu": facts.get("device", {}).get("model"),
        **{name: facts.get(name) for name in ("kernel", "compiler", "commit", "python")},
        **facts.get("packages", {}),
    }
    return {name: " ".join(str(fact).split()) for name, fact in by_name.items() if fact}


def _name(contest: Contest, result: Result, again: int = 1) -> str:
    words = dict(word.split(":", 1) for word in result.name.split("/")[1:])
    settings = {key: word for key, word in words.items() if key not in result.problem}
    case = {axis: word(value) for axis, value in result.problem.items()}
    case |= {"variant": result.variant, "threads": str(result.threads), "cold": "none"} | settings
    case["cold"] = case["cold"].replace("+", ",")  # a plus means something to a filter
    question = [
        word
        for word in contest.contest.split("/")
        if word != result.op and not (":" in word and word.partition(":")[0] in case)
    ]
    if again > 1:
        question.append(f"again:{again}")
    return "/".join([*question, result.op, *(f"{key}:{word}" for key, word in case.items())])


def word(value: object) -> str:
    """Return a value as written in a name: integers without `.0`, `%` and `/` percent-encoded."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).replace("%", "%25").replace("/", "%2F")


def plain(text: str) -> str:
    """Return a name with percent-encoded slashes and per cent signs decoded, so that paths are as typed."""
    return text.replace("%2F", "/").replace("%25", "%")


def _common(first: Any, second: Any) -> Any:
    return first if first == second else None


def _column(axis: str, taken: Collection[str]) -> str:
    """Return an axis's column name, prefixed with `problem_` if the row has another column of that name."""
    return f"problem_{axis}" if axis in taken else axis
