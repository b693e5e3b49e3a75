"""What the host makes of a case before it is timed, and whose the time of a visit was."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernels import build
from kernels.devices import open_device
from kernels.devices.base import Limits
from kernels.launch import Launch
from kernels.ops.gemm.problem import Gemm
from kernels.setting import Setting
from micro.planning.contest import VISIT, Case
from micro.worker import counters, kernels, run_queue, visits
from micro.worker.host import Host
from micro.worker.kernels import Kernels
from micro.worker.run_queue import charged, stolen
from micro.worker.watch import out_of_step
from tests.conftest import load


def test_the_time_of_a_launch_is_shared_by_its_uses(host: Host) -> None:
    once, kept = (Case(Gemm(48, 48, 48, "nt"), name) for name in ("openblas", "kept-transpose:8"))
    host.calibrate(host.open([once, kept], [True, True], 1), VISIT)
    assert host.contest is not None
    assert [entry.uses for entry in host.contest.entries] == [1, 8]


def test_long_kept_copies_are_timed_in_parts(host: Host) -> None:
    """All measured cases have the same number of launches."""
    case = Case(Gemm(1024, 2048, 1400, "nt"), "kept-transpose:8")
    host.prepare(case)
    parts = [(variant.name, uses) for variant, _, uses in host.kernels.binds(case)]
    assert parts == [("transpose-copy", 8), ("nn-on-copy", 1)]
    cases = [Case(Gemm(32, 32, 32), name) for name in ("openblas", "naive")]
    assert len(set(host.calibrate(host.open(cases, [True, True], 1), VISIT).launches)) == 1


def test_workers_that_take_turns_place_cold_operands_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the other's case as of its own: all the sets that its launches rotate among."""
    device = open_device("cpu")
    monkeypatch.setattr("micro.worker.contest.canaries", lambda device: [])
    monkeypatch.setattr(type(device), "limits", lambda self: Limits(8 << 30, 2, (1 << 15, 1 << 20)))
    cases = [Case(Gemm(48, 48, 48), name, Setting(cold=("a", "b"))) for name in ("openblas", "naive")]
    places = []
    for mine in ([True, False], [False, True]):
        host = Host(device, ctypes.addressof(ctypes.c_int32(-1)))
        host.open(cases, mine, 1)
        assert host.contest is not None
        host.contest.layout.spread()
        places.append(host.contest.layout.draw(0, 8).tolist())
    assert places[0] == places[1]


# Right answers that rivals share


PROBLEM, OTHER = Gemm(16, 24, 32), Gemm(16, 24, 48)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Gemm]:
    """The problems whose right answer was worked out, one after another."""
    problems: list[Gemm] = []
    reference = Gemm.reference

    def counted(self: Gemm, x: Any) -> object:
        problems.append(self)
        return reference(self, x)

    monkeypatch.setattr(Gemm, "reference", counted)
    return problems


def checked(*cases: tuple[Gemm, str]) -> Kernels:
    here = Kernels(open_device("cpu"))
    for problem, variant in cases:
        passed = here.check(Case(problem, variant), 7)
        assert passed.error <= passed.bound
    return here


def test_a_large_problem_s_rivals_share_it(monkeypatch: pytest.MonkeyPatch, found: list[Gemm]) -> None:
    def count(*cases: tuple[Gemm, str]) -> int:
        found.clear()
        checked(*cases)
        return len(found)

    both = (PROBLEM, "numpy"), (PROBLEM, "naive")
    alone = count(both[0])
    assert count(*both) == 2 * alone, "a small one's do not"
    monkeypatch.setattr(kernels, "DEAR", 0.0)
    once = count(both[0])
    assert once <= alone and count(*both) < 2 * once


def test_no_more_than_one_problem_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "DEAR", 0.0)
    here = checked((PROBLEM, "numpy"), (OTHER, "numpy"))
    assert [problem for problem, *_ in here._drawn] == [OTHER]
    monkeypatch.setattr(kernels, "LARGE", 1)
    assert not checked((PROBLEM, "numpy"))._drawn, "its operands take much room"


