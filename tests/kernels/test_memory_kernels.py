"""The kernels of pages, chase and saxpy: right at small sizes, and refused where one does less than its work."""

from __future__ import annotations

import ctypes
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.catalog import find
from kernels.errors import WrongResult
from kernels.launch import Launch
from kernels.native import CALL
from kernels.ops.chase import variants as chase
from kernels.ops.chase.problem import Chase, place
from kernels.ops.pages import accounting
from kernels.ops.pages import variants as pages
from kernels.ops.pages.problem import HUGE_PAGE, SMALL_PAGE, Pages
from kernels.ops.saxpy import variants as saxpy
from kernels.ops.saxpy.problem import Saxpy
from kernels.setting import Setting
from micro.worker import guards
from tests.kernels.rows import CPU, checked

KIB, MIB = 1 << 10, 1 << 20
EVERY = [
    Pages(what, memory, 4 * MIB, page)
    for what, memory, page in itertools.product(
        ("clear", "copy", "map"), ("touched", "fresh", "mapped", "default", "keep"), (SMALL_PAGE, HUGE_PAGE)
    )
]


def bound(problem: Any) -> tuple[Launch, Any]:
    """A launch on operands of its own, and the operands."""
    bench = guards.Bench(CPU, problem)
    bench.load(problem.fill(np.random.default_rng(5)))
    return find(problem.op, "c").prepare(problem, CPU, Setting())(bench.views), bench.views


def timed(launch: Launch) -> None:
    """As in a visit: what makes ready, twice, then the entry."""
    assert launch.entry is not None and launch.entry.single is not None
    argument = ctypes.addressof(launch.entry.argument)
    for function in (launch.entry.single[0], launch.entry.single[0], launch.entry.function):
        CALL(function)(argument)


# Right answers


@pytest.mark.parametrize("problem", EVERY, ids=lambda x: x.name)
def test_memory_is_worked_on_or_refused(problem: Pages) -> None:
    if why := pages.accepts(problem):
        assert "\n" not in why
        return
    checked(problem)


@pytest.mark.parametrize("problem", [x for x in EVERY if not pages.accepts(x)], ids=lambda x: x.name)
def test_a_visit_does_what_the_check_saw(problem: Pages) -> None:
    launch, (y,) = bound(problem)
    for _ in range(3):
        before = {"y": y.copy()}
        timed(launch)
        want = problem.reference(before)
        assert (np.abs(y - want["y"]) <= problem.bound(before, want, 0.0)["y"]).all(), (y, want)


def test_a_second_launch_finds_new_memory_too() -> None:
    problem = Pages("clear", "fresh", MIB)
    launch, (y,) = bound(problem)
    assert launch.entry is not None
    for _ in range(3):
        CALL(launch.entry.function)(ctypes.addressof(launch.entry.argument))
        assert (y[0, 1], y[0, 3]) == (0, 256) and y[0, 2] >= 256


def test_a_pause_is_before_the_launch() -> None:
    import time

    launch, _ = bound(Pages("clear", "fresh", MIB, pause=0.5))
    assert launch.entry is not None and launch.entry.single is not None
    argument = ctypes.addressof(launch.entry.argument)
    took = []
    for function in (launch.entry.function, launch.entry.single[0], launch.entry.single[0]):
        began = time.perf_counter()
        CALL(function)(argument)
        took.append(time.perf_counter() - began)
    assert took[1] >= 0.5 and took[0] < 0.5 and took[2] < 0.5


def test_the_process_has_its_heap_policy_again() -> None:
    """After a launch under `keep` a block that no heap has is mapped for itself."""
    bound(Pages("clear", "keep", 4 * MIB))[0].call()
    library = ctypes.CDLL(None)
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.argtypes = [ctypes.c_void_p]
    blocks = [library.malloc(64 * MIB) for _ in range(3)]
    alone = [ctypes.c_size_t.from_address(block - ctypes.sizeof(ctypes.c_size_t)).value & 2 for block in blocks]
    for block in blocks:
        library.free(block)
    assert alone[-1], "what glibc notes of a block that mmap gave it"


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * SMALL_PAGE


@pytest.mark.parametrize("ready", [True, False], ids=["made ready", "too long to be made ready"])
def test_two_heaps_take_turns(ready: bool) -> None:
    """The default's memory is new though the other's lies free in the heap; nothing is lost on the way."""
    rows = [(bound(Pages("clear", memory, 8 * MIB)), memory) for memory in ("default", "keep")]
    for _, ((launch, _), _) in itertools.product(range(2), rows):
        timed(launch)
    before = resident()
    for _ in range(10):
        for (launch, (y,)), memory in rows:
            assert launch.entry is not None
            if ready or memory == "keep":
                timed(launch)
            else:
                CALL(launch.entry.function)(ctypes.addressof(launch.entry.argument))
            assert y[0, 1] == (2048 if memory == "keep" else 0)
            assert (y[0, 2] >= 2048) == (memory == "default")
    assert resident() - before < 40 * MIB


@pytest.mark.parametrize("page", [SMALL_PAGE, HUGE_PAGE])
@pytest.mark.parametrize("size", [KIB, 4 * KIB, 96 * KIB, MIB + 64, 8 * MIB])
def test_a_chase_ends_where_it_must(size: int, page: int) -> None:
    problem = Chase(size, page)
    if not chase.accepts(problem):
        passed = checked(problem)
        assert (passed.error, passed.bound) == (0, 0)
        launch, (y,) = bound(problem)
        before = {"y": y.copy()}
        timed(launch)
        assert (y == problem.reference(before)["y"]).all()


