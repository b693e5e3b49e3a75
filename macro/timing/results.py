"""A run's entries as records: a result for each framework, and comparisons with the first framework."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from kernels.libs import preload
from macro.timing import ratios
from macro.timing.entry import TWIN, Entry, Plan
from macro.timing.peak import UNIT
from reports import next_run, record, stats

DIVISION = "default"  # frameworks as installed; older run files may have other divisions
FOREIGN = 0.05  # cores busy with other processes from which on a run of several threads is contended
PROCESSES = 5  # from so many processes on, an interval holds across processes
BY_WALL = "ratio of wall times; one of the times shown is {} time"
THROUGH = "through {}: quotient of two ratios to it, with both errors, as both were not in memory at once"
CANARY = {"crc32 of 1 MiB": "canary", "1 GFLOP of multiply-adds": "fma"}  # names in records, and keys of a block
COUNTED = ("system", "blocked", "faults", "voluntary", "involuntary", "peak")


def contest_name(plan: Plan) -> str:
    """Return the name of the contest of frameworks as installed; it does not depend on the frameworks."""
    return f"{_problem(plan)}/division:{DIVISION}"


def contest(plan: Plan, entries: Sequence[Entry], margin: float, seconds: Mapping[str, float]) -> record.Contest:
    """Return the contest of frameworks; `seconds`: by phase of the run, without process starts."""
    question = f"which framework takes longest for a {plan.phase} of {plan.network.name}, {DIVISION}?"
    return _contest(plan, entries, (contest_name(plan), question, "framework"), margin, seconds)


def changed_name(plan: Plan, entries: Sequence[Entry]) -> str:
    """Return the name of the contest between an unchanged step and changes of it."""
    changes = "+".join(_escaped(entry.change) for entry in entries if entry.change)
    return f"{_problem(plan)}/variant:{_escaped(entries[0].framework.name)}/changes:{changes}/rounds:{plan.fewest}"


def changed(plan: Plan, entries: Sequence[Entry], margin: float, seconds: Mapping[str, float]) -> record.Contest:
    """Return the contest between an unchanged step, the first entry, and changes of it."""
    changes = [entry.change for entry in entries if entry.change not in ("", TWIN)]
    what = changes[0] if len(changes) == 1 else f"each of {len(changes)} changes"
    question = f"what does {what} do to a {plan.phase} of {plan.network.name} in {entries[0].framework.name}?"
    return _contest(plan, entries, (changed_name(plan, entries), question, "change"), margin, seconds)


def _contest(
    plan: Plan, entries: Sequence[Entry], asked: tuple[str, str, str], margin: float, seconds: Mapping[str, float]
) -> record.Contest:
    """Return a contest's record; `asked`: its name, its question, and what its cases differ in."""
    name, question, differs = asked
    results = tuple(_result(plan, entry, name) for entry in entries)
    comparisons = tuple(
        replace(_comparison(entries, results, name, pair, margin), differs=what)
        for pair, what in _pairs(entries, differs)
    )
    setup = sum(sum(entry.setup) for entry in entries)
    return record.Contest(
        name, question, differs, results, comparisons, {**seconds, "setup": setup}, stopped="the budget ran out"
    )


def _pairs(entries: Sequence[Entry], differs: str) -> Iterator[tuple[tuple[int, int], str]]:
    """Yield the pairs of entries (baseline, contender) to compare, by index, and what they differ in."""
    for i, entry in enumerate(entries[1:], 1):
        place = entry.setting.device
        alike = [j for j, x in enumerate(entries) if _where(x) == _where(entry)]
        first = next((j for j in alike if _steps_there(entries[j])), i) if differs == "framework" else 0
        if first != i:
            yield (first, i), differs
        elif entry.framework == entries[0].framework and place == entries[0].setting.device:
            yield (0, i), "threads"
        for j, other in enumerate(entries):
            same = other.framework == entry.framework and replace(other.setting, device=place) == entry.setting
            if same and place != other.setting.device == entries[0].setting.device and _steps_there(entry):
                yield (j, i), "device"


def _where(entry: Entry) -> tuple[str, int]:
    return entry.setting.device, entry.setting.threads


def _steps_there(entry: Entry) -> bool:
    return entry.setting.device.partition(":")[0] in entry.framework.devices


def _problem(plan: Plan) -> str:
    network = _escaped(plan.network.name)
    return f"step/network:{network}/batch:{plan.batch}/phase:{plan.phase}"


