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
from micro.planning import conv_layers
from micro.planning import network as planning_network
from tests.macro.models import Convolution, Dense, Flatten, Pool

COUNTS = {  # parameters, as the tables of their source have them
    "fcn-s": 117_997_696,
    "fcn-s:4": 122_194_048,
    "fcn-s:6": 130_586_752,
    "fcn-r": 14_205_962,
    "fcn-r:cntk": 13_714_442,
    "alexnet-s": 62_378_344,
    "alexnet-s:tf": 76_009_832,
    "alexnet-s:cntk": 62_378_344,
    "alexnet-s:caffe": 28_823_912,
    "alexnet-s:mxnet": 11_135_720,
    "alexnet-r": 85_098,
    "alexnet-r:caffe": 89_578,
    "resnet-50": 25_557_032,
    "resnet-50:stride-1x1": 25_557_032,
    "resnet-56": 853_018,
    "resnet-56:bias": 855_050,
    "resnet-56:caffe": 863_242,
    "resnet-56:cntk": 1_727_962,
}
FORWARD = {  # FLOP at the network's own batch, where the source's scripts and their re-counts have them
    "alexnet-s": 36.33e9,
    "alexnet-s:tf": 40.65e9,
    "alexnet-s:cntk": 36.46e9,
    "alexnet-s:caffe": 19.54e9,
    "alexnet-s:mxnet": 18.3e9,
    "alexnet-r": 22.0e9,
    "alexnet-r:caffe": 25.2e9,
    "resnet-56": 32.1e9,
    "resnet-56:bias": 32.1e9,
    "resnet-56:cntk": 64.7e9,
    "resnet-50": 2 * 16 * 4.09e9,
    "resnet-50:stride-1x1": 2 * 16 * 3.86e9,
}
ROOT = Path(__file__).parents[2]
FCN = [name for name in networks.names() if name.startswith("fcn")]
WITH_CONVOLUTIONS = [name for name in networks.names() if name not in FCN]


@pytest.mark.parametrize("name", COUNTS)
def test_parameters_are_those_of_the_tables(name: str) -> None:
    network = networks.find(name)
    assert network.parameters == COUNTS[name]


def test_a_network_of_ones_own_is_one_file() -> None:
    network = networks.find(f"{ROOT}/docs/examples/vgg.py:VGG11")
    assert network.parameters == 9_750_922 and network.nodes[-4].output == (512,)


@pytest.mark.parametrize("name", FORWARD)
def test_flops_are_those_of_the_texts(name: str) -> None:
    network = networks.find(name)
    assert network.flops(network.batch, "forward") == pytest.approx(FORWARD[name], rel=0.005)


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
    assert from_data(json.loads(json.dumps(network.data()))) == network
    assert network.name == name


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_is_told_there_and_back(loss: str) -> None:
    network = replace(networks.find("fcn-s"), loss=loss)
    assert from_data(json.loads(json.dumps(network.data()))) == network
    assert network.plan()["loss"] == loss


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


@pytest.mark.parametrize("name", ["nope", "base", "fcn-s:9", "../fcn_s", "absent.json"])
def test_no_network_is_one_line(name: str) -> None:
    with pytest.raises(UsageError) as told:
        networks.find(name)
    assert "\n" not in str(told.value) and name in str(told.value)


def test_layers_that_do_not_fit_are_refused() -> None:
    told = chain("x", "", 1, (3, 4, 2), 0.1).data()
    told["layers"] = [told["layers"][0], {**told["layers"][1], "inputs": 5}]
    with pytest.raises(ValueError, match="out takes 5, fc1 gives 4"):
        from_data(told)


LAYERS = [
    {"name": "fc1", "inputs": 3, "outputs": 4, "activation": "relu", "first": True},
    {"name": "out", "inputs": 4, "outputs": 2, "activation": "none"},
]
FILE = {"network": "mine", "batch": 8, "rate": 0.1, "layers": LAYERS}
LAST = {"name": "fc", "outputs": 2}


