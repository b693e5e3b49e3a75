"""Lines as libraries print them, back into row-major products; with what stands between them, and cut off."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
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

ROOT = Path(__file__).parents[3]
FLAGS = {"n": "N", "t": "T"}


def products(text: str) -> list[Gemm]:
    return list(read(text).of(Gemm))


HEAD = "MKL_VERBOSE oneMKL 2024.0 Update 2 Product build 20240605 for Intel(R) 64 architecture, Lnx 2.60GHz lp64"
TAIL = "72.02us CNR:OFF Dyn:0 FastMM:1 TID:0  NThr:1"


def mkl_line(first: str, second: str, m: int, n: int, k: int, lds: tuple[int, int, int]) -> str:
    """One call as MKL tells it: flags, sizes, then each array with its leading dimension."""
    a, b, c = lds
    places = f"0x7ffe09ba72c0,0x561326ed8600,{a},0x561326ec8580,{b},0x7ffe09ba72e0,0x561326e6c1c0,{c}"
    return f"MKL_VERBOSE SGEMM({first},{second},{m},{n},{k},{places}) {TAIL}"


def onednn_line(kind: str, src: str, wei: str, sizes: str, engine: str = "brg_matmul:avx512_core") -> str:
    return (
        f"onednn_verbose,v1,primitive,exec,cpu,{kind},{engine},{'undef' if kind == 'matmul' else 'forward_training'},"
        f"src:{src}::f0 wei:{wei}::f0 dst:f32::blocked:ab::f0,attr-scratchpad:user,,{sizes},0.0678711"
    )


def sgemm_line(src: str, wei: str, sizes: str) -> str:
    """A call of oneDNN's BLAS, as TensorFlow makes it for gradients."""
    return (
        f"onednn_verbose,v1,primitive,exec,cpu,gemm_api,,undef,src_f32::blocked:{src}:f0 "
        f"wei_f32::blocked:{wei}:f0 dst_f32::blocked:ab:f0,,,{sizes},1.77612"
    )


CUBLAS_GEMM = "cublasOperation_t, cublasOperation_t, int, int, int, const float*, const float*, int"
TYPES = {"fp32": ("CUDA_R_32F", 0), "fp16": ("CUDA_R_16F", 2), "bf16": ("CUDA_R_16BF", 14)}


