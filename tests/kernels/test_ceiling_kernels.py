"""What bounds others: right by one thread and by several, and in its loop only the instruction that it counts."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels import build, team
from kernels.catalog import find
from kernels.devices.cpu import features, instruction_sets
from kernels.errors import Unavailable, UsageError
from kernels.ops.fma import Fma, fastest
from kernels.ops.fma import variants as fma
from kernels.ops.fma.problem import ISA, PEAK
from kernels.ops.mma import Mma
from kernels.ops.mma import variants as mma
from kernels.ops.mma.problem import CORE
from kernels.ops.stream import Stream
from kernels.setting import Setting
from micro.worker.process_state import cores
from tests.kernels.rows import CPU, checked

HERE = (*instruction_sets(), *features())
CORES = len(cores()) or os.cpu_count() or 1
several = pytest.mark.skipif(CORES < 2, reason="one core: no team")
x86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="these instructions are of x86")
UNITS = {unit: dtype for dtype, units in CORE.items() for unit in units}


@pytest.mark.parametrize("isa", [isa for isa in PEAK if isa in HERE])
@pytest.mark.parametrize("steps", [1, 2, 7, 16384])
def test_chains_of_a_peak_are_right(isa: str, steps: int) -> None:
    checked(Fma(isa, steps, PEAK[isa]))


@pytest.mark.parametrize("steps", [1, 2, 7, 10])
def test_two_steps_in_an_instruction_each_halve_once(steps: int) -> None:
    """As where a multiply-add adds to what it writes; compiled for a set of this processor, of single precision."""
    function = build.address(fma.SOURCE, "fma_chains10", (*ISA[HERE[0]][1], "-DACCUMULATES"))
    chains, lanes = 10, 64
    d, x = np.arange(lanes, dtype="f4"), np.ones((chains, lanes), "f4")
    held = fma.Argument(d.ctypes.data, x.ctypes.data, steps)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)(function)(ctypes.addressof(held))
    own = x.ravel()[:40]  # of any width: the first chains of the narrowest
    fixed = 2 * d[:4]
    want = fixed + (1 - fixed) * 0.5 ** (steps - steps // 2)
    assert own[:4] == pytest.approx(want)


@several
@pytest.mark.parametrize("steps", [5, 16384, 16385, 131072])
def test_multiply_adds_of_several_threads_are_right(steps: int) -> None:
    isa = instruction_sets()[-1]
    checked(Fma(isa, steps, PEAK[isa], 2), setting=Setting(2))


def test_what_threads_take_from_each_other_is_enough_to_forget_how_often() -> None:
    """Each has x of its own, which is at its fixed point after a slice, however many it does."""
    found = {steps: Fma("avx2", steps, PEAK["avx2"], 2) for steps in (4, 64, 2048, 16384, 131072)}
    assert {steps: x.passes for steps, x in found.items()} == {4: 1, 64: 1, 2048: 1, 16384: 1, 131072: 64}
    assert all(x.slice * x.passes == x.steps for x in found.values())


@several
@pytest.mark.parametrize("size", [64, 68, 4096, 4100, (1 << 20) + 4, (3 << 20) + 12])
def test_a_read_by_several_threads_sums_all_of_it(size: int) -> None:
    checked(Stream("read", size), setting=Setting(2))


@several
def test_a_read_by_several_counts_every_time_it_reads() -> None:
    """Of a little many times: to start them takes longer than to read it."""
    problem = Stream("read", 4100)
    bind = find("stream", "c").prepare(problem, CPU, Setting(2))
    blocks = [CPU.allocate(8192) for _ in problem.operands()]
    blocks[0].view("f4")[:] = 1e9  # what lies behind it
    views = [CPU.view(block, 0, x) for block, x in zip(blocks, problem.operands(), strict=True)]
    views[0][:] = 1.0
    launch = bind(views)
    entry = launch.entry
    assert launch.uses * problem.size >= 2 * 16 << 20 and entry is not None and entry.single is not None
    wake = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(entry.single[0])
    for call in (launch.call, lambda: wake(ctypes.addressof(entry.argument)), launch.call):
        views[1][:] = 0
        call()
        assert views[1][0, 0] == 1025


@pytest.mark.parametrize("unit", [unit for unit in UNITS if unit in HERE])
@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=several)])
def test_products_of_coarse_numbers_are_right(unit: str, threads: int) -> None:
    checked(Mma(UNITS[unit], unit, 64, threads), setting=Setting(threads))


def test_a_team_is_as_large_as_its_problem() -> None:
    isa = instruction_sets()[-1]
    with pytest.raises(Unavailable, match="requires 2 threads: --threads 2"):
        find("fma", "c").prepare(Fma(isa, 64, PEAK[isa], 2), CPU, Setting())
    with pytest.raises(Unavailable, match=f"fewer cores than the {CORES + 1} threads"):
        team.gather(CORES + 1)
    with pytest.raises(UsageError, match="--unit amxint8: does not support --dtype bf16"):
        Mma("bf16", "amxint8")
    with pytest.raises(UsageError, match="--unit wgmma: does not support --dtype int8"):
        Mma("int8", "wgmma")


class Plan(ctypes.Structure):
    _fields_ = team.PLAN


PART = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
DONE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)


def slices(part: Any, members: int, each: int, passes: int, name: str = "run") -> list[int]:
    """What a team does of `part`; the passes that it says it made."""
    told: list[int] = []
    made = team.gather(members)
    done = DONE(lambda plan, passes: told.append(passes))
    called = PART(part)
    plan = Plan(ctypes.cast(called, ctypes.c_void_p), ctypes.cast(done, ctypes.c_void_p), members, each, passes)
    ctypes.CFUNCTYPE(None, ctypes.c_void_p)({"run": made.run, "wake": made.wake}[name])(ctypes.addressof(plan))
    return told


@several
def test_every_slice_is_done_as_often_as_there_are_passes() -> None:
    taken: list[tuple[int, int]] = []
    told = slices(lambda plan, member, number: taken.append((member, number)), 2, 5, 7)
    assert told == [7]
    assert sorted(number for _, number in taken) == sorted([*range(10)] * 7)
    assert {member for member, _ in taken} == {0, 1}


@several
def test_waking_a_team_is_one_pass() -> None:
    taken: list[int] = []
    assert slices(lambda plan, member, number: taken.append(number), 2, 3, 1000, "wake") == [1]
    assert sorted(taken) == [*range(6)]


@several
@pytest.mark.parametrize("late", [0, 1])
def test_who_is_late_leaves_its_slices_to_the_others(late: int) -> None:
    """It is stopped in its first until the other has done all the rest."""
    taken, rest = [0, 0], threading.Event()

    def part(plan: int, member: int, number: int) -> None:
        taken[member] += 1
        if member != late and taken[member] == 99:
            rest.set()
        if member == late and taken[member] == 1:
            rest.wait(20)

    slices(part, 2, 1, 50)
    assert taken[late] == 1 and taken[1 - late] == 99


@several
def test_a_job_for_one_leaves_the_others_asleep() -> None:
    taken: list[int] = []
    for members in (2, 1, 2):
        slices(lambda plan, member, number: taken.append(member), members, 1, 3)
        assert len(taken) == 3 * members and set(taken) == set(range(members))
        taken.clear()


def loops(source: Path, flags: Sequence[str], instruction: str) -> list[list[str]]:
    """The inner loops in which it stands: of each the instructions."""
    command = [build.compiler()[0], *build.FLAGS, *flags, "-S", str(source), "-o", "-"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"this compiler does not know it: {done.stderr.splitlines()[0][:100]}")
    blocks = re.split(r"^\.?\w+:.*$", done.stdout, flags=re.M)
    return [
        [line.strip() for line in block.splitlines() if re.match(r"\s+[a-z{]", line)]
        for block in blocks
        if re.search(rf"\b{instruction}", block)
    ]


@x86
@pytest.mark.parametrize(
    ("unit", "instruction", "count"),
    [
        ("avx512bf16", "vdpbf16ps", 16),
        ("avx512vnni", "vpdpbusd", 16),
        ("avxvnni", "vpdpbusd", 12),
        ("amxbf16", "tdpbf16ps", 4),
        ("amxint8", "tdpbssd", 4),
    ],
)
def test_a_loop_of_products_is_nothing_but_products(unit: str, instruction: str, count: int) -> None:
    """Compiled whatever this processor has. Nothing is stored in it; half of AVX-VNNI's factors are loaded again."""
    found = loops(mma.SOURCE, mma.FLAGS[unit], instruction)
    assert found
    for block in found:
        body = [line for line in block if not line.startswith("#")]
        assert sum(instruction in line for line in body) == count
        rest = [line for line in body if instruction not in line and not line.startswith("{vex}")]
        assert not [line for line in rest if re.search(r"mm\d+, .*\(", line)], "a sum goes through memory"
        assert len([line for line in rest if "mm" in line]) <= (6 if unit == "avxvnni" else 0)


