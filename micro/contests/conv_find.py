"""Contests of a library's default against a search of all algorithms, and of time against workspace bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kernels.catalog import find
from kernels.ops.conv import im2col
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import PASSES
from kernels.setting import Setting
from micro.contests.convolution import BATCH, LAYERS, contests, layer
from micro.planning.benchmark import Request
from micro.planning.contest import Contest, parse
from micro.planning.conv_layers import distinct_layers
from reports.regret import CHANGING, REGRET, SEARCH, fastest, timed

if TYPE_CHECKING:
    from reports import record
    from reports.record import Run

QUESTION = "which algorithm would a search find?"
AGAIN = "what does the default cost, against the fastest of the search?"
FEW = ("alexnet-s conv1", "alexnet-s conv3", "resnet-50 conv2 1x1")
IMAGES = ((40, 60), (56, 75), (75, 50))  # rows and columns, as detection has them, one at a time
FRONTIER, STEPS = "pareto", "steps"  # first words of contests: all cases, and the frontier again
TRADE = "how much time for how many bytes beside the operands?"
MORE_BYTES = "what do more bytes beside the operands bring?"
LIMITS = (0, 1 << 20, 8 << 20, 64 << 20)  # bytes, by default
TRADED = {"alexnet-s conv2": ("forward",), "resnet-50 conv2 3x3": PASSES}
BLOCKS = "im2col-blocks"  # the variant that uses all the workspace allowed
SEARCHED = "search"  # the role of rows that only a search tries


def searched(asked: Request, problem: Conv) -> tuple[str, ...]:
    """Return the default, then the variants that a search tries: full calls that cache no filter.

    1×1 filters exclude transforms, which have nothing to gain there."""
    if "variant" in asked.given:
        return asked.variants
    names = asked.rows() + tuple(name for name in asked.rows(SEARCHED) if name not in asked.rows())
    none = asked.rows("fft") if problem.r == problem.s == 1 else ()
    return tuple(name for name in names if not find(Conv.op, name).constant and (name not in none or name == names[0]))


def layers(asked: Request) -> list[Conv]:
    """Return all distinct layers of the networks with `all`, else a few."""
    if asked.every:
        return distinct_layers(BATCH)
    return [LAYERS[name] for name in FEW]


def build(asked: Request) -> list[Contest]:
    """Build contests of changing shapes, then of every pass of the layers.

    Small shapes come first: the first case carries the time to load a library, which is no part of a search."""
    return [*_changing(asked), *_searched(asked, layers(asked), SEARCH)]


def _searched(asked: Request, problems: Iterable[Conv], word: str) -> list[Contest]:
    """Build a search of each problem's variants."""
    return [x for problem in problems for x in contests(asked, [problem], QUESTION, searched(asked, problem), word)]


def _changing(asked: Request) -> list[Contest]:
    """Build contests of changing image sizes, and of an epoch's last batch at half size."""
    batch = asked.named("n", (BATCH,))[0]
    wide, last = layer(64, 56, 64, 3, n=1), LAYERS["alexnet-s conv3"]
    shapes = [replace(wide, h=h, w=w) for h, w in IMAGES]
    shapes += [replace(last, n=batch // 2)] if batch > 1 else []
    forward = asked.limited(direction=asked.named("direction", ("forward",)))
    request = replace(forward, given=forward.given - {"n"})
    return _searched(request, shapes, CHANGING)


def refine(asked: Request, run: Run) -> list[Contest]:
    """Build contests of the default against the fastest, where any was faster."""
    return list({contest.name: contest for contest in _again(asked, run)}.values())


def _again(asked: Request, run: Run) -> Iterator[Contest]:
    for contest in run.contests:
        if contest.contest.partition("/")[0] in (SEARCH, CHANGING) and (pair := fastest(contest)):
            default, best = pair
            if best is not default:
                yield from again(asked, contest, REGRET, AGAIN, (best.name, default.name))


def again(
    asked: Request, measured: record.Contest, word: str, question: str, names: Sequence[str], *, in_turn: bool = False
) -> list[Contest]:
    """Return a contest of some cases of a measured one, each against the first.

    The best of several in the same rounds was lucky in those rounds, and its ratio is too good. In fresh rounds, at
    other places, it is not. `in_turn`: each against the one before; `word`: the first word of the contest's name.
    Empty if another device than the requested one measured the first contest."""
    cases = [parse(name) for name in names]
    if any(case.setting.device != asked.settings[0].device for case in cases):
        return []
    planned = tuple(asked.case(case.problem, case.variant, case.setting) for case in cases)
    pairs = tuple((i - 1, i) for i in range(1, len(planned))) if in_turn else ()
    rest = measured.contest.partition("/")[2]
    return [Contest(f"{word}/{rest}", question, measured.differs, planned, pairs)]


# Time against bytes


def pareto(asked: Request) -> list[Contest]:
    """Build for each layer and pass all algorithms at the largest limit, and the blocked one at each."""
    named = [setting.workspace for setting in asked.settings]
    limits = sorted(x for x in (LIMITS if named == [None] else named) if x is not None)
    most = replace(asked, settings=(replace(asked.settings[0], workspace=None if None in named else limits[-1]),))
    built = []
    for name, passes in (dict.fromkeys(LAYERS, PASSES) if asked.every else TRADED).items():
        request = most.limited(direction=most.named("direction", passes))
        rivals = contests(request, [LAYERS[name]], TRADE, searched(request, LAYERS[name]), FRONTIER)
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


def refine_pareto(asked: Request, run: Run) -> list[Contest]:
    """Build contests of the frontier, each case against the one before it."""
    steps = []
    for contest in run.contests:
        if contest.contest.startswith(f"{FRONTIER}/") and len(left := frontier(contest)) > 1:
            steps += again(asked, contest, STEPS, MORE_BYTES, [x.name for x in left], in_turn=True)
    return steps