def cublas_call(
    first: int, second: int, m: int, n: int, k: int, lds: tuple[int, int, int], kind: str | tuple[str, int] = ""
) -> str:
    """Sgemm; with a type GemmEx. 0: CUBLAS_OP_N, 1: CUBLAS_OP_T, 2: CUBLAS_OP_C."""
    word, number = kind if isinstance(kind, tuple) else TYPES.get(kind, ("", 0))
    types = [f"i!  {x}type: type=cudaDataType_t; val={word}({number})" for x in "ABC"] if word else ["", "", ""]
    name = "cublasGemmEx" if word else "cublasSgemm_v2"
    flags = [f"CUBLAS_OP_{'NTC'[x]}({x})" for x in (first, second)]
    fields = [
        f"I! cuBLAS (v13.0) function cublasStatus_t {name}(cublasHandle_t, {CUBLAS_GEMM}) called:",
        "i!  handle: type=cublasHandle_t; val=POINTER (IN HEX:0x0x55d3f6c0a2d0)",
        f"i!  transa: type=cublasOperation_t; val={flags[0]}",
        f"i!  transb: type=cublasOperation_t; val={flags[1]}",
        f"i!  m: type=int; val={m}",
        f"i!  n: type=int; val={n}",
        f"i!  k: type=int; val={k}",
        "i!  alpha: type=float; val=POINTER (IN HEX:0x0x7ffd6ad0b2a8)",
        "i!  A: type=float; val=POINTER (IN HEX:0x0x7f21c2600000)",
        types[0],
        f"i!  lda: type=int; val={lds[0]}",
        "i!  B: type=float; val=POINTER (IN HEX:0x0x7f21c2600200)",
        types[1],
        f"i!  ldb: type=int; val={lds[1]}",
        "i!  beta: type=float; val=POINTER (IN HEX:0x0x7ffd6ad0b2ac)",
        "i!  C: type=float; val=POINTER (IN HEX:0x0x7f21c2600400)",
        types[2],
        f"i!  ldc: type=int; val={lds[2]}",
        "i! Time: 2026-11-21T20:00:00 elapsed from start 0.083333 minutes or 5.000000 seconds",
        "i!Process=2113941; Thread=140104; GPU=0; Handle=POINTER (IN HEX:0x0x55d3f6c0a2d0); StreamId=POINTER (nil)",
        "i! COMPILED WITH: GNU GCC/G++ / 11.2.1 20220127",
    ]
    return "\n".join(filter(None, fields))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (mkl_line("N", "N", 128, 64, 256, (128, 256, 128)), Gemm(64, 128, 256)),
        (mkl_line("T", "N", 128, 64, 256, (256, 256, 128)), Gemm(64, 128, 256, "nt")),
        (mkl_line("N", "T", 128, 64, 256, (128, 64, 128)), Gemm(64, 128, 256, "tn")),
        (mkl_line("T", "T", 128, 64, 256, (256, 64, 128)), Gemm(64, 128, 256, "tt")),
        (mkl_line("C", "N", 128, 64, 256, (256, 256, 128)), Gemm(64, 128, 256, "nt")),
        (mkl_line("T", "N", 128, 64, 256, (259, 259, 131)), Gemm(64, 128, 256, "nt", ld_pad=3)),
        (mkl_line("N", "T", 128, 64, 256, (131, 67, 131)), Gemm(64, 128, 256, "tn", ld_pad=3)),
        (mkl_line("N", "N", 128, 64, 256, (128, 256, 200)), Gemm(64, 128, 256)),  # C alone: not told
        (mkl_line("N", "N", 128, 1, 256, (128, 256, 128)), Gemm(1, 128, 256)),
        (onednn_line("matmul", "f32::blocked:ab", "f32::blocked:ab", "64x256:256x128"), Gemm(64, 128, 256)),
        (
            onednn_line("matmul", "bf16::blocked:ab", "bf16::blocked:ba", "64x256:256x128"),
            Gemm(64, 128, 256, "nt", dtype="bf16"),
        ),
        (
            onednn_line("matmul", "f16:a:blocked:ba", "f16:a:blocked:ab", "64x256:256x128"),
            Gemm(64, 128, 256, "tn", dtype="fp16"),
        ),
        (
            onednn_line("inner_product", "f32:a:blocked:ab", "f32:a:blocked:ab", "mb64ic256oc128"),
            Gemm(64, 128, 256, "nt"),
        ),
        (onednn_line("inner_product", "f32::blocked:ab", "f32::blocked:ba", "mb64ic256oc128"), Gemm(64, 128, 256)),
        (sgemm_line("ab", "ab", "64x256:256x128"), Gemm(64, 128, 256)),
        (sgemm_line("ab", "ba", "64x10:10x256"), Gemm(64, 256, 10, "nt")),
        (sgemm_line("ba", "ab", "512x64:64x256"), Gemm(512, 256, 64, "tn")),
        (cublas_call(1, 0, 2, 3, 4, (4, 4, 2)), Gemm(3, 2, 4, "nt")),
        (cublas_call(0, 0, 2, 3, 4, (2, 4, 2)), Gemm(3, 2, 4)),
        (cublas_call(0, 1, 2, 3, 4, (2, 3, 2)), Gemm(3, 2, 4, "tn")),
        (cublas_call(1, 2, 2, 3, 4, (4, 3, 2)), Gemm(3, 2, 4, "tt")),
        (cublas_call(1, 0, 2, 3, 4, (9, 9, 7)), Gemm(3, 2, 4, "nt", ld_pad=5)),
        (cublas_call(0, 0, 2, 3, 4, (2, 4, 2), "fp16"), Gemm(3, 2, 4, dtype="fp16")),
        (cublas_call(0, 0, 2, 3, 4, (2, 4, 2), "bf16"), Gemm(3, 2, 4, dtype="bf16")),
        (cublas_call(0, 0, 2, 3, 4, (2, 4, 2), "fp32"), Gemm(3, 2, 4)),
        (cublas_call(0, 0, 2, 3, 4, (2, 4, 2), ("CUDA_R_8I", 3)), Gemm(3, 2, 4, dtype="int8")),
    ],
)
def test_a_call_is_a_product(line: str, problem: Gemm) -> None:
    assert products(line) == [problem]


