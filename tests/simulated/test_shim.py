"""The shim itself: what it must get right for a kernel to be believed, and what it must find wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels.nvcc import Argument, Geometry
from kernels.problem import Operand
from tests.simulated import launcher
from tests.simulated.test_threads import ORDERED, SOURCE, launched

pytestmark = pytest.mark.skipif(launcher.missing() is not None, reason=launcher.missing() or "")
X, Y = Operand("x", (1, 64), "in"), Operand("y", (1, 64), "out")
NUMBERS = np.arange(64, dtype=np.float32).reshape(1, 64)
HEAD = 'extern "C" __global__ void f(const float *x, float *y)\n{\n    int t = threadIdx.x;\n'
BOTH = pytest.mark.parametrize("backward", [False, True])


def run(
    body: str,
    backward: bool = False,
    *,
    grid: tuple[int, int, int] = (1, 1, 1),
    block: tuple[int, int, int] = (64, 1, 1),
    arguments: tuple[Argument, ...] = (("operand", "x"), ("operand", "y")),
    head: str = HEAD,
) -> Any:
    """y of a kernel with this body, x being 0 … 63."""
    geometry = Geometry("f", grid, block, arguments)
    found = launcher.launch(head + body + "\n}\n", [geometry], [X, Y], {"x": NUMBERS}, backward=backward)
    return found["y"][0]


def fails(body: str, reason: str, backward: bool = False, **how: Any) -> None:
    with pytest.raises(launcher.LaunchFailed, match=reason):
        run(body, backward, **how)


# Barriers


@BOTH
@pytest.mark.parametrize("name", ORDERED)
def test_ordered_accesses_give_their_answer(name: str, backward: bool) -> None:
    geometry = Geometry(*launched(name), (("operand", "x"), ("operand", "y")))
    found = launcher.launch(SOURCE, [geometry], [X, Y], {"x": NUMBERS}, backward=backward)["y"]
    assert (found[0] == ORDERED[name][1]).all()


@BOTH
def test_missing_barrier_gives_a_wrong_answer(backward: bool) -> None:
    assert np.isnan(run("__shared__ float s[64]; s[t] = x[t]; y[t] = s[63 - t];", backward)).any()


def test_missing_second_barrier_shows_in_one_order_at_least() -> None:
    """A thread's next write comes before another's read of the last."""
    body = """__shared__ float s; float sum = 0;
    for (int i = 0; i < 3; i++) { if (t == 63) s = i; __syncthreads(); sum += s; } y[t] = sum;"""
    assert not all((run(body, order) == 3).all() for order in (False, True))


@BOTH
@pytest.mark.parametrize("stays", ["t % 3", "t < 40", "t == 63", "t == 0"])
def test_threads_that_returned_are_not_waited_for(stays: str, backward: bool) -> None:
    """Two barriers; what is written before the first is read after the second."""
    body = f"""__shared__ float s[64]; s[t] = 1; if (!({stays})) {{ y[t] = -1; return; }}
    __syncthreads(); float n = 0; for (int i = 0; i < 64; i++) n += s[i];
    __syncthreads(); s[t] = 5; y[t] = n;"""
    got = run(body, backward)
    stayed = eval(stays, {"t": np.arange(64)}).astype(bool)
    assert (got == np.where(stayed, 64, -1)).all()


@BOTH
def test_last_thread_that_returns_releases_those_that_wait(backward: bool) -> None:
    body = "__shared__ float s; if (t == 31) { s = 7; return; } __syncthreads(); y[t] = s;"
    got = run(body, backward)
    assert (np.delete(got, 31) == 7).all() and np.isnan(got[31])


@BOTH
def test_different_barriers_are_told(backward: bool) -> None:
    body = "if (t < 32) { __syncthreads(); }\nelse { __syncthreads(); }\ny[t] = 0;"
    fails(body, "different barriers: lines [45] and [45]", backward)


def test_shared_memory_is_nan_in_every_block() -> None:
    got = run("__shared__ float s; y[t + 32 * blockIdx.x] = s; s = 1;", grid=(2, 1, 1), block=(32, 1, 1))
    assert np.isnan(got[[0, 32]]).all()


# Shuffles


@BOTH
def test_shuffle_of_narrow_width(backward: bool) -> None:
    got = run("y[t] = __shfl_down_sync(0xffffffff, x[t], 3, 8);", backward)
    assert (got == np.where(np.arange(64) % 8 < 5, NUMBERS[0] + 3, NUMBERS[0])).all()


@BOTH
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("y[t] = __shfl_down_sync(0xffff, x[t], 1);", "not in its own mask|is not in the mask"),
        ("if (t == 9) return; y[t] = __shfl_down_sync(0xffffffff, x[t], 1);", "has returned|wait for ever"),
        ("y[t] = __shfl_down_sync(t == 9 ? 0x3ff : 0xffffffff, x[t], 1);", "different masks|not in the mask"),
        ("if (t % 32 < 16) y[t] = __shfl_down_sync(0xffffffff, x[t], 1); else __syncthreads();", "for ever"),
    ],
)
def test_wrong_shuffle_is_told(body: str, reason: str, backward: bool) -> None:
    fails(body, reason, backward)


# Memory


@BOTH
@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("y[t] = 0; if (t == 63) y[t + 1] = 0;", "outside every operand"),  # the page behind
        ("y[t] = x[t + 1];", "outside every operand"),
        ("y[t] = 0; if (t == 0) y[-1] = 0;", "^writes outside y$"),
        ("y[t] = x[t]; if (t == 0) y[-1] = x[-1];", "^writes outside y$"),  # one guard over another
        ("y[t] = 0; ((float *)x)[t] = 0;", "^changes its input x$"),
        ("__shared__ float s[8][9]; s[0][t % 10] = 0; y[t] = 0;", "outside its array"),
        ("y[t] = ((const float4 *)(x + 1))[t % 8].x;", "misaligned"),
        ("int big = 2147483647; y[t] = big + t;", "overflow"),
        ("y[t] = *(float *)(4L * t);", "outside every operand"),
    ],
)
def test_wrong_access_is_told(body: str, reason: str, backward: bool) -> None:
    fails(body, reason, backward)


def test_launch_after_a_failed_one_is_right() -> None:
    for _ in range(3):
        fails("y[t] = x[t + 1000000];", "outside every operand")
        assert (run("y[t] = x[t];") == NUMBERS).all()


def test_write_behind_an_aligned_operand_is_told() -> None:
    """Its end is not that of a page: the guard's own words tell."""
    short = Operand("y", (1, 61), "out")
    geometry = Geometry("f", (1, 1, 1), (62, 1, 1), (("operand", "x"), ("operand", "y")))
    with pytest.raises(launcher.LaunchFailed, match=r"^writes outside y$"):
        launcher.launch(HEAD + "y[t] = 0;}", [geometry], [X, short], {"x": NUMBERS}, align=16)


