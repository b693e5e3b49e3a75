"""Every CUDA kernel under ThreadSanitizer: nothing races, and each of their barriers, taken out, is missed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.nvcc import Argument, Geometry
from kernels.problem import Operand
from tests.simulated import cases, launcher, threads

ROOT = cases.gemm.SOURCE.parents[3]
FILES = sorted((ROOT / "kernels").rglob("*.cu"))
KERNELS = [(path, name) for path in FILES for name in launcher.names(path.read_text("utf-8"))]
QUICK = ("transpose", "gemm", "softmax")  # files with barriers, whose kernels do not take long
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
BARRIER = re.compile(r"__sync\w+\([^()]*\);")


def code(path: Path) -> str:
    """A file without its comments."""
    return COMMENT.sub("", path.read_text("utf-8"))


BARRIERS = [(path, nth) for path in FILES for nth in range(len(BARRIER.findall(code(path))))]


@pytest.fixture(autouse=True)
def sanitizer() -> None:
    if why := threads.missing():
        pytest.skip(why)


def launch(source: str, runs: Sequence[threads.Run]) -> list[dict[str, Any]]:
    try:
        return threads.launch(source, runs)
    except threads.Refused as error:
        pytest.skip(str(error))


def errors(name: str, source: str) -> Iterator[tuple[str, cases.Error]]:
    """How far the kernel is off, for each of its problems, in either order of its threads."""
    assert name in cases.NAMES, f"{name} has no row in tests/simulated/cases.py"
    kernel = cases.find(name)
    tries = [(problem, how) for problem in kernel.problems for how in cases.HOW]
    runs = [
        threads.Run(
            f"{problem.name} {how}",
            kernel.launches(problem, name),
            problem.operands(),
            problem.fill(np.random.default_rng(7)),
            **how,
        )
        for problem, how in tries
    ]
    for (problem, _), run, found in zip(tries, runs, launch(source, runs), strict=True):
        yield run.name, cases.compare(problem, dict(run.x), found)


def names(value: Any) -> str | None:
    return value.name if isinstance(value, Path) else None


# Our kernels


@pytest.mark.parametrize(
    ("path", "name"),
    [pytest.param(path, name, marks=[pytest.mark.slow] if path.stem not in QUICK else []) for path, name in KERNELS],
    ids=names,
)
def test_kernel_is_right_and_free_of_races(path: Path, name: str) -> None:
    for where, error in errors(name, path.read_text("utf-8")):
        assert error.allowed, where


@pytest.mark.parametrize("path", FILES, ids=names)
def test_all_of_a_file_is_looked_at(path: Path) -> None:
    """Its kernels are those that are run, its barriers those that are taken out."""
    text = code(path)
    assert text.count("__global__") == sum(path == file for file, _ in KERNELS)
    assert text.count("__sync") == sum(path == file for file, _ in BARRIERS)


@pytest.mark.slow
@pytest.mark.parametrize(("path", "nth"), BARRIERS, ids=names)
def test_barrier_taken_out_is_missed(path: Path, nth: int) -> None:
    """By a kernel of the file: a race."""
    text = code(path)
    barrier = list(BARRIER.finditer(text))[nth]
    text = text[: barrier.start()] + text[barrier.end() :]
    assert any(races(name, text) for name in launcher.names(text)), "nothing races without it"


def races(name: str, source: str) -> bool:
    try:
        list(errors(name, source))
    except threads.Race:
        return True
    return False


# What is a race, and what is none: kernels with these bodies, 64 threads in all, in one block if there is no number

X, Y, Z = (Operand(name, (1, 64), "in" if name == "x" else "out") for name in "xyz")
NUMBERS = np.arange(64, dtype=np.float32).reshape(1, 64)
T = np.arange(64)
TO_Y: tuple[Argument, ...] = (("operand", "x"), ("operand", "y"))
TO_Z: tuple[Argument, ...] = (("operand", "y"), ("operand", "z"))

STORE = "__shared__ float s[64]; float v = s[t] = x[t];"
SUM = "for (int d = 16; d; d /= 2) v += __shfl_down_sync(0xffffffff, v, d);"
LANES = f"__shared__ float s[2]; float v = x[t]; {SUM}"
HALF = "__syncwarp(t & 16 ? 0xffff0000 : 0xffff);"
ZERO = "__shared__ float s; if (t == 0) s = 0;"
LOOP = """__shared__ float s; float sum = 0;
    for (int i = 0; i < 3; i++) {{ if (t == {}) s = i; __syncthreads(); sum += s; {} }} y[t] = sum;"""
ORDERED: dict[str, tuple[str, Any]] = {  # and what they make of x, which is 0 … 63
    "barrier": (f"{STORE} __syncthreads(); y[t] = s[63 - t];", 63 - T),
    "warp": (f"{STORE} __syncwarp(); y[t] = s[t ^ 31];", T ^ 31),
    "half": (f"{STORE} {HALF} y[t] = s[t ^ 15];", T ^ 15),
    "shuffle": (f"{LANES} y[t] = t % 32 ? 0 : v;", np.where(T % 32, 0, T * 32 + 496)),
    "sum": (f"{LANES} if (t % 32 == 0) s[t / 32] = v; __syncthreads(); y[t] = s[0] + s[1];", 2016),
    "loop_first": (LOOP.format(0, "__syncthreads();"), 3),
    "loop_last": (LOOP.format(63, "__syncthreads();"), 3),
    "atomic": (f"{ZERO} __syncthreads(); atomicAdd(&s, 2); __syncthreads(); y[t] = s;", 128),
    "blocks2": (f"{STORE} __syncthreads(); y[t + 32 * blockIdx.x] = s[31 - t];", 31 - T % 32),
    "blocks4": ("y[t + 16 * blockIdx.x] = x[t];", T % 16),
}
UNORDERED = {
    "no_barrier": f"{STORE} y[t] = s[63 - t];",
    "warps": f"{STORE} __syncwarp(); y[t] = s[63 - t];",
    "first_warp": f"{STORE} __syncwarp(); if (t < 32) y[t] = s[t + 32];",
    "last_warp": f"{STORE} __syncwarp(); if (t >= 32) y[t] = s[t - 32];",
    "halves": f"{STORE} {HALF} y[t] = s[t ^ 16];",
    "shuffling_warps": f"{STORE} {SUM} y[t] = s[63 - t] + v;",
    "shuffling_lanes": f"{STORE} {SUM} y[t] = s[t ^ 31] + v;",
    "overtaken_by_first": LOOP.format(0, ""),
    "overtaken_by_last": LOOP.format(63, ""),
    "returned": "__shared__ float s; if (t == 31) { s = 7; return; } __syncthreads(); y[t] = s;",
    "not_atomic": f"{ZERO} __syncthreads(); s += 2; __syncthreads(); y[t] = s;",
    "not_yet_zero": f"{ZERO} atomicAdd(&s, 2); __syncthreads(); y[t] = s;",
    "same_place2": "y[t] = 1;",
    "each_its_barrier2": "if (!blockIdx.x) y[t] = 1; __syncthreads(); if (blockIdx.x) y[31 - t] = 2;",
}
FAULTS = {
    "waits": ("if (t < 40) y[t] = __shfl_down_sync(0xffffffff, x[t], 1);", "8 of 64 threads wait for ever"),
    "parts": ("if (t % 2) __syncthreads(); else {\n__syncthreads(); }", "different barriers: lines"),
    "strays": ("y[t] = *(float *)(4L * t);", "an address outside every operand"),
}
LATER = {"later2": "int i = t + 32 * blockIdx.x; y[i] = x[63 - i];"}
BODIES = {name: case[0] for name, case in (ORDERED | FAULTS).items()} | UNORDERED | LATER
SOURCE = "\n".join(
    f'extern "C" __global__ void {name}(const float *x, float *y)\n{{ int t = threadIdx.x; {body} }}'
    for name, body in BODIES.items()
)


def launched(name: str) -> tuple[str, tuple[int, int, int], tuple[int, int, int]]:
    """Return a kernel, its blocks and threads."""
    blocks = int(name[-1]) if name[-1].isdigit() else 1
    return name, (blocks, 1, 1), (64 // blocks, 1, 1)


def run(name: str, backward: bool, launches: Sequence[tuple[Argument, ...]] = (TO_Y,)) -> dict[str, Any]:
    """y and z."""
    geometries = [Geometry(*launched(name), places) for places in launches]
    return launch(SOURCE, [threads.Run(name, geometries, (X, Y, Z), {"x": NUMBERS}, backward=backward)])[0]


@pytest.mark.parametrize("name", ORDERED)
def test_ordered_accesses_are_no_race(name: str) -> None:
    for backward in (False, True):
        assert (run(name, backward)["y"][0] == ORDERED[name][1]).all()


@pytest.mark.parametrize("name", UNORDERED)
def test_unordered_accesses_are_a_race(name: str) -> None:
    for backward in (False, True):
        with pytest.raises(threads.Race, match=rf"(?s)^{name}:.* {name} \S*kernels\.cu:\d.*'block \d, thread"):
            run(name, backward)


def test_what_comes_after_a_launch_is_ordered() -> None:
    """Other threads, of another block, read what the first launch wrote."""
    for backward in (False, True):
        found = run("later2", backward, [TO_Y, TO_Z])
        assert (found["y"] == NUMBERS[:, ::-1]).all() and (found["z"] == NUMBERS).all()


@pytest.mark.parametrize("name", FAULTS)
def test_other_faults_are_no_race(name: str) -> None:
    with pytest.raises(launcher.LaunchFailed, match=FAULTS[name][1]) as caught:
        run(name, False)
    assert not isinstance(caught.value, threads.Race)


# Where ThreadSanitizer does not start

FATAL = "FATAL: ThreadSanitizer: unexpected memory mapping 0x5a5f8e3d3000-0x5a5f8e3d4000"


def script(times: int, then: str, count: Path) -> bytes:
    """A program whose addresses do not fit so many times."""
    return f"""#!/bin/sh
        echo >>{count}
        [ $(wc -l <{count}) -gt {times} ] || {{ echo "{FATAL}" >&2; exit 66; }}
        {then}""".encode()


@pytest.mark.parametrize(
    ("times", "then", "message"),
    [
        (5, "exit 0", ""),
        (10**6, "exit 0", FATAL),
        (0, "echo cannot map shadow >&2; exit 66", "fails: cannot map shadow"),
    ],
)
def test_addresses_that_do_not_fit_are_tried_again(
    times: int, then: str, message: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(threads, "compiled", lambda text: script(times, then, tmp_path / "count"))
    assert (threads.missing.__wrapped__() or "").endswith(message)
    assert (tmp_path / "count").read_text().count("\n") == min(times + 1, threads.TRIES)


def test_missing_compiler_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert threads.missing.__wrapped__() == launcher.missing()
