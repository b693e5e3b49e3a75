"""Networks as data: their counts against the tables of their source, and the way there and back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernels.errors import UsageError
from macro import networks, shapes
from macro.networks.base import Layer, Network, dense, from_data
from micro.planning import network as planning_network

COUNTS = {  # parameters, as the tables of their source have them
    "fcn-s": 117_997_696,
    "fcn-s:4": 122_194_048,
    "fcn-s:6": 130_586_752,
    "fcn-r": 14_205_962,
    "fcn-r:cntk": 13_714_442,
}


@pytest.mark.parametrize("name", COUNTS)
def test_parameters_are_those_of_the_tables(name: str) -> None:
    network = networks.find(name)
    assert network.parameters == COUNTS[name]
    assert network.gradient_bytes == 4 * COUNTS[name]


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
    assert from_data(network.data()) == network
    assert network.name == name


@pytest.mark.parametrize("name", networks.names())
def test_micro_has_its_shapes(name: str) -> None:
    """`python -m macro shapes all` rewrites them; micro reads the same products from the file."""
    network = networks.find(name)
    assert shapes.path(network).read_text("utf-8") == shapes.text(network), "python -m macro shapes all"
    read = planning_network.read(name)
    ours = {
        (layer.name, phase): problem
        for layer in network.layers
        for phase, problem in layer.problems(network.batch).items()
    }
    theirs = {(x, p.phase): p.io for p in planning_network.products(read) for x in p.layers}
    assert ours == theirs


@pytest.mark.parametrize("name", ["nope", "base", "fcn-s:9", "../fcn_s", "absent.json"])
def test_no_network_is_one_line(name: str) -> None:
    with pytest.raises(UsageError) as told:
        networks.find(name)
    assert "\n" not in str(told.value) and name in str(told.value)


def test_layers_that_do_not_fit_are_refused() -> None:
    told = Network("x", "", 1, dense(3, 4, 2), 0.1).data()
    told["layers"] = [told["layers"][0], {**told["layers"][1], "inputs": 5}]
    with pytest.raises(ValueError, match="out takes 5, fc1 gives 4"):
        from_data(told)


LAYERS = [
    {"name": "fc1", "inputs": 3, "outputs": 4, "activation": "relu", "first": True},
    {"name": "out", "inputs": 4, "outputs": 2, "activation": "none"},
]
FILE = {"network": "mine", "batch": 8, "rate": 0.1, "layers": LAYERS}


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
        ({"batch": 0}, "the batch, inputs and outputs of layers are positive whole numbers"),
        (
            {"layers": [LAYERS[0] | {"inputs": -3}, LAYERS[1]]},
            "the batch, inputs and outputs of layers are positive whole numbers",
        ),
        ({"layers": [LAYERS[0] | {"name": "out"}, LAYERS[1]]}, "two layers of one name"),
        ({"layers": [LAYERS[0], LAYERS[1] | {"first": True}]}, "out is not the first layer"),
        ({"rate": float("inf")}, "rate and momentum are finite"),
        ({"momentum": float("nan")}, "rate and momentum are finite"),
        ({"layers": [LAYERS[0], {"name": "out", "inputs": 4, "outputs": 2}]}, "layer 2: activation missing"),
        ({"convolutions": []}, "it has convolutions"),
    ],
)
def test_a_file_with_something_else_in_it_is_refused(tmp_path: Path, changed: dict[str, object], why: str) -> None:
    path = tmp_path / "net.json"
    path.write_text(json.dumps(FILE))
    assert networks.find(str(path)) == Network(
        "mine", "", 8, (Layer("fc1", 3, 4, "relu", True), Layer("out", 4, 2, "none")), 0.1
    )
    path.write_text(json.dumps(FILE | changed))
    with pytest.raises(UsageError) as told:
        networks.find(str(path))
    assert str(told.value) == f"{path}: no network of dense layers like micro/shapes/fcn-r.json ({why})"


def test_a_program_is_told_what_can_be_done_today() -> None:
    with pytest.raises(UsageError, match=r"^network my/cnn\.py: .* cannot be explained yet.* --shapes log$"):
        networks.find("my/cnn.py")
