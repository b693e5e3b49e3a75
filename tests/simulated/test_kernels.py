"""Every CUDA kernel of the suite, run on the CPU, against float64; and kernels broken on purpose, refused."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kernels.ops.fma import Fma
from kernels.ops.gemm import Gemm
from kernels.ops.launch import Calls
from kernels.ops.stream import Stream
from kernels.ops.transpose import Transpose
from kernels.problem import Problem
from tests.simulated import cases, launcher

pytestmark = pytest.mark.skipif(launcher.missing() is not None, reason=launcher.missing() or "")
ROOT = cases.gemm.SOURCE.parents[3]
HOW: tuple[dict[str, Any], ...] = ({"align": 16}, {"align": 4, "backward": True})
SHAPES = [(1, 1, 1), (33, 65, 17), (70, 129, 45)]
FACTORS = [(1.0, 0.0), (-0.7, 2.5), (0.0, 1.0)]
LAYOUTS = ["nn", "nt", "tn", "tt"]


def test_every_kernel_is_tried() -> None:
    sources = sorted((ROOT / "kernels").rglob("*.cu"))
    assert {name for path in sources for name in launcher.names(path.read_text())} == set(cases.NAMES)
    assert sum(path.read_text().count("__global__") for path in sources) == len(cases.NAMES)


@pytest.mark.parametrize("how", HOW, ids=str)
@pytest.mark.parametrize("kernel", cases.KERNELS, ids=lambda kernel: kernel.name)
def test_kernel_at_three_odd_shapes(kernel: cases.Kernel, how: dict[str, Any]) -> None:
    for problem in kernel.problems:
        assert cases.run(kernel, problem, **how).allowed, problem.name


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", cases.gemm.TILES)
def test_product_in_every_layout(name: str, shape: tuple[int, int, int]) -> None:
    for trans, (alpha, beta), pad in itertools.product(LAYOUTS, FACTORS, (0, 3)):
        problem = Gemm(*shape, trans, alpha=alpha, beta=beta, ld_pad=pad)
        assert cases.run(cases.find(name), problem).allowed, problem.name


@pytest.mark.parametrize("count", [*range(16, 24), 255, 1024, 8191, 8192, 8193])
@pytest.mark.parametrize("kind", ["read", "copy", "triad"])
def test_stream_at_the_edges(kind: str, count: int) -> None:
    for how in HOW:
        assert cases.run(cases.find(f"stream_{kind}"), Stream(kind, 4 * count), **how).allowed


@pytest.mark.parametrize("steps", [*range(1, 9), 15, 16, 17])
def test_fma_takes_as_many_steps_as_are_asked(steps: int) -> None:
    """In rounds of four: twenty steps are all that shows, x being as good as 2d after them."""
    assert cases.run(cases.find("fma_chains10"), Fma("cuda", steps, processors=2), short_rounds()).allowed


def short_rounds() -> str:
    return changed(cases.fma.CUDA_SOURCE.read_text(), "step", "UNROLL = 64", "UNROLL = 4", 0)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("steps / UNROLL", "steps / UNROLL - 1"),
        ("steps % UNROLL", "steps % UNROLL - 1"),
        ("steps % UNROLL", "steps"),
        ("s < UNROLL", "s < UNROLL - 1"),
        ("s < UNROLL", "s <= UNROLL"),
    ],
)
def test_fma_with_other_steps_is_refused(old: str, new: str) -> None:
    text = changed(short_rounds(), "fma_chains10", old, new, 0)
    assert not cases.run(cases.find("fma_chains10"), Fma("cuda", 11), text).allowed


BROKEN: list[tuple[str, Problem, str, str, int]] = [
    # kernel, problem, what is changed into what, which occurrence
    ("sgemm_naive", Gemm(33, 65, 17), "l * a_col]", "l * a_row]", 0),
    ("sgemm_naive", Gemm(33, 65, 17), "|| j >= n", "|| j > n", 0),
    ("sgemm_naive", Gemm(33, 65, 17), "l < k", "l < k - 1", 0),
    ("sgemm_naive", Gemm(33, 65, 17), "across * NAIVE_ROWS", "across * NAIVE_COLS", 0),
    ("sgemm_naive", Gemm(33, 65, 17), "beta == 0 ? alpha * sum :", "", 0),
    ("sgemm_tiled", Gemm(70, 129, 45), "__syncthreads();", "", 0),
    ("sgemm_tiled", Gemm(70, 129, 45), "__syncthreads();", "", 1),
    ("sgemm_tiled", Gemm(70, 129, 45), "a_row, a_col);", "a_col, a_row);", 0),
    ("sgemm_tiled", Gemm(70, 129, 45, "nt"), "b_col, b_row);", "b_row, b_col);", 0),
    ("sgemm_tiled", Gemm(70, 129, 45), "r < extent &&", "", 0),
    ("sgemm_tiled", Gemm(70, 129, 45), "&& l < depth", "", 0),
    ("sgemm_tiled", Gemm(70, 129, 45), "&& col < n", "", 0),
    ("sgemm_tiled", Gemm(70, 129, 45, ld_pad=3), "row * ldc", "row * n", 0),
    ("sgemm_tiled", Gemm(70, 129, 45), "HALF + at + group % 4", "HALF + at + group % 3", 0),
    ("sgemm_tiled", Gemm(70, 129, 45), "TILE + 4", "TILE + 1", 0),  # a misaligned float4
    ("transpose_naive", Transpose(129, 70), "threadIdx.y + s < at.rows && ", "", 0),
    ("transpose_naive", Transpose(129, 70), " && threadIdx.x < at.cols", "", 0),
    ("transpose_naive", Transpose(129, 70), "+ at.j + threadIdx.x;", "+ at.j;", 0),
    ("transpose_naive", Transpose(129, 70), "* ldx + at.j", "* ldy + at.j", 0),
    ("transpose_naive", Transpose(129, 70), "* DOWN, at.j", "* TILE, at.j", 0),
    ("transpose_naive", Transpose(100, 70), "at.rows == DOWN", "at.rows >= TILE", 0),
    ("transpose_tiled", Transpose(129, 70), "__syncthreads();", "", 0),
    ("transpose_tiled", Transpose(129, 70), "threadIdx.y + s < at.cols && ", "", 0),
    ("transpose_tiled", Transpose(129, 70), " && threadIdx.x + r < at.rows", "", 0),
    ("transpose_tiled", Transpose(129, 70), "y + (at.j + threadIdx.y)", "y + (at.i + threadIdx.y)", 0),
    ("transpose_tiled", Transpose(129, 70), "= tile[threadIdx.x + r]", "= tile[threadIdx.x]", 0),
    ("transpose_tiled", Transpose(129, 70), "= tile[threadIdx.x + r]", "= tile[threadIdx.x]", 1),
    ("transpose_tiled", Transpose(129, 70), "[TILE + 1]", "[TILE - 1]", 0),
    ("transpose_tiled", Transpose(129, 70), "blockIdx.x - down * across", "blockIdx.x", 0),
    ("stream_read", Stream("read", 4 * 40003), "__syncthreads();", "", 0),
    ("stream_read", Stream("read", 4 * 40003), "i < count; i += step) sum", "i < 0; i++) sum", 0),
    ("stream_read", Stream("read", 4 * 40003), "WARPS / 2; d;", "WARPS / 4; d;", 0),
    ("stream_read", Stream("read", 4 * 40003), "WARP / 2; d;", "WARP / 4; d;", 0),
    ("stream_read", Stream("read", 4 * 40003), "y[blockIdx.x] =", "y[0] =", 0),
    ("stream_copy", Stream("copy", 4 * 1027), "i < count; i += step) y[i] = a[i];", "i < 0; i++) ;", 0),
    ("stream_copy", Stream("copy", 4 * 1027), "count / 4", "(count + 3) / 4", 0),
    ("stream_triad", Stream("triad", 4 * 1027), "v.w)", "u.w)", 0),
    ("stream_triad", Stream("triad", 4 * 1027), "a[i] + 3 * b[i]", "a[i] + b[i]", 0),
    ("fma_chains10", Fma("cuda", 7, processors=3), "0.5f", "0.25f", 0),
    ("fma_chains10", Fma("cuda", 7, processors=3), "c < CHAINS; c++) x[c] =", "c < CHAINS - 1; c++) x[c] =", 0),
    ("fma_chains10", Fma("cuda", 7, processors=3), "left; left--", "left > 1; left--", 0),
    ("fma_chains10", Fma("cuda", 7, processors=3), "d[lane]", "d[threadIdx.x]", 0),
    ("fma_chains10", Fma("cuda", 7, processors=3), "gridDim.x * THREADS", "THREADS", 0),
    ("fma_chains10", Fma("cuda", 7, processors=3), "x[c * lanes + lane] = chain[c]", "x[lane] = chain[c]", 0),
    ("fma_chains10", Fma("cuda", 7, processors=3), "THREADS = 512", "THREADS = 256", 0),
    ("launch_empty", Calls("empty", 1), "{}", "{ x[threadIdx.x % 16] += 1; }", 0),
    ("launch_gemm", Calls("gemm", 1), "a[i * N + l]", "a[l * N + i]", 0),
    ("launch_gemm", Calls("gemm", 1), "b[l * N + j]", "b[j * N + l]", 0),
    ("launch_gemm", Calls("gemm", 1), "l < N", "l < N - 1", 0),
    ("launch_gemm", Calls("gemm", 1), "c[i * N + j] = sum", "c[i * N + i] = sum", 0),
    ("launch_gemm", Calls("gemm", 3), "c[i * N + j] = sum", "c[i * N + j] += sum", 0),
]


def changed(text: str, kernel: str, old: str, new: str, occurrence: int) -> str:
    """The first such text from the kernel on, or before it in what it calls."""
    start = text.index(f"{kernel}(") if old in text[text.index(f"{kernel}(") :] else 0
    for _ in range(occurrence):
        start = text.index(old, start) + len(old)
    at = text.index(old, start)
    return text[:at] + new + text[at + len(old) :]


@pytest.mark.parametrize(
    ("kernel", "problem", "old", "new", "occurrence"),
    BROKEN,
    ids=[f"{name}-{old}-{new}-{i}" for name, _, old, new, i in BROKEN],
)
def test_broken_kernel_is_refused(kernel: str, problem: Problem, old: str, new: str, occurrence: int) -> None:
    one = cases.find(kernel)
    text = changed(one.source.read_text(), kernel, old, new, occurrence)

    def passes(**how: Any) -> bool:
        try:
            return cases.run(one, problem, text, **how).allowed
        except launcher.LaunchFailed:
            return False

    assert not all(passes(**how) for how in HOW)


def test_unaligned_floats_are_not_read_as_float4() -> None:
    text = cases.stream.CUDA_SOURCE.read_text().replace("where % sizeof(float4) ? 0 : count / 4", "count / 4")
    problem = Stream("copy", 4 * 1027)
    assert cases.run(cases.find("stream_copy"), problem, text, align=16).allowed
    with pytest.raises(launcher.LaunchFailed, match="misaligned"):
        cases.run(cases.find("stream_copy"), problem, text, align=4)
