"""Contests of time against workspace bytes of a convolution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kernels.ops.conv import im2col
from kernels.ops.conv.shape import PASSES
from kernels.setting import Setting
from micro.contests.conv_find import again, searched
from micro.contests.convolution import LAYERS, contests
from micro.planning.benchmark import Request
from micro.planning.contest import Contest
from reports import record
from reports.regret import timed

if TYPE_CHECKING:
    from reports.record import Run

FRONTIER, STEPS = "pareto", "steps"  # first words of contests: all cases, and the frontier again
QUESTION = "how much time for how many bytes beside the operands?"
AGAIN = "what do more bytes beside the operands bring?"
LIMITS = (0, 1 << 20, 8 << 20, 64 << 20)  # bytes, by default
FEW = {"alexnet-s conv2": ("forward",), "resnet-50 conv2 3x3": PASSES}
BLOCKS = "im2col-blocks"  # the variant that uses all the workspace allowed


def build(asked: Request) -> list[Contest]:
    """Build for each layer and pass all algorithms at the largest limit, and the blocked one at each."""
    named = [setting.workspace for setting in asked.settings]
    limits = sorted(x for x in (LIMITS if named == [None] else named) if x is not None)
    most = replace(asked, settings=(replace(asked.settings[0], workspace=None if None in named else limits[-1]),))
    built = []
    for name, passes in (dict.fromkeys(LAYERS, PASSES) if asked.every else FEW).items():
        request = most.limited(direction=most.named("direction", passes))
        rivals = contests(request, [LAYERS[name]], QUESTION, searched(request, LAYERS[name]), FRONTIER)
        built += [_with_blocks(request, contest, limits) for contest in rivals]
    return built


def _with_blocks(asked: Request, contest: Contest, limits: Sequence[int]) -> Contest:
    """Add the blocked algorithm at every limit."""
    if all(case.variant != BLOCKS for case in contest.cases):
        return contest
    problem, setting = contest.cases[0].problem, asked.settings[0]
    names = {case.name for case in contest.cases}
    blocks = [asked.case(problem, BLOCKS, x) for x in _blocks(problem, setting, limits)]
    cases = (*contest.cases, *(case for case in blocks if case.name not in names))
    first = contest.pairs[0][0]
    pairs = tuple((first, i) for i in range(len(cases)) if i != first)
    return replace(contest, differs="variant and workspace", cases=cases, pairs=pairs)


def _blocks(problem: Any, setting: Setting, limits: Sequence[int]) -> Iterator[Setting]:
    """Yield settings whose blocks differ from one another and from a full image."""
    by_size: dict[int, Setting] = {}
    for limit in limits:
        limited = replace(setting, workspace=limit)
        by_size.setdefault(im2col.limited(problem, limited), limited)
    yield from (limited for size, limited in by_size.items() if 0 < size < problem.outputs_of_image)


def frontier(contest: record.Contest) -> list[record.Result]:
    """Return the cases that nothing beats with as few bytes beside the operands, by these bytes.

    Each is faster than all that hold no more, by the margin of the comparisons at least."""
    margin = max((x.margin for x in contest.comparisons), default=0.0)
    steps: list[record.Result] = []
    least = float("inf")
    for seconds, case in sorted(timed(contest), key=lambda pair: pair[1].workspace):
        if seconds < least * (1 - margin):
            steps.append(case)
            least = seconds
    return steps


def refine(asked: Request, run: Run) -> list[Contest]:
    """Build contests of the frontier, each case against the one before it."""
    steps = []
    for contest in run.contests:
        if contest.contest.startswith(f"{FRONTIER}/") and len(left := frontier(contest)) > 1:
            steps += again(asked, contest, STEPS, AGAIN, [x.name for x in left], in_turn=True)
    return steps
