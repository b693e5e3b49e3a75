"""The networks: their products are those that micro/shapes/fc.json names for them; what is no network is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernels.errors import UsageError
from kernels.ops.gemm.problem import Gemm
from micro.planning.network import NETWORK, SHAPES, Product, Products, known, read
from micro.planning.written import WANTED
from tests.conftest import Ran

USE = re.compile(r"(.+) (forward|dgrad|wgrad) (OI|IO) (nn|nt|tn) batch (\d+)")
HEADS = {  # how the uses of fc.json begin for each network, where it is not the network's name
    "alexnet": "bahrampour alexnet",
    "alexnet-s": "alexnet-s canonical",
    "alexnet-s-caffe": "alexnet-s caffe",
    "alexnet-s-tf": "alexnet-s tf",
    "karmanov-cnn": "karmanov cnn",
    "lenet": "bahrampour lenet",
    "sae-large": "sae large fine-tune",
    "sae-small": "sae small fine-tune",
    "woolf-cifar-cnn": "woolf cifar cnn",
    "woolf-mlp": "woolf mlp",
    "woolf-mnist-cnn": "woolf mnist cnn",
}
NAMED = ("alexnet-r", "fcn-r", "fcn-s", "resnet-50", "resnet-56")
FORMS = ("alexnet-s-caffe", "alexnet-s-tf")  # of which fc.json has the layer alone that others do not have
ALIKE = {"fc2, fc3 (fc4)": ("fc2", "fc3")}  # one line of fc.json, several layers

Key = tuple[str, str, str]  # layer, phase, layout


def uses(head: str) -> dict[Key, tuple[int, Gemm]]:
    """A network's products as fc.json names them: batch, product."""
    found: dict[Key, tuple[int, Gemm]] = {}
    for row in json.loads((SHAPES / "fc.json").read_bytes())["problems"]:
        for use in row["uses"]:
            match = USE.fullmatch(use)
            assert match, use
            network, _, layer = match[1].partition(f"{head} ")
            if network:
                continue
            for name in ALIKE.get(layer, (layer,)):
                key = name, match[2], match[3]
                assert key not in found
                found[key] = int(match[5]), Gemm(row["m"], row["n"], row["k"], match[4])
    return found


def forward(step: Products) -> dict[str, Gemm]:
    """By layer, W out×in: batch, outputs, inputs."""
    return {layer: x.oi for x in step.products if x.phase == "forward" for layer in x.layers}


def told(step: Products) -> dict[Key, tuple[int, Gemm]]:
    """The same as network.py makes them; the layers of autoencoders are named by their sizes in fc.json."""
    by_size = step.network.startswith("sae")
    names = {name: f"{x.k}-{x.n}" if by_size else name for name, x in forward(step).items()}
    return {
        (names[layer], product.phase, layout): (step.batch, problem)
        for product in step.products
        for layer in product.layers
        for layout, problem in (("OI", product.oi), ("IO", product.io))
    }


@pytest.mark.parametrize("name", [*HEADS, *NAMED])
def test_a_network_does_the_products_that_are_known_of_it(name: str) -> None:
    wanted, found = uses(HEADS.get(name, name)), told(read(name))
    assert wanted and wanted.items() <= found.items() and (name in FORMS or found.keys() == wanted.keys())


@pytest.mark.parametrize("name", known())
def test_a_step_does_the_work_of_its_weights(name: str) -> None:
    """In either layout; a first layer's dgrad is saved."""
    step, written = read(name), json.loads((SHAPES / f"{name}.json").read_bytes())
    for phase in ("forward", "dgrad", "wgrad"):
        layers = [x for x in written["layers"] if phase != "dgrad" or not x.get("first", False)]
        work = sum(2 * written["batch"] * x["inputs"] * x["outputs"] for x in layers)
        mine = [x for x in step.products if x.phase == phase]
        assert sum(len(x.layers) * x.oi.flops for x in mine) == work
        assert sum(len(x.layers) * x.io.flops for x in mine) == work


def test_a_network_of_a_family_is_known_by_its_colon() -> None:
    for name in known():
        assert read(read(name).network) == read(name)


@pytest.mark.parametrize(
    ("name", "millions"), [("fcn-s", 118.0), ("fcn-r", 14.2), ("fcn-r-cntk", 13.7), ("sae-large", 3.4)]
)
def test_weights(name: str, millions: float) -> None:
    step = read(name)
    assert round(sum(x.k * x.n for x in forward(step).values()) / 1e6, 1) == millions
    assert step.network.replace(":", "-") == name


def test_a_product_that_several_layers_do_stands_once() -> None:
    found = {product.name: product for product in read("fcn-s").products}
    assert len(found) == 2 + 3 + 3  # fc1 without dgrad; fc2 with fc3; out
    assert found["fc2+fc3 dgrad"].layers == ("fc2", "fc3")
    assert found["fc2+fc3 dgrad"].oi == Gemm(64, 2048, 2048)
    square = found["fc2+fc3 wgrad"], found["fc2+fc3 forward"]  # one wgrad in both layouts
    assert [product.oi == product.io for product in square] == [True, False]


def test_another_batch() -> None:
    found = read("lenet", 7).products
    assert {x.oi.k if x.phase == "wgrad" else x.oi.m for x in found} == {7}
    assert {x.io.k if x.phase == "wgrad" else x.io.m for x in found} == {7}


GOOD: dict[str, Any] = {
    "network": "mine",
    "batch": 8,
    "layers": [{"name": "a", "inputs": 4, "outputs": 6, "first": True}, {"name": "b", "inputs": 6, "outputs": 2}],
}


def test_a_network_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    path.write_text(json.dumps(GOOD | {"source": "nobody"}))
    assert read(str(path)) == Products(
        "mine",
        8,
        (
            Product("forward", ("a",), Gemm(8, 6, 4, "nt"), Gemm(8, 6, 4, "nn")),
            Product("wgrad", ("a",), Gemm(6, 4, 8, "tn"), Gemm(4, 6, 8, "tn")),
            Product("forward", ("b",), Gemm(8, 2, 6, "nt"), Gemm(8, 2, 6, "nn")),
            Product("dgrad", ("b",), Gemm(8, 6, 2, "nn"), Gemm(8, 6, 2, "nt")),
            Product("wgrad", ("b",), Gemm(2, 6, 8, "tn"), Gemm(6, 2, 8, "tn")),
        ),
    )


def test_remarks_and_whole_numbers_for_real_ones_are_taken(gemm: Callable[..., Ran], tmp_path: Path) -> None:
    row = {"m": 8, "n": 8, "k": 8, "trans": "nt", "alpha": 2, "name": "mine", "uses": ["here"], "source": "me"}
    path = tmp_path / "mine.json"
    path.write_text(json.dumps({"source": "me", "problems": [row]}))
    ran = gemm("--shapes", str(path), "--variant", "openblas", "--device", "fake", "--list")
    assert ran.code == 0 and ran.out.startswith("gemm/m:8/n:8/k:8/trans:nt/alpha:2 ")


@pytest.mark.parametrize("key", [*NETWORK])
def test_every_key_of_a_network_is_known_and_typed(tmp_path: Path, key: str) -> None:
    path = tmp_path / "net.json"
    path.write_text(json.dumps(GOOD | {key: None}))
    with pytest.raises(UsageError, match=f"{key}: None, give {WANTED[NETWORK[key]]}"):
        read(str(path))
