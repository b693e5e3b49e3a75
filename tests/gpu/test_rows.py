"""Every row of device "cuda", from prepare to an answer that is checked, at odd shapes; captured ones as a graph, too.

On a real GPU where there is one; else on the fake CuPy, where the kernels and the libraries run on the CPU.
What it finds are swapped operands, flags, leading dimensions and wrong calls.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernels.catalog import find
from kernels.devices.cuda import Cuda
from kernels.ops.fma import Fma
from kernels.ops.gemm import Gemm
from kernels.ops.gemm.problem import DTYPES
from kernels.ops.mma import Mma
from kernels.ops.stream import Stream
from kernels.ops.transpose import Transpose
from kernels.variant import Variant
from tests.gpu.conftest import REAL
from tests.gpu.rows import enqueued, tried, tries

ROOT, RUNGS = Path(__file__).parents[2], Path(__file__).with_name("test_rungs.py")
SHAPES = ((33, 65, 17), (1, 1, 1), (70, 129, 45))
LAYOUTS = ("nn", "nt", "tn", "tt")
SCALES = ((1.0, 0.0), (0.5, 2.0))
COUNTS = (17, 1027, 40003)
FAMILIES = ("cuda-transpose-then-nn:geam", "cuda-kept-transpose:1")
PRODUCTS = [  # few: each layout with every shape and both factors; each other type with every layout
    *(
        Gemm(*SHAPES[i], trans, DTYPES[0], *SCALES[(i + t) % 2], (0, 3)[(i + t // 2) % 2])
        for t, trans in enumerate(LAYOUTS)
        for i in range(3)
    ),
    *(
        Gemm(*SHAPES[i and 1 + t % 2], trans, dtype, *SCALES[(i + t + d) % 2], 0 if i else 3)
        for d, dtype in enumerate(DTYPES[1:])
        for t, trans in enumerate(LAYOUTS)
        for i in range(2)  # the first padded to rows of whole words, for which every library has an algorithm
    ),
]


def products() -> Iterator[Any]:
    """Yield each type and layout of each row. A GPU takes a hundredth of a second for each problem, the fake more."""
    for x in tries("gemm", *PRODUCTS, also=FAMILIES):
        row, accepted = x.values
        for dtype, trans in dict.fromkeys((x.dtype, x.trans) for x in accepted):
            some = [x for x in accepted if (x.dtype, x.trans) == (dtype, trans)]
            yield pytest.param(row, some, id=f"{row.name}-{dtype}-{trans}")


@pytest.mark.parametrize(("row", "problems"), list(products()))
def test_products(device: Cuda, row: Variant[Any], problems: list[Gemm]) -> None:
    if row.provider == "numba" and not REAL:  # the simulator takes a system thread for each of CUDA's
        alpha, beta = SCALES[problems[0].trans in ("nn", "tt")]
        problems = [replace(problems[0], m=18, n=9, k=5, alpha=alpha, beta=beta, ld_pad=3)]
    tried(device, row, problems)


@pytest.mark.parametrize(
    ("row", "problems"),
    tries("stream", *(Stream(kind, 4 * count) for kind in ("read", "copy", "triad") for count in COUNTS)),
)
def test_streams(device: Cuda, row: Variant[Any], problems: list[Stream]) -> None:
    tried(device, row, problems)


@pytest.mark.parametrize(
    ("row", "problems"), tries("transpose", Transpose(1, 1), Transpose(33, 65), Transpose(129, 70), Transpose(5, 1))
)
def test_transpositions(device: Cuda, row: Variant[Any], problems: list[Transpose]) -> None:
    tried(device, row, problems)


@pytest.mark.parametrize(
    ("row", "problems"), tries("fma", Fma("cuda", 1), Fma("cuda", 7, processors=3), Fma("cuda", 131, processors=2))
)
def test_multiply_adds(device: Cuda, row: Variant[Any], problems: list[Fma]) -> None:
    tried(device, row, problems)


@pytest.mark.parametrize("dtype", ["tf32", "bf16", "fp16"])
@pytest.mark.parametrize("unit", ["mma", "wgmma"])
@pytest.mark.slow
def test_tensor_cores(device: Cuda, unit: str, dtype: str) -> None:
    """On a real one also by as many steps as a ceiling takes."""
    if unit == "wgmma" and device.arch != "sm_90":
        pytest.skip(f"wgmma requires Hopper: {device.arch}")
    shapes = [(1, 1), (9, 2), *([(8191, device.processors)] if REAL else [])]
    tried(device, find("mma", "cuda"), [Mma(dtype, unit, steps, count) for steps, count in shapes])


@pytest.mark.skipif(REAL, reason="a GPU tells nobody which launches it was given")
@pytest.mark.parametrize(
    ("name", "launches"),
    [
        ("cuda-transpose-then-nn", ["transpose_tiled", "library"]),
        ("cuda-transpose-then-nn:geam", ["library", "library"]),
        ("cuda-kept-transpose:3", ["transpose_tiled", *["library"] * 3]),
    ],
)
def test_a_strategy_copies_and_multiplies_as_its_name_says(device: Cuda, name: str, launches: list[str]) -> None:
    row, problem = find("gemm", name), Gemm(33, 65, 17, "tn")
    assert enqueued(device, row, problem)[1] == launches


WARNS = "ignore:invalid value:RuntimeWarning"


@pytest.mark.slow
@pytest.mark.skipif(REAL, reason="they run on the GPU above")
@pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="no numba: pip install numba")
@pytest.mark.skipif(os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="this is that process")
def test_rows_of_numba_in_its_simulator() -> None:
    """The same tests, in a process that chose the simulator before Numba was imported."""
    done = subprocess.run(
        # A probe with infinities warns in the simulator's threads, which no errstate of the check reaches.
        [sys.executable, "-m", "pytest", "-p", "no:xdist", "-W", WARNS, "-k", "numba-cuda", __file__, RUNGS],
        cwd=ROOT,
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout
