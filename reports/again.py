"""Explanations why two runs have no verdict, with the commands that give a verdict."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from reports import canaries
from reports.record import Run
from reports.units import counted

# Options of a benchmark, with their numbers of values: outputs, and limits of measuring. `micro.ab` has others.
DOCUMENTS = ("--json", "--csv", "--ratios", "--markdown", "--googlebench", "--pyperf")
OUTPUTS = dict.fromkeys((*DOCUMENTS, "-o", "--figures", "--replicate"), 1)
OUTPUTS |= dict.fromkeys(("--resume", "--keep-wrong", "-q", "-v"), 0)
LIMITS = {"--budget": 1, "--target": 1, "--margin": 1, "--until": 1, "--device": 1}


BENCHMARK = re.compile(r"(python -m )?(?(1)micro[.]|kernelgap )\w+")
Kind: TypeAlias = Literal["processes", "rejected", "canary", "host"]


@dataclass(frozen=True)
class Refusal:
    """A reason why two results of different runs have no verdict."""

    kind: Kind
    reason: str  # in one line, for this pair of results
    counts: tuple[int, int] = (0, 0)  # processes of each run, if they are too few
    host: tuple[str, float] = ("", 0.0)  # the canary that differs most, and the share by which it differs, if too much


def sentences(first: Run, second: Run, refusals: Sequence[Refusal | None], processes: int) -> list[str]:
    """Return a sentence for each kind of refusal: the cause, then the commands that lead to a verdict."""
    commands = [_words(run) for run in (first, second)]
    plain = [_without(words, OUTPUTS) for words in commands] if all(commands) else None
    lines = []
    for kind in dict.fromkeys(refusal.kind for refusal in refusals if refusal):
        alike = [refusal for refusal in refusals if refusal and refusal.kind == kind]
        some = "" if len(alike) == len(refusals) else f" for {len(alike)} of {counted(len(refusals), 'case')}"
        lines.append(f"No verdict{some}: {_why(kind, alike, plain, processes)}")
    if lines and plain:
        start = _start(shlex.join(plain[0]))
        benchmark = f"micro.{start.split()[-1].removeprefix('micro.')}"
        turns = shlex.join([benchmark, *_without(plain[0], LIMITS)[len(start.split()) :]])
        lines.append(
            f"To measure both in turns, on one machine: python -m micro.ab --repo-a OLD --repo-b NEW -- {turns}"
        )
    elif lines:
        lines.append("python -m micro.ab measures two checkouts or environments in turns, on one machine.")
    return lines


def _why(kind: Kind, alike: Sequence[Refusal], plain: Sequence[Sequence[str]] | None, processes: int) -> str:
    a, b = (min(refusal.counts[i] for refusal in alike) for i in (0, 1))
    if kind == "processes":
        return (
            f"times differ between processes by a percent or two, so a verdict requires {processes} processes of "
            f"each run; a has {a}, b has {b}. {_replicated((a, b), plain, processes)}"
        )
    if kind == "rejected":
        return (
            f"other load used the cores: a verdict requires {processes} processes of each run with accepted rounds; "
            f"a has {a}, b has {b}. Measure again on a quiet machine."
        )
    if kind == "canary":
        return "the runs have no canary in common, so the speeds of their hosts cannot be compared."
    worst = dict(sorted((refusal.host for refusal in alike), key=lambda canary: abs(canary[1])))
    listed = ", ".join(
        f"{canaries.words(name)} took {abs(share):.1%} {'longer' if share > 0 else 'less'} where b ran"
        for name, share in worst.items()
    )
    return f"the hosts differed in speed: {listed} ({canaries.LIMIT:.0%} is the limit). More processes cannot help."


def _replicated(counts: tuple[int, int], plain: Sequence[Sequence[str]] | None, processes: int) -> str:
    """Return the commands that measure again the runs with too few processes."""
    if not plain:
        return f"`--replicate {processes}` measures as many."
    lines = [
        shlex.join([*words, "--replicate", str(processes), "-o", f"{name}{processes}.jsonl"])
        for words, name in zip(plain, "ab", strict=True)
    ]
    if plain[0] == plain[1] and max(counts) < processes:
        lines[1] = f"the same, -o b{processes}.jsonl"
    listed = zip("ab", lines, counts, strict=True)
    return "; ".join(f"where {name} ran: {line}" for name, line, count in listed if count < processes) + "."


def _words(run: Run) -> tuple[str, ...]:
    """Return the words of a run's command, or no words if it is not a benchmark's command."""
    command = run.environment.command
    starts = {_start(result.repeat) for result in run.results if "--variant" in result.repeat}
    return tuple(shlex.split(command)) if _start(command) and _start(command) in starts else ()


def _start(command: str) -> str:
    """Return the program part of a benchmark's command, in a checkout or as installed; else an empty text."""
    begin = BENCHMARK.match(command)
    return begin[0] if begin else ""


def _without(words: Sequence[str], options: Mapping[str, int]) -> list[str]:
    """Return a command without these options and their values."""
    kept, values = [], 0
    for word in words:
        name, _, value = word.partition("=")
        if values:
            values -= 1
        elif name in options:
            values = 0 if value else options[name]
        else:
            kept.append(word)
    return kept
