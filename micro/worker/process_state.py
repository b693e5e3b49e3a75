"""Process state that kernels share: compared before and after a kernel runs, and restored."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kernels import build
from kernels.errors import SuiteError
from kernels.steering import STEERING, variables

SOURCE = Path(__file__).with_name("process_state.c")
SIGNALS = ("SIGINT", "SIGTERM", "SIGFPE", "SIGSEGV", "SIGBUS", "SIGILL", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGUSR1")
TIMERS = ("ITIMER_REAL", "ITIMER_VIRTUAL", "ITIMER_PROF")
PREPARES = ("flushes", "environment", "cores")  # fields that loading a library may change; restored without an error
IDLE, BUSY = 0.05, 0.1  # seconds of an observation, least share of it that other threads run
POOL = 12  # observations in a row; a library's pool waits for more work for up to 0.2 s
WORDS = {
    "rounding": "changes the rounding mode",
    "flushes": "enables flush-to-zero of subnormal numbers",
    "traps": "unmasks floating-point exceptions",
    "handlers": "changes the handler of {}",
    "timers": "leaves a timer running",
    "folder": "changes the current directory",
    "mask": "changes the umask",
    "cores": "changes its process's CPU affinity",
    "environment": "changes the environment",
}


@dataclass(frozen=True)
class ProcessState:
    """State of a process that no kernel may change."""

    rounding: int  # mode of this thread
    flushes: int  # of subnormal numbers to zero, by this thread
    traps: int  # unmasked floating-point exceptions of this thread
    handlers: tuple[tuple[int, int, Any], ...]  # for each of SIGNALS: C function, flags, Python handler
    timers: tuple[str, ...]  # names of the running timers
    folder: str  # the current directory
    mask: int  # of the mode of new files
    cores: tuple[int, ...]  # that this thread may run on
    environment: tuple[tuple[str, str], ...]  # variables that steer libraries


class _Handler(ctypes.Structure):
    _fields_ = (("function", ctypes.c_uint64), ("flags", ctypes.c_int64))


class Floating(ctypes.Structure):
    _fields_ = (("rounding", ctypes.c_uint64), ("flushes", ctypes.c_uint64), ("traps", ctypes.c_uint64))


@functools.cache
def _library() -> Any:
    """Load process_state.c; None without a compiler: then C handlers and floating point count as equal."""
    try:
        return build.load(SOURCE)
    except SuiteError:
        return None


@functools.cache
def _numbers() -> Any:
    return (ctypes.c_int32 * len(SIGNALS))(*(getattr(signal, name) for name in SIGNALS))


def of_thread() -> tuple[Any, ...]:
    """Return floating-point state and cores of this thread, cheap enough to read around each call."""
    return *floating(), cores()


def floating() -> tuple[int, int, int]:
    """Return rounding, flushing and traps of this thread."""
    state = Floating()
    if (library := _library()) is not None:
        library.state_floating(ctypes.byref(state))
    return state.rounding, state.flushes, state.traps


def reader() -> int:
    """Return the address of the C function that fills a Floating; requires a compiler."""
    return build.address(SOURCE, "state_floating")


def put_back(before: Floating) -> str:
    """Restore the floating-point state; return messages on what was changed, joined by "; "."""
    now = dict(zip(WORDS, floating(), strict=False))
    _library().state_restore(ctypes.byref(before))
    return "; ".join(WORDS[name] for name, value in now.items() if value != getattr(before, name))


def take() -> ProcessState:
    """Return the current state of this process."""
    handlers = (_Handler * len(SIGNALS))()
    if (library := _library()) is not None:
        library.state_handlers(_numbers(), ctypes.c_int64(len(SIGNALS)), handlers)
    python = map(signal.getsignal, _numbers())
    mask = os.umask(0o77)
    os.umask(mask)
    return ProcessState(
        *floating(),
        tuple((x.function, x.flags, handler) for x, handler in zip(handlers, python, strict=True)),
        tuple(name for name in TIMERS if signal.getitimer(getattr(signal, name))[0]),
        _folder(),
        mask,
        cores(),
        tuple(variables(STEERING).items()),
    )


def cores() -> tuple[int, ...]:
    """Return the cores that this thread may run on, in order; () if the system does not report them."""
    return tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else ()


def _folder() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return ""


def threads() -> tuple[str, ...]:
    """Return the names of the process's threads; () if the system does not report them."""
    names = []
    for path in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # it has ended
            names.append(path.read_text().strip())
    return tuple(sorted(names))


def at_work() -> bool:
    """Report whether other threads run for longer than a library's idle thread pool would spin."""
    return all(_others_ran() > BUSY * IDLE for _ in range(POOL))


def _others_ran() -> float:
    began = time.process_time()
    time.sleep(IDLE)
    return time.process_time() - began


def state_changes(before: ProcessState, after: ProcessState) -> list[str]:
    """Return a message for each field of the process state that has changed."""
    changed = zip(SIGNALS, before.handlers, after.handlers, strict=True)
    signals = ", ".join(name for name, old, new in changed if old != new)
    return [word.format(signals) for name, word in WORDS.items() if vars(before)[name] != vars(after)[name]]


def but_for_loading(before: ProcessState, after: ProcessState) -> ProcessState:
    """Return `before` with the fields of `after` that loading a library may change.

    Code compiled with -ffast-math sets flushing when loaded, a library may record its findings in variables, and
    loading is long enough for another process to change the allowed cores."""
    return replace(before, **{name: vars(after)[name] for name in PREPARES})


def restore(before: ProcessState) -> None:
    """Restore the process state `before`; threads that were started keep running."""
    for number, (*_, python) in zip(_numbers(), before.handlers, strict=True):
        if python is not None and signal.getsignal(number) != python:
            signal.signal(number, python)
    if (library := _library()) is not None:
        library.state_restore(ctypes.byref(Floating(before.rounding, before.flushes, before.traps)))
        handlers = (_Handler * len(SIGNALS))(*(_Handler(*x[:2]) for x in before.handlers))
        library.state_handle(_numbers(), ctypes.c_int64(len(SIGNALS)), handlers)
    for name in TIMERS:
        if name not in before.timers:
            signal.setitimer(getattr(signal, name), 0)
    os.umask(before.mask)
    if before.folder and _folder() != before.folder:
        os.chdir(before.folder)
    if before.cores and hasattr(os, "sched_setaffinity"):
        with suppress(OSError):  # these cores are no longer allowed
            os.sched_setaffinity(0, before.cores)
    now, then = variables(STEERING), dict(before.environment)
    os.environ.update(then)
    for name in now.keys() - then.keys():
        del os.environ[name]
