"""Results of `micro.ab`: verdicts with a shared error rate, records, sentences and the gate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from kernels.catalog import find
from micro.measuring.clocks import CPU_CLOCK
from micro.measuring.rounds import CONTENDED, LOST
from micro.planning.contest import parse
from reports import compare, gate, record, stats, units

NAMES = ("a", "b")
VERDICTS = ("slower", "faster", "same", "unresolved", "not comparable")


@dataclass(frozen=True)
class Limits:
    """Limits of a comparison of two arms."""

    processes: int  # of each arm
    seconds: float  # of measuring in all
    margin: float  # of a verdict
    gate: float | None  # least slow-down, as a share, that fails; None: no gate


@dataclass
class Case:
    """Measurements of one case; `wall` and `cpu` list the seconds of its rounds by [pair][arm]."""

    name: str
    wall: list[list[list[float]]] = field(default_factory=list)
    cpu: list[list[list[float]]] = field(default_factory=list)
    lost: list[float] = field(default_factory=list)  # share of each sample lost to others
    launches: int = 1  # of a sample
    visit: float = 0.0  # seconds of a sample
    queues: bool = True
    seconds: float = 0.0
    about: list[dict[str, Any]] = field(default_factory=list)  # kernel, isa and error, by arm
    failed: dict[str, tuple[str, str]] = field(default_factory=dict)  # arm: kind, reason

    @property
    def clock(self) -> str:
        long = self.visit >= CPU_CLOCK * 0.9
        return "cpu" if long and self.queues and parse(self.name).setting.threads == 1 else "wall"

    @property
    def times(self) -> list[list[list[float]]]:
        return self.cpu if self.clock == "cpu" else self.wall

    def ratios(self) -> Any:
        """Return the trimmed mean of log(b / a) over the rounds of each pair of processes."""
        import numpy as np

        logs = []
        for a, b in self.times:
            x = np.sort(np.log(np.array(b) / np.array(a)))
            cut = int(len(x) * stats.TRIMMED)
            logs.append(float(x[cut : len(x) - cut].mean()))
        return np.array(logs)


def judged(case: Case, limits: Limits, family: int) -> stats.Judgment:
    return stats.across(case.ratios(), limits.margin, family)


def held_back(case: Case, limits: Limits, family: int) -> bool:
    """Report whether the gate stops this case: significantly slower, and its interval reaches the gate."""
    if case.failed or limits.gate is None:
        return False
    judgment = judged(case, limits, family)
    return judgment.shown is not None and gate.stops(judgment.verdict, judgment.shown.high, limits.gate)


def contests(
    cases: Sequence[Case], limits: Limits, canary: dict[str, list[float]], command: str
) -> Iterator[record.Contest]:
    """Yield a contest for each case: its two arms and their comparison."""
    for case in cases:
        name = f"ab/{case.name}"
        results = tuple(_result(case, i, name, canary, command) for i in (0, 1))
        known = name, "arm", results[0].name, results[1].name, limits.margin, limits.margin
        comparison = record.Comparison.unjudged(*known, scope=f"across {len(case.wall)} processes per arm")
        if case.failed:
            letter, (_, reason) = next(iter(case.failed.items()))
            comparison = replace(comparison, reason=f"arm {letter}: {reason}")
        else:
            judgment = judged(case, limits, len(cases))
            few = "more processes (--processes) would decide it" if judgment.verdict == "unresolved" else None
            comparison = replace(comparison.judged(judgment), reason=judgment.reason or few)
        spent = {"measuring": case.seconds, "setup": 0.0}
        yield record.Contest(name, "is arm b slower than arm a?", "arm", results, (comparison,), spent)


def _result(case: Case, i: int, contest: str, canary: dict[str, list[float]], command: str) -> record.Result:
    parsed = parse(case.name)
    row: Any = find(parsed.problem.op, parsed.variant)
    blank = record.Result(
        f"{case.name}/arm:{NAMES[i]}",
        contest,
        "measured",
        parsed.problem.op,
        asdict(parsed.problem),
        parsed.variant,
        "cpu",
        parsed.setting.threads,
        "planned",
        axes=parsed.problem.shown,
        cold=parsed.setting.cold,
        precision=row.computes(parsed.problem),
        repeat=command,
    )
    if NAMES[i] in case.failed:
        kind, reason = case.failed[NAMES[i]]
        statuses: dict[str, record.Status] = {"WrongResult": "wrong", "Unavailable": "skipped"}
        return replace(blank, status=statuses.get(kind, "failed"), reason=reason)
    if case.failed or not case.wall:
        return replace(blank, status="skipped", reason="the other arm failed" if case.failed else "interrupted")
    return _timed(blank, case, i, canary)


def _timed(blank: record.Result, case: Case, i: int, canary: dict[str, list[float]]) -> record.Result:
    import numpy as np

    problem = parse(case.name).problem
    samples = [seconds for pair in case.times for seconds in pair[i]]
    seconds = record.Seconds.of(samples)
    lost = float(np.mean(np.array(case.lost) > LOST))
    return replace(
        blank,
        status="contended" if lost > CONTENDED else "ok",
        clock=case.clock,
        launches=case.launches,
        seconds=seconds,
        samples=tuple(samples),
        flops_per_second=problem.flops / seconds.median,
        bytes_per_second=problem.bytes / seconds.median,
        rounds=tuple(r for pair in case.times for r in range(len(pair[i]))),
        processes=tuple(p for p, pair in enumerate(case.times) for _ in pair[i]),
        kernel=case.about[i]["kernel"],
        isa_observed=case.about[i]["isa"],
        error=case.about[i]["error"],
        canary=canary,
    )


def differing(plans: Sequence[dict[str, Any]]) -> list[str]:
    first, second = (
        record.Environment(p["environment"]["digest"], p["environment"]["facts"], {}, "", "") for p in plans
    )
    return list(compare.environments(first, second))


def sentences(
    run: record.Run, limits: Limits, differs: list[str], apart: list[str], tripped: Sequence[Case]
) -> list[str]:
    """Return sentences on the verdicts, on differences between the arms, and on the gate's outcome."""
    by = {verdict: [c for c in run.comparisons if c.verdict == verdict] for verdict in VERDICTS}
    counts = ", ".join(f"{len(comparisons)} {verdict}" for verdict, comparisons in by.items() if comparisons)
    lines = [f"Arm b against arm a, {len(run.comparisons)} cases: {counts} (margin {100 * limits.margin:g} %)."]
    if by["slower"]:
        worst = max(by["slower"], key=lambda c: c.ratio or 0.0)
        shown = units.ratio(worst.ratio, worst.low, worst.high)
        lines.append(f"Largest slowdown: {worst.baseline.removesuffix('/arm:a')}, {shown} times arm a's time.")
    lines.append("The arms differ in: " + ("; ".join(differs) or "nothing that is recorded") + ".")
    lines += apart
    if limits.gate is not None:
        names = ", ".join(case.name for case in tripped)
        lines.append(f"Gate {100 * limits.gate:g} %: " + (f"not passed: {names}." if tripped else "passed."))
    return lines
