"""micro.conv --norm-and-pool: what follows each layer of a network, and the sums that are said of a finished run."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from kernels.ops.conv.problem import Conv
from kernels.ops.norm.problem import Norm
from kernels.ops.pooling.problem import Pooling
from kernels.problem import Problem
from micro import conv
from micro.answers.conv_norm_pool import answer
from micro.planning.contest import Case, Contest
from micro.planning.conv_followed import NETS, layers
from micro.planning.options import request
from micro.planning.request import planned
from reports import record
from reports.record import Environment, Result, Run, Seconds
from reports.stats import SHOWN


def contests(*words: str) -> tuple[Contest, ...]:
    meant, arguments = request(conv.BENCHMARK, "conv", ("--norm-and-pool", *words), raising=True)
    return planned(meant, "conv", arguments).contests


@pytest.mark.parametrize(
    ("name", "number", "gflop"), [("resnet-56", 55, 32.1), ("alexnet-s", 5, 34.5), ("resnet-50", 53, 130.8)]
)
def test_a_networks_layers_are_those_of_its_text(name: str, number: int, gflop: float) -> None:
    """By their number, and by their nominal work of a forward pass."""
    every = layers(name)
    assert sum(x.count for x in every) == number
    assert sum(x.count * x.problem.flops for x in every) == pytest.approx(gflop * 1e9, rel=0.003)
    assert {*NETS[name].norms, *NETS[name].pooled} <= {x.name for x in every}


def test_every_layer_has_the_passes_of_a_step_and_what_follows() -> None:
    every = contests("--all")
    assert len(every) == sum(len(layers(name)) for name in NETS)
    for contest in every:
        problems: list[Any] = [case.problem for case in contest.cases]
        passes = [x.direction for x in problems if isinstance(x, Conv)]
        assert passes == (["forward", "wgrad"] if problems[0].c == 3 else ["forward", "dgrad", "wgrad"])
        assert all(x.phase == "step" for x in problems[len(passes) :])
        norms = [x for x in problems if isinstance(x, Norm)]
        assert {(x.images, x.maps, x.size) for x in norms} <= {
            (problems[0].n, problems[0].k, problems[0].lines[0].outputs)
        }
        assert norms or contest.name.startswith("norm-and-pool/alexnet-s")


def test_poolings_give_the_image_of_the_next_layer() -> None:
    edges: dict[str, list[int]] = {name: [] for name in NETS}
    for contest in contests("--all"):
        pools = {case.problem for case in contest.cases if isinstance(case.problem, Pooling)}
        edges[contest.name.split("/")[1]] += [x.edge for x in pools]
    assert edges == {"resnet-56": [], "alexnet-s": [27, 13, 6], "resnet-50": [56]}


def test_a_named_kernel_has_the_normalizations_of_its_library() -> None:
    def kernels(variant: str) -> set[str]:
        return {case.variant for x in contests("--variant", variant) for case in x.cases}

    assert kernels("torch") == {"torch"}
    assert kernels("im2col") == {"im2col", "c", "c-ops"}
    assert kernels("onednn-direct") == {"onednn-direct", "c", "c-ops"}


def test_a_named_batch_is_that_of_what_follows_too() -> None:
    for contest in contests("--n", "2"):
        assert {vars(x.problem).get("n", vars(x.problem).get("images")) for x in contest.cases} == {2}


ROUNDS = 8


def result(problem: Problem, variant: str, took: float, noise: float = 0.0, **changes: Any) -> Result:
    """`noise`: how many times longer every second round takes."""
    samples = tuple(took * (1 + noise * (i % 2)) for i in range(ROUNDS))
    timed = Seconds(took, None, None, SHOWN)
    name = Case(problem, variant).name
    whole = Result(name, "x", "measured", problem.op, asdict(problem), variant, "cpu", 1, "ok", seconds=timed)
    return replace(whole, **{"samples": samples, "rounds": tuple(range(ROUNDS)), **changes})


def measured(net: str, *seconds: float, noise: float = 0.0, drift: float = 0.0, **changes: Any) -> list[record.Contest]:
    """Each pass of a convolution takes a second, what follows as long as is said. `drift`: noise of the passes."""
    made = []
    for layer, took in zip(layers(net, 2), seconds, strict=False):
        passes = [result(problem, "torch", 1.0, drift) for problem in layer.passes()]
        follow = [problem for word, problem in NETS[net].after(layer) if word in ("train", "lrn")]
        after = [result(problem, "c", took, noise, **changes) for problem in follow]
        name = f"norm-and-pool/{net}/layer:{layer.name}/variant:torch"
        made.append(record.Contest(name, "?", "work: differs (layer)", (*passes, *after), ()))
    return made


def run(contests: list[record.Contest]) -> Run:
    return Run(Environment("0", {}, {}, "", ""), tuple(contests))


def ends(sentence: str) -> tuple[float, float]:
    """Of its interval."""
    low, high = (float(x.rstrip(" %")) for x in sentence.partition("[")[2].partition("]")[0].split(","))
    return low, high


def test_layers_count_as_often_as_the_network_has_them() -> None:
    """55 layers, the first without dgrad, 164 passes of a second; 18 of what follows take half one, the first two."""
    (sentence,) = answer(run(measured("resnet-56", 2.0, 0.5, 0.0, 0.0, 0.0, 0.0)))
    assert sentence == (
        "Batch normalization by c takes 6.71 % [6.71 %, 6.71 %] of the time of ResNet-56's convolutions by torch, "
        "forward and backward: 11.0 s beside 164 s a step, batch 2."
    )


def test_what_only_some_layers_have_is_of_all_convolutions() -> None:
    """14 passes of AlexNet-S, two normalizations."""
    (sentence,) = answer(run(measured("alexnet-s", 1.0, 0.4, 0.0, 0.0, 0.0)))
    assert sentence.startswith(
        "Local response normalization by c takes 10.00 % [10.00 %, 10.00 %] of the time of AlexNet-S's"
    )


def test_the_interval_is_that_of_the_rounds() -> None:
    (sentence,) = answer(run(measured("resnet-56", 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, noise=0.5)))
    assert sentence.startswith("Batch normalization by c takes 42 % [")
    low, high = ends(sentence)
    assert 30 < low < 42 < high < 54


def test_what_a_layer_and_its_followers_share_is_not_in_the_interval() -> None:
    """Every second round is half as long again: of both alike, or of the convolution alone."""
    both, one = ({"drift": 0.5, "noise": noise} for noise in (0.5, 0.0))
    widths = []
    for how in (both, one):
        (sentence,) = answer(run(measured("resnet-56", *[1.0] * 6, **how)))
        low, high = ends(sentence)
        widths.append(high - low)
    assert widths[0] < 0.2 and widths[1] > 5


def test_few_rounds_make_no_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.ROUNDS", 5)
    (sentence,) = answer(run(measured("alexnet-s", 1.0, 0.4, 0.0, 0.0, 0.0)))
    assert "takes 10 % (no interval from fewer than 6 rounds: a longer --budget) of the time" in sentence


def test_a_part_of_a_network_is_said_to_be_one() -> None:
    (sentence,) = answer(run(measured("resnet-56", 1.0, 1.0)))
    assert sentence.endswith("batch 2, 2 of its 6 distinct layers alone.")


def test_a_layer_all_of_whose_rounds_were_rejected_is_in_no_sum() -> None:
    whole = measured("resnet-56", *[1.0] * 6)

    def rejected(contest: record.Contest) -> record.Contest:
        return replace(contest, results=tuple(replace(x, rejected=tuple(range(ROUNDS))) for x in contest.results))

    (sentence,) = answer(run([rejected(whole[0]), *whole[1:]]))
    assert sentence.endswith("batch 2, 5 of its 6 distinct layers alone.")
    (sentence,) = answer(run([rejected(contest) for contest in whole]))
    assert sentence == "ResNet-56: no sum of its convolutions by torch: all rounds were rejected."


def test_what_has_no_time_makes_no_sum() -> None:
    lost = {"status": "failed", "seconds": None, "reason": "it crashed"}
    whole = measured("resnet-56", 1.0, 1.0, 1.0, 1.0, 1.0)
    (sentence,) = answer(run([*whole, *measured("resnet-56", *[1.0] * 6, **lost)[5:]]))
    assert sentence.startswith("Batch normalization by c: no sum over ResNet-56: norm/") and "it crashed" in sentence
    broken = replace(whole[0], results=(replace(whole[0].results[0], **lost), *whole[0].results[1:]))
    (sentence,) = answer(run([broken, *whole[1:]]))
    assert sentence.startswith("ResNet-56: no sum of its convolutions by torch: conv/")


def test_what_is_not_installed_is_no_kind_of_its_own() -> None:
    assert not answer(run(measured("resnet-56", *[1.0] * 6, status="skipped", seconds=None, reason="no torch")))
