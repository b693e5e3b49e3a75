"""Sentences and texts of a run: notes, verdicts, unfinished contests, explanations, advice."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from reports import attribution, gate, prediction, step, table, units, winners
from reports.record import Run

ROUND, WATCHED = "round", "watched"  # topics of notes that keep rounds of `macro run` and of `macro explain`
TABLE = "table"
SINGLE = "Report of each by itself: --full; of a run file: python -m reports show FILE -v."
TOPICS = (attribution.TOPIC, step.TOPIC, TABLE)  # topics of notes that are printed as texts
WORDS = {"slower": "slower", "faster": "faster", "same": "the same", "unresolved": "unresolved"}


def notes(run: Run) -> list[str]:
    """Return the sentences of the notes; notes on one plan (`of`) count only by the last of each topic."""
    last: dict[object, list[str]] = {}
    for i, note in enumerate(run.notes):
        if note.topic not in (*TOPICS, gate.TOPIC):
            last[(note.topic, note.data["of"]) if "of" in note.data else i] = note.data.get("sentences", [])
    return [sentence for sentences in last.values() for sentence in sentences]


def sentence(run: Run) -> str | None:
    """Return the counts of verdicts and the winners, or the largest difference; None without judged comparisons."""
    every = [x for contest in run.contests for x in contest.compared]
    compared = [(c, pair) for c, *pair in every if c.ratio and c.verdict in WORDS]
    if not compared:
        return None
    verdicts = [c.verdict for c, _ in compared]
    counts = [f"{verdicts.count(verdict)} {word}" for verdict, word in WORDS.items() if verdicts.count(verdict)]
    summary = f"Of {len(compared)} comparisons {', '.join(counts)}" if len(compared) > 1 else ""
    if summary and (fastest := winners.sentence(run)):
        return f"{summary}. {fastest}"
    certain = [pair for pair in compared if pair[0].verdict in ("slower", "faster")]
    if not certain:
        return f"{summary}." if summary else None
    most, (contender, baseline) = max(certain, key=lambda pair: abs(math.log(pair[0].ratio or 1.0)))
    at, first, second = table.contrast(contender, baseline)
    ratio = units.ratio(most.ratio, most.low, most.high)
    largest = f"{first} takes {ratio} times what {second} takes, {at}"
    return f"{summary}; the largest difference: {largest}." if summary else f"Here {largest}."


def unfinished(run: Run) -> Iterator[str]:
    """Yield a line for each contest with rounds but no end, or one line if the run has no result at all."""
    ended = {contest.contest for contest in run.contests}
    for contest in run.contests:
        if contest.interrupted:
            in_file = any(word.startswith("-o") for word in run.environment.command.split())
            yield f"Unfinished: {contest.contest}, {contest.stopped}{_on(run) if in_file else '.'}"
    kept = Counter(str(note.data.get("contest")) for note in run.notes if note.topic == ROUND)
    has_texts = bool(texts(run))
    rounds = {contest: count for contest, count in kept.items() if contest not in ended}
    watched = sum(note.topic == WATCHED for note in run.notes)
    if watched and not has_texts:
        rounds["the explanation"] = watched
    for name, count in rounds.items():
        yield f"Unfinished: {name}, with {units.counted(count, 'round')} in the file{_on(run)}"
    if not (ended or has_texts or rounds or any(note.data.keys() & {"sentences", "figures"} for note in run.notes)):
        yield f"Unfinished: no contest is complete{_on(run)}"


def _on(run: Run) -> str:
    """Return the end of a sentence: the command that resumes the run, or a full stop if none started it."""
    command = run.environment.command
    if not command.startswith(("python ", "kernelgap ")):
        return "."
    resume = "" if "--resume" in command.split() else " --resume"
    return f"; to continue: {command}{resume}"


def texts(run: Run, full: bool = False) -> list[str]:
    """Return all texts of a run, in the order in which they are printed.

    `full`: with the report of each of two programs, which else stand compared only."""
    predictions = [prediction.text(run.predictions)] if run.predictions else []
    compared, single = attribution.of(run), step.of(run)
    if compared and single and not full:
        steps = [*map(attribution.text, compared), SINGLE]
    else:
        steps = [*map(attribution.text, compared), *map(step.text, single)]
    return [*steps, *tables(run), *prediction.advice(run), *predictions]


def gates(run: Run) -> list[str]:
    """Return the sentence of a run's gate, on kernels the last one if the run was resumed."""
    of_kernels: list[str] = next((x.data["sentences"] for x in reversed(run.notes) if x.topic == gate.TOPIC), [])
    return [*of_kernels, *(explained.gate.sentence for explained in attribution.of(run) if explained.gate)]


def tables(run: Run) -> list[str]:
    """Return the last version of each table."""
    return list({str(x.data.get("table")): str(x.data["text"]) for x in run.notes if x.topic == TABLE}.values())
