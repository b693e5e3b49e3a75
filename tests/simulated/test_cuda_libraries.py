"""Our bindings of cuFFT and cuSPARSE on stand-ins that compute, and where NVIDIA's libraries come from."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernels.errors import LaunchError, Unavailable
from kernels.libs import cuda, cudnn_frontend, cufft, cusparse, pycuda, skcuda
from kernels.ops.spmm.problem import Spmm
from tests.simulated import fake_frontend
from tests.simulated.fake_cufft_cusparse import PLAN_AREA, PRODUCT_AREA, Cufft, Cusparse

LENGTHS, COUNT, STREAM = (4, 6), 5, 0x40


def address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def test_there_and_back_by_frequency() -> None:
    """The spectra of one frequency lie together; back, nothing is scaled."""
    library, area = Cufft(), np.zeros(PLAN_AREA, np.uint8)
    frames = np.random.default_rng(0).standard_normal((COUNT, *LENGTHS)).astype(np.float32)
    spectra, back = np.zeros((4, 4, COUNT), np.complex64), np.zeros_like(frames)
    for inverse, source, target in ((False, frames, spectra), (True, spectra, back)):
        plan = cufft.plan(LENGTHS, COUNT, inverse, STREAM, library)
        assert plan.nbytes == PLAN_AREA and library.alive[plan.number.value].stream == STREAM
        plan.work_in(address(area))
        plan.call(address(source), address(target))()
        if not inverse:
            assert np.allclose(spectra, np.fft.rfft2(frames).transpose(1, 2, 0), atol=1e-5)
    assert np.allclose(back / np.prod(LENGTHS), frames, atol=1e-5)
    assert len(library.alive) == 1
    del plan
    assert not library.alive


def test_a_status_that_is_not_known_is_told_by_its_number() -> None:
    with pytest.raises(LaunchError, match="cufftExecC2R returned 99: unknown"):
        cufft.check("cufftExecC2R", 99)
    with pytest.raises(Unavailable, match="cufftMakePlanMany returned 8: CUFFT_INVALID_SIZE"):
        cufft.check("cufftMakePlanMany", 8)


PROBLEM, STREAM = Spmm(7, 5, 11, 0.3), 0x40


def made(library: Any, weights: list[np.ndarray]) -> tuple[cusparse.Handle, cusparse.Csr]:
    on = cusparse.open_handle(STREAM, library)
    values, columns, pointers = map(address, weights)
    return on, cusparse.csr(on, (PROBLEM.m, PROBLEM.k), PROBLEM.nonzeros, (values, columns, pointers))


@pytest.mark.parametrize("algorithm", cusparse.ALGORITHMS)
def test_a_product_on_its_stream(algorithm: str) -> None:
    """And all that was made is destroyed with what holds it."""
    seen: list[int | None] = []

    def enqueue(step: Any, stream: int | None) -> None:
        seen.append(stream)
        step()

    library = Cusparse(enqueue=enqueue)
    weights = list(PROBLEM.weights())
    b = np.random.default_rng(0).standard_normal((PROBLEM.k, PROBLEM.n)).astype(np.float32)
    c, work = np.full((PROBLEM.m, PROBLEM.n), np.nan, np.float32), np.zeros(PRODUCT_AREA, np.uint8)
    on, sparse = made(library, weights)
    assert cusparse.area(on, algorithm, sparse, PROBLEM.n) == PRODUCT_AREA
    call = cusparse.product(on, algorithm, sparse, PROBLEM.n, address(b), address(c), address(work))
    call()
    assert np.allclose(c, PROBLEM.dense() @ b, atol=1e-5) and seen == [STREAM]
    assert len(library.alive) == 1 + 3
    del call, sparse, on
    gc.collect()
    assert not library.alive


FAILS: list[tuple[Callable[[], object], type[Exception], str]] = [
    (
        lambda: (plan := cufft.plan(LENGTHS, COUNT, False, STREAM, Cufft())) and plan.call(0x100, 0x200)(),
        LaunchError,
        "cufftExecR2C returned 1: CUFFT_INVALID_PLAN",
    ),
    (
        lambda: cufft.plan(LENGTHS, COUNT, False, STREAM, Cufft(Create=5)),
        Unavailable,
        "cufftCreate returned 5: CUFFT_INTERNAL_ERROR: no usable GPU",
    ),
    (lambda: cusparse.open_handle(STREAM, Cusparse(Create=1)), Unavailable, "cusparseCreate returned 1: no usable GPU"),
    (
        lambda: cusparse.area(*asked(Cusparse(without=(12,)), "alg3"), PROBLEM.n),  # of which it has no code
        Unavailable,
        "cusparseSpMM_bufferSize returned 10: status 10",
    ),
    (
        lambda: cusparse.product(*asked(Cusparse(), "default"), PROBLEM.n, 0, 0, 0),  # operands that do not fit
        LaunchError,
        "cusparseCreateDnMat returned 3: status 3",
    ),
]


def asked(library: Any, algorithm: str) -> tuple[cusparse.Handle, str, cusparse.Csr]:
    on, sparse = made(library, list(PROBLEM.weights()))
    return on, algorithm, sparse


@pytest.mark.parametrize(("fails", "kind", "reason"), FAILS, ids=[reason for *_, reason in FAILS])
def test_a_status_is_an_error(fails: Callable[[], object], kind: type[Exception], reason: str) -> None:
    with pytest.raises(kind, match=reason):
        fails()


@pytest.mark.parametrize(
    ("module", "library", "version"), [(cufft, Cufft(), "cuFFT 12.1.0"), (cusparse, Cusparse(), "cuSPARSE 12.6.3")]
)
def test_a_library_says_its_version(module: Any, library: Any, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "load", lambda name: library)
    assert module.kernel() == (version, None)


MAPS = Path("/proc/self/maps")


@pytest.mark.skipif(not MAPS.exists(), reason="a system that does not say which libraries are loaded")
@pytest.mark.parametrize("error", [ValueError, LookupError])
def test_a_library_that_pathfinder_does_not_know_is_taken_from_its_wheel(
    error: type[Exception], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_nvidia_dynamic_lib(name: str) -> None:
        raise error(f"unknown: {name}")

    pathfinder = SimpleNamespace(DynamicLibNotFoundError=LookupError, load_nvidia_dynamic_lib=load_nvidia_dynamic_lib)
    monkeypatch.setitem(sys.modules, "cuda.pathfinder", pathfinder)
    monkeypatch.setattr(cuda, "package", lambda name: None)
    monkeypatch.setattr(cuda, "load", cuda.load.__wrapped__)
    monkeypatch.syspath_prepend(tmp_path)
    folder = tmp_path / "nvidia" / "made_up" / "lib"
    folder.mkdir(parents=True)
    with pytest.raises(Unavailable, match="libmade_up cannot be loaded: unknown: made_up"):
        cuda.load("made_up")
    loaded = re.findall(r"(/\S*/libc[.-]\S*so\S*)", MAPS.read_text("utf-8"))
    (folder / "libmade_up.so.9").symlink_to(loaded[0])
    assert cuda.load("made_up").getpid() > 0


@pytest.mark.parametrize("release", ["1.17.0", "1.27.0", "2.0"])
def test_a_frontend_that_lists_no_engines_is_refused(monkeypatch: pytest.MonkeyPatch, release: str) -> None:
    module = fake_frontend.module()
    module.__version__ = release
    monkeypatch.setitem(sys.modules, "cudnn", module)
    with pytest.raises(Unavailable, match=rf"nvidia-cudnn-frontend {release} cannot list engines: pip install"):
        cudnn_frontend.load()
    module.__version__ = "1.26.0"
    assert cudnn_frontend.load() is module


NO_PATHFINDER = "cuda.pathfinder is not installed: pip install 'kernelgap[cuda13]'"
NO_PYCUDA = "pycuda is not installed: pip install 'kernelgap[pycuda]'"
NO_SKCUDA = "skcuda is not installed: pip install 'kernelgap[skcuda]'"


@pytest.mark.parametrize(
    ("module", "here", "reason"),
    [
        (pycuda, {"cupy", "pycuda"}, None),
        (pycuda, {"pycuda"}, None),
        (pycuda, {"cupy"}, NO_PYCUDA),
        (pycuda, set(), NO_PYCUDA),
        (skcuda, {"cupy", "skcuda", "cuda.pathfinder"}, None),
        (skcuda, {"skcuda", "cuda.pathfinder"}, None),
        (skcuda, {"cupy", "cuda.pathfinder"}, NO_SKCUDA),
        (skcuda, {"skcuda"}, NO_PATHFINDER),
    ],
)
def test_a_binding_without_its_package_is_missing(
    monkeypatch: pytest.MonkeyPatch, module: Any, here: set[str], reason: str | None
) -> None:
    """Each needs its package, and not CuPy; without a driver that is the reason."""
    monkeypatch.setattr(cuda, "driver_missing", lambda: None)
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda name: name if name in here else None)
    assert module.missing() == reason
    monkeypatch.setattr(cuda, "driver_missing", lambda: "no NVIDIA driver")
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda name: None)
    assert module.missing() == "no NVIDIA driver"