@pytest.mark.parametrize("lines", [16, 17, 64, 100, 1536, 4096])
def test_the_cycle_passes_every_line_once(lines: int) -> None:
    order = [place(i, lines) for i in range(lines)]
    assert sorted(order) == list(range(lines))
    steps = {(b - a) % lines for a, b in itertools.pairwise(order)}
    assert len(steps) > len(order) / 4, "no prefetcher learns it"


@pytest.mark.parametrize("state", ["warm", "flushed", "swept"])
def test_an_update_is_right_in_every_state(state: str) -> None:
    passed = checked(Saxpy(4 * KIB, state))
    assert 0 < passed.error <= passed.bound


def test_system_time_is_told_of_every_fault() -> None:
    found = accounting.account(4 * MIB, 10)
    assert len(found.system) == len(found.user) == len(found.faults) == 10
    assert all(1024 <= x <= 1100 for x in found.faults)
    assert all(x >= 0 for x in (*found.system, *found.user))


def test_samples_within_faults_are_counted() -> None:
    stacks = "  ffff a clear_page\n  ffff asm_exc_page_fault\n\n  7f00 work\n\n  ff b\n  ff exc_page_fault\n\n"
    assert accounting.counted(stacks, 1000.0, 1e-6) == accounting.Profile(2 * 250e-6 / 1000, 1e-6)
    why = accounting.counted("  7f00 work\n\n", 1000.0, 1e-6)
    assert isinstance(why, str) and "no kernel stacks" in why


# Wrong kernels


Changes = tuple[tuple[str, str], ...]


def altered(monkeypatch: pytest.MonkeyPatch, folder: Path, module: Any, changes: Changes) -> None:
    """The module's C source with something changed in it."""
    text = module.SOURCE.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    source = folder / module.SOURCE.name
    source.write_text(text)
    monkeypatch.setattr(module, "SOURCE", source)


M_MMAP_MAX = -4  # of <malloc.h>
TOUCHES = (
    ("at += CHUNK, s.chunks++", "at += 2 * CHUNK, s.chunks++"),  # every second page
    ("at < r->size; at += CHUNK, s", "at < r->size - CHUNK; at += CHUNK, s"),  # all but the last
    ("memset(p, value, CHUNK - LINE)", "memset(p, value, CHUNK / 2)"),
    ("return 1 + (int)((bits * 2654435761u >> 16) % 15);", "return 7;"),  # the value of before
)
OLD_MEMORY = (("    a->r->fresh = 0;\n    tell(a, s, before);", "    tell(a, s, before);"),)
NEW_MEMORY = (
    ("    if (a->r->base) return;\n", "    unmap(a->r, &a->r->base, &a->r->raw);\n"),
    ("a->r->raw))) mark(a->r->base, a->r->size)", "a->r->raw))) a->r->failed = 0"),
)
CHASES = (
    ("i < r->steps / STOPS", "i < r->steps / STOPS - 1"),  # stops early
    ("p = *(char **)p;", "(void)p;"),  # stands still
    ("    uint64_t mask =", "    if (bits > 1) return i;\n    uint64_t mask ="),  # walks in order
    (  # starts anew at each stop
        "a->y[stop] = (float)((p - r->base) / LINE % EXACT);",
        "{ a->y[stop] = (float)((p - r->base) / LINE % EXACT); p = r->base; }",
    ),
)
WRONG: list[tuple[Any, Any, Changes]] = [
    *((Pages("clear", memory, MIB), pages, (x,)) for x in TOUCHES for memory in ("fresh", "touched", "mapped")),
    (Pages("clear", "fresh", MIB), pages, OLD_MEMORY),
    (Pages("clear", "touched", MIB), pages, NEW_MEMORY),
    *((Chase(64 * KIB), chase, (x,)) for x in CHASES),
    (Saxpy(4 * KIB, "warm"), saxpy, (("pass < a->passes", "pass < 4"),)),
    (Saxpy(4 * KIB, "flushed"), saxpy, (("pass < a->passes", "pass < a->passes - 1"),)),
]


@pytest.mark.parametrize(("problem", "module", "changes"), WRONG)
def test_a_kernel_that_does_less_is_refused(
    monkeypatch: pytest.MonkeyPatch, own_state: Path, tmp_path: Path, problem: Any, module: Any, changes: Changes
) -> None:
    altered(monkeypatch, tmp_path, module, changes)
    with pytest.raises(WrongResult):
        checked(problem)


def test_a_heap_that_keeps_nothing_is_refused(monkeypatch: pytest.MonkeyPatch, own_state: Path, tmp_path: Path) -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    libc.mallopt(M_MMAP_MAX, 65536)  # as it is before anything set it
    plugs = [libc.malloc(64 * MIB) for _ in range(16)]  # room that earlier tests have left in this process' heap
    altered(monkeypatch, tmp_path, pages, (("mallopt(M_MMAP_MAX, keep ? 0 : 65536)", "(void)keep"),))
    try:
        with pytest.raises(WrongResult):
            checked(Pages("clear", "keep", 64 * MIB))
    finally:
        for plug in plugs:
            libc.free(plug)
