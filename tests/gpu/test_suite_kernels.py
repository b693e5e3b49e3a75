"""The suite's CUDA kernels as checkers and profilers get them: all of them, rightly bound."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernels import nvcc
from kernels.catalog import find
from kernels.devices.cuda import Cuda
from kernels.errors import UsageError
from kernels.ops.gemm import Gemm
from tests.gpu import suite_kernels
from tests.gpu.conftest import REAL
from tests.gpu.suite_kernels import SuiteKernel
from tests.simulated import launcher

SOURCES = sorted(suite_kernels.OPS.glob("*/*.cu"))
CACHE = 50 << 20  # bytes: the second level of an H100
SMALL = suite_kernels.SMALL


def launched(device: Cuda, size: str, *names: str) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = []
    suite_kernels.launch_each(device, size, names, lines.append)
    return lines


def test_every_kernel_is_there_once() -> None:
    assert len(SOURCES) > 5
    names = [name for path in SOURCES for name in launcher.names(path.read_text())]
    assert sorted(kernel.kernel for kernel in SMALL) == sorted(names)


@pytest.mark.parametrize("kernel", SMALL, ids=lambda kernel: kernel.kernel)
def test_a_small_problem_is_right(device: Cuda, kernel: SuiteKernel) -> None:
    if kernel.kernel.startswith("wgmma") and device.arch != "sm_90":
        pytest.skip(f"wgmma requires Hopper: {device.arch}")
    if not REAL:
        device.cp.started.clear()
    assert launched(device, "small", kernel.kernel) == [{"kernel": kernel.kernel, "right": True}]
    if not REAL:
        assert kernel.kernel in {name for name, _, _ in device.cp.started} <= beside(kernel)


def beside(kernel: SuiteKernel) -> set[str]:
    """Return the kernels that a call may start: of a step both, of these operations all stages of one file."""
    if kernel.problem.op in ("pooling", "norm"):
        return {kernel.kernel, kernel.kernel.replace("dgrad", "forward")}
    if kernel.problem.op in ("conv", "chase", "dropout", "exchange"):
        return {x.kernel for x in SMALL if (x.row, x.problem.op) == (kernel.row, kernel.problem.op)}
    return {kernel.kernel}


@pytest.mark.parametrize("kernel", suite_kernels.LARGE, ids=lambda kernel: kernel.kernel)
def test_a_large_problem_fits_no_cache(kernel: SuiteKernel) -> None:
    """And is of a row that takes it, whose answer is checked at a small one."""
    assert find(kernel.problem.op, kernel.row).accepts(kernel.problem) is None
    assert kernel.problem.footprint > 5 * CACHE
    (small,) = (x for x in SMALL if x.kernel == kernel.kernel)
    assert (small.row, small.problem.op) == (kernel.row, kernel.problem.op)


def test_large_problems_are_launched(device: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    """At small sizes here: Nsight Compute is given the large ones."""
    names = [kernel.kernel for kernel in suite_kernels.LARGE]
    monkeypatch.setattr(suite_kernels, "LARGE", tuple(kernel for kernel in SMALL if kernel.kernel in names))
    lines = launched(device, "large")
    assert lines == [{"kernel": kernel.kernel} for kernel in suite_kernels.LARGE] and len(lines) == len(names)


class Worse(Gemm):
    """A product whose right answer is another."""

    def reference(self, x: Any) -> Any:
        return {"c": super().reference(x)["c"] + 1}


def test_a_wrong_or_failing_kernel_costs_its_line_alone(device: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = replace(SMALL[0], problem=Worse(33, 65, 17))
    failing = replace(SMALL[1], problem=Gemm(33, 65, 17, dtype="bf16"))
    monkeypatch.setattr(suite_kernels, "SMALL", (wrong, failing, SMALL[2]))
    lines = launched(device, "small")
    assert [x.get("right") for x in lines] == [False, None, True] and lines[1]["error"]
    with pytest.raises(UsageError, match="no small kernel nothing"):
        launched(device, "small", "nothing")


def test_each_operand_has_its_own_allocation(device: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a checker sees a step beyond one; and what is only written is not written before."""
    loaded: list[str] = []
    sizes: list[int] = []
    empty = device.cp.empty

    def allocate(nbytes: int, kind: Any) -> Any:
        sizes.append(nbytes)
        return empty(nbytes, kind)

    monkeypatch.setattr(device.cp, "empty", allocate)
    suite_kernels.bound(device, SMALL[0], lambda block, view, name: loaded.append(name))
    assert sizes == [x.nbytes for x in SMALL[0].problem.operands()] and loaded == ["a", "b"]


@pytest.mark.parametrize(("arch", "hopper"), [("sm_80", None), ("sm_90", "sm_90a"), ("sm_100", None)])
def test_all_files_are_compiled_for_the_device(arch: str, hopper: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file for a single architecture for that one, or not at all."""
    archs: dict[Path, str] = {}
    monkeypatch.setattr(nvcc, "cubin", archs.__setitem__)
    monkeypatch.setattr(nvcc, "missing", lambda: None)
    want = {path: hopper if path.stem == "wgmma" else arch for path in SOURCES if path.stem != "wgmma" or hopper}
    assert suite_kernels.compile_all(arch) == suite_kernels.Compiled(len(want), len(want), [])
    assert archs == want
