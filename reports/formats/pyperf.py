"""pyperf's JSON, for `pyperf compare_to`, `stats`, `check` and `hist`.

Each measured result is a benchmark, with a run for each process that measured it: one, unless whole
processes were compared. Its values are the accepted samples, or all if none was. Results without samples are left
out: pyperf has no benchmark without values. pyperf calls every difference significant if two files hold unequal
numbers of values, as two runs do whose ratios were known after different numbers of rounds;
`python -m reports compare` has no such trap.
"""

from __future__ import annotations

from typing import IO, Any

from reports import flat
from reports.record import Environment, Result, Run

ENDINGS = (".json",)
VERSION = "1.0"


def write(run: Run, stream: IO[str]) -> None:
    import msgspec

    benchmarks = [
        {"metadata": _benchmark(name, result), "runs": _runs(result)}
        for members in flat.named(run)
        for name, result in members
        if result.seconds and result.samples
    ]
    document = {"version": VERSION, "metadata": _common(run.environment), "benchmarks": benchmarks}
    stream.write(msgspec.json.encode(document).decode() + "\n")


def _common(environment: Environment) -> dict[str, Any]:
    """Return metadata that all benchmarks share, under pyperf's keys if pyperf has such a key."""
    facts, state = environment.facts, environment.state
    load = state.get("load") or ()
    versions = flat.versions(environment)
    return _lines(
        {
            "unit": "second",
            "date": environment.started,
            "command": environment.command,
            "cpu_count": facts.get("cores"),
            "cpu_model_name": versions.pop("cpu", None),
            "python_version": versions.pop("python", None),
            "load_avg_1min": load[0] if load else None,
        }
        | versions
    )


def _benchmark(name: str, result: Result) -> dict[str, Any]:
    return _lines(
        {
            "name": name,
            "loops": result.launches or 1,
            "inner_loops": result.uses,
            "timer": result.clock,
            "status": result.status,
            "library": result.kernel,
            "blas_call": result.blas,
        }
    )


def _runs(result: Result) -> list[dict[str, list[float]]]:
    """Return the values of each process."""
    by_process: dict[int, list[float]] = {}
    for i in flat.timed(result):
        by_process.setdefault(result.processes[i] if result.processes else 0, []).append(result.samples[i])
    return [{"values": values} for values in by_process.values()]


def _lines(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return metadata without empty values and line breaks, both of which pyperf rejects."""
    lines = {key: " ".join(value.split()) if isinstance(value, str) else value for key, value in metadata.items()}
    return {key: value for key, value in lines.items() if value not in (None, "")}
