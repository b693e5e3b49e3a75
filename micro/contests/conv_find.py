"""Contests of a library's default algorithm against a search over all algorithms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from kernels.catalog import find
from kernels.ops.conv.problem import Conv
from micro.contests.convolution import BATCH, LAYERS, contests, layer
from micro.planning.benchmark import Request
from micro.planning.contest import Contest, parse
from micro.planning.conv_layers import distinct_layers
from reports.regret import CHANGING, REGRET, SEARCH, common, fastest

if TYPE_CHECKING:
    from reports.record import Run

QUESTION = "which algorithm would a search find?"
AGAIN = "how much slower is the default than the fastest of the search?"
FEW = ("alexnet-s conv1", "alexnet-s conv3", "resnet-50 conv2 1x1")
IMAGES = ((40, 60), (56, 75), (75, 50))  # rows and columns of images as in object detection, each at batch 1
SEARCHED = "search"  # role of variants that only a search tries


def searched(asked: Request, problem: Conv) -> tuple[str, ...]:
    """Return the default variant, then those that a search tries: none that caches a transformed filter.

    For 1×1 filters FFT is left out, since it has nothing to gain there."""
    if "variant" in asked.given:
        return asked.variants
    names = asked.rows() + tuple(name for name in asked.rows(SEARCHED) if name not in asked.rows())
    none = asked.rows("fft") if problem.r == problem.s == 1 else ()
    return tuple(name for name in names if not find(Conv.op, name).constant and (name not in none or name == names[0]))


def layers(asked: Request) -> list[Conv]:
    """Return the distinct layers of all networks with --all, else the layers of FEW."""
    if asked.every:
        return distinct_layers(BATCH)
    return [LAYERS[name] for name in FEW]


def build(asked: Request) -> list[Contest]:
    """Build contests of changing shapes, then of every pass of the layers.

    Small shapes come first, since the first case also loads the library, which is no part of a search."""
    return [*_changing(asked), *_searched(asked, layers(asked), SEARCH)]


def _searched(asked: Request, problems: Iterable[Conv], word: str) -> list[Contest]:
    """Build a contest for each problem and pass between the variants that a search tries."""
    return [x for problem in problems for x in contests(asked, [problem], QUESTION, searched(asked, problem), word)]


def _changing(asked: Request) -> list[Contest]:
    """Build searches for image sizes that change, and for an epoch's last batch of half size."""
    batch = asked.named("n", (BATCH,))[0]
    wide, last = layer(64, 56, 64, 3, n=1), LAYERS["alexnet-s conv3"]
    shapes = [replace(wide, h=h, w=w) for h, w in IMAGES]
    shapes += [replace(last, n=batch // 2)] if batch > 1 else []
    forward = asked.limited(direction=asked.named("direction", ("forward",)))
    request = replace(forward, given=forward.given - {"n"})
    return _searched(request, shapes, CHANGING)


def refine(asked: Request, run: Run) -> list[Contest]:
    """Build a contest of the default against the search's fastest variant, if that is another one.

    The ratio in the rounds of the search is biased, since the fastest variant was selected by it. Fresh rounds give an
    unbiased ratio. Results of another device than the requested device are left out."""
    built: dict[str, Contest] = {}
    for contest in run.contests:
        if contest.contest.partition("/")[0] not in (SEARCH, CHANGING) or not (pair := fastest(contest)):
            continue
        default, best = pair
        cases = [parse(x.name) for x in (best, default)]
        if best is not default and all(case.setting.device == asked.settings[0].device for case in cases):
            planned = tuple(asked.case(case.problem, case.variant, case.setting) for case in cases)
            name = f"{REGRET}/{common(contest.contest)}"
            built[name] = Contest(name, AGAIN, contest.differs, planned)
    return list(built.values())