PLAIN = "src_f32::blocked:ab:f0 wei_f32::blocked:ab:f0 dst_f32::blocked:ab:f0"
BEFORE = [  # lines of older versions
    (mkl_line("t", "n", 128, 64, 256, (256, 256, 128)), Gemm(64, 128, 256, "nt")),
    (mkl_line("n", "c", 128, 64, 256, (128, 64, 128)), Gemm(64, 128, 256, "tn")),
    (f"dnnl_verbose,exec,cpu,matmul,gemm:jit,undef,{PLAIN},,,m64n128k256,0.5", Gemm(64, 128, 256)),
    (f"mkldnn_verbose,exec,cpu,matmul,gemm:jit,undef,{PLAIN},,,m64n128k256,0.5", Gemm(64, 128, 256)),
    (f"dnnl_verbose,exec,cpu,matmul,gemm:jit,undef,{PLAIN},,,64x256:256x128:64x128,0.5", Gemm(64, 128, 256)),
    (f"onednn_verbose,exec,cpu,gemm_api,,undef,{PLAIN},,64x256:256x128,0.5", Gemm(64, 128, 256)),
    (
        "onednn_verbose,primitive,exec,cpu,matmul,gemm:jit:f32,undef,src_f32::blocked:ab::f0 wei_f32::blocked:ba::f0 "
        "dst_f32::blocked:ab::f0,attr-scratchpad:user ,,64x256:256x128,0.5",
        Gemm(64, 128, 256, "nt"),
    ),
    (
        "mkldnn_verbose,exec,inner_product,gemm:blas,forward_inference,fsrc:nc fwei:oi fbia:x fdst:nc,,"
        "mb64ic256oc128,0,5",
        Gemm(64, 128, 256, "nt"),
    ),
]


@pytest.mark.parametrize(("line", "problem"), BEFORE)
def test_a_call_of_an_older_version_is_a_product(line: str, problem: Gemm) -> None:
    log = read(line)
    (seconds,) = [calls.seconds for calls in log.of(Gemm).values()]
    assert list(log.of(Gemm)) == [problem] and seconds == pytest.approx(72.02e-6 if "MKL_" in line else 0.5e-3)


