"""What a process is started with before its own libraries: found or built, loaded, in effect."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kernels.errors import Unavailable, UsageError
from kernels.libs import preload
from kernels.setting import Setting
from micro.worker.process import Worker

LINUX = pytest.mark.skipif(sys.platform != "linux", reason="preloading is for Linux")
PRODUCT = """
import ctypes, numpy as np
a, b, c = (np.full(shape, value, np.float32, order="F") for shape, value in (((3, 2), 1), ((2, 4), 2), ((3, 4), 0)))
sgemm = ctypes.CDLL(None).sgemm_
one, zero = ctypes.c_float(1), ctypes.c_float(0)
m, n, k = (ctypes.byref(ctypes.c_int(x)) for x in (3, 4, 2))
word = ctypes.c_char_p(b"N")
address = lambda x: x.ctypes.data_as(ctypes.c_void_p)
sgemm(word, word, m, n, k, ctypes.byref(one), address(a), m, address(b), k, ctypes.byref(zero), address(c), m)
assert (c == 4).all(), c
"""


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ("mkl", "choose from none, mkl-intel"),
        ("mkl-intel+mkl-intel", "each library once"),
        ("jemalloc+tcmalloc", "at most one allocator"),
        ("none+mkl-intel", "choose from none, mkl-intel"),
    ],
)
def test_what_is_no_list_of_libraries_is_refused(asked: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        preload.words(asked)


def test_nothing_is_preloaded_unless_it_is_asked_for() -> None:
    assert preload.words(preload.NONE) == () and preload.variables(preload.NONE) == {}
    assert preload.joined(preload.NONE, "mkl-intel") == "mkl-intel"
    assert preload.joined("mkl-intel", "jemalloc") == "mkl-intel+jemalloc"


@LINUX
def test_what_the_environment_preloads_stays_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/usr/lib/libsomething.so")
    first, last = preload.variables("mkl-intel")["LD_PRELOAD"].split()
    assert Path(first).name.startswith("mkl_intel") and last == "/usr/lib/libsomething.so"


def test_an_allocator_that_is_not_here_says_where_it_comes_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preload, "FOLDERS", ())
    monkeypatch.delenv("LD_LIBRARY_PATH", raising=False)
    preload.library.cache_clear()
    with pytest.raises(Unavailable, match="apt-get install libjemalloc2"):
        preload.variables("jemalloc")
    preload.library.cache_clear()


def test_an_allocator_is_found_where_the_linker_is_told_to_look(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "libmimalloc.so.3").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    preload.library.cache_clear()
    assert preload.library("mimalloc") == tmp_path / "libmimalloc.so.3"
    preload.library.cache_clear()


@LINUX
@pytest.mark.parametrize(
    ("word", "program"),
    [
        ("mkl-intel", "import ctypes; assert ctypes.CDLL(None).mkl_serv_intel_cpu_true() == 1"),
        ("sgemm-openblas", PRODUCT),
    ],
)
def test_a_shim_answers_before_any_other_library(word: str, program: str) -> None:
    def ran(environment: dict[str, str]) -> int:
        return subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True).returncode

    plain = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    assert ran(plain) != 0 and ran({**plain, **preload.variables(word)}) == 0


@LINUX
def test_a_worker_has_loaded_what_it_was_started_with() -> None:
    for asked in (preload.NONE, "mkl-intel"):
        worker = Worker(Setting(preload=asked))
        maps = Path(f"/proc/{worker._process.pid}/maps").read_text()
        worker.close()
        assert preload.missing(["mkl-intel"], maps) == (None if asked == "mkl-intel" else "mkl-intel")
