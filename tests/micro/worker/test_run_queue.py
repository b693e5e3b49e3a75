"""Whose a visit's time was: the kernel's, its helpers', others'. On clocks and files that are written down."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from micro.worker import counters, run_queue
from micro.worker.run_queue import charged, stolen
from tests.conftest import load

RECORDER = load(Path(__file__).parents[3] / "macro/worker/recorder.py")
MS = 1e-3
NEVER = np.inf  # its thread never gave its core up


def visit(wall: float, cpu: float, queued: float) -> tuple[float, float, float]:
    """What it took, lost and waited, in milliseconds."""
    found = charged(*(np.array([MS * x]) for x in (wall, cpu, queued)))
    took, lost, waited = (round(float(x[0]) / MS, 9) for x in (found.took, found.lost, found.waited))
    return took, lost, waited


@pytest.mark.parametrize(
    ("wall", "cpu", "queued", "told"),
    [
        pytest.param(10, 10, NEVER, (10, 0, 0), id="alone"),
        pytest.param(20, 10, NEVER, (10, 10, 0), id="beside a spinner, or on a core that the hypervisor took"),
        pytest.param(13, 10, 0, (13, 0, 3), id="sleeps"),
        pytest.param(23, 10, 10, (13, 10, 3), id="sleeps beside a spinner"),
        pytest.param(10, 10, 5, (10, 0, 0), id="helper on this core, joined: each is queued while the other runs"),
        pytest.param(20, 10, 15, (10, 10, 0), id="helper on this core beside a spinner"),
        pytest.param(10, 19, 0, (19, 0, 0), id="helper on another core, busy all the time"),
        pytest.param(10, 12, NEVER, (12, 0, 0), id="helper on another core for a while"),
        pytest.param(20, 24, 8, (24, 0, 0), id="two threads on two cores, both beside spinners"),
        pytest.param(10, 5, 0, (10, 0, 5), id="helper of another process, waited for"),
    ],
)
def test_whose_time_it_was(wall: float, cpu: float, queued: float, told: tuple[float, float, float]) -> None:
    assert visit(wall, cpu, queued) == told


@pytest.mark.parametrize("queued", [0.0, 3.0, NEVER])
@pytest.mark.parametrize(("wall", "cpu"), [(10.0, 4.0), (10.0, 10.0), (10.0, 17.0)])
def test_nothing_is_counted_twice(wall: float, cpu: float, queued: float) -> None:
    took, lost, waited = visit(wall, cpu, queued)
    assert took + lost == max(wall, cpu)
    assert took - waited == cpu and min(took, lost, waited) >= 0


def test_a_device_without_processor_time_neither_loses_nor_waits() -> None:
    found = charged(np.array([1.0]), np.array([np.nan]), np.array([NEVER]))
    assert (found.lost.tolist(), found.waited.tolist()) == ([0.0], [0.0]) and np.isnan(found.took).all()


def test_what_the_hypervisor_took_of_a_wait_is_no_wait() -> None:
    """A tenth of the look: of each visit that waited a tenth, at most what it waited."""
    wall, waited = np.array([10.0, 10.0, 10.0]), np.array([3.0, 0.4, 0.0])
    assert stolen(wall, waited, 0.1).tolist() == [1.0, 0.4, 0.0]
    assert stolen(wall, waited, 0.0).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("voluntary", [True, False])
@pytest.mark.parametrize(("wall", "cpu", "queued"), [(13, 10, 0), (23, 10, 10), (10, 10, 5), (20, 24, 8)])
def test_a_step_of_a_framework_is_charged_alike(wall: int, cpu: int, queued: int, voluntary: bool) -> None:
    waits = RECORDER.waited((7, 5, 3, 1), (7 + wall, 5 + cpu, 3 + queued, 1 + voluntary))
    assert waits == visit(wall, cpu, queued if voluntary else NEVER)[2]


class Tasks:
    """A folder in the form of /proc/self/task."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def say(self, task: int, ran: int, delay: int) -> None:
        (self.folder / str(task)).mkdir(exist_ok=True)
        (self.folder / str(task) / "schedstat").write_text(f"{ran} {delay} 7\n")

    def end(self, task: int) -> None:
        (self.folder / str(task) / "schedstat").write_text("")


