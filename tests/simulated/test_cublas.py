"""The bindings of cuBLAS and cuBLASLt, and scikit-cuda's of cuBLAS, on libraries that compute in NumPy."""

from __future__ import annotations

import gc
import importlib.util
import re
from collections.abc import Callable
from ctypes import c_void_p
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernels.catalog import variants
from kernels.errors import LaunchError, Unavailable
from kernels.libs import cublas, cublaslt, cuda, skcuda
from tests.simulated.fake_cublas import FORMS, Cublas, CublasLt, narrowed, widened
from tests.simulated.fake_gpu import Scikit

# The rounding unit of what is multiplied or stored.
UNIT = {"fp32": 2.0**-24, "pedantic": 2.0**-24, "tf32": 2.0**-11, "bf16": 2.0**-8, "fp16": 2.0**-11}


def address(x: np.ndarray) -> int:
    return int(x.ctypes.data)


def product(
    dtype: str, flags: tuple[int, int], alpha: float, beta: float
) -> tuple[tuple[int, int, int], list[np.ndarray], np.ndarray, float]:
    """A column-major product with room between columns: (m, n, k), [A, B, C], what is wanted, how far off at most.

    Operands are C-contiguous arrays [columns, ld]; every number of the case differs from the others. Leading
    dimensions are even: for others cuBLASLt may have nothing.
    """
    m, n, k = mnk = 3, 5, 4
    shapes = (k, m) if flags[0] else (m, k), (n, k) if flags[1] else (k, n), (m, n)
    form = FORMS[{"fp32": 0, "pedantic": 0, "tf32": 0, "bf16": 14, "fp16": 2}[dtype]]
    rng = np.random.default_rng(7)
    operands = [
        narrowed(rng.standard_normal((cols, (rows + 7 + 4 * i) // 2 * 2)), form)
        for i, (rows, cols) in enumerate(shapes)
    ]
    a, b, c = (widened(x)[:, :rows].T.astype("f8") for x, (rows, _) in zip(operands, shapes, strict=True))
    left, right = a.T if flags[0] else a, b.T if flags[1] else b
    room = abs(alpha) * (abs(left) @ abs(right)) + abs(beta * c)
    return mnk, operands, alpha * left @ right + beta * c, float(4 * UNIT[dtype] * room.max())


def padding(x: np.ndarray, rows: int) -> bytes:
    """What lies between the columns of a column-major matrix."""
    return x[:, rows:].tobytes()


SPACE = 8192  # bytes of workspace


def by_skcuda() -> skcuda.Handle:
    return skcuda.Handle(Scikit(Cublas()), 1, "", 0)


def opened(library: CublasLt) -> cublaslt.Handle:
    return cublaslt.open_handle(5, 0x4000, SPACE, library)


def light(
    dtype: str, flags: tuple[int, int], mnk: tuple[int, int, int], scale: tuple[float, float], *places: Any
) -> Callable[[], None]:
    """Return a call of cuBLASLt's second offer, which notes what it works in."""
    on = opened(library := CublasLt())
    algorithm = cublaslt.plan(on, dtype, flags, mnk, tuple(ld for _, ld in places), SPACE, 8)[1]
    call = cublaslt.matmul(on, algorithm, scale, *(place for place, _ in places))

    def noted() -> None:
        call()
        assert library.journal[-1] == (7, 0x4000, SPACE, 5)

    return noted


ROUTES: dict[str, Callable[..., Callable[[], None]]] = {
    "cublas": lambda *how: cublas.gemm_ex(cublas.open_handle(0, 0, Cublas()), *how),
    "cublaslt": light,
    "sgemm": lambda dtype, *how: cublas.sgemm(cublas.open_handle(0, 0, Cublas()), *how),
    "skcuda": lambda dtype, *how: skcuda.sgemm(by_skcuda(), *how),
}


@pytest.mark.parametrize("flags", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (-2.5, 0.5)])
@pytest.mark.parametrize(
    ("route", "dtype"), [(x, y) for x in ROUTES for y in (cublas.TYPES if x.startswith("cublas") else ["fp32"])]
)
def test_a_product(route: str, dtype: str, flags: tuple[int, int], alpha: float, beta: float) -> None:
    mnk, (a, b, c), want, off = product(dtype, flags, alpha, beta)
    before = padding(c, mnk[0])
    ROUTES[route](dtype, flags, mnk, (alpha, beta), *((address(x), x.shape[1]) for x in (a, b, c)))()
    assert abs(widened(c)[:, : mnk[0]].T - want).max() <= off
    assert padding(c, mnk[0]) == before


def test_the_workspace_is_set_after_the_stream() -> None:
    """Setting the stream takes a workspace away again."""
    library = Cublas()
    on = cublas.open_handle(stream=5, workspace=4096, library=library)
    assert library.journal == ["stream 5", f"workspace 4096 {32 << 20}"]
    assert library.workspace == 4096
    library.cublasSetStream_v2(on.handle, c_void_p(6))
    assert library.workspace is None
    assert on.version == "cuBLAS 13.1.0"


def test_only_tf32_cuts_its_operands() -> None:
    on = cublas.open_handle(0, 0, Cublas())
    found = []
    for dtype in ("fp32", "tf32"):
        mnk, operands, _, _ = product(dtype, (0, 0), 1.0, 0.0)
        cublas.gemm_ex(on, dtype, (0, 0), mnk, (1.0, 0.0), *((address(x), x.shape[1]) for x in operands))()
        found.append(operands[2])
    assert not np.array_equal(*found)


@pytest.mark.parametrize("binding", [cublas, skcuda])
def test_a_transposition(binding: Any) -> None:
    source = np.arange(12, dtype=np.float32).reshape(3, 4)
    target = np.ones((4, 3), np.float32)  # nothing of which stays
    on = by_skcuda() if binding is skcuda else cublas.open_handle(0, 0, Cublas())
    binding.sgeam_transpose(on, 3, 4, (address(source), 4), (address(target), 3))()
    assert np.array_equal(target, source.T)


def test_the_math_mode() -> None:
    library = Cublas()
    on = cublas.open_handle(0, 0, library)
    for mode in (cublas.DEFAULT_MATH, cublas.PEDANTIC_MATH, cublas.TF32_MATH):
        on.math(mode)
    assert library.journal[1:] == ["math 0", "math 2", "math 3"]


def driver(init: int, count: int) -> Any:
    def counts(found: Any) -> int:
        found._obj.value = count
        return 0

    return SimpleNamespace(cuInit=lambda flags: init, cuDeviceGetCount=counts)


@pytest.mark.parametrize(
    ("init", "count", "told"),
    [
        (100, 0, "finds no GPU .cuInit returned 100."),
        (0, 0, "reports 0 GPUs"),
        (0, 1, "^cupy is not installed: pip install 'kernelgap.cuda13.'$"),
    ],
)
def test_what_is_missing(monkeypatch: pytest.MonkeyPatch, init: int, count: int, told: str) -> None:
    monkeypatch.setattr(cuda.ctypes, "CDLL", lambda name: driver(init, count))
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda name: None)
    assert re.search(told, cuda.missing() or "")


# cuBLASLt


def planned(on: cublaslt.Handle, wanted: int = 8, workspace: int = SPACE) -> tuple[cublaslt.Algorithm, ...]:
    return cublaslt.plan(on, "fp32", (0, 0), (2, 2, 2), (2, 2, 2), workspace, wanted)


ZEROS = np.zeros((2, 2), np.float32)  # which stay
PLACES = [(address(ZEROS), 2)] * 3
FAILS: list[tuple[Any, Callable[[Any], object], type[Exception], str]] = [
    (
        Cublas(),
        lambda x: cublas.open_handle(5, 4096 + 64, x),
        LaunchError,
        "cublasSetWorkspace returned 7: CUBLAS_STATUS_7",
    ),
    (Cublas(Create_v2=1), lambda x: cublas.open_handle(0, 0, x), Unavailable, "cublasCreate returned 1: no usable GPU"),
    (
        Cublas(SetMathMode=14),
        lambda x: cublas.open_handle(0, 0, x).math(cublas.TF32_MATH),
        LaunchError,
        "cublasSetMathMode returned 14: CUBLAS_STATUS_14",
    ),
    (
        Cublas(Sgemm_v2=14),
        lambda x: cublas.sgemm(cublas.open_handle(0, 0, x), (0, 0), (2, 2, 2), (1.0, 0.0), *PLACES)(),
        LaunchError,
        "cublasSgemm returned 14",
    ),
    (CublasLt(Create=1), opened, Unavailable, "cublasLtCreate returned 1: no usable GPU"),
    (CublasLt(Matmul=13), lambda x: called(x, 0)(), LaunchError, "cublasLtMatmul returned 13: CUBLAS_STATUS_13"),
    (CublasLt(), lambda x: called(x, 2, 1 << 20), LaunchError, "1048576 bytes of workspace, the handle has only 8192"),
    *(
        (
            CublasLt(**{name: 3}),
            lambda x: planned(opened(x)),
            LaunchError,
            f"{name.rstrip('2')} returned 3: CUBLAS_STATUS_3",
        )
        for name in ("MatmulDescCreate", "MatrixLayoutCreate2", "MatmulPreferenceCreate", "MatmulAlgoGetHeuristic")
    ),
]


def called(library: CublasLt, which: int, workspace: int = SPACE) -> Callable[[], None]:
    on = opened(library)
    return cublaslt.matmul(on, planned(on, workspace=workspace)[which], (1.0, 0.0), *(place for place, _ in PLACES))


@pytest.mark.parametrize(("library", "fails", "kind", "reason"), FAILS, ids=[x[-1] for x in FAILS])
def test_a_status_is_an_error_that_leaves_no_descriptor(
    library: Any, fails: Callable[[Any], object], kind: type[Exception], reason: str
) -> None:
    with pytest.raises(kind, match=reason):
        fails(library)
    gc.collect()
    assert len(library.alive) <= 1  # the handle


def test_a_handle() -> None:
    on = opened(CublasLt())
    assert (on.version, on.stream, on.workspace, on.workspace_bytes) == ("cuBLASLt 13.1.1", 5, 0x4000, SPACE)


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
    called(library, 0)()
    with pytest.raises(LaunchError, match=r"^cublasLtMatmul returned 15: CUBLAS_STATUS_15$"):
        called(library, 1)()
    assert len(ran) == 1


def test_descriptors_live_as_long_as_an_algorithm_or_a_call() -> None:
    library = CublasLt()
    on = opened(library)
    found = planned(on)
    assert len(library.alive) == 1 + 4  # the handle; the preference is gone
    call = cublaslt.matmul(on, found[0], (1.0, 0.0), *(place for place, _ in PLACES))
    del found
    gc.collect()
    assert len(library.alive) == 1 + 4
    call()
    del call
    gc.collect()
    assert len(library.alive) == 1


@pytest.mark.parametrize("absent", ["cupy", "cuda.pathfinder"])
def test_its_rows_say_which_package_is_missing(absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine with a driver; each of the two is needed."""
    monkeypatch.setattr(cuda, "driver_missing", lambda: None)
    there = importlib.util.find_spec("json")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == absent else there)
    rows = [row for row in variants("gemm") if row.name.startswith("cublaslt")]
    assert rows
    assert {row.missing() for row in rows} == {f"{absent} is not installed: pip install 'kernelgap[cuda13]'"}
