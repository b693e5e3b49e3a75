"""The binding of cuBLASLt against a library that keeps books of its descriptors, and against NVIDIA's headers."""

from __future__ import annotations

import ctypes
import gc
import importlib.util
from collections.abc import Callable
from ctypes import c_int, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any

import numpy as np
import pytest

from kernels.catalog import variants
from kernels.errors import LaunchError, Unavailable
from kernels.libs import cublas, cublaslt, cuda
from tests.simulated.fake_cublas import CublasLt, widened
from tests.simulated.test_cublas import address, padding, product

SPACE = 8192  # bytes of workspace


def opened(library: CublasLt) -> cublaslt.Handle:
    return cublaslt.open_handle(5, 0x4000, SPACE, library)


def planned(on: cublaslt.Handle, wanted: int = 8, workspace: int = SPACE) -> tuple[cublaslt.Algorithm, ...]:
    return cublaslt.plan(on, "fp32", (0, 0), (2, 2, 2), (2, 2, 2), workspace, wanted)


def called(on: cublaslt.Handle, algorithm: cublaslt.Algorithm) -> Callable[[], None]:
    """A call on zeros that stay."""
    place = address(ZEROS)
    return cublaslt.matmul(on, algorithm, (1.0, 0.0), place, place, place)


ZEROS = np.zeros((2, 2), np.float32)


def test_a_handle() -> None:
    on = opened(CublasLt())
    assert (on.version, on.stream, on.workspace, on.workspace_bytes) == ("cuBLASLt 13.1.1", 5, 0x4000, SPACE)


@pytest.mark.parametrize("flags", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (-2.5, 0.5)])
@pytest.mark.parametrize("dtype", list(cublas.TYPES))
def test_a_product_of_each_type(dtype: str, flags: tuple[int, int], alpha: float, beta: float) -> None:
    mnk, (a, b, c), want, off = product(dtype, flags, alpha, beta)
    before = padding(c, mnk[0])
    library = CublasLt()
    on = opened(library)
    lds = (a.shape[1], b.shape[1], c.shape[1])
    algorithm = cublaslt.plan(on, dtype, flags, mnk, lds, SPACE, 8)[1]
    cublaslt.matmul(on, algorithm, (alpha, beta), address(a), address(b), address(c))()
    assert abs(widened(c)[:, : mnk[0]].T - want).max() <= off
    assert padding(c, mnk[0]) == before
    assert library.journal[-1] == (7, 0x4000, SPACE, 5)


def test_algorithms_come_in_the_librarys_order_without_what_has_a_state() -> None:
    found = planned(opened(CublasLt()), workspace=1 << 20)
    assert [(x.workspace, x.waves) for x in found] == [(4096, 0.5), (0, 1.25), (1 << 20, 3.0)]
    assert [list(np.frombuffer(x.data, np.uint64)) for x in found] == [
        [*range(first, first + 8)] for first in (21, 7, 66)
    ]


def test_no_more_than_wanted() -> None:
    assert len(planned(opened(CublasLt()), wanted=1)) == 1


def test_the_heuristic_is_told_workspace_and_alignment() -> None:
    library = CublasLt()
    planned(opened(library), workspace=4096)
    cublaslt.plan(opened(library), "fp32", (0, 0), (2, 2, 2), (2, 2, 2), 1, 1, aligned=16)
    told = [{1: size, **dict.fromkeys((5, 6, 7, 8), aligned)} for size, aligned in ((4096, 256), (1, 16))]
    assert library.journal == told


@pytest.mark.parametrize(
    "library", [CublasLt(offers=()), CublasLt(offers=((1, 0, 15, 0.0),))], ids=["none", "no valid one"]
)
def test_no_algorithm_is_no_error(library: CublasLt) -> None:
    assert planned(opened(library)) == ()
    library.status["MatmulAlgoGetHeuristic"] = 15
    assert planned(opened(library)) == ()


@pytest.mark.parametrize(("dtype", "some"), [("bf16", False), ("fp16", False), ("tf32", True)])
def test_short_numbers_in_rows_of_an_odd_length_may_have_none(dtype: str, some: bool) -> None:
    for lds in ((3, 4, 4), (4, 3, 4), (4, 4, 3)):
        assert bool(cublaslt.plan(opened(CublasLt()), dtype, (0, 0), (2, 2, 2), lds, SPACE, 8)) == some


