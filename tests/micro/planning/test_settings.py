"""`--workspace`: what a person types, and what it allows a kernel to hold beside its operands."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kernels import heap
from kernels.errors import UsageError
from kernels.workspace import enough, limit, typed
from micro.planning.axes import values
from tests.conftest import Ran

SIZE = ("--m", "8", "--n", "8", "--k", "8")
# A product that says of itself that it holds 3 MiB.
HOLDS = """
from functools import partial

import numpy as np

from kernels.launch import Launch
from kernels.variant import Variant


def prepare(problem, device, setting):
    return lambda x: Launch(partial(np.matmul, x[0], x[1], out=x[2]), workspace=3 << 20)


ROW = Variant("holds.py:ROW", "cpu", "mine", prepare, python=True)
"""


def limits(text: str) -> tuple[int | None, ...]:
    return values(text, limit, "--workspace")


def test_limits() -> None:
    assert limits("0,512KiB,8MiB,1GiB,4096,7B,unlimited") == (0, 512 << 10, 8 << 20, 1 << 30, 4096, 7, None)
    for text in ("", "8MB", "8 MiB", "-1", "1.5MiB", "8MiB,", "none", "1e6"):
        with pytest.raises(
            UsageError, match=r"^--workspace: .*is no number of bytes such as 512KiB or 8MiB, nor unlimited$"
        ):
            limits(text)
    for text in ("8MiB,8192KiB", "0,0B", "unlimited,unlimited"):
        with pytest.raises(UsageError, match=r"a value is named twice$"):
            limits(text)


def test_a_limit_is_typed_in_its_largest_exact_unit_and_a_round_one_is_enough() -> None:
    words = ["0B", "7B", "1KiB", "1MiB", "1536MiB", "unlimited"]
    assert [typed(x) for x in (0, 7, 1024, 1 << 20, 3 << 29, None)] == words
    rng = random.Random(1)
    for _ in range(200):
        nbytes = int(10 ** rng.uniform(0, 11))
        assert limits(typed(nbytes)) == (nbytes,)
        (round_number,) = limits(enough(nbytes))
        assert round_number is not None and nbytes <= round_number <= 1.13 * nbytes + 1


def test_a_kernel_that_holds_more_says_so_and_has_no_time(gemm: Callable[..., Ran], tmp_path: Path) -> None:
    (tmp_path / "holds.py").write_text(HOLDS)
    words = ("--variant", f"{tmp_path}/holds.py:ROW", "--workspace", "2MiB,4MiB", "--vary", "workspace")
    ran = gemm(*SIZE, *words, "--budget", "0.2s", "--json", "-")
    results = {x["workspace_limit"]: x for x in json.loads(ran.out)["results"] if x["role"] == "measured"}
    assert ran.code == 0 and results[2 << 20]["status"] == "skipped"
    assert results[2 << 20]["reason"] == "it holds 3 MiB beside its operands: --workspace 3MiB or more"
    assert results[4 << 20]["status"] in ("ok", "contended") and results[4 << 20]["workspace"] == 3 << 20


# The allocator's policy


THP = Path("/sys/kernel/mm/transparent_hugepage/enabled")
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


def test_another_c_library_has_no_policies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "confstr", lambda name: (_ for _ in ()).throw(ValueError(name)))
    assert heap.variables("default") == {}
    with pytest.raises(UsageError, match="glibc's allocator; here only --heap default"):
        heap.variables("keep")


@pytest.mark.parametrize(
    ("name", "value"),
    [("MALLOC_MMAP_MAX_", "0"), ("LD_PRELOAD", "0"), ("LD_PRELOAD", "/build/mkl_intel-1.so:/usr/lib/libjemalloc.so.2")],
)
def test_a_default_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv("LD_PRELOAD", "/state/build/mkl_intel-1234.so")  # a shim of products leaves the heap as it is
    assert heap.variables("keep")
    monkeypatch.setenv(name, value)
    assert heap.variables("default") == {}
    with pytest.raises(UsageError, match=f"{name} in this environment chooses already"):
        heap.variables("keep")