@pytest.fixture
def tasks(tmp_path: Path) -> Iterator[Tasks]:
    yield Tasks(tmp_path)
    run_queue.close_tasks()


def queued_in(tasks: Tasks) -> float:
    """Nanoseconds, at the end of a visit in which this thread gave its core up."""
    return 1e9 * float(run_queue.library().queue_end(-1))


def test_the_delays_of_all_tasks_count_from_one_visit_to_the_next(tasks: Tasks) -> None:
    tasks.say(1, 1000, 500)
    tasks.say(2, 1000, 70)
    assert run_queue.open_tasks(str(tasks.folder))
    assert queued_in(tasks) == 0
    tasks.say(1, 1000, 512)
    tasks.say(2, 1000, 73)
    assert queued_in(tasks) == pytest.approx(15)
    assert queued_in(tasks) == 0


def test_a_thread_that_was_born_counts_from_its_birth_and_one_that_ended_no_more(tasks: Tasks) -> None:
    tasks.say(1, 1000, 500)
    assert run_queue.open_tasks(str(tasks.folder))
    tasks.say(3, 10, 40)
    assert queued_in(tasks) == pytest.approx(40)
    tasks.end(3)
    tasks.say(1, 1000, 505)
    assert queued_in(tasks) == pytest.approx(5)


def test_a_thread_that_never_gave_its_core_up_can_have_lost_all_that_it_did_not_run(tasks: Tasks) -> None:
    tasks.say(1, 1000, 500)
    assert run_queue.open_tasks(str(tasks.folder))
    queue = run_queue.library()
    before = queue.queue_begin()
    if queue.queue_begin() == before:  # a page fault that waits for a disk would be a wait
        assert queue.queue_end(before) == np.inf


def test_who_waits_for_another_thread_gives_its_core_up() -> None:
    queue = run_queue.library()
    run_queue.open_tasks()
    done, before = threading.Event(), queue.queue_begin()
    threading.Timer(0.01, done.set).start()
    done.wait()
    assert queue.queue_begin() > before
    run_queue.close_tasks()


@pytest.mark.parametrize(("line", "told"), [("1034 7 2", True), ("1034 0 2", True), ("0 0 0", False), ("", False)])
def test_a_system_says_once_whether_it_tells(tasks: Tasks, line: str, told: bool) -> None:
    for missing in (run_queue.available(str(tasks.folder / "no")), run_queue.open_tasks(str(tasks.folder / "no"))):
        assert not missing
    tasks.say(1, 0, 0)
    (schedstat := tasks.folder / "1" / "schedstat").write_text(line)
    assert run_queue.available(str(schedstat)) is told
    assert bool(run_queue.open_tasks(str(tasks.folder))) is told and (told or queued_in(tasks) == np.inf)


STAT = """cpu  100 0 100 1000 0 0 0 90 0 0
cpu0 50 0 50 500 0 0 0 70 0 0
cpu1 50 0 50 500 0 0 0 5 0 0
cpu10 0 0 0 0 0 0 0 15 0 0
intr 5
"""


@pytest.mark.parametrize(("cores", "stolen"), [({1}, 5), ({0, 10}, 42.5), ({3}, 0)])
def test_what_was_stolen_is_of_the_cores_it_may_run_on(
    monkeypatch: pytest.MonkeyPatch, cores: set[int], stolen: float
) -> None:
    monkeypatch.setattr(counters, "_text", lambda path: STAT)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: cores)
    monkeypatch.setattr("os.sysconf", lambda name: 100)
    found = counters.Counters.now()
    assert (found.steal, found.stolen, found.busy) == (0.9, stolen / 100, 2.0)
