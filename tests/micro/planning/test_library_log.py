"""Calls as libraries print them, back into products and convolutions: whole, cut off, and through `--shapes`."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kernels.libs import mkl
from kernels.ops.conv.problem import Conv
from kernels.ops.gemm.problem import Gemm
from micro.planning.library_log import Calls, algorithms, read
from reports import store
from tests.conftest import Ran
from tests.processes import python

LOGS = Path(__file__).parent / "logs"
Command = Callable[..., Ran]


def described(text: str) -> str:
    """Return what a log holds: names of calls with their problems, how often, and their seconds."""
    calls = read(text).calls.items()
    return (
        "; ".join(
            f"{word}{f' {problem.name}' if problem else ''}, {some.count}×"
            + (f", {some.seconds:.4g} s" if some.seconds else "")
            for (word, problem), some in calls
        )
        or "nothing"
    )


# Texts by what they hold: as MKL, oneDNN and cuBLAS of several versions print them, and what is none of ours.
PARTS = re.split(r"^== (.*)\n", (LOGS / "calls.txt").read_text("utf-8"), flags=re.MULTILINE)
CALLS = [(title, text.removesuffix("\n")) for title, text in zip(PARTS[1::2], PARTS[2::2], strict=True)]


@pytest.mark.parametrize(("title", "text"), CALLS)
def test_call_is_read(title: str, text: str) -> None:
    assert described(text) == title


def first(start: str) -> str:
    """Return the first text whose title begins so."""
    return next(text for title, text in CALLS if title.startswith(start))


def products(text: str) -> list[Gemm]:
    return list(read(text).of(Gemm))


KNOWN = [  # different products
    (first("MKL SGEMM gemm/m:20/"), Gemm(20, 10, 30, "nt")),
    (first("cuBLAS Sgemm gemm/m:3/n:2/k:4,"), Gemm(3, 2, 4)),
    (first("oneDNN matmul gemm/m:5/"), Gemm(5, 7, 6, "nt", dtype="bf16")),
    (first("cuBLAS Sgemm gemm/m:3/n:2/k:4/trans:nt,"), Gemm(3, 2, 4, "nt")),
    (first("MKL SGEMM gemm/m:21/"), Gemm(21, 11, 31)),
]
FOREIGN = [text for title, text in CALLS if "gemm/" not in title and "conv/" not in title]
CONVOLUTION = first("oneDNN convolution conv/n:16/c:3/")
LINE = next(text for _, text in CALLS if text.startswith("onednn_verbose,v1,") and "ic96" in text)
LAYER = Conv(16, 96, 27, 27, 256, 5, 5, pad=2)


@pytest.mark.parametrize("text", FOREIGN)
def test_what_is_no_product_of_ours_is_passed_over(text: str) -> None:
    assert products(f"{text}\n{KNOWN[0][0]}\n{text}\n{KNOWN[1][0]}\n{text}") == [KNOWN[0][1], KNOWN[1][1]]


def test_a_log_of_all_three_keeps_their_order_and_names_each_product_once() -> None:
    lines = [text for known, _ in KNOWN for text in (known, FOREIGN[1])]
    assert products("\n".join([*lines, *reversed(lines)])) == [problem for _, problem in KNOWN]
    behind = f"rank 0: {KNOWN[0][0]}\r\n[0] {KNOWN[2][0]}\r\n"  # as a launcher or a logger puts them there
    assert products(behind) == [KNOWN[0][1], KNOWN[2][1]]


@pytest.mark.parametrize("number", range(len(KNOWN)))
def test_a_log_that_is_cut_off_loses_its_last_call_at_most(number: int) -> None:
    """Wherever it is cut, there is never another product than was called."""
    before = "\n".join(text for text, _ in KNOWN[:number])
    known, problem = KNOWN[number]
    earlier = [x for _, x in KNOWN[:number]]
    for end in range(len(known)):
        assert products(f"{before}\n{known[:end]}") in (earlier, [*earlier, problem]), known[:end]


def test_a_call_that_is_cut_off_is_never_another_convolution() -> None:
    for end in range(len(LINE)):
        assert list(read(LINE[:end]).of(Conv)) in ([], [LAYER]), LINE[:end]


def test_calls_of_another_thread_do_not_mix() -> None:
    lines, second = KNOWN[1][0].splitlines(), KNOWN[3][0]
    assert products("\n".join([*lines[:5], second])) == [KNOWN[3][1]]


def test_what_is_left_out_of_a_log_is_counted() -> None:
    others = [first(x) for x in ("oneDNN reorder", "MKL SGEMM_BATCH", "cuBLAS SgemmStridedBatched")]
    log = read("\n".join([CONVOLUTION, KNOWN[0][0], others[0], CONVOLUTION, others[1], KNOWN[0][0], others[2]]))
    assert log.of(Gemm) == {KNOWN[0][1]: Calls(2, pytest.approx(2 * 72.02e-6))}
    assert log.beside(Gemm) == {
        "oneDNN convolution": Calls(2, pytest.approx(3e-3)),
        "oneDNN reorder": Calls(1, pytest.approx(10.0098e-6)),
        "MKL SGEMM_BATCH": Calls(1, pytest.approx(217.79e-6)),
        "cuBLAS SgemmStridedBatched": Calls(1, None),
    }
    assert log.beside(Conv).keys() == {"MKL SGEMM", *log.beside(Gemm)} - {"oneDNN convolution"}


def test_what_convolutions_ran_by_stands_in_a_log() -> None:
    """The implementation's name, and the algorithm where it does not tell; what is not understood has none."""
    forward = Conv(n=16, c=3, h=32, w=32, k=64, r=3, s=3, pad=1)
    assert algorithms(CONVOLUTION) == {forward: "jit:avx512_core (direct)"}
    back = CONVOLUTION.replace("forward_training", "backward_data").replace("jit:avx512_core", "jit_wino:avx512_core")
    wino = back.replace("convolution_direct", "convolution_wino")
    assert algorithms(wino) == {replace(forward, direction="dgrad"): "jit_wino:avx512_core"}
    assert algorithms(CONVOLUTION.replace("exec,cpu", "create,cpu")) == {}
    assert algorithms(CONVOLUTION.replace("forward_training", "sideways")) == {}


