"""google-benchmark's JSON, for its `compare.py`, github-action-benchmark and Bencher.

An accepted round is a repetition. `real_time` and `cpu_time` are nanoseconds of one use; they are equal
if only one clock was read. `compare.py -a filters FILE variant:openblas variant:numpy` sets two variants
side by side, `compare.py -a benchmarks A B` two runs. Its U test ignores rounds, its geometric mean
counts every case that a filter matched, with or without a counterpart: the verdicts are in the run file.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import IO, Any

from reports import flat
from reports.record import Environment, Result, Run

ENDINGS = (".json",)
NANO = 1e9
STATISTICS: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": statistics.fmean,
    "median": statistics.median,
    "stddev": statistics.stdev,
    "cv": lambda values: statistics.stdev(values) / statistics.fmean(values),
}


def write(run: Run, stream: IO[str]) -> None:
    import msgspec

    rows = [
        {"name": name, "family_index": family, "per_family_instance_index": instance, "run_name": name} | row
        for family, members in enumerate(flat.named(run))
        for instance, (name, result) in enumerate(members)
        for row in (_timed(name, result) if result.seconds else [_untimed(result)])
    ]
    document = {"context": _context(run.environment), "benchmarks": rows}
    stream.write(msgspec.json.encode(document).decode() + "\n")


def _context(environment: Environment) -> dict[str, Any]:
    """Return google-benchmark's `context` of a machine; unknown figures are 0, missing arrays empty."""
    facts, state = environment.facts, environment.state
    caches = facts.get("device", {}).get("caches") or ()
    return flat.versions(environment) | {
        "date": environment.started,
        "host_name": str(state.get("machine", "")),  # its digest: names of hosts are not recorded
        "executable": environment.command,
        "num_cpus": facts.get("cores") or 0,
        "mhz_per_cpu": round(state.get("megahertz") or 0),
        "cpu_scaling_enabled": False,  # not recorded
        "caches": [
            {"type": "Unified" if level > 1 else "Data", "level": level, "size": size, "num_sharing": 0}
            for level, size in enumerate(caches, start=1)
        ],
        "load_avg": list(state.get("load") or ()),
        "library_version": str((facts.get("packages") or {}).get("kernelgap", "")),
        "library_build_type": "release",
        "json_schema_version": 1,
    }


def _timed(name: str, result: Result) -> list[dict[str, Any]]:
    """Return a row for each accepted round, then one for each statistic."""
    assert result.seconds
    figures = _figures(result)
    count = len(figures["real_time"])
    about = {"repetitions": count, "threads": result.threads, "time_unit": "ns"}
    label = "; ".join(filter(None, (result.kernel, result.status if result.status != "ok" else "")))
    about |= {"label": label} if label else {}
    each = {"run_type": "iteration", "iterations": (result.launches or 1) * result.uses}
    rows = [
        about | each | {"repetition_index": i} | {key: values[i] for key, values in figures.items()}
        for i in range(count)
    ]
    if not rows:  # a file whose samples were taken out still has the median
        figures, chosen = _rates(result, [result.seconds.median]), ["median"]
    else:
        chosen = list(STATISTICS) if count > 1 else []
    for statistic in chosen:
        aggregates = {key: STATISTICS[statistic](values) for key, values in figures.items()}
        unit = "percentage" if statistic == "cv" else "time"
        row = {"name": f"{name}_{statistic}", "run_type": "aggregate", "aggregate_name": statistic}
        rows.append(about | row | {"aggregate_unit": unit, "iterations": count} | aggregates)
    return rows


def _figures(result: Result) -> dict[str, list[float]]:
    """Return times and rates of the accepted rounds, or of all rounds if none was accepted."""
    kept = flat.timed(result)
    figures = _rates(result, [result.samples[i] for i in kept])
    if result.clock == "cpu" and len(result.wall_samples) == len(result.samples):
        figures["real_time"] = [result.wall_samples[i] * NANO for i in kept]
    return figures


def _rates(result: Result, seconds: list[float]) -> dict[str, list[float]]:
    """Return times and rates; a rate is nominal work over the times that comparisons use."""
    assert result.seconds
    times = [time * NANO for time in seconds]
    figures = {"real_time": times, "cpu_time": times}
    for key, rate in (("items_per_second", result.flops_per_second), ("bytes_per_second", result.bytes_per_second)):
        if rate:
            work = rate * result.seconds.median
            figures[key] = [work / time for time in seconds]
    return figures


def _untimed(result: Result) -> dict[str, Any]:
    """Return the row of a case without a time, marked so that readers do not take it for a fast case.

    google-benchmark itself writes 0 ns, and its compare.py then calls a failed contender 100 % faster and drops the
    geometric mean of the file. Without `cpu_time`, in a unit of its own and among the aggregates the row is passed
    over by both; `real_time` is there because Bencher reads no file without it."""
    reason = f"{result.status}: {result.reason}" if result.reason else result.status
    flags: dict[str, Any] = {"skipped": True, "skip_message": reason}
    if result.status in ("wrong", "failed"):
        flags = {"error_occurred": True, "error_message": reason}
    return flags | {
        "run_type": "aggregate",
        "repetitions": 0,
        "threads": result.threads,
        "aggregate_name": "none",
        "aggregate_unit": "time",
        "iterations": 0,
        "real_time": 0.0,
        "time_unit": "s",
    }
