"""What lies in a run file without a time yet: rounds of a run that was stopped, and the command that goes on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from reports import texts
from reports.record import Run
from reports.units import counted

ROUND, WATCHED = "round", "watched"  # topics of the notes that keep rounds of `macro run` and of `macro explain`


def sentences(run: Run) -> Iterator[str]:
    """Name each contest that has rounds and no end, or say that nothing has ended."""
    ended = {contest.contest for contest in run.contests}
    for contest in run.contests:
        if contest.interrupted:
            in_file = any(word.startswith("-o") for word in run.environment.command.split())
            yield f"Unfinished: {contest.contest}, {contest.stopped}{_on(run) if in_file else '.'}"
    kept = Counter(str(note.data.get("contest")) for note in run.notes if note.topic == ROUND)
    told = bool(texts.of(run))
    rounds = {contest: count for contest, count in kept.items() if contest not in ended}
    watched = sum(note.topic == WATCHED for note in run.notes)
    if watched and not told:
        rounds["the explanation"] = watched
    for name, count in rounds.items():
        lie = "lie" if count > 1 else "lies"
        yield f"Unfinished: {name}, of which {counted(count, 'round')} {lie} here{_on(run)}"
    if not (ended or told or rounds or any(note.data.keys() & {"sentences", "figures"} for note in run.notes)):
        yield f"Unfinished: no contest has ended here{_on(run)}"


def _on(run: Run) -> str:
    """The command that goes on, where it was one."""
    command = run.environment.command
    if not command.startswith(("python ", "kernelgap ")):
        return "."
    resume = "" if "--resume" in command.split() else " --resume"
    return f"; to go on: {command}{resume}"
