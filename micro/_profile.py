"""`--profile`: one warmed launch between two marks and nothing else, for a profiler to look at."""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from kernels.devices import open_device
from kernels.errors import UsageError
from kernels.variant import find
from micro import _check
from micro._host import WARM
from micro._plan import Case, Contest
from reports import units

PERIOD = 100_000  # nanoseconds between two samples


def run(contests: Sequence[Contest], device_name: str, control: str, command: str) -> int:
    """Prepare and check the one case, warm it up, mark, launch, mark. `control`: perf's two FIFOs, or empty,
    and then the line that runs it under perf is printed. Raises UsageError."""
    case = _one(contests)
    device = open_device(device_name)
    variant = device.adopt(find(case.problem.op, case.variant))
    bind = variant.prepare(case.problem, device, case.setting)
    _check.check(device, case.problem, variant, bind, seed=0)
    bench = _check.Bench(device, case.problem)
    import numpy as np

    bench.load(case.problem.fill(np.random.default_rng(0)))
    launch = bind(bench.views)
    for _ in range(WARM):
        launch.call()
    device.sync()
    mark = _marks(control)
    mark("enable")
    start = time.perf_counter()
    launch.call()
    device.sync()
    took = time.perf_counter() - start
    mark("disable")
    print(f"{case.name}: one warmed launch, {units.seconds(took)}")
    if not control:
        print(line(command))
    return 0


def _one(contests: Sequence[Contest]) -> Case:
    cases = {case.name: case for contest in contests for case in contest.cases}
    if len(cases) != 1:
        raise UsageError(
            f"--profile: it launches one case, {len(cases)} were asked for; name one --variant and size"
        )
    (case,) = cases.values()
    if case.skip:
        raise UsageError(f"--profile: {case.name} cannot run: {case.skip}")
    return case


def line(command: str) -> str:
    """What to type so that perf samples that launch alone."""
    folder = Path(tempfile.gettempdir())
    control, answer = (shlex.quote(str(folder / f"kernelgap.{name}")) for name in ("control", "answer"))
    return (
        f"rm -f {control} {answer}; mkfifo {control} {answer}; "
        f"perf record -e cpu-clock -c {PERIOD} -D -1 --control fifo:{control},{answer} -o perf.data -- "
        f"{shlex.quote(sys.executable)}{command.removeprefix('python')} {control},{answer}; "
        "perf report -i perf.data --stdio"
    )


def _marks(control: str) -> Callable[[str], None]:
    """perf switched on and off through its FIFOs, each time waiting until it says so."""
    if not control:
        return lambda word: None
    try:
        to, answer = control.split(",")
        commands, answers = open(to, "w"), open(answer)
    except (ValueError, OSError):
        raise UsageError(
            f"--profile {control}: give perf's control and answer FIFOs, as CONTROL,ANSWER"
        ) from None

    def mark(word: str) -> None:
        commands.write(word + "\n")
        commands.flush()
        answers.readline()

    return mark