# Through the command line


def test_products_from_a_log(gemm: Command, tmp_path: Path) -> None:
    path = tmp_path / "application.log"
    path.write_text("\n".join([first("nothing"), *(text for text, _ in KNOWN[::2])]))
    ran = gemm("--shapes", str(path), "--variant", "openblas", "--device", "fake", "--list")
    assert ran.code == 0
    longest_first = [KNOWN[i][1].name for i in (0, 4, 2)]
    lines = ran.out.splitlines()
    assert lines[1:4] == [
        f"{longest_first[0]}: 1 time (34.0% of the logged time)",
        f"{longest_first[1]}: 1 time (34.0% of the logged time)",
        f"{longest_first[2]}: 1 time (32.0% of the logged time)",
    ]
    assert lines[0] == "application.log: 3 of 3 calls used (100.0% of the logged time); left out: nothing."
    assert [line.split()[0] for line in lines[4::2]] == longest_first


def test_convolutions_from_a_log(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "cnn.log"
    dgrad = LINE.replace("forward_training", "backward_data")
    path.write_text("\n".join([LINE, dgrad, LINE, LINE.replace(":f32:", ":bf16:")]))
    ran = command("conv", "--shapes", str(path), "--variant", "direct", "--list")
    assert ran.code == 0
    assert ran.out.splitlines()[:4] == [
        "cnn.log: 3 of 4 calls used (75.0% of the logged time); left out: oneDNN convolution (bf16) 1 time (25.0% "
        "of the logged time).",
        "Convolutions are measured channels first (NCHW), whatever the layout in the log.",
        f"{LAYER.name}: 2 times (50.0% of the logged time)",
        f"{LAYER.name}/direction:dgrad: 1 time (25.0% of the logged time)",
    ]


def test_a_log_says_what_share_of_its_time_is_left_out(gemm: Command, tmp_path: Path) -> None:
    path, run = tmp_path / "cnn.log", tmp_path / "run.jsonl"
    path.write_text("\n".join([CONVOLUTION] * 20 + [KNOWN[0][0]] * 2))
    words = ("--shapes", str(path), "--variant", "openblas,naive", "--device", "fake", "--budget", "0.1s")
    assert gemm(*words, "-o", str(run)).code == 0
    (note,) = [note for note in store.read(run).notes if note.topic == "log"]
    assert note.data["sentences"] == [
        "cnn.log: 2 of 22 calls used (0.5% of the logged time); left out: oneDNN convolution 20 times "
        f"(99.5% of the logged time); for its convolutions: python -m micro.conv --shapes {path}.",
        f"{KNOWN[0][1].name}: 2 times (0.5% of the logged time)",
    ]


@pytest.mark.parametrize(
    ("text", "end"),
    [
        (
            CONVOLUTION,
            "it contains oneDNN convolution 1 time; for its convolutions: python -m micro.conv --shapes cnn.log",
        ),
        (
            "\n".join(FOREIGN[:9]),
            "products of two matrices; it contains oneDNN matmul 2 times, oneDNN inner_product 1 time, MKL",
        ),
        ("MKL_VERBOSE Intel(R) MKL 2020.0\nMKL_VERBOSE SGETRF(8,8,0x1,8,0x2,0) 1.20ms", "contains MKL SGETRF 1 time\n"),
        ("MKL_VERBOSE SGEMM(N,N,512,64,25", "it contains MKL SGEMM 1 time\n"),
    ],
)
def test_a_log_without_a_product_is_refused(
    gemm: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, end: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("cnn.log").write_text(text)
    ran = gemm("--shapes", "cnn.log", "--list")
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert end in ran.err and "none of this log's calls can be measured here, only MKL's SGEMM" in ran.err
    assert "nor a log" not in ran.err


@pytest.mark.parametrize(
    ("words", "head"),
    [
        (("--shapes", "mb1ic3ih8oc4kh3ph1"), "conv/n:1/c:3/h:8/w:8/k:4/pad:1 "),
        (("--shapes", "deepbench-device"), "deepbench-device: 16 of 17 convolutions used, 15 cases including"),
        (("--shapes", "deepbench-server.txt"), "deepbench-server.txt: 107 of 107 convolutions used, 103 cases"),
        (("--shapes", "convnet-benchmarks"), "convnet-benchmarks: 5 convolutions, 5 distinct, batch 128."),
        (("--net", "lenet"), "net/lenet/conv1/count:1/conv/n:64/c:1/h:28/w:28/k:20/r:5/s:5 "),
    ],
)
def test_shapes_by_name_and_as_text(command: Command, words: tuple[str, ...], head: str) -> None:
    ran = command("conv", *words, "--variant", "direct,im2col", "--list")
    assert ran.code == 0 and ran.out.startswith(head)


def test_a_log_s_run_ends_with_what_could_be_gained(command: Command, tmp_path: Path) -> None:
    path, run = tmp_path / "cnn.log", tmp_path / "run.jsonl"
    small = re.sub("mb16.*,", "mb1_ic2oc2_ih5oh5kh3sh1dh0ph1_iw5ow5kw3sw1dw0pw1,", LINE)
    path.write_text("\n".join([small] * 6 + [small.replace("forward_training", "backward_data")] * 4))
    words = ("--shapes", str(path), "--variant", "direct,im2col", "--device", "fake", "--budget", "0.1s")
    assert command("conv", *words, "-o", str(run)).code == 0
    (note,) = [note for note in store.read(run).notes if note.topic == "answer"]
    told = {x.descriptor.partition(" ")[0] for x in store.read(run).results if x.role == "measured"}
    assert told == {"--dir=FWD_D", "--dir=BWD_D"}, "what benchdnn takes for it"
    *ranked, last = note.data["sentences"]
    assert len(ranked) == 2 and all("batch 1: " in x and "direct takes " in x for x in ranked)
    assert last.startswith("A step's convolutions (all call counts are multiples of 2, assumed to be the log's steps)")


# What the libraries here really print

SIZES = ((64, 128, 256), (1, 128, 256), (33, 17, 65))
CONV2D = """
import torch
x = torch.ones((16, 8, 9, 11), requires_grad=True)
w = torch.ones((16, 4, 3, 2), requires_grad=True)
torch.nn.functional.conv2d(x, w, stride=2, padding=(1, 0), dilation=(1, 1), groups=2).sum().backward()
"""
OURS = """
from kernels.devices import open_device
from kernels.catalog import find
from kernels.setting import Setting
from micro.worker import guards
from micro.planning.contest import parse
device = open_device("cpu")
for name in {names}:
    problem = parse(name + "/variant:mkl/threads:1").problem
    bench = guards.Bench(device, problem)
    find("gemm", "mkl").prepare(problem, device, Setting())(bench.views).call()
"""
torch_here = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no torch: pip install torch")


def printed(program: str, **variables: str) -> str:
    """Return what libraries print in a program of one thread."""
    ran = python("-c", program, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", **variables)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@torch_here
def test_torch_tells_its_convolutions() -> None:
    told = list(read(printed(CONV2D, ONEDNN_VERBOSE="1")).of(Conv))
    assert told, "torch took none of oneDNN's kernels"
    forward = Conv(16, 8, 9, 11, 16, 3, 2, 2, pad_top=1, pad_bottom=1, groups=2)
    assert {replace(x, direction="forward") for x in told} == {forward}
    assert {x.direction for x in told} == {"forward", "dgrad", "wgrad"}


@pytest.mark.skipif(mkl.missing() is not None, reason="no MKL: pip install mkl")
def test_mkl_tells_our_products_with_their_padding() -> None:
    problems = [Gemm(*size, trans, ld_pad=pad) for size in SIZES for trans in ("nn", "tt", "nt") for pad in (0, 3)]
    told = products(printed(OURS.format(names=[x.name for x in problems]), MKL_VERBOSE="1"))
    assert told == problems
