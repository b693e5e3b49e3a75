"""Launch geometries: pure, complete, and within what a GPU allows."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kernels.errors import UsageError
from kernels.ops.fma import Fma
from kernels.ops.gemm import Gemm
from kernels.ops.launch import Calls
from kernels.ops.stream import Stream
from kernels.ops.transpose import Transpose
from tests.simulated import cases

ROOT = Path(__file__).parents[2]
TYPES = {
    "float *": ("operand", "workspace"),
    "unsigned *": ("operand", "workspace"),
    "wide_t *": ("workspace",),
    "int *": ("operand",),
    "unsigned short *": ("operand",),
    "index_t *": ("operand",),
    "float": ("float32",),
    "index_t": ("int64",),
}


def signature(kernel: cases.Kernel) -> list[tuple[str, str]]:
    """(type, name) of each parameter, as the source declares them."""
    text = re.search(rf"\b{kernel.name}\((.*?)\)", kernel.source.read_text(), re.S)
    assert text is not None
    found = [re.fullmatch(r"((?:unsigned )?\w+ \*|\w+ )(\w+)", x) for x in plain(text[1]).split(", ")]
    return [(x[1].strip() if "*" not in x[1] else x[1], x[2]) for x in found if x]


def plain(parameters: str) -> str:
    return " ".join(parameters.replace("const ", "").replace("__restrict__ ", "").split())


@pytest.mark.parametrize("kernel", cases.KERNELS, ids=lambda kernel: kernel.name)
def test_arguments_are_those_of_the_source_and_sizes_what_a_gpu_allows(kernel: cases.Kernel) -> None:
    for problem in kernel.problems:
        for geometry in kernel.launches(problem, kernel.name):
            declared = signature(cases.find(geometry.kernel))
            assert len(geometry.arguments) == len(declared)
            threads = math.prod(geometry.block)
            assert 0 < threads <= 1024 and threads % 32 == 0
            assert 0 < geometry.grid[0] < 1 << 31 and geometry.grid[1:] == (1, 1)
            for (kind, value), (type_, name) in zip(geometry.arguments, declared, strict=True):
                assert kind in TYPES[type_]
                assert kind != "operand" or value == name
                assert kind != "int64" or isinstance(value, int)


def sizes(problem: Any, kernel: str) -> dict[str, float | int | str]:
    """Values by the source's own names."""
    found = cases.find(kernel)
    (geometry,) = found.launches(problem, kernel)
    return {name: value for (_, name), (_, value) in zip(signature(found), geometry.arguments, strict=True)}


@pytest.mark.parametrize("kernel", cases.gemm.TILES)
def test_transposition_is_a_matter_of_strides(kernel: str) -> None:
    for trans in ("nn", "nt", "tn", "tt"):
        got = sizes(Gemm(5, 7, 11, trans, alpha=2.0, beta=3.0, ld_pad=2), kernel)
        a, b = ((13, 1) if trans[0] == "n" else (1, 7)), ((9, 1) if trans[1] == "n" else (1, 13))
        assert (got["a_row"], got["a_col"], got["b_row"], got["b_col"]) == (*a, *b)
        assert (got["m"], got["n"], got["k"], got["ldc"]) == (5, 7, 11, 9)
        assert (got["alpha"], got["beta"]) == (2.0, 3.0)


@pytest.mark.parametrize(
    ("kernel", "problem", "blocks"),
    [
        ("sgemm_naive", Gemm(8, 32, 1), 1),
        ("sgemm_naive", Gemm(9, 33, 1), 4),
        ("sgemm_tiled", Gemm(64, 64, 999), 1),
        ("sgemm_tiled", Gemm(65, 129, 1), 6),
        ("sgemm_tiled", Gemm(1024, 2048, 26752), 16 * 32),
        ("sgemm_tiled", Gemm(1 << 22, 64, 1), 1 << 16),  # grid.y would end at 65535
        ("transpose_naive", Transpose(64, 33), 2),
        ("transpose_tiled", Transpose(65, 32), 2),
        ("transpose_tiled", Transpose(1 << 22, 31), 1 << 16),
    ],
)
def test_a_block_a_tile(kernel: str, problem: Any, blocks: int) -> None:
    (geometry,) = cases.find(kernel).launches(problem, kernel)
    assert geometry.grid == (blocks, 1, 1)
    assert geometry.shared == 0


@pytest.mark.parametrize(
    ("count", "processors", "blocks"),
    [(16, 132, 1), (1024, 132, 1), (1025, 132, 2), (1 << 28, 132, 1056), (1 << 28, 148, 1184), (8193, 1, 8)],
)
def test_stream_has_no_more_blocks_than_run_at_once(count: int, processors: int, blocks: int) -> None:
    for kind in ("copy", "triad"):
        (geometry,) = cases.stream.launches(Stream(kind, 4 * count), f"stream_{kind}", processors)
        assert geometry.grid == (blocks, 1, 1)
    first, second = cases.stream.launches(Stream("read", 4 * count), "stream_read", processors)
    assert (first.grid, second.grid) == ((blocks, 1, 1), (1, 1, 1))
    assert first.arguments == (("operand", "a"), ("workspace", 4 * blocks), ("int64", count))
    assert second.arguments == (("workspace", 4 * blocks), ("operand", "y"), ("int64", blocks))


@pytest.mark.parametrize("processors", [1, 108, 132, 148])
def test_fma_has_a_block_a_multiprocessor(processors: int) -> None:
    problem = Fma("cuda", 960, processors=processors)
    (geometry,) = cases.fma.launches(problem, "fma_chains10")
    threads = geometry.grid[0] * geometry.block[0]
    assert geometry.grid == (processors, 1, 1)
    assert [x.shape for x in problem.operands()] == [(1, threads), (10, threads)]
    assert problem.flops == 2 * 960 * 10 * threads


@pytest.mark.parametrize("kernel", cases.gemm.TILES)
def test_geometry_of_a_twin_covers_c(kernel: str) -> None:
    blocks, (cols, rows) = cases.gemm.geometry(kernel, 33, 65)
    assert (blocks - 1) * rows * cols < 40 * 96 <= blocks * rows * cols * 2
    assert cases.gemm.geometry(kernel, 1, 1) == (1, (cols, rows))


def test_fma_names_stay_and_processors_are_those_of_cuda() -> None:
    assert Fma("avx2").name == "fma/isa:avx2"
    assert Fma("cuda", 960, processors=132).name == "fma/isa:cuda/steps:960/processors:132"
    with pytest.raises(UsageError, match="--processors 2: several require --chains 14"):
        Fma("avx2", processors=2)
    with pytest.raises(UsageError, match="--processors 0: must be 1 or more"):
        Fma("cuda", processors=0)


@pytest.mark.parametrize("kernel", ["empty", "gemm"])
def test_a_launch_a_call(kernel: str) -> None:
    many = cases.launch.launches(Calls(kernel, 20), f"launch_{kernel}")
    assert len(many) == 20 and len(set(many)) == 1
    assert many[0].grid == (1, 1, 1)


def test_nothing_heavy_is_imported() -> None:
    names = ["kernels.ops.gemm.gpu", *(f"kernels.ops.{op}.variants" for op in ("stream", "transpose", "fma", "launch"))]
    heavy = {"numpy", "cupy", "numba", "torch"}
    told = f"import sys, {', '.join(names)}; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", told], cwd=ROOT, check=False).returncode == 0