def name(plan: Plan, entry: Entry) -> str:
    """Return the name of an entry's result."""
    s, variant = entry.setting, _escaped(entry.framework.name)
    suffix = "".join(f"/set:{_escaped(f'{word}={value}')}" for word, value in s.knobs.get("variables", {}).items())
    if s.preload != preload.NONE:
        suffix += f"/preload:{s.preload}"
    if entry.change:
        suffix += f"/change:{_escaped(entry.change)}"
    if s.device != "cpu":
        suffix += f"/device:{s.device}"
    return f"{_problem(plan)}/variant:{variant}/threads:{s.threads}/heap:{s.heap}{suffix}"


def _escaped(word: str) -> str:
    """Escape `/` and `%` of a word in a name; reports show the word unescaped."""
    return word.replace("%", "%25").replace("/", "%2F")


def clock(entry: Entry) -> str:
    """Return the clock of an entry: event (a GPU's own), cpu (one thread: CPU time and waits), or wall."""
    if entry.setting.device != "cpu":
        return "event" if all("device" in block for _, _, block in entry.blocks) else "wall"
    return "cpu" if entry.setting.threads == 1 and _queues(entry) else "wall"


def _queues(entry: Entry) -> bool:
    """Return whether the system reports how long a process is queued; older run files imply that it does."""
    return bool(entry.identity.get("run_delay", True))


def times(entry: Entry, by: str = "") -> list[float]:
    """Return seconds of a step in each block, by the entry's clock or by clock `by`; cpu includes waits."""
    named = {"wall": "wall", "event": "device"}.get(by or clock(entry))
    if named:
        return [block[named] for _, _, block in entry.blocks]
    return [block["cpu"] + block["blocked"] for _, _, block in entry.blocks]


def _result(plan: Plan, entry: Entry, contest: str) -> record.Result:
    import numpy as np

    blank = _untimed(plan, entry, contest)
    if entry.status != "ok" or not entry.blocks:
        status: Any = entry.status if entry.status != "ok" else "failed"
        return replace(blank, status=status, reason=entry.reason or "no block of steps was completed")
    taken, blocks = times(entry), [block for _, _, block in entry.blocks]
    middle, low, high = stats.order_interval(np.array(taken))
    flops = plan.network.flops(entry.batch or plan.batch, plan.phase)
    percent, step = _percent(entry, flops), _seen(entry)
    contended = entry.setting.threads > 1 and step["foreign_cores"] > FOREIGN
    return replace(
        blank,
        status="contended" if contended else "ok",
        clock=clock(entry),
        seconds=record.Seconds(middle, _finite(low), _finite(high), stats.SHOWN),
        flops_per_second=flops / middle,
        work={"flops": flops},
        percent_of_ceiling=percent,
        ceiling=_peak(entry) if percent else None,
        samples=tuple(taken),
        wall_samples=tuple(block["wall"] for block in blocks) if clock(entry) != "wall" else (),
        rounds=tuple(number for _, number, _ in entry.blocks),
        processes=tuple(generation for generation, _, _ in entry.blocks),
        launches=entry.count,
        faults=round(step["faults"]),
        setup_seconds=median(entry.setup) if entry.setup else None,
        step=step,
        canary={what: looks for what, word in CANARY.items() if None not in (looks := [x[word] for x in blocks])},
        warnings=tuple(_warnings(entry, step, contended)),
    )


def _warnings(entry: Entry, step: dict[str, float], contended: bool) -> Iterator[str]:
    if contended:
        yield f"contended: other processes kept {step['foreign_cores']:.2f} cores busy"
    if entry.setting.threads == 1 and not _queues(entry):
        yield "this system does not report how long a process is queued: times are wall time"


def _untimed(plan: Plan, entry: Entry, contest: str) -> record.Result:
    """Return an entry's result without times: its problem, setting, identity and command."""
    problem = {
        "network": plan.network.name,
        "batch": entry.batch or plan.batch,
        "phase": plan.phase,
        "division": DIVISION,
    }
    who = entry.identity
    return record.Result(
        name(plan, entry),
        contest,
        "measured",
        "step",
        problem,
        entry.framework.name,
        entry.setting.device,
        entry.setting.threads,
        "planned",
        heap=entry.setting.heap,
        preload=entry.setting.preload,
        repeat=repeat(plan, entry),
        proof=entry.proof,
        axes={},
        kernel=" ".join(str(who[x]) for x in ("framework", "version", "blas") if who.get(x)) or None,
        identity=_homeless({k: v for k, v in who.items() if k not in ("kind", "seq", "t_mono_ns")}) or None,
    )


