"""The convolutions of the networks, against the tables of their sources."""

from __future__ import annotations

from dataclasses import fields

import pytest

from kernels.ops.conv.problem import Conv
from micro.planning import benchdnn
from micro.planning.conv_layers import KIND, SIZES, distinct_layers, read
from micro.planning.network import SHAPES, known

COUNTS = {  # layers, those alike counted
    "alexnet-s": 5,
    "alexnet-s-tf": 5,
    "alexnet-s-caffe": 5,
    "alexnet-s-cntk": 5,
    "alexnet-s-mxnet": 3,
    "alexnet-r": 3,
    "alexnet-r-caffe": 3,
    "resnet-56": 55,
    "resnet-56-bias": 55,
    "resnet-56-caffe": 57,
    "resnet-56-cntk": 109,
    "resnet-50": 53,
    "resnet-50-stride-1x1": 53,
    "karmanov-cnn": 4,
    "woolf-mnist-cnn": 2,
    "woolf-cifar-cnn": 4,
    "lenet": 2,
    "alexnet": 5,
    "alexnet-227": 5,
    "alexnet-grouped": 5,
    "convnet-benchmarks": 5,
}
WORK = {  # GFLOP of a forward pass at the network's batch, layer by layer, as the tables have them
    "alexnet-s": [3.37, 14.33, 4.79, 7.18, 4.79],
    "alexnet-s-tf": [3.50, 15.41, 5.55, 8.32, 5.55],
    "alexnet-s-caffe": [3.25, 10.40, 2.29, 2.08, 0.71],
    "alexnet-r": [5.03, 11.80, 5.14],
    "karmanov-cnn": [0.18, 2.95, 1.47, 2.95],
    "woolf-mnist-cnn": [0.05, 2.72],
    "woolf-cifar-cnn": [0.06, 0.53, 0.27, 0.40],
    "lenet": [0.04, 0.20],
}
WHOLE = {"resnet-50": 130.8, "resnet-50-stride-1x1": 123.4, "resnet-56": 32.1, "resnet-56-cntk": 64.7}  # of all layers
# Rows and columns of outputs, layer by layer, of networks that differ in their padding alone.
OUTPUTS = {
    "alexnet-s": [55, 27, 13, 13, 13],
    "alexnet-s-tf": [56, 28, 14, 14, 14],
    "alexnet-s-caffe": [54, 23, 9, 7, 5],
    "alexnet-s-mxnet": [54, 24, 11],
    "alexnet": [54, 27, 13, 13, 13],
    "alexnet-227": [55, 27, 13, 13, 13],
    "woolf-cifar-cnn": [32, 30, 15, 13],
    "lenet": [24, 8],
}


def test_every_network_with_convolutions_is_here() -> None:
    assert set(known(KIND)) == set(COUNTS)


@pytest.mark.parametrize("name", COUNTS)
def test_layers_are_those_of_the_tables(name: str) -> None:
    net = read(name)
    assert sum(layer.count for layer in net.layers) == COUNTS[name]
    assert all((x.problem.n, x.problem.direction) == (net.batch, "forward") for x in net.layers)


@pytest.mark.parametrize("name", WORK)
def test_their_work_is_that_of_the_tables(name: str) -> None:
    assert [layer.problem.flops / 1e9 for layer in read(name).layers] == pytest.approx(WORK[name], abs=0.0055)


@pytest.mark.parametrize("name", WHOLE)
def test_the_work_of_a_residual_network_is_that_of_its_table(name: str) -> None:
    work = sum(layer.count * layer.problem.flops for layer in read(name).layers) / 1e9
    assert work == pytest.approx(WHOLE[name], abs=0.051)


def test_groups_halve_the_work_of_a_layer() -> None:
    plain, grouped = (read(name).layers for name in ("alexnet", "alexnet-grouped"))
    shares = [after.problem.flops / before.problem.flops for before, after in zip(plain, grouped, strict=True)]
    assert shares == [1, 0.5, 1, 0.5, 0.5]


@pytest.mark.parametrize("name", OUTPUTS)
def test_outputs_are_those_of_the_tables(name: str) -> None:
    problems = [layer.problem for layer in read(name).layers]
    assert [x.lines[0].outputs for x in problems] == [x.lines[1].outputs for x in problems] == OUTPUTS[name]


@pytest.mark.parametrize("name", [name for name in COUNTS if not name.startswith(("resnet", "convnet"))])
def test_channels_go_on_from_layer_to_layer(name: str) -> None:
    """A residual network has branches; a benchmark's layers are no network."""
    problems = [layer.problem for layer in read(name).layers]
    assert [x.c for x in problems[1:]] == [x.k for x in problems[:-1]]


def test_a_first_layer_needs_no_dgrad_unless_its_images_are_trained() -> None:
    for name in COUNTS:
        first, *others = read(name).layers
        trained = name in ("alexnet-s-tf", "alexnet-grouped", "convnet-benchmarks")
        assert first.first is not trained and not any(layer.first for layer in others)
        assert len(first.passes()) == 2 + trained and len(others[0].passes()) == 3


def test_distinct_layers_are_named_with_all_who_have_them() -> None:
    every = distinct_layers()
    assert len({x.problem for x in every}) == len(every) == 84
    assert sum(x.count for x in every) == sum(COUNTS.values())
    (shared,) = [x for x in every if x.problem == Conv(16, 256, 14, 14, 256, 3, 3, pad=1)]
    assert [(use.network, use.layer, use.count) for use in shared.uses] == [
        ("resnet-50", "conv4 3x3", 5),
        ("resnet-50:stride-1x1", "conv4 3x3", 6),
    ]


def test_at_one_batch_networks_share_more() -> None:
    every = distinct_layers(1)
    assert {x.problem.n for x in every} == {1} and len(every) == 79


def test_what_was_published_is_of_the_pass() -> None:
    """Both gradients were timed together."""
    net = read("convnet-benchmarks")
    shown = net.layers[1].published("forward", net.measured)
    assert shown.startswith(
        "then, in ms at batch 128 on a GeForce GTX Titan X, April 2015: fbfft 27, cuda-convnet2 113, "
    )
    assert net.layers[1].published("wgrad", net.measured).startswith("then (both gradients), in ms at")
    assert read("lenet").layers[0].published("forward", "") == ""


def test_a_layer_says_all_of_a_convolution_but_what_a_step_chooses() -> None:
    assert {x.name for x in fields(Conv)} - {x.name for x in SIZES} == {"n", "direction", "layout"}


@pytest.mark.parametrize(
    ("name", "lines", "taken", "cases", "passes"),
    [("training", 94, 94, 270, 3), ("server", 107, 107, 103, 1), ("device", 17, 16, 15, 1)],
)
def test_deepbench(name: str, lines: int, taken: int, cases: int, passes: int) -> None:
    """Some stand twice there."""
    listed = benchdnn.read((SHAPES / f"deepbench-{name}.txt").read_text("utf-8"))
    assert (listed.taken, sum(listed.left_out.values())) == (taken, lines - taken)
    assert (len(listed.problems), len({x.direction for x in listed.problems})) == (cases, passes)


def test_deepbench_has_what_its_table_has() -> None:
    """(700, 161, 1, 4, 32, 20, 5, 0, 0, 2, 2) and (7, 7, 832, 16, 128, 5, 5, 2, 2, 1, 1): width first there."""
    listed = benchdnn.read((SHAPES / "deepbench-training.txt").read_text("utf-8"))
    assert listed.problems[0] == Conv(4, 1, 161, 700, 32, 5, 20, 2)
    assert Conv(16, 832, 7, 7, 128, 5, 5, pad=2) in listed.problems
