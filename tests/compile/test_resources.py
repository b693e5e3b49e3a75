"""Resources of the kernels as nvcc compiles them: registers, spills, shared memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernels import nvcc
from kernels.errors import BuildError
from tests.simulated import cases

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "kernels").rglob("*.cu"))
# Registers a thread, at most on any architecture, and bytes of static shared memory. A multiprocessor has
# 65,536 registers: 144 let it hold seven blocks of sgemm_tiled, 32 or 40 six to eight blocks of 256, or
# three of fma_chains10, of which it runs one. A tile of winograd4 has all its 36 numbers in registers; of wgmma 128
# registers are its sums.
BUDGETS: dict[str, tuple[int, int]] = json.loads(Path(__file__).with_name("budgets.json").read_text("utf-8"))
needs_nvcc = pytest.mark.skipif(nvcc.missing() is not None, reason=nvcc.missing() or "")
COMPILED = [
    (source, arch)
    for source in SOURCES
    for arch in next(cases.archs(kernel) for kernel in cases.KERNELS if kernel.source == source)
]


def excess(found: dict[str, nvcc.Resources]) -> list[str]:
    """Kernels that take more than their budget, and how."""
    told = []
    for name, it in found.items():
        registers, shared = BUDGETS[name]
        if it.registers > registers:
            told.append(f"{name}: {it.registers} registers, {registers} are its budget")
        if it.spill_stores or it.spill_loads or it.stack:
            told.append(f"{name}: {it.stack} bytes of stack, {it.spill_stores} + {it.spill_loads} of spills")
        if it.shared != shared:
            told.append(f"{name}: {it.shared} bytes of shared memory, not {shared}")
    return told


def test_every_kernel_has_a_budget() -> None:
    assert set(BUDGETS) == set(cases.NAMES)


@needs_nvcc
@pytest.mark.parametrize(("source", "arch"), COMPILED, ids=lambda x: getattr(x, "name", x))
def test_kernels_keep_their_budgets(source: Path, arch: str, own_state: Path) -> None:
    found = nvcc.resources(source, arch)
    assert set(found) == {kernel.name for kernel in cases.KERNELS if kernel.source == source}
    assert excess(found) == []
    assert nvcc.cubin(source, arch).read_bytes()[:4] == b"\x7fELF"


@needs_nvcc
def test_more_than_the_budget_is_told(own_state: Path, tmp_path: Path) -> None:
    """All sixteen reads of a tile at once take more registers than are kept free for them."""
    text = cases.gemm.SOURCE.read_text()
    greedy = tmp_path / "gemm.cu"
    greedy.write_text(text.replace("#pragma unroll 4", "#pragma unroll"))
    assert any("registers, 144 are its budget" in line for line in excess(nvcc.resources(greedy, "sm_90")))
    greedy.write_text(text.replace("__launch_bounds__(THREADS)", "__launch_bounds__(THREADS, 16)"))
    told = excess(nvcc.resources(greedy, "sm_90"))
    assert any("of spills" in line for line in told)
    greedy.write_text(text.replace("TILE + 4", "TILE + 8"))
    assert any("9216 bytes of shared memory, not 8704" in line for line in excess(nvcc.resources(greedy, "sm_90")))


@needs_nvcc
def test_error_and_warning_of_a_source_are_told(own_state: Path, tmp_path: Path) -> None:
    source = tmp_path / "wrong.cu"
    source.write_text('extern "C" __global__ void f(float *y)\n{\n    y[0] = no_such;\n}\n')
    with pytest.raises(BuildError, match=r'^wrong.cu does not compile for -arch=sm_90: .*"no_such" is undefined'):
        nvcc.cubin(source, "sm_90")
    source.write_text('extern "C" __global__ void f(float *y)\n{\n    int unused;\n    y[0] = 0;\n}\n')
    with pytest.raises(BuildError, match="unused"):
        nvcc.cubin(source, "sm_90")
