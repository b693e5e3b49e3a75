"""Networks' products and convolutions against the tables of their sources, and convolutions as benchdnn's words."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from kernels.errors import UsageError
from kernels.ops.conv.problem import Conv
from kernels.ops.gemm.problem import Gemm
from micro.planning import benchdnn, conv_layers
from micro.planning.benchdnn import NotTaken, is_descriptor, is_list, problem, read_products
from micro.planning.conv_layers import KIND, SIZES, distinct_layers
from micro.planning.json_schema import WANTED
from micro.planning.network import NETWORK, SHAPES, Product, Products, known, read
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


def test_a_network_has_its_weights_and_is_known_by_its_colon() -> None:
    for name in known():
        assert read(read(name).network) == read(name)
    for name, millions in {"fcn-s": 118.0, "fcn-r": 14.2, "fcn-r-cntk": 13.7, "sae-large": 3.4}.items():
        assert round(sum(x.k * x.n for x in forward(read(name)).values()) / 1e6, 1) == millions
        assert read(name).network.replace(":", "-") == name


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
    with pytest.raises(UsageError, match=f"{key}: None, must be {WANTED[NETWORK[key]]}"):
        read(str(path))


# By network, as the tables of their sources have them: layers with those alike counted, GFLOP of a forward pass at the
# network's batch of all layers or layer by layer, rows and columns of outputs where networks differ in their padding.
TABLE = json.loads((Path(__file__).parent / "conv_layers.json").read_bytes())

# Descriptors of benchdnn by what they leave to be worked out, as names of convolutions.
TEXTS = json.loads((Path(__file__).parent / "benchdnn.json").read_bytes())


@pytest.mark.parametrize("name", TABLE)
def test_layers_are_those_of_the_tables(name: str) -> None:
    row, net = TABLE[name], conv_layers.read(name)
    problems, counts = [layer.problem for layer in net.layers], [layer.count for layer in net.layers]
    assert sum(counts) == row["layers"] and set(known(KIND)) == set(TABLE)
    assert all((x.n, x.direction) == (net.batch, "forward") for x in problems)
    if "gflop" in row:
        assert [x.flops / 1e9 for x in problems] == pytest.approx(row["gflop"], abs=0.0055)
    if "gflop of all" in row:
        work = sum(count * x.flops for count, x in zip(counts, problems, strict=True))
        assert work / 1e9 == pytest.approx(row["gflop of all"], abs=0.051)
    if "outputs" in row:
        assert [x.lines[0].outputs for x in problems] == [x.lines[1].outputs for x in problems] == row["outputs"]
    if not name.startswith(("resnet", "convnet")):  # a residual network has branches; a benchmark is no network
        assert [x.c for x in problems[1:]] == [x.k for x in problems[:-1]]


def test_a_first_layer_needs_no_dgrad_unless_its_images_are_trained() -> None:
    for name in TABLE:
        first, *others = conv_layers.read(name).layers
        trained = name in ("alexnet-s-tf", "alexnet-grouped", "convnet-benchmarks")
        assert first.first is not trained and not any(layer.first for layer in others)
        assert len(first.passes()) == 2 + trained and len(others[0].passes()) == 3


def test_layers_that_networks_share_are_one() -> None:
    every = distinct_layers(1)
    assert {x.n for x in every} == {1} and len(set(every)) == len(every) == 79
    assert sum(x.count for name in TABLE for x in conv_layers.read(name).layers) == sum(
        row["layers"] for row in TABLE.values()
    )


def test_what_was_published_is_of_the_pass() -> None:
    """Both gradients were timed together."""
    net = conv_layers.read("convnet-benchmarks")
    shown = net.layers[1].published("forward", net.measured)
    assert shown.startswith(
        "then, in ms at batch 128 on a GeForce GTX Titan X, April 2015: fbfft 27, cuda-convnet2 113, "
    )
    assert net.layers[1].published("wgrad", net.measured).startswith("then (both gradients), in ms at")
    assert conv_layers.read("lenet").layers[0].published("forward", "") == ""


def test_a_layer_says_all_of_a_convolution_but_what_a_step_chooses() -> None:
    assert {x.name for x in fields(Conv)} - {x.name for x in SIZES} == {"n", "direction", "layout"}


@pytest.mark.parametrize(
    ("name", "lines", "taken", "cases", "passes"),
    [("training", 94, 94, 270, 3), ("server", 107, 107, 103, 1), ("device", 17, 16, 15, 1)],
)
def test_deepbench(name: str, lines: int, taken: int, cases: int, passes: int) -> None:
    """Some stand twice there; sizes are width first, as (700, 161, 1, 4, 32, 20, 5, 0, 0, 2, 2)."""
    listed = benchdnn.read((SHAPES / f"deepbench-{name}.txt").read_text("utf-8"))
    assert (listed.taken, sum(listed.left_out.values())) == (taken, lines - taken)
    assert (len(listed.problems), len({x.direction for x in listed.problems})) == (cases, passes)
    assert name != "training" or listed.problems[0] == Conv(4, 1, 161, 700, 32, 5, 20, 2)


@pytest.mark.parametrize(("text", "name"), TEXTS.items())
def test_a_text_is_a_convolution(text: str, name: str) -> None:
    assert is_descriptor(text) and problem(text).name == name


def test_what_is_none_of_ours_is_named() -> None:
    for text, reason in (
        ("mb1ic3id8ih8oc4kd3kh3", "3-d"),
        ("mb1ic3ih8iw8oc4kh3kw3sh2sw1", "two strides"),
        ("mb1ic3ih8iw8oc4kh3kw3dh1dw0", "two dilations"),
        ("mb1ic3ih9oc4oh3kh3ph0", "outputs left out"),
        ("mb1ic3ih9oc4kh3sh0", "stride 0"),
    ):
        with pytest.raises(NotTaken, match=f"^{reason}$"):
            problem(text)


def cases() -> list[Conv]:
    """Odd shapes of all kinds, every side's padding its own in some."""
    sizes = [(1, 9, 9, 3, 3), (2, 9, 12, 3, 2), (1, 1, 20, 1, 3), (3, 16, 16, 5, 5)]
    rest = itertools.product((1, 2), (1, 2), ((0, 0, 0, 0), (1, 1, 1, 1), (0, 0, 1, 1), (1, 0, 0, 1)), (1, 2))
    return [
        Conv(n, 4, h, w, 6, r, s, stride, 0, *pads, dilation if r > 1 else 1, groups)
        for (n, h, w, r, s), (stride, groups, pads, dilation) in itertools.product(sizes, rest)
    ]


