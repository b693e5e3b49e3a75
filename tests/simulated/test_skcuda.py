"""The adapter of scikit-cuda on a package that breaks where the real one does, over a library written in C.

The package is a stand-in: each line of it that does something was taken to be where the real one, of 2019,
fails on a Python, a NumPy and a CUDA of today.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from kernels import build
from kernels.errors import LaunchError, Unavailable
from kernels.libs import cuda, skcuda
from tests.simulated.fake_skcuda import LIBRARY, PACKAGE


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("library") / "cublas.c"
    source.write_text(LIBRARY)
    return build.shared(source)


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: Path) -> Iterator[ctypes.CDLL]:
    """The library, and a package on Python's path that no one has imported yet."""
    for name, text in PACKAGE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(re.sub(r"^ {8}", "", text, flags=re.MULTILINE).lstrip())
    # Not syspath_prepend: where there is a pkg_resources it warns of namespaces that nobody here has.
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    importlib.invalidate_caches()
    forget()
    found = ctypes.CDLL(str(compiled))
    for name in ("created", "status", "properties", "plans"):
        put(found, name, 0)
    monkeypatch.setattr(cuda, "load", lambda name: found)
    monkeypatch.setattr(cuda, "DRIVER", str(compiled))
    yield found
    forget()


def forget() -> None:
    for name in [x for x in sys.modules if x.partition(".")[0] == "skcuda"]:
        del sys.modules[name]


def put(library: ctypes.CDLL, name: str, value: int) -> None:
    ctypes.c_int.in_dll(library, name).value = value


def address(x: np.ndarray) -> int:
    return int(x.ctypes.data)


def test_the_stand_in_breaks_without_the_adapter(library: ctypes.CDLL) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises((ImportError, OSError, AttributeError)):
            importlib.import_module("skcuda.misc")


def test_a_handle_on_a_stream(library: ctypes.CDLL) -> None:
    on = skcuda.open_handle(0x7_0000_0001)
    assert (on.version, on.stream) == ("cuBLAS 13.1.2", 0x7_0000_0001)
    assert ctypes.c_ulong.in_dll(library, "stream").value == 0x7_0000_0001


@pytest.mark.parametrize("flags", [(0, 0), (0, 1), (1, 0), (1, 1)])
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 0.0), (-2.5, 0.5)])
def test_a_product_in_row_major_terms(library: ctypes.CDLL, flags: tuple[int, int], alpha: float, beta: float) -> None:
    """Row-major C = op(A)·op(B) is column-major Cᵀ = op(B)ᵀ·op(A)ᵀ: operands and flags swapped."""
    m, n, k = 3, 5, 4
    rng = np.random.default_rng(1)
    a = rng.standard_normal((k, m) if flags[0] else (m, k)).astype(np.float32)
    b = rng.standard_normal((n, k) if flags[1] else (k, n)).astype(np.float32)
    c = rng.standard_normal((m, n)).astype(np.float32)
    want = alpha * ((a.T if flags[0] else a) @ (b.T if flags[1] else b)) + beta * c
    call = skcuda.sgemm(
        skcuda.open_handle(0),
        (flags[1], flags[0]),
        (n, m, k),
        (alpha, beta),
        (address(b), b.shape[1]),
        (address(a), a.shape[1]),
        (address(c), n),
    )
    call()
    assert np.allclose(c, want, rtol=1e-5)


def test_a_transposition(library: ctypes.CDLL) -> None:
    source = np.arange(12, dtype=np.float32).reshape(3, 4)
    target = np.ones((4, 3), np.float32)  # nothing of which stays
    skcuda.sgeam_transpose(skcuda.open_handle(0), 3, 4, (address(source), 4), (address(target), 3))()
    assert np.array_equal(target, source.T)


def test_a_plan_of_transforms(library: ctypes.CDLL) -> None:
    """Images and spectra one behind another; it is destroyed with the object."""
    plan = skcuda.transforms((6, 8), 3, False, 0x7_0000_0002)
    told = list((ctypes.c_int * 11).in_dll(library, "told"))
    assert told == [2, 6, 8, 8, 1, 48, 5, 1, 30, 0x2A, 3]
    assert ctypes.c_ulong.in_dll(library, "stream").value == 0x7_0000_0002
    x, y = np.ones(1, np.float32), np.zeros(1, np.float32)
    call = plan.call(address(x), address(y))
    call()
    assert y[0] == 1 and ctypes.c_int.in_dll(library, "executed").value == 7
    put(library, "status", 6)
    with pytest.raises(LaunchError, match=r"^cufftExecR2C of scikit-cuda raises cufftExecFailed$"):
        call()
    put(library, "status", 0)
    assert ctypes.c_int.in_dll(library, "plans").value == 1
    del plan
    gc.collect()
    assert ctypes.c_int.in_dll(library, "plans").value == 0
    put(library, "status", 8)
    with pytest.raises(Unavailable, match=r"scikit-cuda raises cufftInvalidSize for a plan of 3 × \(6, 8\)"):
        skcuda.transforms((6, 8), 3, False, 0)