def behind(**layer: object) -> dict[str, object]:
    """A network whose first layer is this one, on images."""
    return {"layers": [layer, LAST], "input": [2, 8, 8]}


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"momentun": 0.9}, "no key momentun, the nearest is momentum"),
        ({"batch": 8.5}, "batch: 8.5, give a whole number"),
        ({"rate": "0.1"}, "rate: '0.1', give a number"),
        (
            {"layers": [LAYERS[0], LAYERS[1] | {"actvation": "relu"}]},
            "layer 2: no key actvation, the nearest is activation",
        ),
        ({"layers": [LAYERS[0] | {"first": "no"}, LAYERS[1]]}, "layer 1: first: 'no', give true or false"),
        ({"layers": [LAYERS[0] | {"inputs": "3"}, LAYERS[1]]}, "layer 1: inputs: '3', give a whole number"),
        ({"batch": 0}, "batch 0, input [3]: positive whole numbers"),
        ({"input": [0]}, "batch 8, input [0]: positive whole numbers"),
        ({"layers": []}, "input missing: the sizes of a sample, [784] or [3, 32, 32]"),
        ({"layers": [], "input": [3]}, "it has no layers"),
        ({"layers": [{"name": "f", "kind": "flatten"}], "input": [3]}, "no layer has parameters: a step moves"),
        (behind(name="p", kind="pool", stride=0), "p: window 2, stride 0: 0 or"),
        (behind(name="p", kind="pool", pads=[1, 1]), "p: pads [1, 1]: four whole"),
        (behind(name="p", kind="pool", pads=[2] * 4), "of a window of 2: smaller"),
        (behind(name="p", kind="pool", window=0, pads=[1] * 4), "has no pads"),
        (behind(name="n", kind="norm", epsilon=-1.0), "n: epsilon -1.0, share"),
        (behind(name="s", kind="shortcut", channels=1), "s: a shortcut of 1"),
        (behind(name="c", kind="conv", filters=2, pad=1, pads=[1] * 4), "c: it has pad and pads: take one of them"),
        ({"layers": [LAYERS[0], LAYERS[1] | {"after": [["fc1"]]}]}, 'layer 2: after: [["fc1"]], give names of layers'),
        ({"layers": [LAYERS[0], LAYERS[1] | {"name": "a b"}]}, "'a b' names no layer: letters, digits"),
        ({"layers": [LAYERS[0], LAYERS[1] | {"name": "loss"}]}, "'loss' names no layer"),
        ({"layers": [LAYERS[0], LAYERS[1] | {"name": "fc1.out"}]}, "fc1.out is called as if it were inside another"),
        ({"layers": [LAYERS[0] | {"outputs": 0}, LAYERS[1]]}, "fc1 gives (0,): the outputs of layers are positive"),
        ({"layers": [LAYERS[0] | {"name": "out"}, LAYERS[1]]}, "two layers of one name"),
        ({"layers": [LAYERS[0], LAYERS[1] | {"first": True}]}, "out is not the first layer"),
        (
            {"layers": [LAYERS[0], LAYERS[1] | {"activation": "tanh"}]},
            "out: activation tanh: there are sigmoid, relu, none",
        ),
        ({"loss": "hinge"}, "loss hinge: there are softmax, binary, squared"),
        ({"rate": float("inf")}, "rate inf: a positive one"),
        ({"rate": 0.0}, "rate 0: a positive one"),
        ({"momentum": float("nan")}, "momentum nan: below 1"),
        ({"momentum": 2.0}, "momentum 2: below 1"),
        ({"optimizer": "lion"}, "optimizer lion: there are sgd, nesterov, adagrad, rmsprop, adam"),
        ({"optimizer": "nesterov", "momentum": 0.0}, "momentum 0: below 1, and of nesterov more than 0"),
        ({"optimizer": "adagrad", "momentum": 0.9}, "adagrad has no momentum"),
        ({"optimizer": "adam", "rho": 1.0}, "rho 1: between 0 and 1"),
        ({"optimizer": "rmsprop", "epsilon": 1e-30}, "epsilon 1e-30: 1e-15 or more, below 1"),
        ({"rho": 0.9}, "sgd has no rho"),
        ({"epsilon": "small"}, "epsilon: 'small', give a number"),
        ({"layers": [LAYERS[0], {"name": "out", "inputs": 4}]}, "layer 2: outputs missing"),
        ({"layers": [LAYERS[0], LAYERS[1] | {"kind": "densse"}]}, "layer 2: kind densse: "),
        ({"layers": [LAYERS[0], LAYERS[1] | {"after": ["fc2"]}]}, "out comes after fc2, which is no layer before it"),
        ({"layers": [LAYERS[0], LAYERS[1] | {"after": ["input"], "inputs": 3}]}, "nothing takes what fc1 gives"),
        ({"layers": [*LAYERS, {"name": "sum", "kind": "add"}]}, "sum takes 2 inputs, after: out"),
        (
            {"layers": [{"name": "conv", "kind": "conv", "filters": 2}], "input": [3]},
            "conv: a convolution takes images",
        ),
        (
            {"layers": [{"name": "c", "kind": "conv", "filters": 2}], "input": [1, 9, 9]},
            "takes a number for each class",
        ),
        ({"layers": [{"name": "c", "kind": "conv", "filters": 2}], "input": [1, 2, 9]}, "--r 3: longer than an image"),
    ],
)
def test_a_file_with_something_else_in_it_is_refused(tmp_path: Path, changed: dict[str, object], why: str) -> None:
    path = tmp_path / "net.json"
    path.write_text(json.dumps(FILE))
    assert networks.find(str(path)) == chain("mine", "", 8, (3, 4, 2), 0.1, hidden="relu")
    path.write_text(json.dumps(FILE | changed))
    with pytest.raises(UsageError) as told:
        networks.find(str(path))
    assert str(told.value).startswith(f"{path}: no network as docs/networks.md has them (") and why in str(told.value)
    assert "\n" not in str(told.value)


PROGRAM = """
from macro.networks.base import Network
from macro.networks.layers import Convolution
from macro.networks.layers import Dense
from macro.networks.layers import Flatten

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
    with pytest.raises(UsageError, match="takes a script"):
        networks.find(str(path))
    path.write_text("import nothing_of_this_name")
    with pytest.raises(UsageError, match=r"net\.py: ModuleNotFoundError: No module named"):
        networks.find(f"{path}:MINE")


def test_what_needs_no_gradient_is_told_by_its_place() -> None:
    layers = (Pool(name="pool"), Convolution(name="conv", filters=2), Flatten(name="flat"), Dense(name="fc", outputs=3))
    nodes = chain("x", "", 1, (3, 2), 0.1).nodes, networks.base.Network("x", "", 1, layers, 0.1, input=(1, 8, 8)).nodes
    assert [node.first for node in nodes[0]] == [True] and [node.first for node in nodes[1]] == [
        True,
        True,
        False,
        False,
    ]
    assert "dgrad" not in nodes[1][1].roles and "dgrad" in nodes[1][3].roles
