"""The steps of a session on a GPU: five parts, the most valuable first, each useful wherever it is cut."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from kernels import suite
from tests.gpu.session import processes

PARTS = {1: 240.0, 2: 480.0, 3: 480.0, 4: 480.0, 5: 520.0}  # seconds of each
SESSION = 520.0  # seconds of a session of several parts: below nine minutes
LEAST = 30.0  # seconds below which a further part is not begun
CONTENT = {
    1: "front door, bandwidth, launches, types",
    2: "updates, optimizers, element-wise, other bindings",
    4: "convolutions, transfers, the rest",
}  # of the parts that measure the benchmarks' useful lines
LIMITS = {1: (150.0, 45.0, 45.0), 2: (280.0, 45.0, 150.0), 4: (270.0, 90.0, 110.0)}  # seconds: lines, names, tests
MEASURING = {1: 60.0, 2: 110.0, 4: 150.0}  # seconds of measuring in these; checks and compilers come on top
GRACE = 8.0  # seconds that a step has to write what it has, once it is interrupted
SHORTEST = 2 * GRACE  # seconds of a step, of whichever share
SPARE = 150.0  # seconds below which a step is not begun that has what the others left
ROOM = 8 << 20  # bytes of a log: what collects the files takes 16 MiB of each
TESTS = {  # of tests/gpu; on the fake device the last alone
    1: ("hold",),
    2: ("rows", "rungs", "elementwise_rows", "whole"),
    3: ("suite_kernels", "tools"),
    4: ("conv_rows", "transfer_rows"),
    5: ("steps",),  # on a GPU alone
}
LARGE_BATCH = "16"  # of AlexNet-S


@dataclass(frozen=True)
class Step:
    """A module with its words, as a process of its own."""

    name: str
    command: tuple[str, ...]
    seconds: float  # at most; then it is interrupted
    spare: bool = False  # has what the other steps left, and is missed by nobody where that is too little


def run_file(out: Path, part: int) -> Path:
    """Return the path that all measurements of a part are written to."""
    return out / f"gpu-{part}.jsonl"


def steps(part: int, out: Path, here: bool, share: float = 1.0) -> tuple[Step, ...]:
    """Return the steps of a part in a share of its time, on a GPU that is `here` or on the fake device."""
    return tuple(
        step if step.spare else replace(step, seconds=max(share * step.seconds, SHORTEST))
        for step in _steps(part, out, here, share)
    )


def _steps(part: int, out: Path, here: bool, share: float) -> tuple[Step, ...]:
    if part == 5:
        return _networks(out, here, share)
    if part == 3:
        files = tuple(str(path) for path in (run_file(out, other) for other in (1, 2)) if path.exists())
        names = (Step("names", ("micro.names", *files), 60.0),) if files else ()
        return (*names, _tests(3, here, 400.0))
    file = str(run_file(out, part))
    measuring, naming, testing = LIMITS[part]
    budget = f"{share * MEASURING[part] if here else 3.0:g}s"
    words = ("--device", device(here), *(() if here else ("--small",)), "--budget", budget, "-o", file, "--resume")
    lines = Step(CONTENT[part], ("tests.gpu.session.rows", str(part), *words), measuring)
    names, tests = Step("names", ("micro.names", file), naming), _tests(part, here, testing)
    if part > 1:
        return lines, names, tests
    loop = (Step("event loop", ("tests.gpu.session.event_loop",), 60.0),) if here else ()
    return (tests, lines, *loop, names)  # without a hold that holds no time is one


def _networks(out: Path, here: bool, share: float) -> tuple[Step, ...]:
    """Return the steps that time steps of networks.

    Networks of few parameters come first, in small batches: the proof of equal work runs on the processor, seconds for
    these and minutes for large ones. Beside the processor's steps stands a network without convolutions, for which no
    library chooses an algorithm that may round too much. On the fake device they are NumPy's, small ones.
    """
    where, net, budget, batch = ("cuda:0", "alexnet-r", 10.0, "128") if here else ("fake", "fcn-r", 1.0, "2")
    more = ("--runs", "1", "--budget", f"{share * budget:g}s", "--resume", "--batch", batch)
    pair, names = (("pytorch", "pytorch-compile"), "pytorch,jax") if here else (("numpy",) * 2, "numpy")
    explain = ("macro", "explain", net, *pair, "--device", where, *more, "-o")
    run = ("macro", "run", "fcn-r", "--frameworks", names, "--device")
    beside = (*run, f"{where},cpu", *more, "-o", str(out / "gpu-5-cpu.jsonl"))
    first = Step("steps by kernel", (*explain, str(out / "gpu-5-kernels.jsonl")), 160.0)
    second = Step("steps beside the processor's", beside, 90.0)
    if not here:
        return first, second
    jax = (*explain[:3], "jax", "kernels-only", *explain[5:], str(out / "gpu-5-jax.jsonl"))
    words = (*explain[:2], "alexnet-s", *explain[3:], str(out / "gpu-5-large.jsonl"))
    large = tuple(LARGE_BATCH if word == batch else word for word in words)
    return (
        first,
        _tests(5, here, 110.0),
        second,
        Step("steps of JAX and of kernels alone by kernel", jax, 110.0),
        Step("steps of a larger network by kernel", large, 300.0, spare=True),
    )


def _tests(part: int, here: bool, seconds: float) -> Step:
    # Warnings of the packages on a GPU's machine are not our faults, as they are in CI.
    words = ("--tb=line", "-rfE", "-W", "default", "-p", "no:cacheprovider")
    names = TESTS[part] if here else TESTS[part][-1:]
    return Step("tests", ("pytest", *words, *(f"tests/gpu/test_{name}.py" for name in names)), seconds)


def device(here: bool) -> str:
    """Return the word for `--device`: the first GPU, or the fake one."""
    return "cuda:0" if here else "fake:cuda"


def take(
    part: int,
    out: Path,
    here: bool,
    seconds: float,
    say: Callable[[str], None],
    log: IO[str],
    after: Callable[[], None] = lambda: None,
) -> dict[str, int]:
    """Run a part's steps one after another, `after` behind each; return their exit codes, 124 where a limit ended it.

    Each step has the seconds that are left, and at most its own limit, or its share of it in less time than the part's.
    """
    end, codes = time.monotonic() + seconds, {}
    for step in steps(part, out, here, min(1.0, seconds / PARTS[part])):
        left = end - time.monotonic()
        if step.spare and left < SPARE:
            say(f"{step.name}: not begun, {left:.0f} s are too few for it")
            continue
        if left < GRACE:
            say(f"{step.name}: not begun, no time is left")
            codes[step.name] = 124
            continue
        codes[step.name] = _run(step, min(step.seconds, left - GRACE / 2), log, say)
        after()
    return codes


def _run(step: Step, limit: float, log: IO[str], say: Callable[[str], None]) -> int:
    began = time.monotonic()
    process = subprocess.Popen(
        processes.leashed(suite.child(*step.command)),
        cwd=processes.ROOT,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        env=processes.environment({"PYTHONUNBUFFERED": "1"}),
    )
    with _short(log):
        code = _wait(process, limit)
    say(f"{step.name}: exit code {code} after {time.monotonic() - began:.0f} of {limit:.0f} s")
    return code


@contextmanager
def _short(log: IO[str]) -> Iterator[None]:
    """Keep the log below its size meanwhile: a step that fills it loses its last words, not all of them."""
    over = threading.Event()

    def cut() -> None:
        if os.fstat(log.fileno()).st_size > ROOM:
            os.ftruncate(log.fileno(), ROOM // 2)
            os.write(log.fileno(), f"\ngpu: what stood here is left out: a log has {ROOM >> 20} MiB\n".encode())

    def watch() -> None:
        with suppress(OSError):
            while not over.wait(0.1):
                cut()
            cut()

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _wait(process: subprocess.Popen[bytes], limit: float) -> int:
    """Wait for a process; interrupt it at the limit, then kill what is left of its group. Return its exit code."""
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        pass
    finally:
        for number, patience in ((signal.SIGINT, GRACE), (signal.SIGTERM, GRACE / 2), (signal.SIGKILL, GRACE)):
            if process.poll() is not None:
                break
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(patience)
        with suppress(ProcessLookupError):  # what it left behind
            os.killpg(process.pid, signal.SIGKILL)
    return 124
