"""micro.conv --norm-and-pool: what follows each layer of a network, and the sums that are said of a finished run."""

from __future__ import annotations

from typing import Any

import pytest

from kernels.ops.conv.problem import Conv
from kernels.ops.norm.problem import Norm
from kernels.ops.pooling.problem import Pooling
from micro.contests.conv_norm_pool import NETS, layers
from tests.micro.plans import contests


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
    every = contests("conv", "--norm-and-pool", "--all")
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
    for contest in contests("conv", "--norm-and-pool", "--all"):
        pools = {case.problem for case in contest.cases if isinstance(case.problem, Pooling)}
        edges[contest.name.split("/")[1]] += [x.edge for x in pools]
    assert edges == {"resnet-56": [], "alexnet-s": [27, 13, 6], "resnet-50": [56]}


def test_a_named_kernel_has_the_normalizations_of_its_library() -> None:
    def kernels(variant: str) -> set[str]:
        return {case.variant for x in contests("conv", "--norm-and-pool", "--variant", variant) for case in x.cases}

    assert kernels("torch") == {"torch"}
    assert kernels("im2col") == {"im2col", "c", "c-ops"}
    assert kernels("onednn-direct") == {"onednn-direct", "c", "c-ops"}


def test_a_named_batch_is_that_of_what_follows_too() -> None:
    for contest in contests("conv", "--norm-and-pool", "--n", "2"):
        assert {vars(x.problem).get("n", vars(x.problem).get("images")) for x in contest.cases} == {2}
