"""Convolutions as oneDNN prints them, in all its versions, back into problems; and logs and lists as --shapes."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kernels.ops.conv.problem import Conv
from kernels.ops.gemm.problem import Gemm
from micro.command.line import main
from micro.conv import BENCHMARK
from micro.planning.library_log import Calls, read
from reports import store
from tests.conftest import Ran
from tests.micro.planning.test_library_log import printed

CNN = Path(__file__).parent / "logs/onednn-3.12-cnn.log"  # two steps of a small CNN, trained by PyTorch

Conved = Callable[..., Ran]


@pytest.fixture
def conv(
    capsys: pytest.CaptureFixture[str], own_state: Path, light_fake: None, in_process: Callable[..., Ran]
) -> Conved:
    return lambda *argv: in_process(capsys, main, BENCHMARK, "conv", argv)


def convolutions(text: str) -> list[Conv]:
    return list(read(text).of(Conv))


def words(text: str) -> list[str]:
    return list(read(text).beside(Conv))


SIZES = "mb16_ic96oc256_ih27oh27kh5sh1dh0ph2_iw27ow27kw5sw1dw0pw2"
LAYER = Conv(16, 96, 27, 27, 256, 5, 5, pad=2)
OLD = "src_{0}::blocked:aBcd16b:f0 wei_{0}::blocked:ABcd16b16a:f0 bia_undef::undef::f0 dst_{0}::blocked:aBcd16b:f0"
OLDEST = "fsrc:nChw8c fwei:OIhw8i8o fbia:undef fdst:nChw8c"
NEW = (
    "src:{0}:a:blocked:aBcd16b::f0 wei:{0}:a:blocked:ABcd16b16a::f0 bia:{0}:a:blocked:a::f0 dst:{0}:a:blocked:acdb::f0"
)


def line(
    head: str = "onednn_verbose,v1,primitive,exec,cpu",
    tensors: str = NEW,
    kind: str = "forward_training",
    sizes: str = SIZES,
    attributes: str = "attr-scratchpad:user,",
    dtype: str = "f32",
) -> str:
    told = tensors.format(dtype)
    return f"{head},convolution,jit:avx512_core,{kind},{told},{attributes}alg:convolution_direct,{sizes},128.5"


@pytest.mark.parametrize(
    "text",
    [
        line("mkldnn_verbose,exec", OLDEST, attributes=","),
        line("mkldnn_verbose,exec", OLDEST, attributes=",").replace("128.5", "128,5"),
        line("mkldnn_verbose,exec,cpu", OLD, attributes=","),
        line("dnnl_verbose,exec,cpu", OLD, attributes=","),
        line("onednn_verbose,exec,cpu", OLD, attributes="attr-scratchpad:user ,"),
        line("onednn_verbose,1668519340.123,exec,cpu", OLD, attributes="attr-post-ops:eltwise_relu ,"),
        line("onednn_verbose,primitive,exec,cpu"),
        line("onednn_verbose,v0,exec,cpu"),
        line(),
        line("onednn_verbose,v1,1731931.25,primitive,exec,cpu"),
        line("onednn_verbose,v1,primitive,exec,gpu:0", kind="forward_inference"),
        line("rank 0: onednn_verbose,v1,primitive,exec,cpu", attributes="attr-fpmath:strict,"),
    ],
)
def test_a_line_of_any_version_is_a_convolution(text: str) -> None:
    assert read(text).of(Conv) == {LAYER: Calls(1, pytest.approx(0.1285))}


@pytest.mark.parametrize(
    ("kind", "direction"),
    [
        ("forward_training", "forward"),
        ("forward_inference", "forward"),
        ("backward_data", "dgrad"),
        ("backward_weights", "wgrad"),
    ],
)
def test_a_pass_is_named(kind: str, direction: str) -> None:
    assert [x.direction for x in convolutions(line(kind=kind))] == [direction]


@pytest.mark.parametrize(
    ("sizes", "problem"),
    [
        (
            "mb1_ic3oc32_ih224oh112kh3sh2dh0ph0_iw224ow112kw3sw2dw0pw0",
            Conv(1, 3, 224, 224, 32, 3, 3, 2, pad_bottom=1, pad_right=1),
        ),
        ("g4mb2_ic8oc8_ih9oh5kh3sh1dh1ph0_iw9ow5kw3sw1dw1pw0", Conv(2, 8, 9, 9, 8, 3, 3, dilation=2, groups=4)),
        ("mb2_ic8oc8_iw9ow9kw3sw1dw0pw1", Conv(2, 8, 1, 9, 8, 1, 3, pad_left=1, pad_right=1)),
        ("mb1_ic3oc4_ih224oh55kh11sh4dh0ph2_iw224ow55kw11sw4dw0pw2", Conv(1, 3, 224, 224, 4, 11, 11, 4, 2)),
    ],
)
def test_padding_groups_and_lines_of_pixels(sizes: str, problem: Conv) -> None:
    assert convolutions(line(sizes=sizes)) == [problem]


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (line(dtype="bf16"), "oneDNN convolution (bf16)"),
        (line(tensors="src:u8::blocked:acdb::f0 wei:s8::blocked:any::f0 dst:f32::blocked:acdb::f0"), "(f32, s8, u8)"),
        (line(attributes="attr-scratchpad:user attr-fpmath:bf16,"), "oneDNN convolution (bf16, f32)"),
        (line(sizes="mb1_ic1oc1_id3od1kd3sd1dd0pd0_ih3oh1kh3sh1dh0ph0_iw3ow1kw3sw1dw0pw0"), "(3-d)"),
        (line(sizes="mb1_ic1oc1_ih5oh3kh3sh1dh0ph0_iw5ow2kw3sw2dw0pw0"), "(two strides)"),
        (line(sizes="mb1_ic1oc1_ih9oh3kh3sh1dh0ph0_iw9ow3kw3sw1dw0pw0"), "(outputs left out)"),
        (line("mkldnn_verbose,exec", OLDEST).replace("jit:", "jit_int8:"), "oneDNN convolution (int8)"),
        (line(sizes="mb1_ic1"), "(its sizes are not understood)"),
        (line(kind="backward_bias"), "(its pass is not understood)"),
        (line().replace(",convolution,", ",deconvolution,"), "oneDNN deconvolution"),
    ],
)
def test_what_is_none_of_ours_is_named(text: str, word: str) -> None:
    assert convolutions(text) == []
    (named,) = words(text)
    assert named.endswith(word)


def test_a_cut_line_is_never_another_convolution() -> None:
    for end in range(len(line())):
        assert convolutions(line()[:end]) in ([], [LAYER]), line()[:end]


def test_a_benchmark_of_products_names_convolutions_and_the_reverse() -> None:
    product = "onednn_verbose,v1,primitive,exec,cpu,matmul,brg,undef,src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0 "
    product += "dst:f32::blocked:ab::f0,,,64x256:256x128,0.5"
    log = read(f"{line()}\n{product}\n{line()}")
    assert log.of(Gemm) == {Gemm(64, 128, 256): Calls(1, 5e-4)}
    assert log.beside(Gemm) == {"oneDNN convolution": Calls(2, pytest.approx(0.257))}
    assert log.beside(Conv) == {"oneDNN matmul": Calls(1, 5e-4)}


def test_a_real_log_of_a_cnn() -> None:
    """Each of six layers in each pass a step, but for the dgrad of the first; the rest are copies into other orders."""
    log = read(CNN.read_text())
    calls = log.of(Conv)
    assert {x.count for x in calls.values()} == {2} and len(calls) == 17
    assert {x.direction for x in calls if x.c == 3} == {"forward", "wgrad"}
    assert [x.groups for x in calls if x.groups > 1] == [128] * 3
    assert set(log.beside(Conv)) == {"oneDNN reorder"}


TORCH = """
import torch
x = torch.ones((16, 8, 9, 11), requires_grad=True)
w = torch.ones((16, 4, 3, 2), requires_grad=True)
torch.nn.functional.conv2d(x, w, stride=2, padding=(1, 0), dilation=(1, 1), groups=2).sum().backward()
"""


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no torch: pip install torch")
def test_torch_tells_its_convolutions() -> None:
    told = convolutions(printed(TORCH, ONEDNN_VERBOSE="1"))
    assert told, "torch took none of oneDNN's kernels"
    forward = Conv(16, 8, 9, 11, 16, 3, 2, 2, pad_top=1, pad_bottom=1, groups=2)
    assert {replace(x, direction="forward") for x in told} == {forward}
    assert {x.direction for x in told} == {"forward", "dgrad", "wgrad"}


# Through the command line


def test_shapes_from_a_log(conv: Conved, tmp_path: Path) -> None:
    path = tmp_path / "cnn.log"
    path.write_text("\n".join([line(), line(kind="backward_data"), line(), line(dtype="bf16")]))
    ran = conv("--shapes", str(path), "--variant", "direct", "--list")
    assert ran.code == 0
    assert ran.out.splitlines()[:4] == [
        "cnn.log: 3 of 4 calls are taken (75.0% of the logged time); left out: oneDNN convolution (bf16) 1 time (25.0% "
        "of the logged time).",
        "Convolutions are measured with their channels first, in whatever order a log's tensors lie.",
        f"{LAYER.name}: 2 times (50.0% of the logged time)",
        f"{LAYER.name}/direction:dgrad: 1 time (25.0% of the logged time)",
    ]


@pytest.mark.parametrize(
    ("words", "head"),
    [
        (("--shapes", "mb1ic3ih8oc4kh3ph1"), "conv/n:1/c:3/h:8/w:8/k:4/pad:1 "),
        (("--shapes", "deepbench-device"), "deepbench-device: 16 of 17 convolutions are taken, 15 cases with"),
        (("--shapes", "deepbench-server.txt"), "deepbench-server.txt: 107 of 107 convolutions are taken, 103 cases"),
        (("--shapes", "convnet-benchmarks"), "convnet-benchmarks: 5 convolutions, 5 of them different, batch 128."),
        (("--net", "lenet"), "net/lenet/conv1/count:1/conv/n:64/c:1/h:28/w:28/k:20/r:5/s:5 "),
    ],
)
def test_shapes_by_name_and_as_text(conv: Conved, words: tuple[str, ...], head: str) -> None:
    ran = conv(*words, "--variant", "direct,im2col", "--list")
    assert ran.code == 0 and ran.out.startswith(head)


def test_a_result_says_what_benchdnn_takes_for_it(conv: Conved, tmp_path: Path) -> None:
    run = tmp_path / "run.jsonl"
    words = ("--shapes", "g2mb1ic4ih8oc4oh4kh3sh2ph1", "--variant", "direct", "--device", "fake")
    assert conv(*words, "--until", "plan", "-q", "-o", str(run)).code == 0
    told = [one.descriptor for one in store.read(run).results]
    assert told == [f"--dir={word} g2mb1ic4ih8oc4oh4kh3sh2ph1" for word in ("FWD_D", "BWD_D", "BWD_W")]


def test_a_log_s_run_ends_with_what_could_be_gained(conv: Conved, tmp_path: Path) -> None:
    path, run = tmp_path / "cnn.log", tmp_path / "run.jsonl"
    small = "mb1_ic2oc2_ih5oh5kh3sh1dh0ph1_iw5ow5kw3sw1dw0pw1"
    path.write_text("\n".join([line(sizes=small)] * 6 + [line(sizes=small, kind="backward_data")] * 4))
    words = ("--shapes", str(path), "--variant", "direct,im2col", "--device", "fake", "--budget", "0.1s")
    assert conv(*words, "-o", str(run)).code == 0
    (note,) = [note for note in store.read(run).notes if note.topic == "answer"]
    *ranked, last = note.data["sentences"]
    assert len(ranked) == 2 and all("batch 1: " in x and "direct takes " in x for x in ranked)
    assert last.startswith(
        "A step's convolutions (the log's calls come in multiples of 2, which are taken for its steps)"
    )