@x86
@pytest.mark.parametrize("isa", ["avx2", "avx512", "avx512fp16", "avx2fp64", "avx512fp64"])
def test_a_loop_of_multiply_adds_is_nothing_but_multiply_adds(isa: str) -> None:
    found = loops(fma.SOURCE, ISA[isa][1], "vfn?m(add|sub)")
    counts = [sum("vfm" in line for line in block) for block in found]
    assert {10, PEAK[isa]} <= set(counts)
    for block in found:
        moved = [line for line in block if "mm" in line and "vfm" not in line]
        assert not moved or sum("vfm" in line for line in block) == 1


def test_the_widest_set_is_the_fastest_unless_another_is_clearly_faster() -> None:
    assert fastest.chosen({"avx2": 100.0, "avx512": 101.0}) == "avx512"
    assert fastest.chosen({"avx2": 101.0, "avx512": 100.0}) == "avx512"
    assert fastest.chosen({"avx2": 120.0, "avx512": 100.0}) == "avx2"


@pytest.mark.parametrize(
    ("slow", "sets", "name"),
    [
        ("avx512", ("sse", "avx", "avx2", "avx512"), "avx2"),
        ("avx2", ("sse", "avx", "avx2", "avx512"), "avx512"),
        ("", ("sse", "avx"), "avx"),
        ("", ("native",), "native"),
    ],
)
def test_a_set_that_is_held_to_a_lower_clock_is_not_the_ceiling(
    monkeypatch: pytest.MonkeyPatch, slow: str, sets: tuple[str, ...], name: str
) -> None:
    """Of sets without a fused multiply-add the widest, which is not measured."""
    asked: list[str] = []

    def prepared(problem: Fma) -> Any:
        asked.append(problem.isa)
        return lambda: problem

    def seconds(call: Any) -> float:
        problem = call()
        return float(problem.flops / (10e9 if problem.isa == slow else 100e9))

    monkeypatch.setattr(fastest, "prepared", prepared)
    monkeypatch.setattr(fastest, "seconds", seconds)
    assert fastest.fastest.__wrapped__(sets) == name
    assert set(asked) <= {"avx2", "avx512", name}


@pytest.mark.parametrize("stopped", [4, 6])
def test_a_core_that_is_stopped_for_most_of_a_sets_calls_does_not_make_another_the_ceiling(
    monkeypatch: pytest.MonkeyPatch, stopped: int
) -> None:
    calls: dict[str, int] = {}

    def seconds(call: Any) -> float:
        problem = call()
        calls[problem.isa] = calls.get(problem.isa, 0) + 1
        slow = problem.isa == "avx512" and calls[problem.isa] <= stopped
        return float(problem.flops / (50e9 if slow else 100e9))

    monkeypatch.setattr(fastest, "prepared", lambda problem: lambda: problem)
    monkeypatch.setattr(fastest, "seconds", seconds)
    assert fastest.fastest.__wrapped__(("avx2", "avx512")) == "avx512"
