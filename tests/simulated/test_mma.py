"""Tensor-core kernels by the documented work of their instructions, against float64; their bound."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels import nvcc
from kernels.catalog import find
from kernels.devices.cuda import Cuda
from kernels.errors import Unavailable, UsageError
from kernels.ops.mma import Mma
from kernels.ops.mma import variants as gpu
from kernels.ops.mma.problem import EXACT, UNIT
from kernels.setting import Setting
from tests.simulated import cases, launcher
from tests.simulated.cases import HOW, changed
from tests.simulated.fake_cupy import FakeCupy
from tests.simulated.test_broken_kernels import alone

TYPES = ("tf32", "bf16", "fp16")
UNITS = ("mma", "wgmma")
needs_gcc = pytest.mark.skipif(launcher.missing() is not None, reason=launcher.missing() or "")
both = pytest.mark.parametrize("unit", UNITS)
each = pytest.mark.parametrize("dtype", TYPES)


@needs_gcc
@both
@each
@pytest.mark.parametrize("probe", ["whole", "bits"])
def test_whole_numbers_are_exact(dtype: str, unit: str, probe: str) -> None:
    kernel = cases.find(f"{unit}_{dtype}")
    for how, problem in zip(HOW, kernel.problems[1:], strict=True):
        found = cases.run(kernel, problem, probe=probe, **how)
        assert found.allowed and found.largest == 0, problem.name


@needs_gcc
def test_coarser_numbers_show_in_the_probe_of_all_bits_alone() -> None:
    """TF32 with three bits less, as bfloat16 has them; small whole numbers do not need those."""
    kernel = cases.find("mma_tf32")
    text = changed(alone(kernel), "mma_tf32", "return word;", "return word & 0xffff0000;", 0)
    problem = kernel.problems[1]
    assert cases.run(kernel, problem, text, "whole").allowed
    assert not cases.run(kernel, problem, text, "bits").allowed


def truncating(a: Any, b: Any, steps: int, together: int) -> Any:
    """Return steps · a·bᵀ as the coarsest tensor core sums it: aligned to the largest, 23 bits kept, truncated."""
    products = (a[:, None, :] * b[None, :, :]).astype("f8")
    pieces = np.moveaxis(products.reshape(*products.shape[:2], -1, together), 2, 0)
    c = np.zeros(products.shape[:2])
    for _ in range(steps):
        for piece in pieces:
            addends = np.concatenate([c[..., None], piece], axis=2)
            largest = np.abs(addends).max(axis=2, keepdims=True)
            unit = np.exp2(np.floor(np.log2(np.maximum(largest, 1e-300))) - 23)
            c = truncated((np.trunc(addends / unit) * unit).sum(axis=2))
    return c


def truncated(x: Any) -> Any:
    """To float32, toward zero."""
    unit = np.exp2(np.floor(np.log2(np.maximum(np.abs(x), 1e-300))) - 23)
    return np.trunc(x / unit) * unit


@each
@pytest.mark.parametrize("together", [4, 8])
def test_bound_allows_the_coarsest_sums_there_are(dtype: str, together: int) -> None:
    """Of a piece of the matrix, by as many steps as a ceiling takes."""
    problem = Mma(dtype, "mma", 2048)
    x = problem.fill(np.random.default_rng(5))
    x = {"a": x["a"][:16], "b": x["b"][:8]}
    want = problem.reference(x)
    error, bound = (
        np.abs(truncating(x["a"], x["b"], problem.steps, together) - want["c"]),
        problem.bound(x, want, 0)["c"],
    )
    assert (error <= bound).all()
    assert (error > 1e-4 * bound).any()  # it does round


@each
@pytest.mark.parametrize("probe", ["whole", "bits"])
@pytest.mark.parametrize("steps", [1, 999, 8192, 1 << 16])
def test_probes_of_whole_numbers_need_no_rounding(dtype: str, probe: str, steps: int) -> None:
    problem = Mma(dtype, "mma", steps)
    x = problem.fill(np.random.default_rng(9), probe)
    want = problem.reference(x)
    assert not problem.bound(x, want, 0)["c"].any()
    assert steps * (np.abs(x["a"]).astype("f8") @ np.abs(x["b"]).astype("f8").T).max() <= EXACT
    if steps < 1000:
        piece = {"a": x["a"][:16], "b": x["b"][:8]}
        np.testing.assert_array_equal(
            truncating(piece["a"], piece["b"], steps, 4), problem.reference(piece)["c"].astype("f4")
        )


def test_whole_numbers_beyond_what_is_exact_have_a_bound() -> None:
    problem = Mma("fp16", "mma", 1024)
    x = {"a": np.full((256, 16), 32.0, "f4"), "b": np.full((32, 16), 32.0, "f4")}
    assert not problem.bound(x, problem.reference(x), 0)["c"].any()  # 2²⁴ itself
    x["a"][0, 0] = 33
    bound = problem.bound(x, problem.reference(x), 0)["c"]
    assert (bound > 0).all()


def test_a_step_too_many_is_outside_every_exact_bound() -> None:
    problem = Mma("bf16", "wgmma", 4096)
    x = problem.fill(np.random.default_rng(2), "whole")
    want = problem.reference(x)
    one_more = Mma("bf16", "wgmma", 4097).reference(x)["c"]
    assert (np.abs(one_more - want["c"]) > problem.bound(x, want, 0)["c"]).mean() > 0.9


def test_the_bound_of_other_numbers_grows_with_the_square_of_the_steps() -> None:
    x = Mma("bf16", "mma").fill(np.random.default_rng(2))
    few, many = (Mma("bf16", "mma", steps) for steps in (1, 1000))
    small, large = (p.bound(x, p.reference(x), 0)["c"] for p in (few, many))
    assert (small >= UNIT * np.abs(few.reference(x)["c"])).all()
    assert 100_000 < np.median(large / small) < 1_000_000


@both
@each
@pytest.mark.parametrize("processors", [1, 108, 132])
def test_operands_are_all_that_the_blocks_take(dtype: str, unit: str, processors: int) -> None:
    problem = Mma(dtype, unit, 64, processors)
    (geometry,) = gpu.launches(problem, f"{unit}_{dtype}")
    rows, cols, tile = {"mma": (256, 32, 16 * 8), "wgmma": (128, 256, 64 * 256)}[unit]
    depth = 8 if dtype == "tf32" else 16
    assert geometry.grid == (processors, 1, 1) and geometry.block == (256, 1, 1)
    assert [x.shape for x in problem.operands()] == [
        (processors * rows, depth),
        (cols, depth),
        (processors * rows, cols),
    ]
    assert problem.operands()[0].strides[0] == problem.operands()[1].strides[0] == 32
    assert problem.flops == 2 * tile * depth * 64 * (processors * rows * cols // tile)


def test_what_is_no_such_problem_is_told() -> None:
    with pytest.raises(UsageError, match=r"--steps 1048576: must be less than 1048576"):
        Mma("bf16", "mma", 1 << 20)


# On a device


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, str]]:
    """The files that nvcc was asked to compile, and for what."""
    found = []

    def cubin(source: Path, arch: str) -> Path:
        found.append((source.name, arch))
        made = tmp_path / f"{source.stem}-{arch}.cubin"
        made.write_text(source.read_text())
        return made

    monkeypatch.setattr(nvcc, "cubin", cubin)
    monkeypatch.setattr(nvcc, "missing", lambda: None)
    return found


def launched(device: Cuda, problem: Mma) -> Any:
    """The exact probe through the row, as a contest would launch it."""
    from micro.worker.check import check

    row = find("mma", "cuda")
    return check(device, problem, row, row.prepare(problem, device, Setting()), 3)[0]


@needs_gcc
@pytest.mark.parametrize(("unit", "arch"), [("mma", "sm_90"), ("wgmma", "sm_90a")])
def test_a_row_is_compiled_for_what_its_source_needs(unit: str, arch: str, asked: list[tuple[str, str]]) -> None:
    passed = launched(Cuda(0, FakeCupy()), Mma("bf16", unit, 3))
    assert set(asked) == {(f"{unit}.cu", arch)}
    assert passed.error <= passed.bound


def facts(change: Callable[[dict[str, Any]], None]) -> Cuda:
    fake = FakeCupy()
    change(fake.cuda.runtime.getDeviceProperties(0))
    return Cuda(0, fake)


@pytest.mark.parametrize(("major", "minor"), [(8, 0), (8, 9), (10, 0), (12, 0)])
def test_wgmma_is_refused_where_it_is_not(major: int, minor: int, asked: list[tuple[str, str]]) -> None:
    device = facts(lambda x: x.update(major=major, minor=minor))
    problem = Mma("bf16", "wgmma", 3)
    with pytest.raises(Unavailable, match=rf"wgmma requires Hopper \(sm_90a\): cuda:0 is sm_{major}{minor}$"):
        find("mma", "cuda").prepare(problem, device, Setting())
    assert not asked


def test_without_nvcc_wgmma_is_missing_and_not_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """CuPy would have NVRTC compile it for sm_90."""
    monkeypatch.setenv("NVCC", "/no/such/nvcc")
    with pytest.raises(Unavailable, match="NVCC=/no/such/nvcc is not a program"):
        find("mma", "cuda").prepare(Mma("bf16", "wgmma", 3), Cuda(0, FakeCupy()), Setting())
