"""Rungs of `launch` on device "cuda": as many launches as a chain has, and each of them on the device.

On a real GPU where there is one; else on the fake CuPy.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from kernels.catalog import find
from kernels.devices.cuda import Cuda
from kernels.errors import LaunchError
from kernels.libs import driver
from kernels.ops.launch import Calls, gpu
from kernels.ops.launch.problem import LINE
from kernels.setting import Setting
from kernels.variant import Variant
from micro.worker import guards
from tests.gpu.conftest import REAL, missing
from tests.gpu.rows import tried, tries

CALLS = [Calls(kernel, chain) for kernel in ("gemm", "empty") for chain in (1, 3)]


@pytest.mark.parametrize(("row", "problems"), tries("launch", *CALLS))
def test_rungs(device: Cuda, row: Variant[Any], problems: list[Calls]) -> None:
    tried(device, row, problems)


@pytest.mark.skipif(REAL, reason="a GPU tells nobody how many launches it was given")
@pytest.mark.parametrize(("row", "problems"), tries("launch", Calls("gemm", 3), Calls("empty", 3)))
def test_a_rung_makes_as_many_launches_as_its_chain(device: Cuda, row: Variant[Any], problems: list[Calls]) -> None:
    """An empty kernel is right where it was never launched."""
    if reason := missing(row):
        pytest.skip(reason)
    for problem in problems:
        assert_launched(device, row, problem)


def assert_launched(device: Cuda, row: Variant[Any], problem: Calls) -> None:
    bench = guards.Bench(device, problem)
    launch = row.prepare(problem, device, Setting(device=device.name))(bench.views)
    device.sync()
    device.cp.journal.clear()
    device.cp.started.clear()
    launch.call()
    told = list(device.cp.journal)
    device.sync()  # before its memory goes
    assert {(grid, block) for _, grid, block in device.cp.started} <= {
        ((1, 1, 1), gpu.BLOCKS[f"launch_{problem.kernel}"])
    }
    if row.name == "cuda-graph":
        assert told == ["graph of 3"]
    elif row.provider != "numba":  # the simulator keeps no journal
        assert len(told) == 3 and len(set(told)) == 1
    assert launch.uses == 3


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """An empty kernel that is not: it counts its launches in the first element of x."""
    source, count = gpu.SOURCE.read_text("utf-8"), "{ if (threadIdx.x == 0) x[0] += 1; }"
    assert source.count("launch_empty(float *x) {}") == 1
    file = tmp_path / "counting.cu"
    file.write_text(source.replace("launch_empty(float *x) {}", f"launch_empty(float *x) {count}"), "utf-8")

    def empty(x: Any) -> None:
        if numba_cuda.threadIdx.x == 0:  # type: ignore[name-defined]  # noqa: F821
            x[0, 0] += 1

    in_numba = FunctionType(empty.__code__, vars(gpu))  # where Numba's simulator looks for numba.cuda
    monkeypatch.setattr(gpu, "SOURCE", file)
    monkeypatch.setattr(gpu, "_numba", lambda: {"empty": in_numba})
    gpu._jitted.cache_clear()
    yield
    gpu._jitted.cache_clear()


@pytest.mark.parametrize(("row", "problems"), tries("launch", Calls("empty", 1), Calls("empty", 3)))
def test_each_launch_of_an_empty_kernel_runs_on_the_device(
    device: Cuda, counting: None, row: Variant[Any], problems: list[Calls]
) -> None:
    """Its answer is right where it was never launched, or was refused."""
    if reason := missing(row):
        pytest.skip(reason)
    for problem in problems:
        bench = guards.Bench(device, problem)
        launch = row.prepare(problem, device, Setting(device=device.name))(bench.views)
        bench.load({"x": np.zeros((1, LINE), np.float32)})
        launch.call()
        launch.call()
        launched = 0 if row.name in ("nothing-cuda", "torch-cuda") else 2 * problem.chain
        assert bench.answer()["x"][0, 0] == launched, problem.name


@pytest.mark.skipif(REAL, reason="no GPU refuses on demand")
@pytest.mark.parametrize("name", ["cuda-c", "cuda-ctypes"])
@pytest.mark.parametrize("chain", [1, 3])
def test_a_launch_that_the_driver_refuses_is_told(device: Cuda, name: str, chain: int) -> None:
    problem = Calls("empty", chain)
    bench = guards.Bench(device, problem)
    launch = find("launch", name).prepare(problem, device, Setting(device=device.name))(bench.views)
    low: Any = driver.api()
    low.things.clear()  # the kernel is none any more
    with pytest.raises(LaunchError, match=r"^cuLaunchKernel returned 400$"):
        launch.call()
