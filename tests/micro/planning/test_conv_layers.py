"""The convolutions of the networks, against the tables of their sources."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from kernels.ops.conv.problem import Conv
from micro.planning import benchdnn
from micro.planning.conv_layers import KIND, SIZES, distinct_layers, read
from micro.planning.network import SHAPES, known

# By network, as the tables of their sources have them: layers with those alike counted, GFLOP of a forward pass at the
# network's batch of all layers or layer by layer, rows and columns of outputs where networks differ in their padding.
TABLE = json.loads((Path(__file__).parent / "conv_layers.json").read_bytes())


def listed(column: str) -> list[Any]:
    """Return networks with their values in a column of the table."""
    return [(name, row[column]) for name, row in TABLE.items() if column in row]


def test_every_network_with_convolutions_is_here() -> None:
    assert set(known(KIND)) == set(TABLE)


@pytest.mark.parametrize(("name", "layers"), listed("layers"))
def test_layers_are_those_of_the_tables(name: str, layers: int) -> None:
    net = read(name)
    assert sum(layer.count for layer in net.layers) == layers
    assert all((x.problem.n, x.problem.direction) == (net.batch, "forward") for x in net.layers)


@pytest.mark.parametrize(("name", "work"), listed("gflop"))
def test_their_work_is_that_of_the_tables(name: str, work: list[float]) -> None:
    assert [layer.problem.flops / 1e9 for layer in read(name).layers] == pytest.approx(work, abs=0.0055)


@pytest.mark.parametrize(("name", "work"), listed("gflop of all"))
def test_the_work_of_a_residual_network_is_that_of_its_table(name: str, work: float) -> None:
    assert sum(layer.count * layer.problem.flops for layer in read(name).layers) / 1e9 == pytest.approx(work, abs=0.051)


def test_groups_halve_the_work_of_a_layer() -> None:
    plain, grouped = (read(name).layers for name in ("alexnet", "alexnet-grouped"))
    shares = [after.problem.flops / before.problem.flops for before, after in zip(plain, grouped, strict=True)]
    assert shares == [1, 0.5, 1, 0.5, 0.5]


@pytest.mark.parametrize(("name", "outputs"), listed("outputs"))
def test_outputs_are_those_of_the_tables(name: str, outputs: list[int]) -> None:
    problems = [layer.problem for layer in read(name).layers]
    assert [x.lines[0].outputs for x in problems] == [x.lines[1].outputs for x in problems] == outputs


@pytest.mark.parametrize("name", [name for name in TABLE if not name.startswith(("resnet", "convnet"))])
def test_channels_go_on_from_layer_to_layer(name: str) -> None:
    """A residual network has branches; a benchmark's layers are no network."""
    problems = [layer.problem for layer in read(name).layers]
    assert [x.c for x in problems[1:]] == [x.k for x in problems[:-1]]


def test_a_first_layer_needs_no_dgrad_unless_its_images_are_trained() -> None:
    for name in TABLE:
        first, *others = read(name).layers
        trained = name in ("alexnet-s-tf", "alexnet-grouped", "convnet-benchmarks")
        assert first.first is not trained and not any(layer.first for layer in others)
        assert len(first.passes()) == 2 + trained and len(others[0].passes()) == 3


def test_layers_that_networks_share_are_one() -> None:
    every = distinct_layers(1)
    assert {x.n for x in every} == {1} and len(set(every)) == len(every) == 79
    assert sum(x.count for name in TABLE for x in read(name).layers) == sum(row["layers"] for row in TABLE.values())


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
