"""Networks as data: their counts against the tables of their source, and the way there and back."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from kernels.errors import UsageError
from kernels.ops.conv.problem import Conv
from macro import networks, shapes
from macro.networks.base import LOSSES, chain, from_data
from macro.networks.layers import Convolution, Dense, Flatten, Pool
from micro.planning import conv_layers
from micro.planning import network as planning_network

# By network its parameters and the FLOP of a forward pass at its own batch, where the tables of its source have them.
COUNTS = json.loads(Path(__file__).with_name("counts.json").read_text("utf-8"))
ROOT = Path(__file__).parents[2]
FCN = [name for name in networks.names() if name.startswith("fcn")]
WITH_CONVOLUTIONS = [
    name for name in networks.names() if any(x.layer.kind == "conv" for x in networks.find(name).nodes)
]


@pytest.mark.parametrize(("name", "parameters", "flops"), [(name, *counts) for name, counts in COUNTS.items()])
def test_counts_are_those_of_the_texts(name: str, parameters: int, flops: float | None) -> None:
    network = networks.find(name)
    assert network.parameters == parameters
    assert flops is None or network.flops(network.batch, "forward") == pytest.approx(flops, rel=0.005)


def test_a_network_of_ones_own_is_one_file() -> None:
    network = networks.find(f"{ROOT}/docs/examples/vgg.py:VGG11")
    assert network.parameters == 9_750_922 and network.nodes[-4].output == (512,)


def test_flops_of_a_step_are_those_of_its_products() -> None:
    """FCN-S, three hidden layers, batch 64: forward 7.013 + 2 × 0.537 + 7.013 GFLOP; no dgrad of the first."""
    network = networks.find("fcn-s")
    assert network.flops(64, "forward") / 1e9 == pytest.approx(15.1, abs=0.01)
    gradient = network.flops(64, "gradient")
    assert gradient == 3 * network.flops(64, "forward") - 2 * 64 * 26752 * 2048
    assert network.flops(64, "step") - gradient == 2 * network.parameters


@pytest.mark.parametrize("name", networks.names())
def test_there_and_back(name: str) -> None:
    network = networks.find(name)
    assert network.name == name
    for loss in LOSSES:
        other = replace(network, loss=loss)
        assert from_data(json.loads(json.dumps(other.data()))) == other and other.plan()["loss"] == loss


@pytest.mark.parametrize("name", WITH_CONVOLUTIONS)
def test_convolutions_are_those_that_micro_measures(name: str) -> None:
    """The file of micro has names of its own."""
    network = networks.find(name)
    problems = (node.problems(network.batch)["forward"][0] for node in network.nodes if node.layer.kind == "conv")
    written = conv_layers.of_record(json.loads(shapes.text(network)))
    assert Counter(problems) == _counts(conv_layers.read(name)) == _counts(written)


def _counts(read: conv_layers.Convolutions) -> Counter[Conv]:
    counts = Counter[Conv]()
    for layer in read.layers:
        counts[layer.problem] += layer.count
    return counts


def test_micro_reads_what_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net.json").write_text(json.dumps(FILE))
    assert shapes.main([str(tmp_path / "net.json")]) == 0
    (tmp_path / "shapes.json").write_text(capsys.readouterr().out)
    assert [x.name for x in planning_network.read(str(tmp_path / "shapes.json")).products] == [
        *(f"fc1 {phase}" for phase in ("forward", "wgrad")),
        *(f"out {phase}" for phase in ("forward", "dgrad", "wgrad")),
    ]


def test_products_of_sequences_have_all_steps_as_rows(tmp_path: Path) -> None:
    (tmp_path / "shapes.json").write_text(shapes.text(networks.find("lstm-ptb")))
    (forward, *_) = planning_network.read(str(tmp_path / "shapes.json")).products
    assert (forward.io.m, forward.io.n, forward.io.k) == (128 * 32, 10_000, 256)


def test_a_loss_and_an_optimizer_are_no_part_of_shapes() -> None:
    network = replace(networks.find("fcn-s"), loss="squared", optimizer="adagrad", epsilon=1e-8)
    assert shapes.text(network) == shapes.text(networks.find("fcn-s"))


@pytest.mark.parametrize("name", FCN)
def test_micro_has_its_shapes(name: str) -> None:
    """`python -m macro shapes NAME` prints them; micro reads the same products from the file."""
    network, file = networks.find(name), planning_network.SHAPES / f"{name.replace(':', '-')}.json"
    assert file.read_text("utf-8") == shapes.text(network), f"python -m macro shapes {name} > {file}"
    ours = {
        (layer.name, phase): problem
        for layer in network.nodes
        for phase, (problem,) in layer.problems(network.batch).items()
    }
    theirs = {(x, p.phase): p.io for p in planning_network.read(name).products for x in p.layers}
    assert ours == theirs


def test_layers_that_do_not_fit_are_refused() -> None:
    told = chain("x", "", 1, (3, 4, 2), 0.1).data()
    told["layers"] = [told["layers"][0], {**told["layers"][1], "inputs": 5}]
    with pytest.raises(ValueError, match="out expects 5 inputs, but fc1 outputs 4"):
        from_data(told)


LAYERS = [
    {"name": "fc1", "inputs": 3, "outputs": 4, "activation": "relu", "first": True},
    {"name": "out", "inputs": 4, "outputs": 2, "activation": "none"},
]
FILE = {"network": "mine", "batch": 8, "rate": 0.1, "layers": LAYERS}


def test_a_file_holds_a_network(tmp_path: Path) -> None:
    (tmp_path / "net.json").write_text(json.dumps(FILE))
    assert networks.find(str(tmp_path / "net.json")) == chain("mine", "", 8, (3, 4, 2), 0.1, hidden="relu")


PROGRAM = """
from macro.networks.base import Network
from macro.networks.layers import Convolution, Dense, Flatten

MINE = Network(
    "vgg",
    "a test",
    4,
    (Convolution(name="conv", filters=2, pad=1), Flatten(name="flat"), Dense(name="fc", outputs=3)),
    rate=0.1,
    input=(3, 8, 8),
)
"""


def test_a_network_of_a_program_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "net.py"
    path.write_text(PROGRAM)
    assert networks.find(f"{path}:MINE") == networks.find(f"{path}:vgg")
    assert networks.find(f"{path}:vgg").parameters == 2 * 27 + 2 + 2 * 64 * 3 + 3
    with pytest.raises(UsageError, match=r"net\.py:OURS: "):
        networks.find(f"{path}:OURS")
    ending = tmp_path / "ending.py"
    ending.write_text("import sys\nsys.exit(3)\n")
    with pytest.raises(UsageError, match=r"ending\.py: SystemExit: 3"):
        networks.find(f"{ending}:MINE")
    with pytest.raises(UsageError, match="for a training script"):
        networks.find(str(path))
    path.write_text("import nothing_of_this_name")
    with pytest.raises(UsageError, match=r"net\.py: ModuleNotFoundError: No module named"):
        networks.find(f"{path}:MINE")


def test_what_needs_no_gradient_is_told_by_its_place() -> None:
    layers = (Pool(name="pool"), Convolution(name="conv", filters=2), Flatten(name="flat"), Dense(name="fc", outputs=3))
    nodes = chain("x", "", 1, (3, 2), 0.1).nodes, networks.base.Network("x", "", 1, layers, 0.1, input=(1, 8, 8)).nodes
    assert [[node.first for node in each] for each in nodes] == [[True], [True, True, False, False]]
    assert "dgrad" not in nodes[1][1].roles and "dgrad" in nodes[1][3].roles
