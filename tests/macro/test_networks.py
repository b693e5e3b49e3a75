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

# By network its parameters and the FLOP of a forward pass at its own batch, where the tables of its source have them.
COUNTS = json.loads(Path(__file__).with_name("counts.json").read_text("utf-8"))
ROOT = Path(__file__).parents[2]
FCN = [name for name in networks.names() if name.startswith("fcn")]
WITH_CONVOLUTIONS = [name for name in networks.names() if name not in FCN]


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
    assert from_data(json.loads(json.dumps(network.data()))) == network
    assert network.name == name


@pytest.mark.parametrize("loss", LOSSES)
def test_a_loss_is_told_there_and_back(loss: str) -> None:
    network = replace(networks.find("fcn-s"), loss=loss)
    assert from_data(json.loads(json.dumps(network.data()))) == network
    assert network.plan()["loss"] == loss


@pytest.mark.parametrize("name", WITH_CONVOLUTIONS)
def test_convolutions_are_those_that_micro_measures(name: str) -> None:
    network, theirs = networks.find(name), Counter[Conv]()
    for layer in conv_layers.read(name).layers:
        theirs[layer.problem] += layer.count
    problems = (node.problems(network.batch)["forward"][0] for node in network.nodes if node.layer.kind == "conv")
    assert Counter(problems) == theirs


@pytest.mark.parametrize("name", WITH_CONVOLUTIONS)
def test_a_file_with_names_of_its_own_stays(name: str, tmp_path: Path) -> None:
    """What would be written has the same shapes; without the file it is written."""
    network = networks.find(name)
    assert shapes.is_there(network) and not shapes.is_there(network, tmp_path)
    written = json.loads(shapes.text(network))
    assert shapes.shapes(written) == shapes.shapes(json.loads(shapes.path(network).read_text("utf-8")))
    shapes.path(network, tmp_path).write_text(shapes.text(network))
    assert shapes.is_there(network, tmp_path)
    other = replace(network, batch=network.batch + 1)
    assert not shapes.is_there(other, tmp_path)


def test_a_network_of_ones_own_takes_no_file_of_another(tmp_path: Path) -> None:
    there = "is there already; give it another name"
    for name, said in (("fcn-s", there), ("fcn-s-4", there), ("lenet", there), ("../x", "a file is named after it")):
        (tmp_path / "net.json").write_text(json.dumps(FILE | {"network": name}))
        with pytest.raises(UsageError, match=said):
            shapes.main([str(tmp_path / "net.json")])


def test_what_was_written_stands_and_nothing_is_written_where_one_cannot_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(shapes, "path", lambda network, folder=None: tmp_path / f"shapes-{network.name}.json")
    for name in ("mine", "other"):
        (tmp_path / f"{name}.json").write_text(json.dumps(FILE | {"network": name}))
    assert [shapes.main([str(tmp_path / "mine.json")]) for _ in range(2)] == [0, 0]
    (tmp_path / "mine.json").write_text(json.dumps(FILE | {"network": "mine", "batch": 5}))
    with pytest.raises(UsageError, match="is there already"):
        shapes.main([str(tmp_path / "other.json"), str(tmp_path / "mine.json")])
    assert not (tmp_path / "shapes-other.json").exists()
    (tmp_path / "mine.json").write_text(json.dumps(FILE | {"network": "other", "batch": 5}))
    with pytest.raises(UsageError, match="two have one file"):
        shapes.main([str(tmp_path / "other.json"), str(tmp_path / "mine.json")])


def test_a_loss_and_an_optimizer_are_no_part_of_shapes() -> None:
    network = replace(networks.find("fcn-s"), loss="squared", optimizer="adagrad", epsilon=1e-8)
    assert shapes.text(network) == shapes.text(networks.find("fcn-s"))


@pytest.mark.parametrize("name", FCN)
def test_micro_has_its_shapes(name: str) -> None:
    """`python -m macro shapes all` rewrites them; micro reads the same products from the file."""
    network = networks.find(name)
    assert shapes.path(network).read_text("utf-8") == shapes.text(network), "python -m macro shapes all"
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
