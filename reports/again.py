"""What to type where two runs have no verdict: both measured again, in more processes or in turns."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from reports.record import Run

# Options of a benchmark by the number of their values: where results go, and how long cases are measured. `micro.ab`
# has those of its own.
DOCUMENTS = ("--json", "--csv", "--ratios", "--markdown", "--googlebench", "--pyperf")
OUTPUTS = dict.fromkeys((*DOCUMENTS, "-o", "--figures", "--replicate"), 1)
OUTPUTS |= dict.fromkeys(("--resume", "--keep-wrong", "-q", "-v"), 0)
LIMITS = {"--budget": 1, "--target": 1, "--margin": 1, "--until": 1, "--device": 1}


def sentences(first: Run, second: Run, processes: int) -> list[str]:
    """Why there is none, and the commands that give one of so many processes."""
    why = f"No verdict: from process to process times differ by a per cent or two, so it takes {processes} of each run."
    commands = [_words(run) for run in (first, second)]
    if not all(commands):
        return [f"{why} `--replicate {processes}` gives a run so many; python -m micro.ab measures two in turns."]
    plain = [_without(words, OUTPUTS) for words in commands]
    a, b = (
        shlex.join(["python", "-m", *words, "--replicate", str(processes), "-o", f"{name}{processes}.jsonl"])
        for words, name in zip(plain, "ab", strict=True)
    )
    other = f"the same, -o b{processes}.jsonl" if plain[0] == plain[1] else b
    turns = shlex.join(_without(plain[0], LIMITS))
    return [
        f"{why} Where a ran: {a}; where b ran: {other}.",
        f"Or both in turns, on this machine: python -m micro.ab --repo-a OLD --repo-b NEW -- {turns}",
    ]


def _words(run: Run) -> tuple[str, ...]:
    """The benchmark of a run's command and its options; nothing of a command that is no benchmark's."""
    if not run.environment.command.startswith("python -m "):
        return ()
    words = tuple(shlex.split(run.environment.command)[2:])
    benchmarks = {result.repeat.split()[2] for result in run.results if "--variant" in result.repeat}
    return words if words and words[0] in benchmarks else ()


def _without(words: Sequence[str], options: Mapping[str, int]) -> list[str]:
    """A command without these options and their values."""
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
