"""The steps of a visit to a GPU: five parts, what is worth most first, each useful wherever it is cut."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from kernels import suite
from micro.probing import processes

PARTS = {1: 240.0, 2: 480.0, 3: 480.0, 4: 480.0, 5: 520.0}  # seconds of each; of all that one call makes: WHOLE
WHOLE = 520.0  # below nine minutes
LEAST = 30.0  # seconds below which a further part is not begun
MEANT = {
    2: "updates, optimizers, element-wise, other bindings",
    4: "convolutions, transfers, the rest",
}  # of the parts with tests
LIMITS = {2: (280.0, 45.0, 150.0), 4: (270.0, 90.0, 110.0)}  # seconds of what is measured, of names, of tests
GRACE = 8.0  # seconds that a step has to say what it has, once it is told to end
SHORTEST = 2 * GRACE  # seconds of a step, of whichever share
SPARE = 150.0  # seconds below which a step is not begun that has what the others left
ROOM = 8 << 20  # bytes of a log: what collects it takes 16 MiB of a file
TESTS = {  # of tests/gpu; on the fake device the last alone
    2: ("rows", "rungs", "update_rows", "elementwise_rows", "whole"),
    4: ("conv_rows", "transfer_rows"),
    5: ("steps",),  # on a GPU alone
}
LARGE_BATCH = "16"  # of AlexNet-S
MEASURING = {1: 60.0, 2: 110.0, 4: 150.0}  # seconds of the benchmarks' measuring; checks and compilers come on top


@dataclass(frozen=True)
class Step:
    """A module and its words; seconds that it has at most; the signal by which it is told to end, and then says what it
    has. `timed`: it is told its seconds itself; `spare`: it has what the others left, and is missed by none."""

    name: str
    command: tuple[str, ...]
    seconds: float
    stop: signal.Signals = signal.SIGINT
    timed: bool = False
    spare: bool = False


def run_file(out: Path, part: int) -> Path:
    """The path that all measurements of a part are written to."""
    return out / f"gpu-{part}.jsonl"


def steps(part: int, out: Path, here: bool, share: float = 1.0) -> tuple[Step, ...]:
    """On a GPU that is `here`, or on the fake device; in this share of a part's time."""
    return tuple(
        one if one.spare else replace(one, seconds=max(share * one.seconds, SHORTEST))
        for one in _steps(part, out, here, share)
        if one.name != "tests" or (suite.FOLDER / "tests").is_dir()  # a checkout has them
    )


def _steps(part: int, out: Path, here: bool, share: float) -> tuple[Step, ...]:
    measured = run_file(out, part)
    benchmarks = ("micro", "all", *_device(here), "--part", str(part), "-o", str(measured), "--resume")
    if part == 1:
        answers = out / "gpu-1-answers.jsonl"
        return (
            _probes("hold", answers, here, 45.0, "^hold$"),
            Step("front door, bandwidth, launches, types", (*benchmarks, *_budget(1, here, share)), 150.0),
            _probes("event loop", answers, here, 60.0, "^event_loop$"),
            Step("names", ("micro.names", str(measured)), 45.0),
            _probes("versions", answers, here, 40.0, "^versions$"),
        )
    if part == 5:
        return _networks(out, here, share)
    if part in MEANT:
        measuring, naming, testing = LIMITS[part]
        return (
            Step(MEANT[part], (*benchmarks, *_budget(part, here, share)), measuring),
            Step("names", ("micro.names", str(measured)), naming),
            _tests(TESTS[part] if here else TESTS[part][-1:], testing),
        )
    named = tuple(str(run_file(out, other)) for other in (1, 2) if run_file(out, other).exists())
    ask = _probes("probes", measured, here, PARTS[3], "", "--part", "3")
    return (*((Step("names", ("micro.names", *named), 60.0),) if named else ()), ask)


def _networks(out: Path, here: bool, share: float) -> tuple[Step, ...]:
    """Whole steps: by kernel, in several frameworks, beside the processor's, of networks of few parameters first, in
    small batches: what proves equal work is of the processor, seconds for these and minutes for large ones, which come
    last. Beside the processor's those of a network without convolutions, for which no library chooses an algorithm that
    may round too much. On the stand-in NumPy's, small ones."""
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
        _tests(TESTS[5], 110.0),
        second,
        Step("steps of JAX and of kernels alone by kernel", jax, 110.0),
        Step("steps of a larger network by kernel", large, 300.0, spare=True),
    )


def _tests(names: Sequence[str], seconds: float) -> Step:
    # Warnings of the packages on a GPU's machine are not our faults, as they are in CI.
    words = ("--tb=line", "-rfE", "-W", "default", "-p", "no:cacheprovider")
    return Step("tests", ("pytest", *words, *(f"tests/gpu/test_{name}.py" for name in names)), seconds)


def device(here: bool) -> str:
    """The word for `--device`: the first GPU, or the fake one where none is here."""
    return "cuda:0" if here else "fake:cuda"


def _device(here: bool) -> tuple[str, ...]:
    return ("--device", device(here), *(() if here else ("--small",)))


def _budget(part: int, here: bool, share: float) -> tuple[str, str]:
    return "--budget", f"{share * MEASURING[part] if here else 3.0:g}s"


def _probes(name: str, answers: Path, here: bool, seconds: float, only: str, *more: str) -> Step:
    words = ("--only", only, *more) if only else more
    fake = () if here else ("--fake",)
    return Step(name, ("micro.probes", *words, "-o", str(answers), *fake), seconds, signal.SIGTERM, True)


def take(
    part: int,
    out: Path,
    here: bool,
    seconds: float,
    say: Callable[[str], None],
    log: IO[str],
    after: Callable[[], None] = lambda: None,
) -> dict[str, int]:
    """A part's steps, one after another; their exit codes, 124 of one that its limit ended. Each has the seconds that
    are left, its own limit at most, of fewer seconds than the part's its share. `after` is called behind each."""
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
    extra = ("--seconds", f"{max(limit - GRACE, 1.0):.0f}") if step.timed else ()
    process = subprocess.Popen(
        processes.leashed(suite.child(*step.command, *extra)),
        cwd=processes.ROOT,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
        env=processes.path({"PYTHONUNBUFFERED": "1"}),
    )
    with _short(log):
        code = _ended(process, limit, step.stop)
    say(f"{step.name}: exit code {code} after {time.monotonic() - began:.0f} of {limit:.0f} s")
    return code


@contextmanager
def _short(log: IO[str]) -> Iterator[None]:
    """Meanwhile the log stays below its size: of a step that fills it the last words are lost, not all of them."""
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


def _ended(process: subprocess.Popen[bytes], limit: float, stop: signal.Signals) -> int:
    """Waits; at the limit it is told to end, then its whole group is made to."""
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        pass
    finally:
        for number, patience in ((stop, GRACE), (signal.SIGTERM, GRACE / 2), (signal.SIGKILL, GRACE)):
            if process.poll() is not None:
                break
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(patience)
        with suppress(ProcessLookupError):  # what it left behind
            os.killpg(process.pid, signal.SIGKILL)
    return 124