@pytest.mark.parametrize("part", ["misc", "broken"])
def test_all_that_was_lent_is_taken_back(library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """Also where the import fails; and what was there before is there again."""
    mine = ModuleType("pkg_resources")
    monkeypatch.setitem(sys.modules, "pkg_resources", mine)
    before = dict(vars(np)), dict(vars(ctypes.cdll)), list(warnings.filters)
    if part == "broken":
        with pytest.raises(Unavailable, match=r"cannot be used \(RuntimeError: no such thing\): pip install"):
            skcuda.load(part)
    else:
        skcuda.load(part)
    assert sys.modules["pkg_resources"] is mine
    assert (dict(vars(np)), dict(vars(ctypes.cdll)), list(warnings.filters)) == before
    utils = sys.modules["skcuda.utils"]
    assert (utils.find_lib_path.__module__, utils.get_soname.__module__) == (utils.__name__, utils.__name__)


def test_no_handle_is_made_while_it_is_imported(library: ctypes.CDLL) -> None:
    assert skcuda.load()._cublas_version == ("13", "1")
    assert ctypes.c_int.in_dll(library, "created").value == 0


def test_names_of_old_numpy_are_there_when_its_functions_are_called(library: ctypes.CDLL) -> None:
    misc = skcuda.load("misc")
    assert misc.get_compute_capability() == 9.0
    assert misc.is_complex(np.complex64) and not misc.is_complex(np.float32)
    assert misc.num_types[0] is np.int8


def test_what_it_writes_on_its_library_stays_its_own(library: ctypes.CDLL) -> None:
    """The binding by ctypes shares the library and passes arguments of other types."""
    skcuda.load()
    assert library.cublasCreate_v2.argtypes is None


def test_its_version_is_the_installed_one(library: ctypes.CDLL) -> None:
    skcuda.load()
    assert sys.modules["skcuda"].__version__ == "0.5.3"


def test_what_it_answers_is_told(library: ctypes.CDLL) -> None:
    x = np.zeros((2, 2), np.float32)
    place = (address(x), 2)
    on = skcuda.open_handle(0)
    put(library, "status", 13)
    with pytest.raises(LaunchError, match=r"^cublasSgemm of scikit-cuda raises cublasExecutionFailed$"):
        skcuda.sgemm(on, (0, 0), (2, 2, 2), (1.0, 0.0), place, place, place)()
    with pytest.raises(LaunchError, match=r"^cublasSgeam of scikit-cuda raises cublasExecutionFailed$"):
        skcuda.sgeam_transpose(on, 2, 2, place, place)()
    put(library, "status", 1)
    with pytest.raises(Unavailable, match="scikit-cuda raises cublasNotInitialized: no usable GPU"):
        skcuda.open_handle(0)


def test_a_library_that_is_not_there_is_what_is_told(library: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    put(library, "properties", 7)
    with pytest.raises(Unavailable, match=r"^cublasGetProperty answers 7: pip install"):
        skcuda.load()
    put(library, "properties", 0)

    def only_cublas(name: str) -> ctypes.CDLL:
        if name != "cublas":
            raise Unavailable(f"lib{name} is not here: pip install something")
        return library

    monkeypatch.setattr(cuda, "load", only_cublas)
    with pytest.raises(Unavailable, match=r"^libcudart is not here: pip install something$"):
        skcuda.load()


def test_without_the_package_it_says_what_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(Unavailable, match=r"^skcuda is not installed: pip install 'kernelgap\[skcuda\]'$"):
        skcuda.load()


@pytest.mark.parametrize(
    ("here", "told"),
    [
        ({"cupy", "skcuda", "cuda.pathfinder"}, None),
        ({"skcuda", "cuda.pathfinder"}, None),
        ({"cupy", "cuda.pathfinder"}, "skcuda is not installed: pip install 'kernelgap[skcuda]'"),
        ({"skcuda"}, "cuda.pathfinder is not installed: pip install 'kernelgap[cuda13]'"),
    ],
)
def test_what_is_missing(monkeypatch: pytest.MonkeyPatch, here: set[str], told: str | None) -> None:
    """CuPy is not."""
    monkeypatch.setattr(cuda, "driver_missing", lambda: None)
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda name: name if name in here else None)
    assert skcuda.missing() == told


def test_without_a_driver_that_is_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "driver_missing", lambda: "no NVIDIA driver")
    monkeypatch.setattr(cuda.importlib.util, "find_spec", lambda name: None)
    assert skcuda.missing() == "no NVIDIA driver"
