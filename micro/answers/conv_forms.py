"""Answers of micro/conv.py on forms of a layer: layouts, first layer, bias, padding, heap, 1×1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kernels.heap import POLICIES
from micro.answers import conv, sums
from micro.findings.phrase import Phrase, sentences
from micro.findings.select import Pair, pairs
from micro.planning.contest import parse
from reports import units
from reports.record import Contest, Result, Run


def _contests(run: Run, kind: str) -> Iterator[tuple[Contest, list[tuple[Any, Result]]]]:
    """Yield contests whose name begins with `kind`, with their measured cases and results."""
    for contest in run.contests:
        if contest.contest.startswith(kind):
            yield contest, [(parse(x.name), x) for x in contest.results if x.role == "measured"]


def _listed(ratios: dict[str, str | None]) -> str:
    """Format ratios, where there are any: `forward 1.01 [1.00, 1.02], dgrad …`."""
    return ", ".join(f"{name} {ratio}" for name, ratio in ratios.items() if ratio)


def relayout(run: Run) -> list[str]:
    """Report what conversions around a layer cost, whether they pay, and their cost beside a copy."""
    return [*_CONVERTED(run), *_TURNED(run), *_faulting(run, "relayout/conv/")]


def _faulting(run: Run, kind: str) -> list[str]:
    """Name the PyTorch variants that allocate in each call, and the option that avoids that."""
    names = (pair.contender.variant for pair in pairs(run, kind) if pair.contender.setting.heap == "default")
    torch_names = dict.fromkeys(name for name in names if name.startswith("torch-"))
    if not torch_names:
        return []
    return [f"{', '.join(torch_names)} asks for memory in each call; --heap keep leaves the page faults of that out."]


def _lie(pair: Pair) -> str:
    layout = pair.baseline.problem.layout
    return f"on images stored as {layout}" if layout != pair.contender.problem.layout else "on them as they lie"


_WORDS = {"where": conv.where, "lie": _lie}
_CONVERTED = Phrase(
    "relayout/conv/",
    "{q:where}: {b.variant}, which converts images from {q.layout} and back, takes {items}.",
    "{ratio} times what {a.variant} takes {pair:lie}",
    words=_WORDS,
    join=" and ",
)
_TURNED = Phrase(
    "relayout/transpose/",
    "A transposition of {q.rows}×{q.cols} against a copy of as many bytes: {items}.",
    "{b.variant} {ratio}",
)


def first(run: Run) -> list[str]:
    """Report the step of a first layer without its input gradient, from sums of passes in each round."""
    sentences = []
    for contest, cases in _contests(run, "first/"):
        results = {case.problem.direction: result for case, result in cases}
        needed = [results["forward"], results["wgrad"]]
        if ratio := sums.ratio(contest, needed, [*needed, results["dgrad"]]):
            case, _ = cases[0]
            times = (f"{name} {units.seconds(x.seconds.median)}" for name, x in results.items() if x.seconds)
            sentences.append(
                f"{case.variant}, {conv.place(case.problem)}: without the gradient of its input a first layer's step "
                f"takes {ratio} times what it takes with it ({', '.join(times)})."
            )
    return sentences


def bias_before_norm(run: Run) -> list[str]:
    """Report what a bias costs before normalization, inside the convolution and as a separate pass."""
    sentences = []
    for contest, cases in _contests(run, "bias/"):
        results = {_part(case): result for case, result in cases}
        forward, wgrad, norm, alone = (results[name] for name in ("forward", "wgrad", "norm", "biasact"))
        biased = [results["forward with bias"], results["wgrad with bias"]]
        ratios = {
            "forward": sums.ratio(contest, biased[:1], [forward]),
            "gradient of the filter": sums.ratio(contest, biased[1:], [wgrad]),
            "both and the normalization, which takes the bias out again,": sums.ratio(
                contest, [*biased, norm], [forward, wgrad, norm]
            ),
            "forward with a pass of its own for it": sums.ratio(contest, [forward, alone], [forward]),
        }
        if text := _listed(ratios):
            place = conv.place(cases[0][0].problem)
            sentences.append(f"{place}: a convolution with a bias against one without, torch: {text}.")
    return sentences


def _part(case: Any) -> str:
    """Format the part of a layer: `forward`, `wgrad with bias`, `norm`, `biasact`."""
    if case.problem.op != "conv":
        return str(case.problem.op)
    return f"{case.problem.direction}{' with bias' if case.variant == 'torch-bias' else ''}"


_PADDED = (
    Phrase(
        "pad-op/",
        "{p:where}: with an operation that pads {a.variant} takes {ratio} times what it takes with padding as its "
        "argument.",
        by="",
        words=_WORDS,
    ),
    Phrase(
        "pad-sides/",
        "{p:where}: with {q.pad_top} rows of zeros above and {q.pad_bottom} below, as TensorFlow pads, {b.variant} "
        "takes {ratio} times what {a.variant} takes with {p.pad} all around.",
        by="",
        words=_WORDS,
    ),
    Phrase(
        "pad-none/",
        "{p:where}: without padding {b.variant} takes {ratio} times what it takes with it, for {work:.2f} of the work.",
        by="",
        words=_WORDS,
    ),
)
_KEPT = Phrase(
    "heap/",
    "{p:where}: with a heap that keeps its memory {a.variant} takes {ratio} times what it takes with glibc's default "
    "one ({verdict}).",
    by="",
    words=_WORDS,
)


def pad_op(run: Run) -> list[str]:
    """Compare an operation that pads with the argument, sides that differ, and no padding."""
    return [*sentences(run, _PADDED), *_faulting(run, "pad-op/")]


def heap_cost(run: Run) -> list[str]:
    """Return what a heap that keeps its memory saves, and how a program gets one."""
    typed = " ".join(f"{name}={value}" for name, value in POLICIES["keep"].items())
    saved = any(pair.comparison.verdict == "faster" for pair in pairs(run, "heap/"))
    advice = [f"What to do: start the program with {typed}, or give each step the same buffers."] if saved else []
    return [*_KEPT(run), *advice]


def one_by_one(run: Run) -> list[str]:
    """Report the fastest variant at 1×1, then a block by the position of its stride."""
    return [*conv.answer(run), *_strides(run)]


def _strides(run: Run) -> Iterator[str]:
    for contest, cases in _contests(run, "stride/"):
        overall, ratios = sums.ratio(contest, *_placed(cases)), {}
        for direction in dict.fromkeys(case.problem.direction for case, _ in cases):
            some = [(case, result) for case, result in cases if case.problem.direction == direction]
            ratios[direction] = sums.ratio(contest, *_placed(some))
        if not overall:
            continue
        case, _ = cases[0]
        flops = [sum(case.problem.flops for case, _ in cases if _early(case) is early) for early in (True, False)]
        problem = case.problem
        yield (
            f"{case.variant}, a block from {problem.c} to {problem.k} channels at {problem.h}×{problem.w}, batch "
            f"{problem.n}: with its stride on the 1×1 layer it takes {overall} times what it takes with it on the 3×3 "
            f"({_listed(ratios)}), for {flops[0] / flops[1]:.2f} of the work."
        )


def _early(case: Any) -> bool:
    """Report whether the layer belongs to a block with the stride on its 1×1 layer."""
    return bool((case.problem.r == 1) is (case.problem.stride > 1))


def _placed(cases: list[tuple[Any, Result]]) -> tuple[list[Result], list[Result]]:
    """Split results into those of a block with its stride on the 1×1 layer and on the 3×3 layer."""
    early = [result for case, result in cases if _early(case)]
    return early, [result for case, result in cases if not _early(case)]
