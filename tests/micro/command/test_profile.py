"""`--profile`: one warmed launch between perf's two marks, and the line that runs it under perf."""

from __future__ import annotations

import itertools
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernels.devices.fake import Fake
from micro.command import profile
from micro.gemm import BENCHMARK
from micro.planning import options
from micro.worker import check
from tests.conftest import Ran
from tests.processes import ROOT

Gemm = Callable[..., Ran]
SIZE = ("--m", "8", "--n", "8", "--k", "8", "--variant", "openblas")
FAKE = ("--device", "fake")
# The end of the command's process closes its FIFOs, and no test is one.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")


class Perf(threading.Thread):
    """perf's end of the two FIFOs that switch it on and off: writes down each word and answers it."""

    def __init__(self, folder: Path, journal: list[str]) -> None:
        super().__init__(daemon=True)
        self.fifos = folder / "control", folder / "answer"
        for path in self.fifos:
            os.mkfifo(path)
        self._journal = journal

    def run(self) -> None:
        with self.fifos[0].open() as control, self.fifos[1].open("w") as answer:
            for word in control:
                self._journal.append(word.strip())
                answer.write("ack\n")
                answer.flush()


@pytest.fixture
def journal(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the device of the command does, in order."""
    device = Fake()
    monkeypatch.setattr(profile, "open_device", lambda name: device)
    monkeypatch.setattr(check, "LATE", 0.0)
    return device.journal


def test_one_launch_between_the_marks(gemm: Gemm, journal: list[str], tmp_path: Path) -> None:
    perf = Perf(tmp_path, journal)
    perf.start()
    ran = gemm(*SIZE, *FAKE, "--profile", ",".join(map(str, perf.fifos)))
    assert ran.code == 0, ran.err
    start, end = journal.index("enable"), journal.index("disable")
    assert journal[start + 1 : end] == ["launch openblas", "sync"]
    assert journal[start - 3 : start] == ["launch openblas", "launch openblas", "sync"]  # warm by then
    assert journal[end + 1 :] == [] and journal[0] == "prepare openblas"
    assert journal.count("launch openblas") == 8 + 2 + 1  # checked first, warmed up, the one that counts
    assert (journal.count("enable"), journal.count("disable")) == (1, 1)
    assert ran.out.startswith("gemm/m:8/n:8/k:8/variant:openblas/device:fake/threads:1: one warmed launch, ")
    assert len(ran.out.splitlines()) == 1  # perf is there already


# The line


def printed(gemm: Gemm, monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    """The words of the line that a command prints."""
    monkeypatch.setattr(sys, "argv", [str(ROOT / "micro" / "gemm.py"), *words])
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", SimpleNamespace(name="micro.gemm"))
    ran = gemm(*words)
    assert ran.code == 0, ran.err
    return shlex.split(ran.out.splitlines()[1])


def test_the_line_starts_perf_with_the_same_command(gemm: Gemm, monkeypatch: pytest.MonkeyPatch) -> None:
    words = (*SIZE, *FAKE, "--profile")
    line = printed(gemm, monkeypatch, *words)
    perf, command = line[line.index("perf") : line.index("--")], line[line.index("--") + 1 :]
    (control,) = [word for word in perf if word.startswith("fifo:")]
    fifos = control.removeprefix("fifo:").split(",")
    assert perf[:2] == ["perf", "record"] and perf[perf.index("-D") + 1] == "-1"  # off until the first mark
    made = line[line.index("mkfifo") + 1 : line.index("perf")]
    assert [word.rstrip(";") for word in made] == fifos and len(fifos) == 2
    assert command[0] == sys.executable
    same = ["-m", "micro.gemm", *words, f"{','.join(fifos)};"]
    assert command[1 : 1 + len(same)] == same


@pytest.mark.parametrize(
    "words", [(*SIZE, *FAKE, "--profile"), ("--profile", *SIZE, *FAKE), (*SIZE, *FAKE, "--profile=")]
)
def test_the_line_s_command_is_one(gemm: Gemm, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    line = [word.rstrip(";") for word in printed(gemm, monkeypatch, *words)]
    command = line[line.index("micro.gemm") + 1 : line.index("report") - 1]
    found, rest = options.parser(BENCHMARK, "gemm").parse_known_args(command)
    assert not rest
    assert found.profile.count(",") == 1 and "fifo:" + found.profile in line


# What is refused


def refused(ran: Ran, code: int = 2) -> None:
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (code, "", 1), ran.err
    assert ran.err.startswith("micro.gemm: ") and "Traceback" not in ran.err


@pytest.mark.parametrize("other", ["missing", "there"])
def test_files_that_are_no_fifos_are_refused_and_left_alone(gemm: Gemm, tmp_path: Path, other: str) -> None:
    for name in ("run.jsonl", "there"):
        (tmp_path / name).write_text("precious\n")
    ran = gemm(*SIZE, *FAKE, "--profile", f"{tmp_path}/run.jsonl,{tmp_path}/{other}")
    assert (tmp_path / "run.jsonl").read_text() == "precious\n"
    refused(ran)


@pytest.mark.parametrize("fault", ["wrong", "raises"])
def test_a_kernel_that_is_wrong_or_raises(gemm: Gemm, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    def answers(self: Any, problem: Any, buffers: Any) -> None:
        if fault == "raises":
            raise ArithmeticError("no such product")

    monkeypatch.setattr(Fake, "_answer", answers)
    monkeypatch.setattr(check, "LATE", 0.0)
    refused(gemm(*SIZE, *FAKE, "--profile"), code=1)


ASKS = """
import numpy as np
from kernels.libs import openblas

def asks(problem, a, b, c):
    np.matmul(a, b, out=c)
    print("threads:", openblas.load("numpy").get_threads())
"""


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core: one thread in any case")
def test_it_runs_on_the_threads_of_its_case(own_state: Path, tmp_path: Path) -> None:
    (tmp_path / "asks.py").write_text(ASKS)
    words = [*SIZE[:-1], f"{tmp_path}/asks.py:asks", "--threads", "1", "--profile"]
    free = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    command = [sys.executable, "-m", "micro.gemm", *words]
    ran = subprocess.run(command, cwd=ROOT, env=free, stdout=subprocess.PIPE, text=True)
    assert {line for line in ran.stdout.splitlines() if "threads:" in line and "gemm" not in line} == {"threads: 1"}


# Under Nsight Compute


def test_the_same_command_under_ncu() -> None:
    """By this Python, its words as they were typed, the launch alone, clocks as in a measurement."""
    command = "/usr/bin/python3 -m micro.gemm --variant '/a b/mine.py:f' --device cuda:0 --profile"
    words = shlex.split(profile.gpu_line(command))
    at = words.index(sys.executable)
    assert words[0] == "ncu" and words[at + 1 :] == shlex.split(command)[1:]
    options = dict(itertools.pairwise(words[1:at]))
    assert options["--profile-from-start"] == "off" and options["--clock-control"] == "none"
