"""What is said of the forms of a layer, and of sums of cases that were measured in the same rounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kernels.ops.biasact.problem import BiasAct
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import SIDES
from kernels.ops.norm.problem import Norm
from kernels.ops.stream.problem import Stream
from kernels.ops.transpose.problem import Transpose
from micro.answers import conv_forms as sentences
from micro.answers import sums
from micro.contests.conv_forms import same
from micro.planning.contest import Case
from reports import record
from reports.record import Comparison, Environment, Result, Run, Seconds
from reports.stats import SHOWN

LAYER = Conv(16, 64, 56, 56, 64, 3, 3, pad=1)
WHERE = "3×3, 64→64 channels, 56×56, batch 16"
BLOCK, AROUND = Conv(16, 128, 56, 56, 128), dict.fromkeys(SIDES, 1)
WAVES = (0.98, 1.0, 1.01, 0.99, 1.02, 1.0, 1.01, 0.99)  # of eight rounds, alike for all cases


def result(case: Case, seconds: float | None) -> Result:
    timed: dict[str, Any] = {"status": "skipped", "reason": "it is not here"}
    if seconds is not None:
        timed = {"status": "ok", "seconds": Seconds(seconds, None, None, SHOWN)}
        timed |= {"samples": tuple(seconds * wave for wave in WAVES), "rounds": tuple(range(len(WAVES)))}
    return Result(case.name, "x", "measured", case.problem.op, {}, case.variant, "cpu", 1, **timed)


def run(word: str, cases: Sequence[Case], times: Sequence[float | None], pairs: Sequence[tuple[int, int]]) -> Run:
    """Of one contest."""
    results = [result(case, seconds) for case, seconds in zip(cases, times, strict=True)]
    compared = []
    for a, b in pairs:
        first, second = results[a].seconds, results[b].seconds
        ratio = second.median / first.median if first and second else None
        ends = (0.95 * ratio, 1.05 * ratio) if ratio else (None, None)
        verdict = "not comparable" if ratio is None else "faster" if ratio < 1 else "slower"
        names = results[a].name, results[b].name
        compared.append(Comparison("x", "x", *names, ratio, *ends, SHOWN, verdict, None, 0.01, 0.01))
    one = record.Contest(f"{word}/{cases[0].problem.name}", "?", "x", tuple(results), tuple(compared))
    return Run(Environment("0", {}, {}, "", ""), (one,))


def of(*times: float | None) -> tuple[record.Contest, tuple[Result, ...]]:
    cases = [Case(replace(LAYER, n=n + 1), "direct") for n in range(len(times))]
    (contest,) = run("x", cases, times, [(0, 1)]).contests
    return contest, contest.results


def test_sums_are_compared_round_by_round() -> None:
    contest, (a, b, c) = of(1.0, 2.0, 3.0)
    assert sums.ratio(contest, [a], [a, c]) == "0.2500 [0.2500, 0.2500]"
    shaken = replace(b, samples=tuple(1.0 / wave for wave in WAVES))
    assert str(sums.ratio(contest, [shaken, a], [c])).startswith("0.667 [0.65")


def test_rounds_that_were_rejected_do_not_count() -> None:
    contest, (a, b) = of(1.0, 2.0)
    lost = replace(b, samples=(99.0, 99.0, *b.samples[2:]))
    assert sums.ratio(contest, [lost], [replace(a, rejected=(0, 1))]) == "2.0000 [2.0000, 2.0000]"
    assert sums.ratio(contest, [lost], [a]) != "2.0000 [2.0000, 2.0000]"


def test_what_has_no_time_has_no_sum() -> None:
    contest, (a, b, none) = of(1.0, 2.0, None)
    assert sums.ratio(contest, [a, none], [b]) is None
    short = [replace(x, samples=x.samples[:5], rounds=x.rounds[:5]) for x in (a, b)]
    assert sums.ratio(contest, short[:1], short[1:]) is None


def test_what_conversions_cost_is_said() -> None:
    cases = [Case(replace(LAYER, layout="nhwc"), "torch"), Case(LAYER, "torch-relayout"), Case(LAYER, "torch")]
    sentence, faults = sentences.relayout(run("relayout", cases, (1.0, 1.5, 1.2), [(0, 1), (2, 1)]))
    assert sentence == (
        f"forward, {WHERE}: torch-relayout, which converts images from nchw and back, takes 1.50 [1.42, 1.58] "
        "times what torch takes on images stored as nhwc and 1.25 [1.19, 1.31] times what torch takes on them as they "
        "lie."
    )
    assert faults == "torch-relayout asks for memory in each call; --heap keep leaves the page faults of that out."
    kept = [replace(case, setting=replace(case.setting, heap="keep")) for case in cases]
    assert len(sentences.relayout(run("relayout", kept, (1.0, 1.5, 1.2), [(0, 1), (2, 1)]))) == 1
    alone = [Case(Stream("copy", 128), "c"), Case(Transpose(4, 8), "tiled"), Case(Transpose(4, 8), "numpy")]
    renamed = run("relayout", alone, (1.0, 2.0, 4.0), [(0, 1), (0, 2)])
    contest = replace(renamed.contests[0], contest="relayout/transpose/rows:4/cols:8")
    (sentence,) = sentences.relayout(replace(renamed, contests=(contest,)))
    assert sentence == (
        "A transposition of 4×8 against a copy of as many bytes: tiled 2.00 [1.90, 2.10], numpy 4.00 [3.80, 4.20]."
    )


def test_what_a_first_layer_saves_is_said_of_the_sums() -> None:
    cases = [Case(replace(LAYER, direction=each), "direct") for each in ("forward", "dgrad", "wgrad")]
    (sentence,) = sentences.first(run("first", cases, (1.0, 6.0, 1.0), [(0, 1), (0, 2)]))
    assert sentence == (
        f"direct, {WHERE}: without the gradient of its input a first layer's step takes "
        "0.2500 [0.2500, 0.2500] times what it takes with it (forward 1.00 s, dgrad 6.00 s, wgrad 1.00 s)."
    )
    assert sentences.first(run("first", cases, (1.0, None, 1.0), [(0, 1)])) == []


def test_what_a_bias_costs_is_said() -> None:
    wgrad = replace(LAYER, direction="wgrad")
    layers = [Case(x, name) for x in (LAYER, wgrad) for name in ("torch", "torch-bias")]
    cases = [*layers, Case(Norm(16, 64, 56), "torch"), Case(BiasAct(50176, 64), "c")]
    (sentence,) = sentences.bias_before_norm(run("bias", cases, (1.0, 1.1, 1.0, 1.2, 2.0, 0.5), [(0, 1), (2, 3)]))
    assert sentence == (
        f"{WHERE}: a convolution with a bias against one without, torch: forward 1.1000 "
        "[1.1000, 1.1000], gradient of the filter 1.2000 [1.2000, 1.2000], both and the normalization, which takes the "
        "bias out again, 1.0750 [1.0750, 1.0750], forward with a pass of its own for it 1.5000 [1.5000, 1.5000]."
    )
    nothing = run("bias", cases, (None, None, None, None, 2.0, 0.5), [(0, 1), (2, 3)])
    assert sentences.bias_before_norm(nothing) == []


def test_what_padding_costs_is_said() -> None:
    pair = [Case(LAYER, "torch"), Case(LAYER, "torch-pad")]
    assert sentences.pad_op(run("pad-op", pair, (1.0, 1.5), [(0, 1)])) == [
        f"forward, {WHERE}: with an operation that pads torch takes 1.50 [1.42, 1.58] times what it takes with padding "
        "as its argument.",
        "torch-pad asks for memory in each call; --heap keep leaves the page faults of that out.",
    ]
    strided = replace(LAYER, stride=2)
    cases = [Case(strided, "torch"), Case(same(strided), "torch-pad")]
    assert sentences.pad_op(run("pad-sides", cases, (1.0, 2.0), [(0, 1)])) == [
        f"forward, {WHERE}, stride 2: with 0 rows of zeros above and 1 below, as TensorFlow pads, torch-pad takes "
        "2.00 [1.90, 2.10] times what torch takes with 1 all around."
    ]
    bare = replace(LAYER, pad=0, pad_top=0, pad_left=0, pad_bottom=0, pad_right=0)
    cases = [Case(LAYER, "direct"), Case(bare, "direct")]
    assert sentences.pad_op(run("pad-none", cases, (1.0, 0.9), [(0, 1)])) == [
        f"forward, {WHERE}: without padding direct takes 0.90 [0.85, 0.95] times what it takes with it, for 0.93 of "
        "the work."
    ]


@pytest.mark.parametrize("seconds, remedy", [(0.5, True), (1.5, False)])
def test_a_heap_that_saves_time_is_a_remedy(seconds: float, remedy: bool) -> None:
    case = Case(LAYER, "torch")
    keep = replace(case, setting=replace(case.setting, heap="keep"))
    sentence, *more = sentences.heap_cost(run("heap", (case, keep), (1.0, seconds), [(0, 1)]))
    assert sentence.startswith(f"forward, {WHERE}: with a heap that keeps its memory torch takes")
    assert bool(more) == remedy and all("MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=" in text for text in more)


def test_where_a_stride_is_dear_is_said() -> None:
    late = (replace(BLOCK, c=256, r=1, s=1), replace(BLOCK, stride=2, **AROUND))
    early = (replace(late[0], stride=2), replace(BLOCK, h=28, w=28, **AROUND))
    every = (*late, *early)
    cases = [Case(replace(x, direction=each), "direct") for each in ("forward", "wgrad") for x in every]
    (sentence,) = sentences.one_by_one(run("stride", cases, (4.0, 2.0, 1.0, 2.0, 1.0, 1.0, 1.0, 1.0), [(0, 2), (1, 3)]))
    assert sentence == (
        "direct, a block from 256 to 128 channels at 56×56, batch 16: with its stride on the 1×1 layer it takes 0.6250 "
        "[0.6250, 0.6250] times what it takes with it on the 3×3 (forward 0.5000 [0.5000, 0.5000], wgrad 1.0000 "
        "[1.0000, 1.0000]), for 0.65 of the work."
    )