def _seen(entry: Entry) -> dict[str, float]:
    """Return the system's counts per step and busy cores, medians over blocks."""
    blocks, threads = [block for _, _, block in entry.blocks], entry.setting.threads
    counted = {name: median([block[name] for block in blocks]) for name in COUNTED}
    foreign = median([block["foreign"] for block in blocks])
    used = median([block["cpu"] / (block["wall"] * threads) for block in blocks])
    most = max(block.get("device_peak", 0.0) for block in blocks)
    device = {"device_peak": most} if most else {}
    return counted | {"foreign_cores": foreign, "utilization": used} | device


def repeat(plan: Plan, entry: Entry) -> str:
    """Return the command that times an entry's steps again."""
    s = entry.setting
    if entry.again:
        return entry.again
    more = f" --device {s.device}" if s.device != "cpu" else ""
    variables = s.knobs.get("variables", {})
    more += "".join(f" --set {shlex.quote(f'{name}={value}')}" for name, value in variables.items())
    return (
        f"python -m macro run {plan.named} --frameworks {shlex.quote(entry.framework.name)} --batch {plan.batch} "
        f"--phase {plan.phase} --threads {s.threads} --heap {s.heap}{more}"
    )


def _homeless(identity: dict[str, Any]) -> dict[str, Any]:
    """Return the identity with the home folder replaced by `~`, so that it has no user name."""
    plain: dict[str, Any] = json.loads(json.dumps(identity, default=str).replace(str(Path.home()), "~"))
    return plain


def _peak(entry: Entry) -> str:
    """Return the ceiling's name: the peak of all threads together, or of one thread times their number."""
    threads, together = entry.setting.threads, entry.blocks[-1][2].get("fma_threads", 1)
    if threads == 1:
        return "FMA peak"
    return f"FMA peak, {threads} threads" if together == threads else f"FMA peak, {threads} × 1 thread"


def _percent(entry: Entry, flops: float) -> float | None:
    """Return the median percentage of FMA peak, by each round's peak; None if a round has no peak."""
    peaks = [block["fma"] for _, _, block in entry.blocks]
    if None in peaks:
        return None
    units = flops / UNIT / entry.setting.threads
    return float(median([100 * units * fma / s for fma, s in zip(peaks, times(entry), strict=True)]))


def _comparison(
    entries: Sequence[Entry], results: Sequence[record.Result], contest: str, pair: tuple[int, int], margin: float
) -> record.Comparison:
    baseline, contender = pair
    clocks = {clock(entries[i]) for i in pair}  # two if a GPU is compared with a processor
    mixed = len(clocks) > 1
    by = "wall" if mixed else next(iter(clocks))
    compared = ratios.compare([by_round(entry, by) for entry in entries], contender, baseline, margin)
    scope = f"across {compared.generations} processes" if compared.generations >= PROCESSES else "within process"
    blank = record.Comparison(
        contest,
        "framework",
        results[baseline].name,
        results[contender].name,
        None,
        None,
        None,
        stats.SHOWN,
        "not comparable",
        None,
        margin,
        margin,
        scope=scope,
        path=(next_run.GENERATIONS,),
    )
    for entry in (entries[i] for i in pair):
        if entry.status != "ok" or not entry.blocks:
            return replace(blank, reason=f"{entry.framework.name} {entry.status}: {entry.reason}")
    judged = compared.judged
    if judged.shown is None:
        return replace(blank, verdict="unresolved", reason=judged.reason)
    shown = judged.shown
    if mixed:
        device = "GPU" if "event" in clocks else "processor"
        judged = replace(judged, notes=(*judged.notes, BY_WALL.format(device)))
    comparison = replace(blank, ratio=shown.center, low=shown.low, high=shown.high, interval=judged.kind, p=judged.p)
    notes = judged.notes
    if compared.through is not None:
        notes = (*notes, THROUGH.format(entries[compared.through].framework.name))
    return replace(comparison, verdict=judged.verdict, reason=judged.reason, notes=notes)


def by_round(entry: Entry, by: str) -> ratios.Times:
    """Return times by generation and round, measured by clock `by`; empty if the entry lacks this clock."""
    if (by == "event" and clock(entry) != by) or (by == "cpu" and entry.setting.device != "cpu"):
        return {}
    return {(g, number): seconds for (g, number, _), seconds in zip(entry.blocks, times(entry, by), strict=True)}


def _finite(value: float) -> float | None:
    return value if value == value else None
