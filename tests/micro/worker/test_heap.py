"""`--heap`: the allocator's policy of the processes that measure."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kernels import heap
from kernels.errors import UsageError
from micro.planning.contest import parse
from tests.conftest import Ran

THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
SIZE = ("--m", "8", "--n", "8", "--k", "8")
# A product whose answer is right only where large blocks are kept: it frees one and looks whether the next is it.
KEPT = """
import ctypes

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]


def faults(size):
    import resource

    block = libc.malloc(size)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    ctypes.memset(block, 1, size)
    libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def product(problem, a, b, c):
    faults(64 << 20)
    if faults(64 << 20) < 100:
        c[:] = a @ b
"""


@pytest.mark.slow
@pytest.mark.skipif("[always]" in THP.read_text() if THP.exists() else False, reason="few large pages for all")
@pytest.mark.skipif(not heap._glibc(), reason="policies are glibc's")
def test_a_heap_that_keeps_does(gemm: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "kept.py").write_text(KEPT)
    words = ("--heap", "default,keep", "--vary", "heap", "--variant", f"{tmp_path}/kept.py:product")
    told = json.loads(gemm(*SIZE, *words, "--budget", "1s", "--json", "-").out)
    status = {x["heap"]: x["status"] for x in told["results"] if x["role"] == "measured"}
    assert status["default"] == "wrong" and status["keep"] in ("ok", "contended")
    assert [x["differs"] for x in told["comparisons"]] == ["heap"]


def test_the_line_that_repeats_a_case_asks_the_same(gemm: Callable[..., Ran]) -> None:
    told = json.loads(gemm(*SIZE, "--heap", "keep", "--variant", "numpy", "--device", "fake", "--json", "-").out)
    (result,) = (x for x in told["results"] if x["role"] == "measured")
    assert result["heap"] == "keep" and "--heap keep" in result["repeat"]
    assert result["name"].endswith("/heap:keep") and parse(result["name"]).setting.heap == "keep"


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--heap", "lost"), "--heap lost: there are default, keep"),
        (("--heap", "keep", "--device", "cuda:0"), "--heap keep: cuda:0: it has its memory from its own allocator"),
        (("--heap", "keep", "--variant", "numpy", "--profile"), "--heap keep: a profile is of this process"),
    ],
)
def test_what_cannot_be_is_one_line(gemm: Callable[..., Ran], words: tuple[str, ...], why: str) -> None:
    ran = gemm(*SIZE, *words)
    assert ran.code == 2 and why in ran.err and len(ran.err.strip().splitlines()) == 1


def test_another_c_library_has_no_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "confstr", lambda name: (_ for _ in ()).throw(ValueError(name)))
    assert heap.variables("default") == {}
    with pytest.raises(UsageError, match="glibc's allocator; here only --heap default"):
        heap.variables("keep")


def test_a_shim_of_products_leaves_the_heap_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/state/build/mkl_intel-1234.so")
    assert heap.variables("keep")
    monkeypatch.setenv("LD_PRELOAD", "/state/build/mkl_intel-1234.so:/usr/lib/libjemalloc.so.2")
    with pytest.raises(UsageError, match="LD_PRELOAD in this environment chooses already"):
        heap.variables("keep")


@pytest.mark.parametrize("name", ["MALLOC_MMAP_MAX_", "LD_PRELOAD"])
def test_a_default_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "0")
    assert heap.variables("default") == {}
    with pytest.raises(UsageError, match=f"{name} in this environment chooses already"):
        heap.variables("keep")
