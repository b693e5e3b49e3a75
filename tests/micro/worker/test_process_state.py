"""What a kernel may leave behind in its process: each is told by its name, and put back."""

from __future__ import annotations

import ctypes
import os
import platform
import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from micro.worker import process_state

C = ctypes.CDLL("libm.so.6")
ON_X86 = pytest.mark.skipif(platform.machine() != "x86_64", reason="its numbers are those of x86")
UPWARD, DIVISION = 0x800, 4


def flushes() -> None:
    """As code compiled with -ffast-math where it is loaded."""
    before = process_state.take()
    library = process_state._library()
    library.state_restore(ctypes.byref(process_state.Floating(before.rounding, 0x8040, before.traps)))


LEFT = [
    pytest.param(lambda: C.fesetround(UPWARD), "leaves the rounding mode changed", marks=ON_X86),
    pytest.param(flushes, "leaves subnormal numbers treated as zero", marks=ON_X86),
    pytest.param(lambda: C.feenableexcept(DIVISION), "leaves floating-point exceptions unmasked", marks=ON_X86),
    (lambda: signal.signal(signal.SIGALRM, signal.SIG_IGN), "leaves the handler of SIGALRM changed"),
    (lambda: signal.signal(signal.SIGINT, lambda *given: None), "leaves the handler of SIGINT changed"),
    (lambda: C.signal(signal.SIGFPE, 1), "leaves the handler of SIGFPE changed"),
    (lambda: signal.setitimer(signal.ITIMER_REAL, 1000), "leaves a timer running"),
    (lambda: os.chdir("/"), "leaves the current directory changed"),
    (lambda: os.umask(0o777), "leaves the mode of new files changed"),
    (lambda: os.environ.update(OMP_NUM_THREADS="7"), "leaves the environment changed"),
]


@pytest.fixture
def before() -> Iterator[process_state.ProcessState]:
    found = process_state.take()
    yield found
    process_state.restore(found)


@pytest.mark.parametrize(("leave", "word"), LEFT)
def test_what_is_left_is_told_and_put_back(
    before: process_state.ProcessState, leave: Callable[[], object], word: str
) -> None:
    leave()
    assert process_state.state_changes(before, process_state.take()) == [word]
    process_state.restore(before)
    assert process_state.take() == before


def test_cores_are_put_back(before: process_state.ProcessState) -> None:
    if len(before.cores) < 2:
        pytest.skip("one core")
    os.sched_setaffinity(0, before.cores[:1])
    told = process_state.state_changes(before, process_state.take())
    assert told == ["leaves the cores changed that its process may run on"]
    process_state.restore(before)
    assert process_state.take().cores == before.cores


def test_nothing_left_is_nothing_told(before: process_state.ProcessState) -> None:
    assert process_state.state_changes(before, process_state.take()) == []


def test_loading_may_flush_and_note_variables_and_change_nothing_else(before: process_state.ProcessState) -> None:
    os.environ["OMP_NUM_THREADS"] = "7"
    os.chdir("/")
    loaded = process_state.take()
    expected = process_state.but_for_loading(before, loaded)
    assert process_state.state_changes(expected, loaded) == ["leaves the current directory changed"]


def test_threads_are_counted_by_name() -> None:
    wait = threading.Event()
    others = len(process_state.threads())
    thread = threading.Thread(target=wait.wait)
    thread.start()
    assert len(process_state.threads()) == others + 1
    wait.set()
    thread.join()