FOREIGN = [
    f"dnnl_verbose,exec,cpu,matmul,gemm:jit,undef,{PLAIN.replace('ab', 'abc')},,,b8m64n128k256,0.5",
    f"dnnl_verbose,exec,cpu,matmul,gemm:jit,undef,{PLAIN},oscale:0:nan;,,m-9n-9k-9,0.5",  # not known before it runs
    "mkldnn_verbose,exec,inner_product,igemm_s8u8s32:blas,forward_inference,fsrc:nc fwei:oi fbia:x fdst:nc,,"
    "mb64ic256oc128,0.5",
    HEAD,
    "epoch 1: loss 0.3, 128 steps",
    "MKL_VERBOSE SAXPY(128,0x7ffe09ba72c0,0x561326ed8600,1,0x561326ec8580,1) 72.02us CNR:OFF",
    "MKL_VERBOSE DGEMM(N,N,128,64,256,0x7f,0x56,128,0x56,256,0x7f,0x56,128) 72.02us",
    "MKL_VERBOSE SGEMM_BATCH(N,N,0x7ffe,0x7ffe,0x7ffe,0x7ffe,0x7ffe,0x7ffe,0x7ffe) 217.79us CNR:OFF",
    mkl_line("N", "N", 128, 0, 256, (128, 256, 128)),  # a batch of none
    mkl_line("N", "N", 128, 64, 0, (128, 1, 128)),
    "onednn_verbose,v1,info,oneDNN v3.11.0 (commit 4d2b0e)",
    "onednn_verbose,v1,primitive,create:cache_miss,cpu,matmul,brg_matmul:avx512_core,undef,"
    "src:f32::blocked:ab::f0 wei:f32::blocked:ab::f0 dst:f32::blocked:ab::f0,attr-scratchpad:user,,64x256:256x128,0.1",
    "onednn_verbose,v1,primitive,exec,cpu,reorder,jit_direct_copy:uni,undef,src:f32::blocked:ab::f0 "
    "dst:f32::blocked:ab::f0,attr-scratchpad:user,,128x256,0.0100098",
    onednn_line("matmul", "bf16::blocked:abc", "bf16::blocked:abc", "3x64x256:3x256x128"),
    onednn_line("matmul", "f32::blocked:ab", "f32:a:blocked:AB16b64a", "64x256:256x128"),  # packed beforehand
    onednn_line("matmul", "f32::blocked:ab", "f32::blocked:ab", "0x256:256x128"),
    cublas_call(0, 0, 2, 0, 4, (2, 4, 2)),
    cublas_call(0, 0, 2, 3, 4, (2, 4, 2), ("CUDA_R_64F", 1)),
    "I! cuBLAS (v13.0) function cublasStatus_t cublasSetStream_v2(cublasHandle_t, cudaStream_t) called:\n"
    "i!  streamId: type=SOME TYPE; val=POINTER (IN HEX:0x(nil))",
    "I! cuBLAS (v13.0) function cublasStatus_t cublasSgemmStridedBatched(cublasHandle_t) called:\n"
    "i!  m: type=int; val=2",
]
KNOWN = [
    (mkl_line("T", "N", 10, 20, 30, (30, 30, 10)), Gemm(20, 10, 30, "nt")),
    (cublas_call(0, 0, 2, 3, 4, (2, 4, 2)), Gemm(3, 2, 4)),
    (onednn_line("matmul", "bf16::blocked:ab", "bf16::blocked:ba", "5x6:6x7"), Gemm(5, 7, 6, "nt", dtype="bf16")),
    (cublas_call(1, 0, 2, 3, 4, (4, 4, 2)), Gemm(3, 2, 4, "nt")),
    (mkl_line("N", "N", 11, 21, 31, (11, 31, 11)), Gemm(21, 11, 31)),
]


@pytest.mark.parametrize("line", FOREIGN)
def test_what_is_no_product_of_ours_is_passed_over(line: str) -> None:
    assert products(line) == []
    assert products(f"{line}\n{KNOWN[0][0]}\n{line}\n{KNOWN[1][0]}\n{line}") == [KNOWN[0][1], KNOWN[1][1]]


def test_a_log_of_all_three_keeps_their_order_and_names_each_product_once() -> None:
    lines = [text for known, _ in KNOWN for text in (known, FOREIGN[1], HEAD)]
    assert products("\n".join([*lines, *reversed(lines)])) == [problem for _, problem in KNOWN]


def test_lines_behind_other_words_count() -> None:
    """As a launcher or a logger puts them there."""
    assert products(f"rank 0: {KNOWN[0][0]}\r\n[0] {KNOWN[2][0]}\r\n") == [KNOWN[0][1], KNOWN[2][1]]


@pytest.mark.parametrize("number", range(len(KNOWN)))
def test_a_log_that_is_cut_off_loses_its_last_call_at_most(number: int) -> None:
    """Wherever it is cut, there is never another product than was called."""
    before = "\n".join(text for text, _ in KNOWN[:number])
    known, problem = KNOWN[number]
    earlier = [x for _, x in KNOWN[:number]]
    for end in range(len(known)):
        found = products(f"{before}\n{known[:end]}")
        assert found[: len(earlier)] == earlier
        assert found[len(earlier) :] in ([], [problem]), known[:end]


