"""The worker process in which kernels run, and its client: a crash or hang costs one worker."""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, TypeAlias

from kernels import suite
from kernels.catalog import find
from kernels.devices import kind_of, open_device
from kernels.errors import BuildError, LaunchError, LeftRunning, NoRoom, SuiteError, Unavailable, WrongResult
from kernels.setting import Setting
from kernels.users import raised
from micro.planning.contest import Case
from micro.worker import guards
from micro.worker.client import Client, Died, Local
from micro.worker.host import Host
from micro.worker.messages import Close, Message, Open, R
from micro.worker.process_state import cores

START = 120.0  # seconds a worker may take to import and open its device
CLOSE = 5.0  # seconds in which a child that closed its pipe may end by itself
GLANCE = 0.5  # seconds between two checks that a child is alive
POOLS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
# Idle threads of a pool go to sleep soon: OpenBLAS's after 2^18 cycles, not 2^26, which would spin for a tenth of a
# second beside the kernel that is timed next; OpenMP's after a tenth of their usual spins. OpenMP's are bound to a core
# each: a thread that wakes up on the core of the waiting thread would alternate with it. The user's values win.
WAITING = {"OPENBLAS_THREAD_TIMEOUT": "18", "GOMP_SPINCOUNT": "30000", "OMP_PROC_BIND": "true"}
REFERENCES = 8  # most threads for float64 references in a GPU's worker
PR_SET_PDEATHSIG = 1
Key: TypeAlias = tuple[Setting, str]  # settings fixed per process, and the owner of the thread pool
ERRORS = {error.__name__: error for error in (WrongResult, LeftRunning, NoRoom, Unavailable, BuildError, LaunchError)}


def ended(code: int | None) -> Died:
    """Return the error for a process's exit code; None: it closed its descriptor and runs on."""
    if code is None:
        return Died("closes its pipe and runs on without a reply")
    if code < 0:
        name = signal.Signals(-code).name
        return Died(f"crashes: its process was killed by {name}" + ", e.g. out of memory" * (name == "SIGKILL"))
    return Died(f"ends its process with exit code {code}")


class Worker:
    """A child process with a host, pinned to as many cores as it has threads.

    A GPU's worker has all cores for its float64 references, compilers and driver threads, and is pinned only while a
    contest is open."""

    def __init__(self, setting: Setting) -> None:
        """Start the process. Raises Unavailable if its environment cannot be set up."""
        before = setting.variables()
        self._running = -1
        self._cell = tempfile.TemporaryFile()
        self._cell.write((-1).to_bytes(4, "little", signed=True))
        self._cell.flush()
        ours, theirs = os.pipe(), os.pipe()
        threads, refuses = setting.threads, kind_of(setting.device).refuses
        pool = max(1, min(len(cores()), REFERENCES)) if "threads" in refuses else threads
        waiting = WAITING if threads > 1 else {}
        environment = waiting | suite.environment() | dict.fromkeys(POOLS, str(pool)) | before
        handles = (theirs[0], ours[1], self._cell.fileno())
        self._process = subprocess.Popen(
            suite.child("micro.worker.process", setting.device, threads, *handles, os.getpid()),
            env=environment,
            pass_fds=handles,
            stdin=subprocess.DEVNULL,
            process_group=0,  # an interrupt typed at the terminal is the parent's alone
        )
        os.close(theirs[0])
        os.close(ours[1])
        self._from = Connection(ours[0], writable=False)
        self._to = Connection(theirs[1], readable=False)
        try:
            self._answer(START)
        except BaseException:
            self.close()
            raise

    def send(self, request: Message[Any]) -> None:
        try:
            self._to.send(request)
        except (BrokenPipeError, OSError):
            raise self._death() from None

    def receive(self, request: Message[R], patience: float) -> R:
        answer: R = self._answer(patience)
        return answer

    def _answer(self, patience: float) -> Any:
        end = time.monotonic() + patience
        try:
            while not self._from.poll(max(0.0, min(end - time.monotonic(), GLANCE))):
                if self._process.poll() is not None and not self._from.poll():
                    raise EOFError  # a grandchild holds the pipe open
                if time.monotonic() >= end:
                    self.close()
                    raise Died(f"hangs: no reply within {patience:.0f} s")
            word, answer = self._from.recv()
        except (EOFError, ConnectionError):
            raise self._death() from None
        if word == "ok":
            return answer
        raise ERRORS.get(word, LaunchError)(answer)

    def _death(self) -> Died:
        with suppress(subprocess.TimeoutExpired):  # the child may have closed its pipe and live on
            self._process.wait(CLOSE)
        code = self._process.returncode
        self.close()
        died = ended(code)
        return Died(f"{died}: it reads or writes beyond its operands") if self.running() == guards.BEYOND else died

    def running(self) -> int:
        return self._running if self._cell.closed else self._read_cell()

    def _read_cell(self) -> int:
        return int.from_bytes(os.pread(self._cell.fileno(), 4, 0), "little", signed=True)

    def close(self) -> None:
        """End the process and its group. A second call does nothing: the id may be another process's by then."""
        if self._cell.closed:
            return
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._running = self._read_cell()
        self._cell.close()
        self._from.close()
        self._to.close()


