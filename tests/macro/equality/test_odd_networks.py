"""Frameworks that build another network than the one that is asked for: each is told by the name of its mistake."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from macro import networks
from macro.equality import defects, mistakes, proof
from macro.equality.answer import Answer
from macro.frameworks import find
from macro.networks.base import Network
from macro.networks.layers import Convolution
from macro.processes.job import Setting
from tests.macro.equality import odd_networks

NAMED = {
    "frozen": "frozen batch norm: ",
    "ceil": "poolings that round up: ",
    "shifted": "wrong padding (SAME): ",
    "unpadded": "wrong padding (none), in conv1: ",
    "padded": "wrong padding (one more on each side), in conv1: ",
    "biased": "biases too many (conv2.bias): conv2.bias has 8 parameters where the network has 0",
    "projected": "option-B shortcuts, which have parameters (short): short.weight has 128 parameters where ",
    "deeper": "another depth (5 layers of weights, not 4: odd-5 for odd-4): conv2b.weight has 576 parameters where ",
    "shallower": "a dropped layer (conv2): conv2.weight has 0 parameters where the network ",
    "trained": "trainable input (images): images has 6144 parameters where the network has 0",
    "squared": "another loss (squared): ",
    "wider": "loss 0 differs by ",  # no mistake that has a name
}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, proof.Verdict]:
    rows = [find(f"{odd_networks.__file__}:{name}") for name in odd_networks.ROWS]
    folder: Path = tmp_path_factory.mktemp("odd")
    found = proof.prove(
        odd_networks.NET, odd_networks.NET.batch, [(x, Setting()) for x in rows], folder, lambda _: None
    )
    return dict(zip(odd_networks.ROWS, found, strict=True))


def test_the_right_one_is_equal(verdicts: dict[str, proof.Verdict]) -> None:
    assert verdicts["right"].equal, verdicts["right"].why


def test_a_mistake_that_makes_no_difference_has_no_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """On sizes that fit, poolings that round up are the same."""
    right = Answer("numpy", {}, {"parameters": {}}, (1.0,), {})
    monkeypatch.setattr(mistakes, "suspects", lambda network: iter([("poolings that round up", network)]))
    monkeypatch.setattr(defects, "ask", lambda *given, counts: right)
    assert defects._of_the_layers(right, right, odd_networks.NET, 8, tmp_path) is None
    far = replace(right, losses=(2.0,))
    assert defects._of_the_layers(right, far, odd_networks.NET, 8, tmp_path) == "poolings that round up"


@pytest.mark.parametrize("name", NAMED)
def test_a_mistake_has_its_name(name: str, verdicts: dict[str, proof.Verdict]) -> None:
    verdict = verdicts[name]
    assert not verdict.equal and verdict.why is not None and verdict.why.startswith(NAMED[name])


@pytest.mark.parametrize(
    ("built", "named"),
    [
        ("resnet-56:cntk", ": another depth (110 layers of weights, not 56: "),
        ("resnet-56:caffe", ": option-B shortcuts, which have parameters ("),
        ("resnet-56:bias", ": biases too many (conv1.bias, stage1.0.conv1."),
        ("alexnet-r:caffe", ": poolings that round up"),
        ("alexnet-s:tf", ""),
        ("alexnet-s:mxnet", ": a dropped layer (conv4, conv5, fc6 and 1"),
    ],
)
def test_forms_of_the_literature_are_told_from_their_parameters(built: str, named: str) -> None:
    network = networks.find(built.partition(":")[0])
    want, other = (
        Answer("numpy", {}, {"parameters": mistakes.counts(one)}, (), {}) for one in (network, networks.find(built))
    )
    found = defects._of_the_structure(other, want, network, 2)
    assert found is not None and found.startswith(f"another network ({built}{named}")
    assert defects._of_the_structure(want, want, network, 2) is None


def test_another_form_with_the_same_parameters_is_tried(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """CNTK's AlexNet-S has as many as Torch's; zeros around its images lie otherwise."""
    tried = list[str]()

    def asks(framework: object, network: Network, *given: object, counts: object) -> Answer:
        tried.append(network.name)
        return right

    right = Answer("numpy", {}, {"parameters": {}}, (1.0,), {})
    monkeypatch.setattr(defects, "ask", asks)
    assert defects._of_the_layers(right, right, networks.find("alexnet-s"), 2, tmp_path) is None
    assert "alexnet-s:cntk" in tried and "alexnet-s:tf" not in tried


def test_a_mistake_in_several_layers_is_tried_in_each_by_itself() -> None:
    found = dict(mistakes.suspects(networks.find("resnet-56")))
    same = "wrong padding (SAME)"
    assert {same, f"{same}, in stage2.0.conv1", f"{same}, in stage3.0.conv1"} <= set(found)
    assert [x.pads for x in found[same].layers if isinstance(x, Convolution) and x.pads] == [(0, 0, 1, 1)] * 2
    assert "wrong padding (none)" not in found, "sums of images of other sizes"
    assert "wrong padding (more below and right)" not in found, "it is SAME there"


def test_a_layer_of_another_name_or_size_is_no_dropped_one() -> None:
    network = odd_networks.NET
    wanted = mistakes.counts(network)
    renamed = {name.replace("conv2", "conv_2"): count for name, count in wanted.items()}
    larger = wanted | {"fc.weight": 7}
    want = Answer("numpy", {}, {"parameters": wanted}, (1.0,), {})
    for built in (renamed, larger):
        other = replace(want, built={"parameters": built}, losses=(2.0,))
        assert defects.name(other, want, network, 8, Path()) is None