def test_calls_of_another_thread_do_not_mix() -> None:
    first, second = KNOWN[1][0].splitlines(), KNOWN[3][0]
    assert products("\n".join([*first[:5], second])) == [KNOWN[3][1]]


# Through the command line


def test_shapes_from_a_log(gemm: Callable[..., Ran], tmp_path: Path) -> None:
    path = tmp_path / "application.log"
    path.write_text("\n".join([HEAD, *(text for text, _ in KNOWN[::2])]))
    ran = gemm("--shapes", str(path), "--variant", "openblas", "--device", "fake", "--list")
    assert ran.code == 0
    longest_first = [KNOWN[i][1].name for i in (0, 4, 2)]
    lines = ran.out.splitlines()
    assert lines[:4] == [
        "application.log: 3 of 3 calls are taken (100.0% of the logged time); left out: nothing.",
        f"{longest_first[0]}: 1 time (34.0% of the logged time)",
        f"{longest_first[1]}: 1 time (34.0% of the logged time)",
        f"{longest_first[2]}: 1 time (32.0% of the logged time)",
    ]
    assert [line.split()[0] for line in lines[4::2]] == longest_first


CONVOLUTION = (
    "onednn_verbose,v1,primitive,exec,cpu,convolution,jit:avx512_core,forward_training,src:f32:a:blocked:acdb::f0 "
    "wei:f32:a:blocked:Acdb16a::f0 bia:f32:a:blocked:a::f0 dst:f32:a:blocked:acdb::f0,,alg:convolution_direct,"
    "mb16_ic3oc64_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1,1.5"
)


def test_what_is_left_out_of_a_log_is_counted() -> None:
    reorder = next(line for line in FOREIGN if "reorder" in line)
    batch = next(line for line in FOREIGN if "SGEMM_BATCH" in line)
    log = read("\n".join([CONVOLUTION, KNOWN[0][0], reorder, CONVOLUTION, batch, KNOWN[0][0], FOREIGN[-1]]))
    assert log.of(Gemm) == {KNOWN[0][1]: Calls(2, pytest.approx(2 * 72.02e-6))}
    assert log.beside(Gemm) == {
        "oneDNN convolution": Calls(2, pytest.approx(3e-3)),
        "oneDNN reorder": Calls(1, pytest.approx(10.0098e-6)),
        "MKL SGEMM_BATCH": Calls(1, pytest.approx(217.79e-6)),
        "cuBLAS SgemmStridedBatched": Calls(1, None),
    }


def test_what_convolutions_ran_by_stands_in_a_log() -> None:
    """The implementation's name, and the algorithm where it does not tell; what is not understood has none."""
    forward = Conv(n=16, c=3, h=32, w=32, k=64, r=3, s=3, pad=1)
    assert algorithms(CONVOLUTION) == {forward: "jit:avx512_core (direct)"}
    back = CONVOLUTION.replace("forward_training", "backward_data").replace("jit:avx512_core", "jit_wino:avx512_core")
    wino = back.replace("convolution_direct", "convolution_wino")
    assert algorithms(wino) == {replace(forward, direction="dgrad"): "jit_wino:avx512_core"}
    assert algorithms(CONVOLUTION.replace("exec,cpu", "create,cpu")) == {}
    assert algorithms(CONVOLUTION.replace("forward_training", "sideways")) == {}


def test_what_sets_a_library_up_is_no_call_of_a_log() -> None:
    assert not read("\n".join([HEAD, *(line for line in FOREIGN if "SetStream" in line or "create:" in line)])).calls


def test_a_log_says_what_share_of_its_time_is_left_out(gemm: Callable[..., Ran], tmp_path: Path) -> None:
    path, run = tmp_path / "cnn.log", tmp_path / "run.jsonl"
    path.write_text("\n".join([CONVOLUTION] * 20 + [KNOWN[0][0]] * 2))
    words = ("--shapes", str(path), "--variant", "openblas,naive", "--device", "fake", "--budget", "0.1s")
    assert gemm(*words, "-o", str(run)).code == 0
    (note,) = [note for note in store.read(run).notes if note.topic == "log"]
    assert note.data["sentences"] == [
        "cnn.log: 2 of 22 calls are taken (0.5% of the logged time); left out: oneDNN convolution 20 times "
        f"(99.5% of the logged time); its convolutions: python -m micro.conv --shapes {path}.",
        f"{KNOWN[0][1].name}: 2 times (0.5% of the logged time)",
    ]