ENOUGH = 0.02  # seconds of processor time
READINGS = 32  # of its clocks, by which the loop knows what they cost
SCRIPTED = """
#define _GNU_SOURCE
#include <time.h>
double script[%d];
static int reading;
static int scripted(clockid_t clock, struct timespec *t)
{
    double now = script[reading++];
    (void)clock;
    t->tv_sec = (time_t)now;
    t->tv_nsec = (long)(1e9 * (now - (double)t->tv_sec) + 0.5);
    return 0;
}
#define clock_gettime scripted
#include "%s"
"""


def test_processor_time_is_that_of_all_threads_of_the_process() -> None:
    """A helper's beside its caller's, who both compute at once where there are two cores."""
    ran: list[float] = []

    def work() -> None:
        square, began = np.ones((200, 200), np.float32), time.thread_time()
        while time.thread_time() - began < ENOUGH:
            square @ square
        ran.append(time.thread_time() - began)

    def call() -> None:
        helper = threading.Thread(target=work)
        helper.start()
        work()
        helper.join()

    launch, cell = Launch(call), ctypes.c_int32(-1)
    places = [np.array([id(launch.call)], np.int64)]
    plan = visits.Visits(np.zeros(1, np.int32), places, [1], [0], [False], [0])
    timed = visits.compiled([visits.python_entry(launch)], plan, ctypes.addressof(cell), threaded=False)
    assert len(ran) == 2 and timed.cpu[0] >= sum(ran)


def test_some_visits_have_an_untimed_call_more_so_that_no_kernel_is_in_step_with_them() -> None:
    calls: list[int] = []
    launch, cell = Launch(lambda: calls.append(len(calls))), ctypes.c_int32(-1)
    places = [np.array([id(launch.call)], np.int64)] * 3
    plan = visits.Visits(np.zeros(3, np.int32), places, [2], [2], [False], [0], more=[0, 1, 0])
    visits.compiled([visits.python_entry(launch)], plan, ctypes.addressof(cell), threaded=False)
    assert len(calls) == 3 * (2 + 2) + 1


def test_a_case_that_is_not_warmed_up_is_never_launched_once_more() -> None:
    entries = [SimpleNamespace(warm=2), SimpleNamespace(warm=0)]
    more = out_of_step(entries, [0] * 4000 + [1] * 4000)  # type: ignore[arg-type]
    assert 300 < sum(more[:4000]) < 700 and not any(more[4000:])


def test_a_clock_that_was_read_with_a_stop_between_tells_nothing_of_its_cost(tmp_path: Path) -> None:
    """The process did not run while the wall went on: that clock would seem to take less than none, by 3 ms."""
    source = tmp_path / "scripted.c"
    source.write_text(SCRIPTED % (READINGS, visits.SOURCE))
    loaded = build.load(source)
    loaded.clock_cost.restype = ctypes.c_double
    script = (ctypes.c_double * READINGS).in_dll(loaded, "script")
    for i in range(0, READINGS, 4):  # the processor's clock, the wall, the wall, the processor's clock
        stopped = 3e-3 if i == 8 else 0.0
        script[i : i + 4] = (0.0, 0.0, 1e-7 + stopped, 6e-7)
    assert loaded.clock_cost() == pytest.approx(5e-7)


@pytest.mark.parametrize(("ran", "told", "counts"), [(2.0, True, True), (1.05, True, False), (2.0, False, False)])
def test_a_helper_on_another_core_counts_in_short_visits_too(
    ran: float, told: bool, counts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A case of one thread whose process runs twice as long as the wall; coarse steps of its clock say nothing."""
    host = Host(open_device("cpu"), ctypes.addressof(ctypes.c_int32(-1)))
    case = Case(Gemm(24, 20, 40), "blocked")
    host.check(case, 1)
    host.calibrate(host.open([case], [True], 1), VISIT)
    compiled = visits.compiled

    def together(*given: Any) -> visits.Timed:
        found = compiled(*given)
        return replace(found, wall=0 * found.wall + 1e-4, cpu=0 * found.wall + ran * 1e-4, waited=0 * found.wall)

    monkeypatch.setattr(visits, "compiled", together)
    monkeypatch.setattr(run_queue, "available", lambda: told)
    batch = host.run_rounds(0, 8, canary=False)
    assert batch.wall[:, 0] * batch.launches[0] == pytest.approx((ran if counts else 1.0) * 1e-4)


RECORDER = load(Path(__file__).parents[3] / "macro/agent/core/recorder.py")
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
