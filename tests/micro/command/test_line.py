"""The command line: refusals, plans, what is printed where, how it was typed; `--profile` between perf's marks."""

from __future__ import annotations

import itertools
import json
import os
import shlex
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kernels.devices.fake import Fake
from micro.command import environment, profile
from micro.gemm import BENCHMARK
from micro.planning import options
from micro.planning.contest import parse
from micro.worker import check
from reports import store
from tests.conftest import Ran
from tests.processes import ROOT, python

SIZE = ("--m", "8", "--n", "8", "--k", "8")
FAKE = ("--device", "fake")
QUICK = (*SIZE, *FAKE, "--variant", "openblas,naive")
Gemm = Callable[..., Ran]


def refused(ran: Ran, lines: int = 1, code: int = 2) -> None:
    """Exit with this code, so many lines for the person at most, nothing else."""
    assert (ran.code, ran.out) == (code, "")
    assert 1 <= len(ran.err.splitlines()) <= lines, ran.err
    assert "Traceback" not in ran.err and (lines > 1 or ran.err.startswith("micro.gemm: "))


@pytest.mark.parametrize("words", ["--m", "--banana", "--until banana", "--target -1%", "-q -v", "stray"])
def test_bad_options_are_refused_with_few_lines(gemm: Gemm, words: str) -> None:
    refused(gemm(*words.split()), lines=6)


def test_refusals_leave_files_as_they_are(gemm: Gemm, tmp_path: Path) -> None:
    there = tmp_path / "a.csv"
    there.write_text("of before\n")
    for words in (["--csv", "no_such_folder/x"], ["--csv", str(there), "--json", str(tmp_path / "none" / "x")]):
        refused(gemm(*QUICK, *words, "-o", str(tmp_path / "run.jsonl")))
        assert [x.name for x in tmp_path.iterdir() if x.name != "state"] == ["a.csv"]
    assert there.read_text() == "of before\n"


def test_a_plan_lists_contests_and_cases(gemm: Gemm) -> None:
    ran = gemm(*SIZE, "--variant", "openblas,naive", "--trans", "nn,nt", "--list")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == [
        "gemm/m:8/n:8/k:8 (differs: variant)",
        "  gemm/m:8/n:8/k:8/variant:openblas/threads:1",
        "  gemm/m:8/n:8/k:8/variant:naive/threads:1",
        "gemm/m:8/n:8/k:8/trans:nt (differs: variant)",
        "  gemm/m:8/n:8/k:8/trans:nt/variant:openblas/threads:1",
        "  gemm/m:8/n:8/k:8/trans:nt/variant:naive/threads:1",
    ]


def test_only_and_not_choose_contests(gemm: Gemm) -> None:
    ran = gemm("--m", "8,16,24", "--variant", "openblas", "--only", "m:(8|16)/", "--not", "m:16", "--list")
    assert [line.split("/")[1] for line in ran.out.splitlines() if line[0] != " "] == ["m:8"]


@pytest.mark.parametrize(
    ("until", "status"), [("plan", "planned"), ("build", "built"), ("run", "ran"), ("check", "ran"), ("time", "ok")]
)
def test_the_ladder_in_a_document(gemm: Gemm, until: str, status: str) -> None:
    ran = gemm(*QUICK, "--until", until, "--json", "-")
    document = json.loads(ran.out)
    assert (ran.code, document["format"]) == (0, 1) and "scripted clock" in ran.err
    assert {result["status"] for result in document["results"] if result["role"] == "measured"} == {status}


def test_without_a_document_the_answer_goes_to_stdout(gemm: Gemm) -> None:
    ran = gemm(*QUICK, "-q")
    assert "scripted clock" in ran.out
    assert ran.err == ""


def test_a_wrong_kernel_makes_the_exit_code_1(gemm: Gemm, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernels.devices import fake

    monkeypatch.setattr(fake.Fake, "_answer", lambda self, problem, buffers: None)
    ran = gemm(*QUICK)
    assert ran.code == 1
    assert "wrong: writes nothing" in ran.out


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("--trans nt --beta 0.5 --ld-pad 3 --cold a,b --threads 2", "--cold a,b"),
        ("--alpha=-1e-5 --variant naive", "--alpha=-1e-05"),
        ("--workspace 8MiB --variant numpy", "--workspace 8MiB"),
        ("--heap keep --variant numpy", "--heap keep"),
        ("--isa default --data zeros --threads 2 --cold a", "--data zeros"),
        ("--isa Zen --data normal", "--isa Zen"),
    ],
)
def test_the_line_that_repeats_a_case_names_it_again(gemm: Gemm, words: str, option: str) -> None:
    ran = gemm(*QUICK, *words.split(), "--json", "-")
    for result in json.loads(ran.out)["results"]:
        if result["role"] == "measured":
            again = gemm(*result["repeat"].split()[3:], "--list")
            assert again.out.splitlines()[1].split()[0] == result["name"] and option in result["repeat"]
            assert parse(result["name"]).name == result["name"]


def test_the_command_itself_refuses() -> None:
    ran = python("-m", "micro.gemm", "--m", "0")
    refused(Ran(ran.returncode, ran.stdout, ran.stderr))


