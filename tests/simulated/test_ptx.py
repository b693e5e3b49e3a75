"""ptx.h does what tensor cores do: its fragments are those that CUTLASS writes down, and misuse is told."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from kernels.nvcc import Geometry
from kernels.ops.mma import Mma
from kernels.ops.mma import variants as gpu
from kernels.problem import Operand
from tests.simulated import launcher

pytestmark = pytest.mark.skipif(launcher.missing() is not None, reason=launcher.missing() or "")

# CuTe layouts, shape and stride, from (thread, value) to a place in the matrix, column-major: of NVIDIA/cutlass,
# include/cute/atom/mma_traits_sm80.hpp (SM80_16x8x16_F32BF16BF16F32_TN, SM80_16x8x8_F32TF32TF32F32_TN) and
# mma_traits_sm90_gmma.hpp (CLayout_64xN for N = 256).
C_MMA = ((4, 8, 2, 2), (32, 1, 16, 8))
LAYOUTS = {
    "bf16": (((4, 8, 2, 2, 2), (32, 1, 16, 8, 128)), ((4, 8, 2, 2), (16, 1, 8, 64)), C_MMA),
    "tf32": (((4, 8, 2, 2), (16, 1, 8, 64)), ((4, 8, 2), (8, 1, 32)), C_MMA),
}
LAYOUTS["fp16"] = LAYOUTS["bf16"]
C_WGMMA = ((4, 8, 4, 2, 2, 32), (128, 1, 16, 64, 8, 512))
DEPTH = {"bf16": 16, "fp16": 16, "tf32": 8}
WARP = """extern "C" __global__ void f(const unsigned *a, const unsigned *b, float *c)
{
    unsigned x[4], y[2], t = threadIdx.x;
    float sum[4] = {};
    for (int i = 0; i < 4; i++) x[i] = a[4 * t + i];
    for (int i = 0; i < 2; i++) y[i] = b[2 * t + i];
    multiply<TYPE>(sum, x, y);
    for (int i = 0; i < 4; i++) c[4 * t + i] = sum[i];
}
"""


def places(layout: tuple[tuple[int, ...], tuple[int, ...]], threads: int) -> Any:
    """Of each thread and value, where it lies in the matrix."""
    shape, stride = layout
    extents = [range(extent) for extent in reversed(shape)]  # the first mode runs fastest
    at = [sum(i * s for i, s in zip(reversed(mode), stride, strict=True)) for mode in itertools.product(*extents)]
    return np.array(at).reshape(-1, threads).T


def scattered(matrix: Any, layout: tuple[tuple[int, ...], tuple[int, ...]]) -> Any:
    """Fragments of a matrix: a row for each thread."""
    return matrix.ravel(order="F")[places(layout, 32)]


def own(unit: str) -> str:
    """What our source says before its kernels."""
    return gpu.SOURCES[unit].read_text().partition('extern "C"')[0]


@pytest.mark.parametrize("dtype", LAYOUTS)
def test_fragments_of_a_warp_are_those_of_cutlass(dtype: str) -> None:
    of_a, of_b, of_c = LAYOUTS[dtype]
    rng = np.random.default_rng(3)
    a = rng.integers(-8, 8, (16, DEPTH[dtype])).astype("f4")
    b = rng.integers(-8, 8, (8, DEPTH[dtype])).astype("f4")  # N × K, as a layout of B has it
    x = {"a": scattered(a, of_a).reshape(32, -1), "b": scattered(b, of_b).reshape(32, -1)}
    operands = [
        Operand("a", x["a"].shape, "in", dtype),
        Operand("b", x["b"].shape, "in", dtype),
        Operand("c", (32, 4), "out"),
    ]
    geometry = Geometry("f", (1, 1, 1), (32, 1, 1), tuple(("operand", one.name) for one in operands))
    source = own("mma") + WARP.replace("TYPE", dtype.upper())
    got = launcher.launch(source, [geometry], operands, x)["c"]
    want = np.empty(16 * 8)
    want[places(of_c, 32)] = got
    np.testing.assert_array_equal(want.reshape(16, 8, order="F"), a.astype("f8") @ b.T)


def test_sums_of_a_warpgroup_lie_where_cutlass_has_them() -> None:
    """Of our kernel: which row and column a thread stores each of its 128 sums to."""
    text = gpu.SOURCES["wgmma"].read_text()
    head = own("wgmma").replace("= sum[i];", "= threadIdx.x % GROUP * SUMS + i;")
    assert head != own("wgmma")
    source = head + text[text.index('extern "C"') :]
    geometry = gpu.launches(problem := Mma("bf16", "wgmma", 1), "wgmma_bf16")
    x = problem.fill(np.random.default_rng(1))
    got = launcher.launch(source, geometry, problem.operands(), x)["c"]
    at = places(C_WGMMA, 128)
    assert sorted(at.ravel()) == list(range(64 * 256))
    for group in (got[:64], got[64:]):
        np.testing.assert_array_equal(group.ravel(order="F")[at], np.arange(128 * 128).reshape(128, 128))


HEAD = 'extern "C" __global__ void f(const float *x, float *y)\n{\n    int t = threadIdx.x;\n'
X, Y = Operand("x", (1, 32), "in"), Operand("y", (1, 32), "out")


def run(body: str) -> Any:
    geometry = Geometry("f", (1, 1, 1), (32, 1, 1), (("operand", "x"), ("operand", "y")))
    numbers = np.linspace(-3, 3, 32, dtype="f4").reshape(1, 32)
    return launcher.launch(HEAD + body + "\n}\n", [geometry], [X, Y], {"x": numbers})["y"][0], numbers[0]


def test_tf32_is_rounded_to_nearest() -> None:
    got, x = run(
        'unsigned r; asm volatile("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x[t])); y[t] = __uint_as_float(r);'
    )
    assert (np.abs(got - x) <= np.abs(x) * 2.0**-11).all() and (got != x).any()
    assert not (got.view("u4") & 0x1FFF).any()


def test_a_file_without_assembly_is_left_as_it_is() -> None:
    assert launcher.with_ptx(HEAD) == HEAD


def test_colons_and_parentheses_in_strings_are_text() -> None:
    text = 'asm volatile("a::b) \\"(: %0;" : "=r"(f(x)[1]) : "r"(y), "l"(z) : "memory"); g(1 ? 2 : 3);'
    assert launcher.with_ptx(text).endswith(
        'ptx_run("a::b) \\"(: %0;" ,  ptx_out(f(x)[1]) ,  ptx_in(y), ptx_in(z) ); g(1 ? 2 : 3);'
    )
    with pytest.raises(ValueError, match="is not closed"):
        launcher.with_ptx('asm volatile("a;"')
