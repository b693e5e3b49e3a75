"""`--profile`: a single warmed-up launch that a profiler records, switched on and off around it."""

from __future__ import annotations

import os
import shlex
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.catalog import find
from kernels.devices import open_device
from kernels.errors import LaunchError, SuiteError, Unavailable, UsageError, summary
from kernels.isa import refusal, variables
from micro.measuring.checks import refuse_size
from micro.planning.contest import WARM, Case, Contest, one_case
from micro.worker import check, guards
from micro.worker.kernels import refuse_workspace
from micro.worker.process import POOLS, pin
from reports import flat, units

if TYPE_CHECKING:
    from kernels.devices.base import Device

LISTENS = 5.0  # seconds that perf has to open its FIFO
PERIOD = 100_000  # nanoseconds between two samples
NAMES = tuple(f"kernelgap-{os.getuid()}.{end}" for end in ("control", "answer"))  # of perf's FIFOs


def run(contests: Sequence[Contest], control: str, command: str) -> int:
    """Prepare, check and warm up the plan's only case, launch it under the profiler; return the exit code.

    `control`: perf's control and answer FIFOs. If it is empty, print the line that runs the command under perf, or
    ncu for a GPU. Raises UsageError."""
    case = one_case(contests, "--profile", "launches", "run")
    if case.setting.heap != "default":
        raise UsageError(f"--heap {case.setting.heap}: --profile cannot change its process's heap; remove --heap")
    device = open_device(case.setting.device)
    if not device.kind.profiler:
        raise UsageError(f"--profile: no supported profiler for {device.name}")
    refuse_size(contests, {device.name: device.limits()})
    fifos = _fifos(control)
    if device.kind.compiled:  # as in a worker: before the libraries are loaded
        os.environ.update(dict.fromkeys(POOLS, str(case.setting.threads)) | variables(case.setting.isa))
        pin(case.setting.threads)
        import threadpoolctl

        threadpoolctl.threadpool_limits(case.setting.threads)  # libraries that a user's file has loaded already
    try:
        took = _launch(device, case, fifos)
    except SuiteError:
        raise
    except Exception as error:
        raise LaunchError(f"raises {summary(error)}") from error
    print(f"{flat.plain(case.name)}: one warmed launch, {units.seconds(took)}")
    if not control:
        print(gpu_line(command) if device.kind.profiler == "ncu" else line(command))
    return 0


def _launch(device: Device, case: Case, fifos: Sequence[str]) -> float:
    """Prepare, check and warm up a case; return the seconds of the profiled launch."""
    import numpy as np

    variant = device.adopt(find(case.problem.op, case.variant))
    bind = variant.prepare(case.problem, device, case.setting)
    check.check(device, case.problem, variant, bind, seed=0)
    bench = guards.Bench(device, case.problem)
    bench.load(case.problem.fill(np.random.default_rng(0)))
    launch = bind(bench.views)
    if reason := refusal(case.setting.isa, *(launch.kernel or variant.kernel())):
        raise Unavailable(reason)
    refuse_workspace(case, launch.workspace)
    for _ in range(WARM):
        launch.call()
    device.sync()
    with ExitStack() as stack:
        on_gpu: Any = device if device.kind.profiler == "ncu" else None
        mark = on_gpu.profiler if on_gpu else _marks(fifos, stack)
        mark("enable")
        start = time.perf_counter()
        launch.call()
        device.sync()
        took = time.perf_counter() - start
        mark("disable")
    return took


def line(command: str) -> str:
    """Return the shell line that runs a command so that perf samples only the profiled launch."""
    folder = Path(tempfile.gettempdir())
    control, answer = (shlex.quote(str(folder / name)) for name in NAMES)
    words = [sys.executable, *shlex.split(command)[1:]]
    at = next((i for i, word in enumerate(words) if word.startswith("--profile")), len(words))
    words[at : at + 1] = ["--profile", ",".join(str(folder / name) for name in NAMES)]
    return (
        f"rm -f {control} {answer}; mkfifo {control} {answer}; "
        f"perf record -e cpu-clock -c {PERIOD} -D -1 --control fifo:{control},{answer} -o perf.data -- "
        f"{shlex.join(words)}; "
        "perf report -i perf.data --stdio"
    )


def gpu_line(command: str) -> str:
    """Return the shell line for Nsight Compute to profile only this launch, without locking clocks."""
    words = [sys.executable, *shlex.split(command)[1:]]
    return f"ncu --profile-from-start off --clock-control none --set full -o launch {shlex.join(words)}"


def _fifos(control: str) -> list[str]:
    """Return perf's FIFOs (control, answer). Raises UsageError for other files, which would be emptied."""
    names = control.split(",") if control else []
    try:
        right = not names or (len(names) == 2 and all(stat.S_ISFIFO(os.stat(name).st_mode) for name in names))
    except OSError:
        right = False
    if not right:
        raise UsageError(f"--profile {control}: name perf's control and answer FIFOs, as CONTROL,ANSWER")
    return names


def _marks(fifos: Sequence[str], stack: ExitStack) -> Callable[[str], None]:
    """Return a function that switches perf on and off through its FIFOs and waits for each answer."""
    if not fifos:
        return lambda word: None
    commands = stack.enter_context(os.fdopen(_listened(fifos[0]), "w"))
    answers = stack.enter_context(open(fifos[1]))

    def mark(word: str) -> None:
        commands.write(word + "\n")
        commands.flush()
        answers.readline()

    return mark


def _listened(fifo: str) -> int:
    """Open a FIFO for writing once perf reads it; without a reader a plain open would wait for ever."""
    end = time.monotonic() + LISTENS
    while True:
        try:
            return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            if time.monotonic() > end:
                reason = "perf does not read this FIFO; run the line that --profile prints"
                raise UsageError(f"--profile {fifo}: {reason}") from None
            time.sleep(0.01)