def test_a_log_of_convolutions_alone_says_so(gemm: Callable[..., Ran], tmp_path: Path) -> None:
    path = tmp_path / "cnn.log"
    path.write_text(CONVOLUTION)
    ran = gemm("--shapes", str(path), "--list")
    assert ran.code == 2
    last = f"it holds oneDNN convolution 1 time; its convolutions: python -m micro.conv --shapes {path}"
    assert ran.err.rstrip().endswith(last)


@pytest.mark.parametrize("text", ["", "nothing of interest", "\n".join(FOREIGN), "\x00\x80"])
def test_a_log_without_a_product_is_refused(gemm: Callable[..., Ran], tmp_path: Path, text: str) -> None:
    path = tmp_path / "application.log"
    path.write_text(text)
    ran = gemm("--shapes", str(path), "--variant", "openblas", "--device", "fake", "--list")
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert "MKL_VERBOSE=1" in ran.err and str(path) in ran.err


# What the libraries here really print

SIZES = ((64, 128, 256), (1, 128, 256), (33, 17, 65))


def printed(program: str, **variables: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env=os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"} | variables,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


TORCH = """
import torch
torch.set_grad_enabled(False)
for m, n, k in {sizes}:
    for trans in {transes}:
        a, b = torch.ones((m, k), dtype={dtype}), torch.ones((k, n), dtype={dtype})
        a = a if trans[0] == "n" else a.t().contiguous().t()
        b = b if trans[1] == "n" else b.t().contiguous().t()
        torch.mm(a, b)
"""
torch_here = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no torch: pip install torch")


def asked(sizes: tuple[tuple[int, int, int], ...], dtype: str) -> list[Gemm]:
    return [Gemm(*size, trans, dtype=dtype) for size in sizes for trans in ("nn", "nt", "tn", "tt")]


def of_torch(sizes: tuple[tuple[int, int, int], ...], dtype: str) -> list[Gemm]:
    program = TORCH.format(sizes=sizes, transes=("nn", "nt", "tn", "tt"), dtype=dtype)
    return products(printed(program, MKL_VERBOSE="1", ONEDNN_VERBOSE="1"))


@pytest.mark.slow
@torch_here
def test_torch_tells_its_products() -> None:
    """A row or a column is stored both ways at once: of these the flags may be any."""
    sizes = (SIZES[0], SIZES[2])
    assert of_torch(sizes, "torch.float32") == asked(sizes, "fp32")


@torch_here
def test_torch_tells_its_products_of_half_precision() -> None:
    """By oneDNN where that has kernels for them; elsewhere it multiplies without a word."""
    sizes = (SIZES[0], SIZES[2])
    found = of_torch(sizes, "torch.bfloat16")
    if not found:
        pytest.skip("no kernels for bfloat16 here that tell")
    assert found == asked(sizes, "bf16")


OURS = """
from kernels.devices import open_device
from kernels.catalog import find
from kernels.setting import Setting
from micro.worker import check, guards
from micro.planning.contest import parse
device = open_device("cpu")
for name in {names}:
    problem = parse(name + "/variant:mkl/threads:1").problem
    bench = guards.Bench(device, problem)
    find("gemm", "mkl").prepare(problem, device, Setting())(bench.views).call()
"""


@pytest.mark.skipif(mkl.missing() is not None, reason="no MKL: pip install mkl")
def test_mkl_tells_our_products_with_their_padding() -> None:
    problems = [Gemm(*size, trans, ld_pad=pad) for size in SIZES for trans in ("nn", "tt", "nt") for pad in (0, 3)]
    told = products(printed(OURS.format(names=[x.name for x in problems]), MKL_VERBOSE="1"))
    assert told == problems