def test_an_algorithm_may_be_refused_when_it_is_launched() -> None:
    """Nothing runs then; the others work."""
    ran: list[int] = []
    library = CublasLt(refused=(7,), enqueue=lambda step, stream: ran.append(1))
    on = opened(library)
    first, second, *_ = planned(on)
    called(on, first)()
    with pytest.raises(LaunchError, match=r"^cublasLtMatmul answers 15: CUBLAS_STATUS_15$"):
        called(on, second)()
    assert len(ran) == 1


def test_descriptors_live_as_long_as_an_algorithm_or_a_call() -> None:
    library = CublasLt()
    on = opened(library)
    found = planned(on)
    assert len(library.alive) == 1 + 4  # the handle; the preference is gone
    call = called(on, found[0])
    del found
    gc.collect()
    assert len(library.alive) == 1 + 4
    call()
    del call
    gc.collect()
    assert len(library.alive) == 1


@pytest.mark.parametrize(
    "name", ["MatmulDescCreate", "MatrixLayoutCreate2", "MatmulPreferenceCreate", "MatmulAlgoGetHeuristic"]
)
def test_what_fails_leaves_nothing(name: str) -> None:
    library = CublasLt()
    library.status[name] = 3
    with pytest.raises(LaunchError, match=f"cublasLt.*{name.rstrip('2')} answers 3: CUBLAS_STATUS_3"):
        planned(opened(library))
    gc.collect()
    assert len(library.alive) == 1


def test_a_failing_call_is_told() -> None:
    library = CublasLt()
    library.status["Matmul"] = 13
    on = opened(library)
    with pytest.raises(LaunchError, match="cublasLtMatmul answers 13: CUBLAS_STATUS_13"):
        called(on, planned(on)[0])()


def test_a_workspace_that_is_too_small_is_refused() -> None:
    on = opened(CublasLt())
    called(on, planned(on, workspace=1 << 20)[0])
    with pytest.raises(LaunchError, match="needs 1048576 bytes of workspace: its handle has 8192"):
        called(on, planned(on, workspace=1 << 20)[2])


def test_no_gpu_is_one_line() -> None:
    with pytest.raises(Unavailable, match="cublasLtCreate answers 1: no usable GPU"):
        opened(CublasLt(Create=1))


@pytest.mark.parametrize("absent", ["cupy", "cuda.pathfinder"])
def test_its_rows_say_which_package_is_missing(absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with a driver; each of the two is needed."""
    monkeypatch.setattr(cuda, "driver_missing", lambda: None)
    there = importlib.util.find_spec("json")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == absent else there)
    rows = [row for row in variants("gemm") if row.name.startswith("cublaslt")]
    assert rows
    assert {row.missing() for row in rows} == {f"{absent} is not installed: pip install 'kernelgap[cuda13]'"}


def test_the_real_library_takes_the_descriptors() -> None:
    """It makes them, and reads them back, on a machine without a GPU too."""
    try:
        library = cuda.load("cublasLt")
    except Unavailable as reason:
        pytest.skip(str(reason))
    on = cublaslt.Handle(library, c_void_p(), "", 0, 0, 0)
    made = cublaslt._described(on, "tf32", (1, 0), (3, 5, 4), (11, 12, 13))

    def read(kind: str, descriptor: Any, attribute: int, value: Any) -> int:
        size = c_size_t(ctypes.sizeof(value))
        get = getattr(library, f"cublasLt{kind}GetAttribute")
        assert not get(descriptor, c_int(attribute), ctypes.byref(value), size, ctypes.byref(size))
        return int(value.value)

    # compute type, scale type, op(A), op(B); type, rows, columns, ld
    assert [read("MatmulDesc", made.operation, x, c_int32()) for x in (0, 1, 3, 4)] == [77, 0, 1, 0]
    kinds = ((0, c_uint32), (2, c_uint64), (3, c_uint64), (4, c_int64))
    layouts = [[read("MatrixLayout", x, i, kind()) for i, kind in kinds] for x in (made.a, made.b, made.c)]
    assert layouts == [[0, 4, 3, 11], [0, 4, 5, 12], [0, 3, 5, 13]]
    with pytest.raises(LaunchError, match=r"cublasLtMatmulAlgoGetHeuristic answers \d+: "):
        cublaslt.plan(on, "tf32", (1, 0), (3, 5, 4), (11, 12, 13), 1 << 20, 4)