class Workers:
    """The workers of a command, one for each combination of settings that is fixed per process."""

    def __init__(self) -> None:
        self._alive: dict[Key, Client] = {}

    @staticmethod
    def key(case: Case) -> Key:
        """Return the key of a case's worker: settings fixed per process; for several threads, also the pool."""
        setting = case.setting
        pool = find(case.problem.op, case.variant).provider if setting.threads > 1 else ""
        return setting.process, pool

    def get(self, key: Key) -> Client:
        if key not in self._alive:
            setting, _ = key
            if kind_of(setting.device).scripted:
                self._alive[key] = Local(Host(open_device(setting.device), 0))
            else:
                self._alive[key] = Worker(setting)
        return self._alive[key]

    def alive(self, key: Key) -> Client | None:
        """Return the worker of this key; None if it was not started or has been dropped."""
        return self._alive.get(key)

    def drop(self, key: Key) -> None:
        """End the worker of this key, if it runs."""
        if (worker := self._alive.pop(key, None)) is not None:
            worker.close()

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.end()

    def end(self) -> None:
        """End all workers; the next case starts a new worker."""
        for worker in self._alive.values():
            worker.close()
        self._alive.clear()


def pin(threads: int) -> None:
    """Pin this process to the last allowed cores, as the first ones serve more interrupts."""
    if allowed := cores():
        os.sched_setaffinity(0, allowed[-threads:])


def die_with(parent: int) -> None:
    """Let the system kill this process when process `parent` ends; exit at once if it has ended."""
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    except AttributeError:
        pass  # not Linux: the end of its pipe ends the worker all the same
    if os.getppid() != parent:
        sys.exit(0)


def main(arguments: list[str]) -> None:
    """Serve requests until the pipe ends."""
    device, threads, read, write, cell, parent = arguments[0], *map(int, arguments[1:])
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with(parent)
    os.dup2(2, 1)  # a kernel's print must not land in a document on stdout
    everywhere = cores() if "threads" in kind_of(device).refuses else ()
    if not everywhere:
        pin(threads)
    requests, answers = Connection(read, writable=False), Connection(write, readable=False)
    shared = mmap.mmap(cell, 4)
    try:
        host = Host(open_device(device), ctypes.addressof(ctypes.c_int32.from_buffer(shared)))
    except SuiteError as error:
        answers.send((type(error).__name__, str(error)))
        return
    answers.send(("ok", None))
    pid = os.getpid()
    while True:
        try:
            request = requests.recv()
        except EOFError:
            return
        if everywhere and isinstance(request, (Open, Close)):  # it is pinned from Open to Close
            os.sched_setaffinity(0, everywhere)
            pin(threads if isinstance(request, Open) else len(everywhere))
        try:
            answer: tuple[str, Any] = ("ok", request.on(host))
        except SuiteError as error:
            answer = (type(error).__name__, str(error))
        except (Exception, KeyboardInterrupt) as error:  # a KeyboardInterrupt that a kernel raised
            answer = ("LaunchError", f"raises {raised(error)}")
        if os.getpid() != pid:  # a child that a kernel left behind must not answer for it
            os._exit(0)
        answers.send(answer)


if __name__ == "__main__":
    main(sys.argv[1:])
