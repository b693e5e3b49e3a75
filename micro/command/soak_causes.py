"""Is the right cause of a gap certain? PyTorch with another heap, or with something added by a hook (soak_hooks.py),
against itself as it comes; and equal pairs, in which nothing may be.

Each pair is a `macro explain` of its own. Its run file stays, so a pair that is finished is never measured again: what
is stopped or killed goes on with the pair that was in flight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from micro.command import soak_runs
from micro.command.figure import Figure
from micro.command.soak_runs import Failed
from micro.contests.promises import NOISY
from reports import attribution, units
from reports.explanation import Explanation

HOOKS = "micro/command/soak_hooks.py"  # as the commands name it, which run in ROOT
BUDGET, BESIDE = 20, 33  # seconds of watching a pair; and to start and end it, and to ask its libraries
START = 12  # seconds of each further process of both sides
PROVING = 30  # about so many seconds before the first pair of a kind: equal work is proven
RIGHT, WRONG = 0.9, 0.05  # promised shares: of unequal pairs, at least; of equal ones, at most
FORMS = (  # of what is watched: equal pairs are watched in the same ways
    ("--batch", "64"),
    ("--batch", "64", "--heap", "keep", "--phase", "forward"),
)


@dataclass(frozen=True)
class Kind:
    """Pairs of which one thing is known. `words`: of `macro explain`, pair after pair in turn; `column`: the cause by
    which side A takes longer; none where the sides are equal; `also`: one that it may bring with it."""

    title: str
    words: Sequence[Sequence[str]]
    column: str | None = None
    also: str | None = None
    pairs: int = 10
    runs: int = 1  # processes of each side
    budget: int = BUDGET

    def question(self, number: int) -> list[str]:
        """Words of pair `number`, from 1."""
        runs = ["--runs", str(self.runs)] if self.runs > 1 else []
        return ["explain", *self.words[(number - 1) % len(self.words)], *runs, "--budget", f"{self.budget}s", "-q"]

    @property
    def seconds(self) -> int:
        """About what a pair takes."""
        return self.budget + BESIDE + START * (self.runs - 1)


KINDS = {
    # FCN-S, whose gradients are larger than what glibc's heap ever keeps. FCN-R's it keeps now and then: the gap comes
    # and goes within a process.
    "heap": Kind(
        "heap default against keep",
        [("fcn-s", "pytorch", "pytorch", "--batch", "16", "--heap", "default,keep")],
        "OS memory",
        budget=60,  # a heap that keeps its memory grows now and then: of six rounds one such step hides the gap
    ),
    "twice": Kind(
        "a layer's product done twice", [("fcn-r", f"{HOOKS}:twice", "pytorch", *FORMS[1])], "gemm", "packing"
    ),
    "copy": Kind("a layer's weights copied", [("fcn-r", f"{HOOKS}:copied", "pytorch", *FORMS[1])], "copy"),
    # Of several processes: between two of the same program an update of weights differs by a tenth, by the memory that
    # each was given.
    "equal": Kind(
        "PyTorch against itself",
        [("fcn-r", "pytorch", "pytorch", *words) for words in FORMS],
        pairs=20,
        runs=3,
        budget=30,
    ),
}


@dataclass(frozen=True)
class Named:
    """What an explanation says for certain: A's seconds less B's by cause, and names of layers and phases. `taken`: the
    share of the time in which others had the cores."""

    causes: dict[str, float]
    others: tuple[str, ...] = ()
    taken: float = 0.0

    def right(self, kind: Kind) -> bool:
        """Whether that is what was to be named: the cause by which A takes longer; nothing at all of equal sides."""
        if kind.column is None:
            return not self.causes and not self.others
        return self.causes.get(kind.column, 0.0) > 0

    def wrong(self, kind: Kind) -> list[str]:
        """Names that are not what was to be named."""
        right = (kind.column, kind.also)
        causes = [name for name, gap in self.causes.items() if name not in right or gap <= 0]
        return causes if kind.column is not None else [*causes, *self.others]


def figures(*names: str) -> Iterator[Figure]:
    """Of these kinds, or of all: how long it takes, each pair as soon as it is known, and what its kind's say."""
    kinds = names or tuple(KINDS)
    yield forecast(kinds)
    for name in kinds:
        yield from of_kind(name)


def folder() -> Path:
    """Where run files stay; who empties it begins anew."""
    return soak_runs.folder("soak-causes")


def forecast(names: Sequence[str]) -> Figure:
    """How many pairs are left, and about how long they take."""
    left = [sum(kept(name, i) is None for i in range(1, KINDS[name].pairs + 1)) for name in names]
    pairs = sum(KINDS[name].pairs for name in names)
    seconds = sum(many * KINDS[name].seconds + PROVING * bool(many) for many, name in zip(left, names, strict=True))
    text = f"{sum(left)} of {pairs} are to be measured, about {seconds / 60:.0f} min; run files stay in {folder()}"
    return Figure("pairs", text, "", True)


def of_kind(name: str) -> Iterator[Figure]:
    """Its pairs, then how many are as they should be."""
    kind, seen = KINDS[name], list[Named]()
    promise = f"at most {WRONG * kind.pairs:g}" if kind.column is None else f"at least {RIGHT * kind.pairs:g}"
    for number in range(1, kind.pairs + 1):
        try:
            seen.append(certain(kept(name, number) or measured(name, number)))
        except Failed as failed:
            busy = str(failed) if failed.missing else None
            yield Figure(kind.title, "skipped" if failed.missing else str(failed), promise, False, busy)
            return
        yield Figure(f"{name}, pair {number} of {kind.pairs}", line(kind, seen[-1]), "", True)
    yield together(kind, seen, promise)


def file(name: str, number: int) -> Path:
    """The run file of a pair."""
    return folder() / f"{name}-{number:02}.jsonl"


def kept(name: str, number: int) -> Explanation | None:
    """Of a pair that was measured by the same command."""
    run = soak_runs.kept(KINDS[name].question(number), file(name, number))
    explained = attribution.of(run) if run else []
    return explained[0] if explained else None


def measured(name: str, number: int) -> Explanation:
    """A pair in a process of its own; its file has its name as soon as it is whole. Raises Failed."""
    return attribution.of(soak_runs.measured(KINDS[name].question(number), file(name, number)))[0]


def certain(explained: Explanation) -> Named:
    """What a person reads as certain: differences that are sure and worth a word."""
    least = attribution.SHOWN * max(explained.step.values())
    sure = {
        what: {bar.name: bar.gap for bar in bars if bar.sure and abs(bar.gap) >= least}
        for what, bars in explained.bars.items()
    }
    causes = sure.pop("cause", {})
    others = tuple(f"{what} {name}" for what, names in sure.items() for name in names)
    own = [x for side in explained.closure.values() if (x := side.get("threads")) is not None]
    return Named(causes, others, 1 - min(own, default=1.0))


def line(kind: Kind, named: Named) -> str:
    """What is certain of a pair, and whether it should be."""
    words = [f"{name} {units.signed(gap)}" for name, gap in named.causes.items()]
    if kind.column is None:
        words += named.others
    missed = kind.column is not None and kind.column not in named.causes
    verdict = "right" if named.right(kind) else "MISSED" if missed else "WRONG"
    return f"{', '.join(words) or 'nothing'} for certain: {verdict}"


def together(kind: Kind, seen: Sequence[Named], promise: str) -> Figure:
    """How many pairs name what they should, and what else is named. Not judged where others had the cores meanwhile."""
    right = sum(named.right(kind) for named in seen)
    counts = Counter(name for named in seen for name in named.wrong(kind))
    listed = ", ".join(f"{name} in {count}" for name, count in counts.most_common())
    if kind.column is None:
        text, held = f"{len(seen) - right} of {len(seen)} name anything", len(seen) - right <= WRONG * len(seen)
    else:
        text, held = f"{kind.column} is certain in {right} of {len(seen)}", right >= RIGHT * len(seen)
    taken = median(named.taken for named in seen)
    busy = f"others had the cores for {taken:.0%} of the time; empty {folder()} and measure again when it is quiet"
    found = f"{text}; wrong: {listed or 'nothing'}"
    return Figure(kind.title, found, promise, held, busy if taken > NOISY and not held else None)