# Documents


def test_a_document_is_replaced_when_the_new_one_is_whole(gemm: Gemm, tmp_path: Path) -> None:
    there, new = tmp_path / "a.csv", tmp_path / "b"
    there.write_text("of before\n")
    assert gemm(*QUICK, "--csv", str(there), "--json", str(new)).code == 0
    assert there.read_text().startswith("contest")
    assert json.loads(new.read_text())["results"]
    assert not list(tmp_path.glob("*.part"))


@pytest.mark.slow
def test_a_reader_that_leaves_early_costs_no_document(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "micro.gemm", *QUICK, "-q", "--csv", str(tmp_path / "a.csv")]
    words += ["--markdown", str(tmp_path / "a.md"), "--figures", str(tmp_path / "pictures")]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, errors = process.communicate(timeout=300)
    assert (process.returncode, errors) == (141, b"")
    assert (tmp_path / "a.csv").read_text().startswith("contest")
    assert (tmp_path / "a.md").stat().st_size
    assert list((tmp_path / "pictures").iterdir())


def test_a_run_file_keeps_it(tmp_path: Path) -> None:
    words = ["--m", "8", "--n", "8", "--k", "8", "--variant", "openblas", "--device", "fake", "-q", "--budget", "0.2s"]
    ran = python("-m", "micro.gemm", *words, "-o", "run.jsonl", cwd=tmp_path, state=tmp_path / "state")
    assert (ran.returncode, ran.stderr) == (0, "")
    command = store.read(tmp_path / "run.jsonl").environment.command
    assert command == f"python -m micro.gemm {' '.join(words)} -o run.jsonl"


@pytest.mark.parametrize(
    ("module", "script", "told"),
    [
        ("kernels.__main__", f"{ROOT}/kernels/__main__.py", "python -m kernels --x 'a b'"),
        ("macro.__main__", f"{ROOT}/macro/__main__.py", "python -m macro --x 'a b'"),
        ("micro.gemm", f"{ROOT}/micro/gemm.py", "python -m micro.gemm --x 'a b'"),
        (None, f"{ROOT}/micro/gemm.py", "python micro/gemm.py --x 'a b'"),
        (None, "script.py", "from Python: script.py"),
        ("ipykernel_launcher", f"{ROOT}/ipykernel_launcher.py", "from Python: ipykernel_launcher.py"),
        ("pytest.__main__", f"{ROOT}/pytest/__main__.py", "from Python: __main__.py"),
        ("__main__", f"{ROOT}/macro", "python macro --x 'a b'"),
        (None, "", "from Python: interactive"),
    ],
)
def test_each_way_to_start_it(monkeypatch: pytest.MonkeyPatch, module: str | None, script: str, told: str) -> None:
    """An environment in the checkout, or the suite among other packages, makes none of these a module of the suite."""
    monkeypatch.chdir(ROOT)
    main = ModuleType("__main__")
    monkeypatch.setattr(main, "__spec__", SimpleNamespace(name=module) if module else None)
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(sys, "argv", [script, "--x", "a b"])
    assert environment.command_line() == told


CASE = ("--m", "8", "--n", "8", "--k", "8", "--variant", "openblas")
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
    ran = gemm(*CASE, *FAKE, "--profile", ",".join(map(str, perf.fifos)))
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
    words = (*CASE, *FAKE, "--profile")
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
    "words", [(*CASE, *FAKE, "--profile"), ("--profile", *CASE, *FAKE), (*CASE, *FAKE, "--profile=")]
)
def test_the_line_s_command_is_one(gemm: Gemm, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]) -> None:
    line = [word.rstrip(";") for word in printed(gemm, monkeypatch, *words)]
    command = line[line.index("micro.gemm") + 1 : line.index("report") - 1]
    found, rest = options.parser(BENCHMARK, "gemm").parse_known_args(command)
    assert not rest
    assert found.profile.count(",") == 1 and "fifo:" + found.profile in line


# What is refused_in_a_line


@pytest.mark.parametrize("other", ["missing", "there"])
def test_files_that_are_no_fifos_are_refused_and_left_alone(gemm: Gemm, tmp_path: Path, other: str) -> None:
    for name in ("run.jsonl", "there"):
        (tmp_path / name).write_text("precious\n")
    ran = gemm(*CASE, *FAKE, "--profile", f"{tmp_path}/run.jsonl,{tmp_path}/{other}")
    assert (tmp_path / "run.jsonl").read_text() == "precious\n"
    refused(ran)


@pytest.mark.parametrize("fault", ["wrong", "raises"])
def test_a_kernel_that_is_wrong_or_raises(gemm: Gemm, monkeypatch: pytest.MonkeyPatch, fault: str) -> None:
    def answers(self: Any, problem: Any, buffers: Any) -> None:
        if fault == "raises":
            raise ArithmeticError("no such product")

    monkeypatch.setattr(Fake, "_answer", answers)
    monkeypatch.setattr(check, "LATE", 0.0)
    refused(gemm(*CASE, *FAKE, "--profile"), code=1)


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
    words = [*CASE[:-1], f"{tmp_path}/asks.py:asks", "--threads", "1", "--profile"]
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