def test_there_and_back() -> None:
    """Padding after the image that reads nothing is not said, and so is what it must be: the outputs stay."""
    for one in cases():
        option, text = one.descriptor.split(" ")
        assert option == "--dir=FWD_D"
        back = problem(text)
        changed = {key for key, value in vars(one).items() if vars(back)[key] != value}
        assert changed <= {"pad", "pad_bottom", "pad_right"}, text
        assert [x.outputs for x in back.lines] == [x.outputs for x in one.lines], text
        assert back.inside == one.inside, text


def test_every_pass_has_its_word() -> None:
    words = [Conv(1, 1, 3, 3, 1, direction=x).descriptor for x in ("forward", "dgrad", "wgrad")]
    assert words == [f"--dir={word} mb1ic1ih3oc1oh1kh3ph0" for word in ("FWD_D", "BWD_D", "BWD_W")]


def test_a_file_is_in_all_passes_until_it_says_which() -> None:
    listed = benchdnn.read(
        "# two\nmb1ic1ih3oc1kh3  # one\n\n--dir=FWD_B,FWD_D,BWD_WB\nmb2ic1ih3oc1kh3\nmb2ic1ih3oc1kh3sh1sw2kw3iw3\n"
    )
    passes = [f"{x.n} {x.direction}" for x in listed.problems]
    assert passes == ["1 forward", "1 dgrad", "1 wgrad", "2 forward", "2 wgrad"]
    assert (listed.taken, listed.left_out) == (2, {"two strides": 1})


def test_a_list_is_told_from_a_log() -> None:
    assert is_list("# remark\n\nmb1ic1ih3oc1kh3\n") and is_list("--dir=FWD_D\n")
    assert not is_list("") and not is_list("{}") and not is_list("onednn_verbose,v1,info,cpu\nmb1ic1ih3oc1kh3")


# Products

LIST = '# benchdnn --matmul\n64x512:512x256n"net:fc1*2"\n1x8x4:1x4x6_n"one"\n64x512:512x256:64x256\n8x4:4x6\n'


def test_lines_are_products_each_once() -> None:
    listed = read_products(LIST + '12x96x64:12x64x96_n"scores*1"\n3x12x4x4:1x1x4x4\n')
    assert (listed.problems, listed.taken) == ([Gemm(64, 256, 512), Gemm(8, 6, 4)], 4)
    assert listed.left_out == {"a batch of 12": 1, "a batch of 36": 1}


def test_a_list_is_taken_by_products_alone(gemm: Callable[..., Ran], tmp_path: Path) -> None:
    path = tmp_path / "list.txt"
    path.write_text("--matmul\n" + LIST)
    ran = gemm("--shapes", str(path), "--list")
    assert ran.code == 0 and "list.txt: 4 of 4 products used, 2 distinct; left out: nothing." in ran.out
    assert "gemm/m:64/n:256/k:512 (differs: variant)" in ran.out


LISTED = [
    ("conv", "mb1ic8oc8_ih10kh5_kh5ph2\nmb1ic8oc8_ih10kh5_kh3ph2\n", "1 of 2 convolutions", "line 2: mb1ic8oc8_ih10"),
    ("conv", "mb1ic3ih8oc4kh3\nmb1ic3\n", "1 of 2 convolutions", "line 2: mb1ic3: must contain ic, oc, ih and kh"),
    ("gemm", '32x768:768x2304n"a b"\n8x4:5x6\n', "1 of 2 products", "line 2: 8x4:5x6: 4 columns of the source do not"),
    (
        "gemm",
        "8x4:4x6\nfc\nfc\nfc\nfc\nfc",
        "1 of 6 products",
        "line 4: fc: not a product like 64x512:512x256, 2 more lines.",
    ),
]


@pytest.mark.parametrize(("name", "text", "used", "left_out"), LISTED)
def test_a_line_that_is_no_problem_is_left_out(
    name: str, text: str, used: str, left_out: str, tmp_path: Path, command: Callable[..., Ran]
) -> None:
    (tmp_path / "list.txt").write_text(text)
    ran = command(name, "--shapes", str(tmp_path / "list.txt"), "--list")
    assert ran.code == 0 and f"list.txt: {used} used, " in ran.out and left_out in ran.out, ran.err
