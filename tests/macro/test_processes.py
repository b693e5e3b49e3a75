"""Frameworks' processes that die, hang, print and lie at each message; and several at work at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, suppress
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import psutil
import pytest

from kernels.devices.cpu import cores
from kernels.errors import LaunchError, SuiteError, Unavailable
from macro.frameworks import Framework, find, home
from macro.networks.base import chain
from macro.processes import ahead as module
from macro.processes import process as framework_process
from macro.processes.ahead import Start, ahead
from macro.processes.job import Setting
from macro.processes.process import Process
from macro.timing import groups, turns
from macro.timing.entry import FEWEST, Entry, Plan
from micro.worker import json_child
from tests.macro.models import written
from tests.simulated import frameworks

TINY = chain("tiny", "a test", 4, (6, 5, 3), rate=0.1, momentum=0.5)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch, own_state: Path) -> None:
    monkeypatch.setattr(framework_process, "START", 3.0)
    monkeypatch.setattr(json_child, "CLOSE", 0.5)
    monkeypatch.setattr(turns, "HANGS", 3.0)
    monkeypatch.setattr(groups, "HANGS", 0.6)
    monkeypatch.setattr(groups, "BLOCK", 0.001)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    assert not alive(tmp_path), "a process is left"


def alive(folder: Path) -> list[str]:
    """Processes whose command names the folder of this test."""
    listed = [process.info for process in psutil.process_iter(["cmdline", "status"])]
    return [
        command
        for info in listed
        if str(folder) in (command := " ".join(info["cmdline"] or ())) and info["status"] != psutil.STATUS_ZOMBIE
    ]


def started(framework: Framework, folder: Path) -> Process:
    return Process(framework, written(framework, TINY, folder), Setting(), folder / "log")


def take(entries: list[Entry], folder: Path) -> None:
    turns.take(Plan(TINY, TINY.batch, "step", 0.01, 1), entries, folder, lambda text: None)


def test_a_well_one_says_what_it_is_and_steps(folder: Path) -> None:
    with started(find("numpy"), folder) as process:
        hello, built = process.expect("hello"), process.expect("built")
        told = process.ask(5.0, "steps", do="steps", phase="step", count=3)
    assert hello["framework"] == "numpy" and hello["affinity"]
    assert sum(built["parameters"].values()) == TINY.parameters
    assert len(told["wall_ns"]) == 3 and all(x > 0 for x in told["wall_ns"])
    assert [message["seq"] for message in process.messages] == [1, 2, 3]
    stamps = [message["t_mono_ns"] for message in process.messages]
    assert stamps == sorted(stamps)


TOLD = {
    "killed": "killed by SIGKILL",
    "segfault": "killed by SIGSEGV",
    "exits": "exit code 3",
    "raises": "ArithmeticError: seven",
    "out of memory": "MemoryError: no more",
    "hangs": "hangs: no ",
    "closes its descriptors": "without a reply",
    "leaves a child": "exit code 0",
}
BRIEF = ("killed", "raises", "closes its descriptors")
LATER = ("build", "identity")  # ends as `available` does


@pytest.mark.parametrize("fault", [x if x in BRIEF else pytest.param(x, marks=pytest.mark.slow) for x in TOLD])
@pytest.mark.parametrize("where", ["available", *(pytest.param(x, marks=pytest.mark.slow) for x in LATER), "step"])
def test_a_sick_one_costs_itself_alone(folder: Path, where: str, fault: str) -> None:
    entries = [Entry(frameworks.sick(folder, where, fault), Setting()), Entry(find("numpy"), Setting())]
    take(entries, folder)
    sick, well = entries
    assert sick.status == "failed" and TOLD[fault] in (sick.reason or ""), sick.reason
    assert well.status == "ok" and len(well.blocks) >= FEWEST


def test_a_budget_that_six_rounds_overrun_is_said(folder: Path) -> None:
    said: list[str] = []
    plan = Plan(TINY, TINY.batch, "step", 0.0, 2)
    turns.take(plan, [Entry(find("numpy"), Setting())], folder, said.append)
    assert sum("required 6 rounds take about" in text and "the budget is spent" in text for text in said) == 2
    assert sum("6 of 6 rounds" in text and "generation" in text for text in said) == 2


def test_equal_work_that_dies_is_an_error_of_its_own(folder: Path) -> None:
    with (
        started(frameworks.sick(folder, "loss", "killed"), folder) as process,
        pytest.raises(LaunchError, match="SIGKILL"),
    ):
        process.expect("hello")
        process.expect("built")
        process.ask(5.0, "equal", do="equal", path=str(folder / "x.npz"), steps=[1])


def test_what_it_prints_is_no_message(folder: Path) -> None:
    entry = Entry(frameworks.write(folder, "noisy", frameworks.NOISY), Setting())
    take([entry], folder)
    assert entry.status == "ok"
    (log,) = folder.glob("noisy-*.log")
    assert "a banner" in log.read_text()


def test_the_same_framework_lies_elsewhere_in_each_process(folder: Path) -> None:
    placed, found = frameworks.write(folder, "placed", frameworks.PLACED), set()
    for _ in range(6):
        with started(placed, folder) as process:
            found.add(process.expect("hello")["at"])
    assert len(found) > 1


def test_a_missing_package_is_a_reason(folder: Path) -> None:
    text = "def available():\n    import no_such_framework\n"
    entry = Entry(frameworks.write(folder, "absent", text), Setting())
    take([entry], folder)
    assert (entry.status, entry.blocks) == ("skipped", [])
    assert "no_such_framework" in (entry.reason or "") and "\n" not in (entry.reason or "")


def test_an_answer_out_of_turn_ends_it(folder: Path) -> None:
    with started(find("numpy"), folder) as process, pytest.raises(LaunchError, match="sent 'hello' where 'built'"):
        process.expect("built")


@pytest.mark.parametrize("garbage", [b"nonsense\n", b"[1, 2]\n", b"\xff\xfe\n"])
def test_garbage_in_its_channel_ends_it(folder: Path, garbage: bytes) -> None:
    body = f"    import os, sys\n    os.write(int(sys.argv[4]), {garbage!r})\n    return _build(job)\n"
    text = "_build = build\n\n\ndef build(job):\n" + body
    with started(frameworks.write(folder, "garbled", text), folder) as process, pytest.raises(SuiteError):
        process.expect("hello")


def test_without_an_environment_it_says_how_to_make_one(folder: Path) -> None:
    framework = Framework("old", find("numpy").path, "", {"python": "2.6", "environment": "old"})
    with pytest.raises(Unavailable, match="python -m macro env create old"):
        started(framework, folder)


def test_a_twin_and_a_users_own_file_name_what_would_make_their_environment(folder: Path) -> None:
    recipe = {"python": "2.6", "environment": "old"}
    twin = Framework("row~b", find("numpy").path, "", recipe)
    with pytest.raises(Unavailable, match=r"^no environment for row~b: python -m macro env create old$"):
        started(twin, folder)
    own = Framework(f"{folder}/mine.py", folder / "mine.py", "", {"python": "2.6"})
    with pytest.raises(
        Unavailable, match=rf"mine\.py: python2\.6 -m venv {home()}/mine, then install its packages there$"
    ):
        started(own, folder)


def test_an_interpreter_that_does_not_start_is_a_reason(folder: Path) -> None:
    python = home() / "old/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("no program")
    framework = Framework("old", find("numpy").path, "", {"python": "2.6", "environment": "old"})
    with pytest.raises(Unavailable, match=r"old/bin/python does not start: Permission denied: python -m macro env"):
        started(framework, folder)


def test_the_heap_is_set_before_it_starts(folder: Path) -> None:
    text = "def identity(job):\n    import os\n    return {'heap': os.environ.get('MALLOC_MMAP_MAX_')}\n"
    entries = [Entry(frameworks.write(folder, "heap", text), Setting(heap=heap)) for heap in ("default", "keep")]
    os.environ.pop("MALLOC_MMAP_MAX_", None)
    take(entries, folder)
    assert [entry.identity["heap"] for entry in entries] == [None, "0"]


class Begun(Process):
    """Nothing runs; where it was begun, and how many were alive then."""

    alive: ClassVar[list[Begun]] = []

    def __init__(self, number: int) -> None:
        self.number, self.cores = number, os.sched_getaffinity(0)
        self.alive.append(self)
        self.beside = len(self.alive)

    def close(self) -> None:
        self.alive.remove(self)


@pytest.fixture(autouse=True)
def none_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    Begun.alive.clear()
    monkeypatch.setattr(module, "memory", lambda: 64e9)


def begin(count: int, missing: int = -1, alone: int = -1, **told: float) -> list[Start]:
    def start(number: int) -> Process:
        if number == missing:
            raise Unavailable("not here")
        return Begun(number)

    return [Start(partial(start, number), alone=number == alone, **told) for number in range(count)]  # type: ignore[arg-type]


def test_they_come_in_order_and_an_error_in_its_place() -> None:
    found = [x.number if isinstance(x, Begun) else str(x) for x in ahead(begin(5, missing=2))]
    assert found == [0, 1, "not here", 3, 4] and not Begun.alive


@pytest.mark.skipif(min(cores(), len(os.sched_getaffinity(0))) < 2, reason="one core: nothing is at work at once")
def test_some_are_at_work_at_once_on_cores_of_their_own() -> None:
    every = os.sched_getaffinity(0)
    found = [x for x in ahead(begin(5)) if isinstance(x, Begun)]
    assert max(x.beside for x in found) == min(module.AT_ONCE, cores(), len(every), 5)
    assert all(len(x.cores) == 1 for x in found)
    assert all(not a.cores & b.cores for a, b in pairwise(found))
    assert os.sched_getaffinity(0) == every


def test_with_threads_for_all_cores_or_little_memory_there_is_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    every = os.sched_getaffinity(0)
    monkeypatch.setattr(module, "AT_ONCE", 2)
    for found in ahead(begin(3, threads=len(every))):
        assert isinstance(found, Begun) and found.beside == 1 and found.cores == every
    monkeypatch.setattr(module, "memory", lambda: 2e9)
    assert [x.beside for x in ahead(begin(3, bytes=1e9)) if isinstance(x, Begun)] == [1, 1, 1]
    left = iter((4e9, 2e9, 4e9))  # what is free is looked at each time
    monkeypatch.setattr(module, "memory", lambda: next(left))
    assert [x.beside for x in ahead(begin(3, bytes=1e9)) if isinstance(x, Begun)] == [1, min(2, cores(), len(every)), 1]


def test_what_runs_alone_has_nobody_beside_it() -> None:
    every = os.sched_getaffinity(0)
    for i, found in enumerate(ahead(begin(5, alone=2))):
        assert isinstance(found, Begun) and found.number == i
        if i == 2:
            assert found.beside == 1 and found.cores == every and len(Begun.alive) == 1


def test_who_stops_reading_leaves_none_behind() -> None:
    def read() -> SuiteError | Process:
        with closing(ahead(begin(4))) as processes:
            for _ in processes:
                raise KeyboardInterrupt
        raise AssertionError

    with suppress(KeyboardInterrupt):
        read()
    assert not Begun.alive
