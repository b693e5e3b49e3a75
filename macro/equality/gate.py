"""Gate before timing: frameworks without a proof of equal work are compared, and left out on failure."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from kernels.errors import LaunchError, SuiteError
from macro.equality.answer import COUNTS, Question, begun
from macro.equality.proof import NETWORK, Verdict, key, prove, proven
from macro.processes import job as job_files
from macro.timing.entry import WARM, Entry, Plan
from reports import units

REFERENCE = 30e9  # FLOP/s of a CPU core, for a forecast
START = 8.0  # seconds until a process has built its model, if none was measured
REFERENCES = 7  # runs of NumPy to set the bounds


def refuse(plan: Plan, entry: Entry, folder: Path, say: Callable[[str], None]) -> None:
    """Prove equal work of a framework of known identity, unless proven before. Raises LaunchError."""
    if _proven(plan, entry):
        return
    (verdict,) = prove(plan.network, entry.batch or plan.batch, [(entry.framework, entry.setting)], folder, say)
    if not verdict.compared:
        raise LaunchError(f"{entry.framework.name}: {verdict.why}")
    if not verdict.equal:
        raise LaunchError(f"{entry.framework.name} does other work than the reference: {verdict.why}")


def refuse_unequal(plan: Plan, entries: Sequence[Entry], folder: Path, say: Callable[[str], None]) -> dict[str, float]:
    """Mark entries that cannot run or do other work; return seconds of identifying and of proving."""
    began = time.monotonic()
    job_files.write_arrays(plan.network, plan.batch, folder)
    known = [entry for entry in entries if entry.status == "ok" and entry.identity]
    new = [entry for entry in entries if entry.status == "ok" and not entry.identity]
    firsts = list[Entry]()
    for entry in new:
        if _as_asked(entry, known) is None:
            firsts.append(entry)
            known.append(entry)
    for threads in dict.fromkeys(
        entry.setting.threads for entry in firsts
    ):  # processes with few threads run concurrently
        _ask([entry for entry in firsts if entry.setting.threads == threads], plan, folder, say)
    for entry in new:
        if (first := _as_asked(entry, known)) is not None and first.status != "failed":
            entry.identity, entry.status, entry.reason = first.identity, first.status, first.reason
    _ask([entry for entry in new if not entry.identity and entry.status == "ok"], plan, folder, say)
    wanted = [entry for entry in entries if entry.status == "ok" and not _proven(plan, entry)]
    asked = time.monotonic()
    proofs = len({_holds_for(plan, entry) for entry in wanted})
    say(_forecast(plan, entries, proofs, (asked - began) / len(firsts) if firsts else START))
    for batch in dict.fromkeys(entry.batch or plan.batch for entry in wanted):
        _prove(plan, batch, [entry for entry in wanted if (entry.batch or plan.batch) == batch], folder, say)
    for entry in entries:
        if entry.status == "ok":
            entry.proof = entry.proof or _proven(plan, entry)
    return {"asking": asked - began, "proving": time.monotonic() - asked}


def _as_asked(entry: Entry, asked: Sequence[Entry]) -> Entry | None:
    """Return an asked entry that shares this entry's proof (only threads may differ), or None."""
    for other in asked:
        same = other.setting if entry.framework.chooses else replace(other.setting, threads=entry.setting.threads)
        if (other.framework, other.batch, same) == (entry.framework, entry.batch, entry.setting):
            return other
    return None


def _prove(plan: Plan, batch: int, wanted: list[Entry], folder: Path, say: Callable[[str], None]) -> None:
    """Prove the entries, once per group that shares a proof; if a group's first cannot run, try its next."""
    alike: dict[str, list[Entry]] = {}
    for entry in wanted:
        alike.setdefault(_holds_for(plan, entry), []).append(entry)
    left = list(alike.values())
    while left:
        firsts = [(same[0].framework, same[0].setting) for same in left]
        verdicts = prove(plan.network, batch, firsts, folder, say)
        for same, verdict in zip(left, verdicts, strict=True):
            for entry in same if _holds(verdict) else same[:1]:
                _judge(entry, verdict, say)
        left = [same[1:] for same, verdict in zip(left, verdicts, strict=True) if not _holds(verdict) and same[1:]]


def _holds(verdict: Verdict) -> bool:
    """Return whether a verdict holds for all entries that share it: not just a process that did not run."""
    return verdict.compared or verdict.where == NETWORK


def _holds_for(plan: Plan, entry: Entry) -> str:
    return key(plan.network, entry.batch or plan.batch, entry.framework, entry.setting, entry.identity)


def _judge(entry: Entry, verdict: Verdict, say: Callable[[str], None]) -> None:
    if not verdict.compared:
        entry.status, entry.reason = "failed", verdict.why
    elif not verdict.equal:
        entry.status, entry.reason = "wrong", f"other work than the reference: {verdict.why}"
    entry.proof = verdict.proof if verdict.equal else None
    if entry.status != "ok":
        say(f"{entry.framework.name} is left out: {entry.reason}")


def _proven(plan: Plan, entry: Entry) -> str | None:
    return proven(plan.network, entry.batch or plan.batch, entry.framework, entry.setting, entry.identity)


def _ask(entries: Sequence[Entry], plan: Plan, folder: Path, say: Callable[[str], None]) -> None:
    """Start a process of each entry to record its identity, or the reason why it cannot run."""
    for batch in {entry.batch or plan.batch for entry in entries}:
        job_files.write_arrays(plan.network, batch, folder)  # before a process reads them
    questions = [
        Question(entry.framework, plan.network, entry.batch or plan.batch, entry.setting, folder, counts=None)
        for entry in entries
    ]
    with closing(begun(questions)) as processes:
        for entry, process in zip(entries, processes, strict=True):
            say(f"identifying {entry.framework.name}")
            try:
                if isinstance(process, SuiteError):
                    raise process
                entry.identity = process.expect("hello")
                process.expect("built")
            except SuiteError as error:
                entry.fail(error)
                say(f"{entry.framework.name} is left out: {error}")


def _forecast(plan: Plan, entries: Sequence[Entry], proofs: int, start: float) -> str:
    """Return a forecast of the run in one line; `start`: seconds that a process takes to start."""
    alive = [entry for entry in entries if entry.status == "ok"]
    numpy = plan.network.flops(plan.batch) / REFERENCE
    known = any(entry.change for entry in alive)
    each = [entry.warm if known else numpy for entry in alive]
    proving = (proofs + REFERENCES) * (start + max(COUNTS) * numpy) if proofs else 0.0
    starting = plan.generations * sum(start + (WARM + 1) * step for step in each)
    proofs_told = units.counted(proofs, "proof")
    return (
        f"about {proving + starting + plan.seconds:.0f} s: {proofs_told} of equal work ({proving:.0f} s), "
        f"{plan.generations} × {len(alive)} processes to start ({starting:.0f} s), {plan.seconds:.0f} s of measuring"
    )
