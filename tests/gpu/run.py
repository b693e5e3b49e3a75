"""All that a GPU is asked while it is here, in one command (`make gpu`): under nine minutes, six files.

    python -m tests.gpu.run [--out FOLDER] [--seconds 520]

In turn: what machine this is, the tests of this folder, a useful default of every benchmark that has one for
a GPU, the checklist of questions. Each step has its own limit and its own process group; what a step writes
stands in its file as it goes, so that a run cut off keeps what was finished. Without a GPU the same steps run
on the fake device, at sizes that take no time: a test of this script.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from kernels.libs import cuda

ROOT = Path(__file__).parents[2]
SECONDS = 520.0  # of the whole, below the nine minutes
GPU_TESTS = tuple(f"tests/gpu/test_{name}.py" for name in ("rows", "update_rows", "whole"))
GRACE = 8.0  # seconds that a step has to say what it has, once it is told to end
LEASHED = """
import os, sys
from micro.probes._process import die_with
die_with(int(sys.argv[1]))
os.execv(sys.executable, [sys.executable, "-m", *sys.argv[2:]])
"""  # a step ends when we do, however we end: the next visit writes to its files


@dataclass(frozen=True)
class Step:
    """A command; the file its output goes to; its limit, as a share of the seconds that are left."""

    name: str
    command: tuple[str, ...]
    output: str
    share: float


def steps(out: Path, seconds: float, here: bool) -> tuple[Step, ...]:
    """On a GPU that is `here`, or on the fake device."""
    device = ("--device", "cuda:0") if here else ("--device", "fake:cuda", "--small")
    # Half the time of the benchmarks is checks and compilers: their budget is of measuring alone.
    measuring = f"{seconds / 5 if here else 3:.0f}s"
    tests = ("pytest", "-q", "-rs", "--tb=short", "-p", "no:cacheprovider", *GPU_TESTS)
    run = ("micro", "all", *device, "--budget", measuring, "-o", str(out / "run.jsonl"), "--resume")
    ask = ("micro.probes", "-o", str(out / "checklist.jsonl"), *(() if here else ("--fake",)))
    return (
        Step("machine", ("kernels", "--json"), "machine.json", 0.1),
        Step("tests", tests, "tests.txt", 0.25),
        Step("benchmarks", run, "report.txt", 0.6),
        Step("checklist", ask, "log.txt", 1.0),
    )


def main(argv: Sequence[str] | None = None) -> int:
    """0 when every step ended by itself; else 1. What came of them is in the files."""
    parser = argparse.ArgumentParser("python -m tests.gpu.run", description=__doc__, allow_abbrev=False)
    default = Path(os.environ.get("OUT") or "gpu-out")
    parser.add_argument("--out", type=Path, default=default, help="folder ($OUT, else gpu-out)")
    parser.add_argument("--seconds", type=float, default=SECONDS, help=f"for all of it ({SECONDS:.0f})")
    parser.add_argument("--fake", action="store_true", help="the fake device even where a GPU is")
    arguments = parser.parse_args(argv)
    out: Path = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    reason = "asked for" if arguments.fake else cuda.missing()
    end, codes = time.monotonic() + arguments.seconds, {}
    with (out / "log.txt").open("a", encoding="utf-8") as log:
        say(log, f"fake device: {reason}" if reason else "cuda:0")
        for step in steps(out, arguments.seconds, reason is None):
            left = end - time.monotonic()
            codes[step.name] = take(step, out, max(left * step.share, 1.0), left, log)
    return int(any(codes.values()))


def take(step: Step, out: Path, limit: float, left: float, log: IO[str]) -> int:
    """The step's exit code; 124 where its limit ended it."""
    began = time.monotonic()
    extra = ("--seconds", f"{max(limit - GRACE, 1.0):.0f}") if step.name == "checklist" else ()
    how = "w" if step.output.endswith(".json") else "a"  # a document, or what a run before began
    with (out / step.output).open(how, encoding="utf-8") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", LEASHED, str(os.getpid()), *step.command, *extra],
            cwd=ROOT, stdin=subprocess.DEVNULL, stdout=stream, stderr=log, start_new_session=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        code = ended(process, limit)
    took = time.monotonic() - began
    say(log, f"{step.name}: exit code {code} after {took:.0f} s of {limit:.0f}; {left - took:.0f} s are left")
    return code


def ended(process: subprocess.Popen[bytes], limit: float) -> int:
    """Waits; at the limit it is told to end, then its whole group is made to."""
    try:
        return process.wait(limit)
    except subprocess.TimeoutExpired:
        pass
    for number, patience in ((signal.SIGTERM, GRACE), (signal.SIGKILL, 10.0)):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(patience)
            break
    with suppress(ProcessLookupError):  # what it left behind
        os.killpg(process.pid, signal.SIGKILL)
    return 124


def say(log: IO[str], text: str) -> None:
    """On the screen and in the log, at once."""
    for stream in (sys.stdout, log):
        stream.write(f"gpu: {text}\n")
        stream.flush()


if __name__ == "__main__":
    sys.exit(main())
