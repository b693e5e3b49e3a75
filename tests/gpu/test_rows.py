"""Every row of device "cuda", from prepare to an answer that is checked, at odd shapes; captured ones as a graph, too.

On a real GPU where there is one; else on the fake CuPy, where the kernels and the libraries run on the CPU.
What it finds are swapped operands, flags, leading dimensions and wrong calls.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import subprocess
import sys
import zlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.devices.cuda import Cuda
from kernels.ops.fma import Fma
from kernels.ops.gemm import Gemm
from kernels.ops.gemm.problem import DTYPES
from kernels.ops.launch import Calls
from kernels.ops.launch.cuda import BLOCKS
from kernels.ops.mma import Mma
from kernels.ops.stream import Stream
from kernels.ops.transpose import Transpose
from kernels.problem import Problem
from kernels.variant import Setting, Variant, find, variants
from micro import _check
from tests.gpu.conftest import REAL, missing

ROOT = Path(__file__).parents[2]
SHAPES = ((33, 65, 17), (1, 1, 1), (70, 129, 45))
LAYOUTS = ("nn", "nt", "tn", "tt")
SCALES = ((1.0, 0.0), (0.5, 2.0))
COUNTS = (17, 1027, 40003)
FAMILIES = ("cuda-transpose-then-nn:geam", "cuda-kept-transpose:1")


def tries(op: str, *problems: Problem, also: Sequence[str] = ()) -> list[Any]:
    """Each row of a table with those of the problems that it accepts, where there are any."""
    table = (*variants(op), *(find(op, name) for name in also))
    found = {}
    for row in dict.fromkeys(row.name for row in table if row.device == "cuda"):
        accepted = [x for x in problems if find(op, row).accepts(x) is None]
        if accepted:
            found[row] = accepted
    return [pytest.param(find(op, row), accepted, id=row) for row, accepted in found.items()]


def products(dtype: str, trans: str) -> list[Any]:
    """Every shape, with factors and without, packed and padded."""
    problems = [
        Gemm(*shape, trans, dtype, alpha, beta, pad)
        for shape, (alpha, beta), pad in itertools.product(SHAPES, SCALES, (0, 3))
    ]
    some = tries("gemm", *problems, also=FAMILIES)
    return [pytest.param(*x.values, id=f"{x.id}-{dtype}-{trans}") for x in some]


def tried(device: Cuda, row: Variant[Any], problems: Sequence[Problem]) -> None:
    """Each problem is prepared, bound, launched, checked; and again as a replayed graph."""
    if reason := missing(row):
        pytest.skip(reason)
    for problem in problems:
        once(device, device.adopt(row), problem)


def once(device: Cuda, row: Variant[Any], problem: Problem) -> None:
    seed = zlib.crc32(problem.name.encode())
    try:
        bind = row.prepare(problem, device, Setting(device=device.name))
        _check.check(device, problem, row, bind, seed)
        bench = _check.Bench(device, problem)
        launch = bind(bench.views)
        if launch.capturable:
            replay = device.repeat(launch, 1)
            _check.judge(bench, replay, row, np.random.default_rng(seed + 1), problem.probes)
    except Exception as error:
        if not REAL:
            device.cp.queue.clear()  # the next one begins anew
        error.add_note(f"{row.name} at {problem.name}")
        raise


@pytest.mark.parametrize(
    ("row", "problems"), [x for dtype in DTYPES for trans in LAYOUTS for x in products(dtype, trans)]
)
def test_products(device: Cuda, row: Variant[Any], problems: list[Gemm]) -> None:
    if row.provider == "numba" and not REAL:  # the simulator takes a system thread for each of CUDA's
        some = [x for x in problems if x.ld_pad and x.m == 33 and bool(x.beta) == (x.trans in ("nn", "tt"))]
        problems = [replace(x, m=18, n=9, k=5) for x in some]
    tried(device, row, problems)


@pytest.mark.parametrize(
    ("row", "problems"),
    tries("stream", *(Stream(kind, 4 * count) for kind in ("read", "copy", "triad") for count in COUNTS)),
)
def test_streams(device: Cuda, row: Variant[Any], problems: list[Stream]) -> None:
    tried(device, row, problems)


@pytest.mark.parametrize(
    ("row", "problems"),
    tries("transpose", Transpose(1, 1), Transpose(33, 65), Transpose(129, 70), Transpose(5, 1)),
)
def test_transpositions(device: Cuda, row: Variant[Any], problems: list[Transpose]) -> None:
    tried(device, row, problems)


@pytest.mark.parametrize(
    ("row", "problems"),
    tries("fma", Fma("cuda", 1), Fma("cuda", 7, processors=3), Fma("cuda", 131, processors=2)),
)
def test_multiply_adds(device: Cuda, row: Variant[Any], problems: list[Fma]) -> None:
    tried(device, row, problems)


@pytest.mark.parametrize("dtype", ["tf32", "bf16", "fp16"])
@pytest.mark.parametrize("unit", ["mma", "wgmma"])
def test_tensor_cores(device: Cuda, unit: str, dtype: str) -> None:
    """On a real one also by as many steps as a ceiling takes."""
    if unit == "wgmma" and device.arch != "sm_90":
        pytest.skip(f"wgmma is Hopper's: {device.arch}")
    shapes = [(1, 1), (9, 2), *([(8191, device.processors)] if REAL else [])]
    tried(device, find("mma", "cuda"), [Mma(dtype, unit, steps, count) for steps, count in shapes])


CALLS = [Calls(kernel, chain) for kernel in ("gemm", "empty") for chain in (1, 3)]


@pytest.mark.parametrize(("row", "problems"), tries("launch", *CALLS))
def test_rungs(device: Cuda, row: Variant[Any], problems: list[Calls]) -> None:
    tried(device, row, problems)


@pytest.mark.skipif(REAL, reason="a GPU tells nobody how many launches it was given")
@pytest.mark.parametrize(("row", "problems"), tries("launch", Calls("gemm", 3), Calls("empty", 3)))
def test_a_rung_makes_as_many_launches_as_its_chain(
    device: Cuda, row: Variant[Any], problems: list[Calls]
) -> None:
    """An empty kernel is right where it was never launched."""
    if reason := missing(row):
        pytest.skip(reason)
    for problem in problems:
        assert_launched(device, row, problem)


def assert_launched(device: Cuda, row: Variant[Any], problem: Calls) -> None:
    bench = _check.Bench(device, problem)
    launch = row.prepare(problem, device, Setting(device=device.name))(bench.views)
    device.sync()
    device.cp.journal.clear()
    device.cp.started.clear()
    launch.call()
    told = list(device.cp.journal)
    device.sync()  # before its memory goes
    assert {(grid, block) for _, grid, block in device.cp.started} <= {
        ((1, 1, 1), BLOCKS[f"launch_{problem.kernel}"])
    }
    if row.name == "cuda-graph":
        assert told == ["graph of 3"]
    elif row.provider != "numba":  # the simulator keeps no journal
        assert len(told) == 3 and len(set(told)) == 1
    assert launch.uses == 3


@pytest.mark.skipif(REAL, reason="a GPU tells nobody which launches it was given")
@pytest.mark.parametrize(
    ("name", "launches"),
    [
        ("cuda-transpose-then-nn", ["transpose_tiled", "library"]),
        ("cuda-transpose-then-nn:geam", ["library", "library"]),
        ("cuda-kept-transpose:3", ["transpose_tiled", *["library"] * 3]),
    ],
)
def test_a_strategy_copies_and_multiplies_as_its_name_says(
    device: Cuda, name: str, launches: list[str]
) -> None:
    row, problem = find("gemm", name), Gemm(33, 65, 17, "tn")
    bench = _check.Bench(device, problem)
    launch = row.prepare(problem, device, Setting(device=device.name))(bench.views)
    device.sync()
    device.cp.journal.clear()
    launch.call()
    told = list(device.cp.journal)
    device.sync()
    assert told == launches


@pytest.mark.skipif(REAL, reason="they run on the GPU above")
@pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="no numba: pip install numba")
@pytest.mark.skipif(os.environ.get("NUMBA_ENABLE_CUDASIM") == "1", reason="this is that process")
def test_rows_of_numba_in_its_simulator() -> None:
    """The same tests, in a process that chose the simulator before Numba was imported."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:xdist", "-k", "numba-cuda", __file__],
        cwd=ROOT, env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"}, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout
