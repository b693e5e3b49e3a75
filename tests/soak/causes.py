"""Is the right cause of a gap certain? PyTorch with another heap, or with something added by a hook, against itself as
it comes; and equal pairs, in which nothing may be. Each pair is a `macro explain` of its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from micro.command.figure import Figure
from micro.contests.selftest import NOISY
from reports import attribution, units
from reports.explanation import Explanation
from tests.soak import kept

HOOKS = "tests/soak/injected_torch.py"  # as the commands name it, which run in kept.ROOT
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
    """Pairs whose true cause is known."""

    title: str
    words: Sequence[Sequence[str]]  # of `macro explain`, pair after pair in turn
    column: str | None = None  # the cause by which side A takes longer; None: the sides are equal
    also: str | None = None  # a cause that may come with it
    pairs: int = 10
    runs: int = 1  # processes of each side
    budget: int = BUDGET

    def question(self, number: int) -> list[str]:
        """Return the words of pair `number`, from 1."""
        runs = ["--runs", str(self.runs)] if self.runs > 1 else []
        return ["explain", *self.words[(number - 1) % len(self.words)], *runs, "--budget", f"{self.budget}s", "-q"]

    @property
    def seconds(self) -> int:
        """Seconds that a pair takes, about."""
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
    """Differences that an explanation calls certain."""

    causes: dict[str, float]  # A's seconds less B's
    others: tuple[str, ...] = ()  # layers and phases
    taken: float = 0.0  # share of the time in which others had the cores

    def right(self, kind: Kind) -> bool:
        """Return whether it is the true cause, with A slower; of equal sides, whether it is nothing."""
        if kind.column is None:
            return not self.causes and not self.others
        return self.causes.get(kind.column, 0.0) > 0

    def wrong(self, kind: Kind) -> list[str]:
        """Return the names that should not be certain."""
        right = (kind.column, kind.also)
        causes = [name for name, gap in self.causes.items() if name not in right or gap <= 0]
        return causes if kind.column is not None else [*causes, *self.others]


def figures(name: str) -> Iterator[Figure]:
    """Yield how long the pairs of a kind take, each pair as soon as it is known, and what they say together."""
    kind, seen = KINDS[name], list[Named]()

    def judge(explanation: Explanation) -> tuple[bool, str]:
        seen.append(certain(explanation))
        return seen[-1].right(kind), line(kind, seen[-1])

    pairs = [
        kept.Pair(f"{name}, pair {i} of {kind.pairs}", _folder() / f"{name}-{i:02}.jsonl", kind.question(i), judge)
        for i in range(1, kind.pairs + 1)
    ]
    yield from kept.explained(f"pairs of {name}", pairs, kind.seconds, PROVING)
    yield together(kind, seen)


def _folder() -> Path:
    return kept.folder("soak-causes")


def certain(explained: Explanation) -> Named:
    """Return the differences that a person reads as certain: sure, and worth a word."""
    least = attribution.SHOWN * max(explained.step.values())
    sure = {
        what: {bar.name: bar.gap for bar in bars if bar.sure and abs(bar.gap) >= least}
        for what, bars in explained.bars.items()
    }
    causes = sure.pop("cause", {})
    others = tuple(f"{what} {name}" for what, names in sure.items() for name in names)
    threads = [x for side in explained.closure.values() if (x := side.get("threads")) is not None]
    return Named(causes, others, 1 - min(threads, default=1.0))


def line(kind: Kind, named: Named) -> str:
    """Format what is certain of a pair, and whether it should be."""
    words = [f"{name} {units.signed(gap)}" for name, gap in named.causes.items()]
    if kind.column is None:
        words += named.others
    missed = kind.column is not None and kind.column not in named.causes
    verdict = "right" if named.right(kind) else "MISSED" if missed else "WRONG"
    return f"{', '.join(words) or 'nothing'} for certain: {verdict}"


def together(kind: Kind, seen: Sequence[Named]) -> Figure:
    """Return how many pairs are right, and what else is named; a miss is not judged if others had the cores."""
    right = sum(named.right(kind) for named in seen)
    counts = Counter(name for named in seen for name in named.wrong(kind))
    listed = ", ".join(f"{name} in {count}" for name, count in counts.most_common())
    if kind.column is None:
        text, promise = f"{len(seen) - right} of {len(seen)} name anything", f"at most {WRONG * kind.pairs:g}"
        held = len(seen) - right <= WRONG * len(seen)
    else:
        text, promise = f"{kind.column} is certain in {right} of {len(seen)}", f"at least {RIGHT * kind.pairs:g}"
        held = right >= RIGHT * len(seen)
    taken = median(named.taken for named in seen)
    busy = f"others had the cores for {taken:.0%} of the time; empty {_folder()} and measure again when it is quiet"
    text += f"; wrong: {listed or 'nothing'}"
    return Figure(kind.title, text, promise, held, busy if taken > NOISY and not held else None)
