"""The adapter of scikit-cuda on a stand-in of the package, which breaks where the real one of 2019 does."""

from __future__ import annotations

import ctypes
import gc
import importlib
import sys
import textwrap
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from kernels import build
from kernels.errors import LaunchError, Unavailable
from kernels.libs import cuda, skcuda
from tests.simulated.fake_cufft_cusparse import Cufft
from tests.simulated.fake_gpu import ScikitTransforms

PACKAGE = {  # by module: what scikit-cuda 0.5.3 does that breaks today
    "__init__": """
        import pkg_resources
        pkg_resources.declare_namespace(__name__)
        __version__ = pkg_resources.require('scikit-cuda')[0].version
        """,
    "utils": r"""
        PATTERN = '^\s+SONAME'
        def get_soname(filename): raise RuntimeError('no library name found')
        def find_lib_path(name): raise RuntimeError('the real one asks a shell')
        """,
    "cublas": """
        import ctypes, re
        import numpy as np
        from . import utils
        ctypes.cdll.LoadLibrary('libcuda.so').cuPointerGetAttribute
        ctypes.cdll.LoadLibrary('libcudart.so')
        _libcublas = ctypes.cdll.LoadLibrary('libcublas.so')
        _libcublas.cublasCreate_v2.argtypes = [ctypes.c_void_p]
        class cublasError(Exception): pass
        class cublasNotInitialized(cublasError): pass
        class cublasExecutionFailed(cublasError): pass
        def check(status):
            if status:
                raise {1: cublasNotInitialized, 13: cublasExecutionFailed}[status]
        def cublasCreate():
            handle = ctypes.c_void_p()
            check(_libcublas.cublasCreate_v2(ctypes.byref(handle)))
            return handle.value
        try:
            _cublas_version = re.search(r'(\\d+)\\.(\\d+)', utils.get_soname(utils.find_lib_path('cublas'))).groups()
        except RuntimeError:
            cublasCreate()
        def cublasGetVersion(handle): return 130102
        def cublasSetStream(handle, id):
            check(_libcublas.cublasSetStream_v2(ctypes.c_void_p(handle), ctypes.c_void_p(id)))
        def cublasSgemm(*given): check(_libcublas.answer())
        def cublasSgeam(*given): check(_libcublas.answer())
        """,
    "misc": """
        import numpy as np
        num_types = [np.typeDict[t] for t in np.typecodes['AllInteger'] + np.typecodes['AllFloat']]
        def get_compute_capability(): return np.float('9.0')
        def is_complex(kind): return kind in np.sctypes['complex'] and kind not in np.sctypes['float']
        """,
    "broken": """
        import numpy as np
        np.typeDict
        raise RuntimeError('no such thing')
        """,
}
METADATA = "Metadata-Version: 2.1\nName: scikit-cuda\nVersion: 0.5.3\n"
LIBRARY = r"""
int created, status, properties;
unsigned long stream;
int cuPointerGetAttribute(void) { return 0; }
int cublasGetProperty(int which, int *value) { *value = which == 0 ? 13 : which == 1 ? 1 : 99; return properties; }
int cublasCreate_v2(unsigned long *handle) { created++; *handle = 0x123456789a; return status; }
int cublasSetStream_v2(void *handle, unsigned long value) { stream = value; return status; }
int answer(void) { return status; }
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = tmp_path_factory.mktemp("library") / "cublas.c"
    source.write_text(LIBRARY)
    return build.shared(source)


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: Path) -> Iterator[ctypes.CDLL]:
    """The library, and a package on Python's path that no one has imported yet."""
    files = {f"skcuda/{name}.py": textwrap.dedent(text) for name, text in PACKAGE.items()}
    for name, text in (files | {"scikit_cuda-0.5.3.dist-info/METADATA": METADATA}).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    # Not syspath_prepend: where there is a pkg_resources it warns of namespaces that nobody here has.
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    importlib.invalidate_caches()
    forget()
    found = ctypes.CDLL(str(compiled))
    for name in ("created", "status", "properties"):
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


def test_a_handle_on_a_stream(library: ctypes.CDLL) -> None:
    on = skcuda.open_handle(0x7_0000_0001)
    assert (on.version, on.stream) == ("cuBLAS 13.1.2", 0x7_0000_0001)
    assert ctypes.c_ulong.in_dll(library, "stream").value == 0x7_0000_0001


def test_a_plan_of_transforms(monkeypatch: pytest.MonkeyPatch) -> None:
    """Images and spectra one behind another; it is destroyed with the object."""
    module = ScikitTransforms(Cufft())
    monkeypatch.setattr(skcuda, "load", {"cufft": module}.__getitem__)
    images = np.random.default_rng(0).standard_normal((3, 6, 8)).astype(np.float32)
    spectra = np.zeros((3, 6, 5), np.complex64)
    plan = skcuda.transforms((6, 8), 3, False, 0x7_0000_0002)
    assert module.library.alive[plan.number.value].stream == 0x7_0000_0002
    call = plan.call(address(images), address(spectra))
    call()
    assert np.allclose(spectra, np.fft.rfft2(images), atol=1e-4)
    module.library.status = {"ExecR2C": 6, "MakePlanMany": 8}
    with pytest.raises(LaunchError, match=r"^cufftExecR2C of scikit-cuda raises cufftError$"):
        call()
    assert len(module.library.alive) == 1
    del plan
    gc.collect()
    assert not module.library.alive
    with pytest.raises(Unavailable, match=r"scikit-cuda raises cufftError for a plan of 3 × \(6, 8\)"):
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


def test_its_import_makes_no_handle_and_leaves_our_binding_alone(library: ctypes.CDLL) -> None:
    """Which shares the library, and passes arguments of other types."""
    assert skcuda.load()._cublas_version == ("13", "1")
    assert ctypes.c_int.in_dll(library, "created").value == 0
    assert library.cublasCreate_v2.argtypes is None
    assert sys.modules["skcuda"].__version__ == "0.5.3"


def test_names_of_old_numpy_are_there_when_its_functions_are_called(library: ctypes.CDLL) -> None:
    misc = skcuda.load("misc")
    assert misc.get_compute_capability() == 9.0
    assert misc.is_complex(np.complex64) and not misc.is_complex(np.float32)
    assert misc.num_types[0] is np.int8


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
    with pytest.raises(Unavailable, match=r"^cublasGetProperty returned 7: pip install"):
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
