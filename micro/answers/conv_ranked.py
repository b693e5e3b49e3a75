"""Ranking of a log's or a network's convolutions by the time that a faster variant would save."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernels.catalog import find
from micro.answers.conv_find import where
from micro.findings.ratios import ratios
from micro.findings.select import interval
from micro.planning.contest import parse
from micro.planning.conv_layers import KIND, PREFIX, read
from micro.planning.network import known
from reports import units

if TYPE_CHECKING:
    from micro.planning.problem_files import Written
    from reports.record import Comparison, Contest, Result, Run


@dataclass(frozen=True)
class Use:
    """Number of calls of a layer's pass, in a log or in a network's step, with notes for its sentence."""

    calls: int  # in a log; else number of equal layers in a step
    steps: int = 1  # steps that the log seems to contain
    share: str = ""  # of the log's time, formatted
    name: str = ""
    then: str = ""  # published times, formatted


@dataclass(frozen=True)
class Row:
    """A row of the ranking: a layer's pass, its default, and the fastest significantly faster rival."""

    use: Use
    contest: Contest
    default: Result
    rivals: int
    best: Comparison | None

    @property
    def each(self) -> float:
        """Seconds of one call of the default."""
        assert self.default.seconds is not None
        return self.default.seconds.median

    @property
    def seconds(self) -> float:
        """Seconds of all calls of a step, with the default."""
        return self.use.calls / self.use.steps * self.each

    @property
    def gain(self) -> float:
        return 0.0 if self.best is None else self.seconds * (1 - (self.best.ratio or 1.0))

    @property
    def half(self) -> float:
        """Half the width of the gain's interval in seconds, from the ratio's interval; inf without one."""
        if self.best is None:
            return 0.0
        if self.best.low is None or self.best.high is None:
            return math.inf
        return self.seconds * (self.best.high - self.best.low) / 2


def of_net(run: Run) -> list[str]:
    """Rank the layers and passes of the requested network."""
    uses, contests = [], []
    for contest in run.contests:
        if contest.contest.startswith(f"{PREFIX}/"):
            _, net, layer, count, _ = contest.contest.split("/", 4)
            contests.append(contest)
            uses.append(Use(int(count.partition(":")[2]), name=layer, then=_published(net, layer, contest)))
    return ranked(contests, uses, "A step's convolutions")


def of_file(run: Run, written: Written) -> list[str]:
    """Rank the problems of a log or of a network's file; for other files return all ratios."""
    if not written.calls:
        return ratios(run)
    from micro.planning.problem_files import share

    by_name = {problem.name: problem for problem in written.problems}
    contests = [contest for contest in run.contests if contest.contest in by_name]
    steps = math.gcd(*(calls.count for calls in written.calls.values())) if written.log else 1
    uses = []
    for contest in contests:
        problem = by_name[contest.contest]
        calls = written.calls[problem]
        part = share(calls, written.log) if written.log else ""
        uses.append(Use(calls.count, steps, part, then=written.then.get(problem, "")))
    multiples = f" (all call counts are multiples of {steps}, assumed to be the log's steps)" if steps > 1 else ""
    source = "The log" if written.log and steps == 1 else "A step"
    return ranked(contests, uses, f"{source}'s convolutions{multiples}")


def ranked(contests: Sequence[Contest], uses: Sequence[Use], title: str) -> list[str]:
    """Return a sentence per contest, the largest gain first, and a sentence on the sum.

    `title`: subject of the sum's sentence."""
    rows, untimed = [], []
    for contest, use in zip(contests, uses, strict=True):
        row = _row(contest, use)
        if row is None:
            untimed.append(f"{_what(contest, use)}: {_calls(use)}, not ranked: {_why(contest)}.")
        else:
            rows.append(row)
    rows.sort(key=lambda row: (-row.gain, -row.seconds))
    sentences = [f"{rank}. {_sentence(row)}" for rank, row in enumerate(rows, 1)]
    return [*sentences, *untimed, *([_sum(rows, title)] if rows else [])]


def _row(contest: Contest, use: Use) -> Row | None:
    """Return the row of a contest, or None if the default has no time.

    Rivals have the same setting and cache no transformed filter, since the filter changes in each step."""
    by_name = {result.name: result for result in contest.results}
    if not contest.comparisons:
        return None
    default = by_name[contest.comparisons[0].baseline]
    if default.seconds is None:
        return None
    setting = parse(default.name).setting
    rivals = []
    for comparison in contest.comparisons:
        rival = parse(comparison.contender)
        keeps = find(rival.problem.op, rival.variant).constant
        if comparison.baseline == default.name and rival.setting == setting and not keeps:
            rivals.append(comparison)
    faster = [x for x in rivals if x.verdict == "faster"]
    return Row(use, contest, default, len(rivals), min(faster, key=lambda x: x.ratio or 1.0, default=None))


def _sentence(row: Row) -> str:
    default = f"{row.default.variant} takes {units.seconds(row.each)}"
    then = f" ({row.use.then})" if row.use.then else ""
    head = f"{_what(row.contest, row.use)}: {_calls(row.use)}; {default}"
    if row.best is None:
        return f"{head}, and no variant is certainly faster{then}."
    best = parse(row.best.contender).variant
    step = " a step" if row.use.steps > 1 else ""
    return f"{head}, {best} {interval(row.best)} times that: saves {_interval(row.gain, row.half)}{step}{then}."


def _sum(rows: Sequence[Row], title: str) -> str:
    """Format the sum of all gains, whose errors are independent."""
    gain, seconds = sum(row.gain for row in rows), sum(row.seconds for row in rows)
    half = math.sqrt(sum(row.half**2 for row in rows))
    most = max(row.rivals for row in rows)
    chosen = f", each fastest variant chosen from up to {most} in the same rounds" if most > 1 else ""
    gained = "no certain gain"
    if gain:
        gained = f"{_interval(gain, half)} of it ({gain / seconds:.0%}) can be saved"
    return (
        f"{title} take {units.seconds(seconds)} with {_names(rows)}; {gained}{chosen}; kernels that cache a "
        "transformed filter are excluded, since a step changes it."
    )


def _names(rows: Sequence[Row]) -> str:
    return " or ".join(dict.fromkeys(row.default.variant for row in rows))


def _what(contest: Contest, use: Use) -> str:
    """Format a use and its pass: `conv2, dgrad, 5×5, 96→256 channels, 27×27, batch 16`."""
    name = f"{use.name}, " if use.name else ""
    return f"{name}{where(parse(contest.results[0].name).problem)}"


def _calls(use: Use) -> str:
    return f"{units.counted(use.calls, 'call')}{use.share}"


def _why(contest: Contest) -> str:
    """Return the reason why a contest has no comparison."""
    reasons = [x.reason for x in contest.comparisons] + [x.reason for x in contest.results]
    return next(filter(None, reasons), "no rival")


def _interval(center: float, half: float) -> str:
    """Format a time and its interval in one unit: `4.91 ms [4.80, 5.02]`."""
    if not math.isfinite(half):
        return f"{units.seconds(center)}, no interval,"
    ends = ", ".join(units.seconds(end) for end in (center - half, center + half))
    return f"{units.seconds(center)} [{ends}]"


def _published(net: str, layer: str, contest: Contest) -> str:
    """Format the times that the network's file contains for a layer; empty without any."""
    if net.replace(":", "-") not in known(KIND):
        return ""
    network = read(net)
    problem: Any = parse(contest.results[0].name).problem
    return "".join(x.published(problem.direction, network.measured) for x in network.layers if x.name == layer)