def test_write_to_padding_is_told() -> None:
    padded = Operand("y", (2, 30), "out", pad=2)
    geometry = Geometry("f", (1, 1, 1), (62, 1, 1), (("operand", "x"), ("operand", "y")))
    with pytest.raises(launcher.LaunchFailed, match=r"^writes outside y$"):
        launcher.launch(HEAD + "y[t] = 0;}", [geometry], [X, padded], {"x": NUMBERS})


# The rest of the language


def test_every_thread_of_every_block_runs_once() -> None:
    body = """unsigned b = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
    unsigned i = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
    y[b * blockDim.x * blockDim.y * blockDim.z + i] = x[0] + 100 * b + i + 0 * t;"""
    got = run(body, grid=(2, 1, 2), block=(2, 4, 2))
    assert (got == np.add.outer(100 * np.arange(4), np.arange(16)).ravel()).all()


def test_atomic_add_returns_what_was_there() -> None:
    """In whatever order: each thread another multiple of two."""
    got = run("__shared__ float s; if (t == 0) s = 0; __syncthreads(); y[t] = atomicAdd(&s, 2);")
    assert (np.sort(got) == 2 * NUMBERS).all()


def test_another_number_of_arguments_is_told() -> None:
    fails("y[t] = 0;", "number of arguments", arguments=(("operand", "y"),))


def test_too_large_a_block_is_told() -> None:
    fails("y[t] = 0;", "at most 1024", block=(1025, 1, 1))


def test_kernels_of_a_file_are_found() -> None:
    assert launcher.names(HEAD + "}\n" + HEAD.replace(" f(", " __launch_bounds__(A *B)\n    g(")) == ["f", "g"]
