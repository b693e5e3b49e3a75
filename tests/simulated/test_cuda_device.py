"""The cuda device's order of steps, on a runtime that is not there. What only a GPU can tell is not told here."""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import itertools
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from kernels import nvcc
from kernels.catalog import find
from kernels.devices.cuda import EMPTY, KIND, Cuda
from kernels.dtypes import BYTES, STORED, decode
from kernels.errors import BuildError, LaunchError, Unavailable
from kernels.launch import Launch
from kernels.ops.gemm import gpu as gemm
from kernels.ops.gemm.problem import Gemm
from kernels.ops.launch.problem import Calls
from kernels.setting import Setting
from micro.planning.contest import VISIT, WARM, Case
from micro.worker import contest
from micro.worker import visits as worker_visits
from micro.worker.calibration import MEDIAN
from micro.worker.host import Host
from tests.simulated import fake_gpu, launcher
from tests.simulated.fake_cupy import FakeCupy
from tests.simulated.fake_cupy_objects import DEPTH, CUDARuntimeError

SECONDS = 3e-6
PROBLEM = Gemm(4, 4, 4)
kernels = pytest.mark.skipif(launcher.missing() is not None, reason=str(launcher.missing()))


@pytest.fixture
def cp() -> FakeCupy:
    return FakeCupy()


@pytest.fixture
def device(cp: FakeCupy) -> Cuda:
    return Cuda(0, cp)


def launch(cp: FakeCupy, capturable: bool) -> Launch:
    return Launch(lambda: cp.launch("kernel", SECONDS), capturable=capturable)


def visits(launches: int, warm: int, cold: bool, on_host: bool = False) -> worker_visits.Visits:
    return worker_visits.Visits(np.zeros(1, np.int32), [], [launches], [warm], [cold], [0], [on_host])


def visited(device: Cuda, launch: Launch, plan: worker_visits.Visits) -> worker_visits.Timed:
    return worker_visits.stepwise(device, [[launch]] * len(plan.which), plan, ctypes.addressof(ctypes.c_int32(-1)))


@pytest.mark.parametrize("capturable", [False, True])
def test_a_visit_in_the_order_of_nvbench(cp: FakeCupy, device: Cuda, capturable: bool) -> None:
    """Warm up, wait, hold, mark, enqueue, mark, release, wait: the launches stand ready behind the mark."""
    cp.journal.clear()
    timed = visited(device, launch(cp, capturable), visits(launches=5, warm=2, cold=False))
    ready = ["kernel"] * 5 + ["upload"] if capturable else []
    run = ["graph of 5"] if capturable else ["kernel"] * 5
    assert cp.journal == ["kernel", "kernel", "sync", *ready, "hold", "mark", *run, "mark", "sync"]
    assert timed.wall[0] == pytest.approx(5 * SECONDS)
    assert math.isnan(timed.cpu[0])  # a GPU has no processor time


def test_a_cold_visit_reads_twice_the_second_level_cache(cp: FakeCupy, device: Cuda) -> None:
    """What was written would be written back while the next kernel is timed: only the first one writes, once."""
    device.flush()
    assert cp.journal[-2:] == [f"memset {(2 << 20) + 16}", f"sweep {2 << 20}"]
    device.sync()
    cp.journal.clear()
    visited(device, launch(cp, False), visits(launches=1, warm=0, cold=True))
    assert cp.journal[:2] == [f"sweep {2 << 20}", "sync"]


def test_what_is_held_does_not_start_before_it_is_released(cp: FakeCupy, device: Cuda) -> None:
    device.hold()
    start = device.mark()
    cp.launch("kernel", SECONDS)
    end = device.mark()
    assert not cp.open and cp.clock == 0.0
    with pytest.raises(AssertionError, match="still held"):
        device.sync()
    device.release()
    device.sync()
    assert device.between(start, end).wall == pytest.approx(SECONDS)


@pytest.mark.parametrize("trans", ["nn", "tt"])
def test_operands_lie_where_they_are_put(device: Cuda, trans: str) -> None:
    """Padded rows too: what is put comes back, and touches nothing between or behind the rows."""
    a, b, _ = Gemm(5, 7, 3, trans, ld_pad=2).operands()
    block = device.allocate(a.nbytes + b.nbytes + 4 * KIND.alignment)
    assert int(block.data.ptr) % KIND.alignment == 0
    block[...] = 0xA5
    view = device.view(block, KIND.alignment, a)
    x = np.arange(15, dtype=np.float32).reshape(a.shape)
    device.put(view, x)
    assert np.array_equal(device.get(view), x)
    assert int((device.cp.asnumpy(block) != 0xA5).sum()) <= x.nbytes
    assert device.cp.asnumpy(block)[: KIND.alignment].tolist() == [0xA5] * KIND.alignment


@pytest.mark.parametrize(("count", "dtype"), [(1 << 10, "fp32"), (33, "bf16")])
def test_scattered_memory_is_normal_to_its_last_element(device: Cuda, count: int, dtype: str) -> None:
    """Of two bytes, too, where their number is odd: what was there before may be no number."""
    block = device.allocate(count * BYTES[dtype])
    device.scatter(block, 3, dtype)
    values = decode(device.cp.asnumpy(block).view(STORED[dtype]))
    assert np.abs(values).max() < 10 and abs(float(values.mean())) < 0.5 and 0.6 < float(values.std()) < 1.4


def test_no_memory_is_one_line(device: Cuda, cp: FakeCupy) -> None:
    with pytest.raises(LaunchError, match=r"^out of device memory: Out of memory allocating [\d,]+ bytes$"):
        device.allocate(2 << 30)


def test_a_kernel_for_the_processor_is_not_adopted(device: Cuda) -> None:
    with pytest.raises(Unavailable, match="openblas is written for cpu, not for cuda:0"):
        device.adopt(find("gemm", "openblas"))


def test_it_says_what_it_is(device: Cuda) -> None:
    told = device.describe()
    assert (told["model"], told["vendor"], told["isa"]) == ("Fake GPU", "NVIDIA", ["sm_90"])
    assert (device.limits().cores, device.limits().caches) == (4, (1 << 20,))


def test_the_stream_is_the_current_one(device: Cuda, cp: FakeCupy) -> None:
    """What CuPy enqueues by itself goes there."""
    assert cp.stream.current


def test_what_a_call_costs_its_caller_is_told_by_the_callers_clock(cp: FakeCupy, device: Cuda) -> None:
    """Nothing is held and nothing marked; the device's own time is not asked for."""
    cp.journal.clear()
    timed = visited(device, launch(cp, False), visits(3, 2, False, on_host=True))
    assert cp.journal == ["kernel", "kernel", "sync", *["kernel"] * 3, "sync"]
    assert 0 < timed.cpu[0] < 1 and timed.wall[0] != pytest.approx(3 * SECONDS)


def test_pythons_collector_stops_no_caller_in_a_visit(cp: FakeCupy, device: Cuda) -> None:
    """It may take longer than a hold lasts."""
    seen = list[bool]()

    def look() -> None:
        seen.append(gc.isenabled())
        cp.launch("kernel", SECONDS)

    looking = Launch(look, capturable=False)
    for on_host in (False, True):
        visited(device, looking, visits(2, 1, False, on_host=on_host))
    assert seen == [True, False, False] * 2 and gc.isenabled()


def test_a_kernel_is_taken_from_nvccs_cubin_where_there_is_an_nvcc(
    cp: FakeCupy, device: Cuda, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One module of a file; without a compiler it is the text that CuPy is given."""
    made = tmp_path / "made.cubin"
    made.write_text(gemm.SOURCE.read_text())
    asked: list[tuple[Path, str]] = []

    def cubin(source: Path, arch: str) -> Path:
        asked.append((source, arch))
        return made

    monkeypatch.setattr(nvcc, "missing", lambda: None)
    monkeypatch.setattr(nvcc, "cubin", cubin)
    cp.journal.clear()
    for name in gemm.TILES:
        device.function(gemm.SOURCE, name)
    assert (asked, cp.journal) == ([(gemm.SOURCE, "sm_90")], ["module of made.cubin"])
    monkeypatch.setattr(nvcc, "missing", lambda: "no nvcc")
    Cuda(0, cp).function(gemm.SOURCE, "sgemm_naive")
    assert len(asked) == 1 and cp.journal[-1] == "module of code"


def test_what_the_compiler_refuses_is_one_line(cp: FakeCupy, device: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "missing", lambda: "no nvcc")
    with pytest.raises(BuildError, match=r"^gemm\.cu: RuntimeError: CUDA_ERROR_NOT_FOUND: named symbol not found$"):
        device.function(gemm.SOURCE, "sgemm_of_nobody")
    cp.refuses = ValueError("gemm.cu(7): error: expected a ';'\n\n1 error detected in the compilation")
    with pytest.raises(BuildError, match=r"^gemm\.cu: ValueError: gemm\.cu\(7\): error: expected a ';'$"):
        device.function(gemm.SOURCE, "sgemm_naive")


def test_a_graph_keeps_nothing_that_was_not_captured(cp: FakeCupy, device: Cuda) -> None:
    """While it is captured nothing runs; each replay runs all of it."""
    count = itertools.count(1)
    ran = []
    run = device.repeat(Launch(lambda: cp.launch("k", SECONDS, lambda: ran.append(next(count))), capturable=True), 3)
    device.sync()
    assert not ran
    run()
    run()
    device.sync()
    assert ran == [1, 2, 3, 4, 5, 6]


def test_a_launch_that_fails_leaves_no_capture_behind(cp: FakeCupy, device: Cuda) -> None:
    """The next kernel finds a stream that works."""

    def fails() -> None:
        raise LaunchError("cublasSgemm returned 14")

    with pytest.raises(LaunchError, match="returned 14"):
        device.repeat(Launch(fails, capturable=True), 2)
    cp.launch("kernel", SECONDS)
    device.sync()
    assert cp.clock == pytest.approx(SECONDS)


def test_a_capture_that_was_made_invalid_tells_its_reason(cp: FakeCupy, device: Cuda) -> None:
    """Not that it is invalid, which ending it says."""
    with pytest.raises(CUDARuntimeError, match="CaptureUnsupported"):
        device.captured(Launch(device.sync, capturable=True), 2)
    cp.launch("kernel", SECONDS)
    device.sync()
    assert cp.clock == pytest.approx(SECONDS)


def test_what_is_raised_behind_a_hold_leaves_the_stream_open(cp: FakeCupy, device: Cuda) -> None:
    def fails() -> None:
        raise LaunchError("no such thing")

    with pytest.raises(LaunchError, match="no such thing"):
        visited(device, Launch(fails), visits(1, 0, False))
    assert cp.open and cp.expired == 0
    device.sync()


def test_a_hold_that_broke_is_seen_rejected_and_halved(cp: FakeCupy, device: Cuda) -> None:
    """Of 90 kernels a launch, 40 and 20 launches are more than the queue takes; 10 are not, and are timed."""
    cp.pace, seconds = 5e-6, 2e-6
    plan = dataclasses.replace(visits(40, 2, False), which=np.zeros(4, np.int32))
    many = Launch(lambda: [cp.launch("kernel", seconds) for _ in range(90)])
    timed = visited(device, many, plan)
    assert timed.broke.tolist() == [True, True, False, False]
    assert timed.launches.tolist() == [40, 20, 10, 10] and cp.expired == 2
    assert timed.wall[0] > 1.5 * 40 * 90 * seconds
    assert timed.wall[2:] / 10 == pytest.approx([90 * seconds] * 2)


def test_one_launch_of_more_than_the_queue_is_held_no_more(cp: FakeCupy, device: Cuda) -> None:
    cp.pace = 5e-6
    plan = dataclasses.replace(visits(1, 0, False), which=np.zeros(3, np.int32))
    timed = visited(device, Launch(lambda: [cp.launch("kernel", 2e-6) for _ in range(2000)]), plan)
    assert timed.broke.tolist() == [True, True, False] and cp.expired == 2
    assert cp.journal.count("hold") == 2 and timed.launches.tolist() == [1, 1, 1]


def test_a_graph_of_many_launches_is_one_entry_of_the_queue(cp: FakeCupy, device: Cuda) -> None:
    cp.pace = 5e-6
    timed = visited(device, launch(cp, True), visits(3 * DEPTH, 2, False))
    assert not timed.broke[0] and cp.expired == 0
    assert timed.wall[0] == pytest.approx(3 * DEPTH * SECONDS)


@pytest.fixture
def host(cp: FakeCupy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """On a device with everything behind it, and without canaries."""
    monkeypatch.setattr("micro.worker.contest.canaries", lambda device: [])
    with pytest.MonkeyPatch.context() as patch:
        fake_gpu.install(patch, cp, tmp_path)
        yield Host(Cuda(0, cp), 0)


def case(variant: str, problem: Gemm | Calls = PROBLEM, cold: tuple[str, ...] = ()) -> Case:
    return Case(problem, variant, Setting(device="cuda:0", cold=cold))


def journal(host: Host, cp: FakeCupy, *cases: Case) -> list[str]:
    """Of one round without witnesses."""
    host.calibrate(host.open(cases, [True] * len(cases), 1), VISIT)
    assert host.contest is not None
    host.contest.watch.seen = frozenset()
    cp.journal.clear()
    host.run_rounds(0, 1)
    return list(cp.journal)


@kernels
def test_no_more_launches_than_a_held_stream_takes(host: Host, cp: FakeCupy, monkeypatch: pytest.MonkeyPatch) -> None:
    """However short they are."""
    monkeypatch.setattr(host.device, "kind", dataclasses.replace(KIND, queue=21))
    cp.cost = lambda name: 1e-9
    told = journal(host, cp, case("cuda-naive"), case("cupy"))  # which cannot be captured
    assert 0 < told.count("sgemm_naive") - WARM <= 21 and 0 < told.count("matmul") - WARM <= 21
    assert KIND.queue < DEPTH - 8  # the hold, two marks, and some room


@kernels
def test_a_cold_visit_flushes_and_launches_once(host: Host, cp: FakeCupy) -> None:
    """However short the launch."""
    told = journal(host, cp, case("cupy", cold=("a",)))
    assert told == [f"sweep {2 << 20}", "sync", "hold", "mark", "matmul", "mark", "sync"]


@kernels
@pytest.mark.parametrize(("rival", "captured"), [("cuda-tiled", True), ("cupy", False)])
def test_a_graph_is_used_where_all_rivals_can_be_captured(host: Host, cp: FakeCupy, rival: str, captured: bool) -> None:
    """Else one would be spared what a launch costs, and the other not."""
    told = journal(host, cp, case("cuda-naive"), case(rival))
    graphs = [word for word in told if word.startswith("graph of")]
    assert len(graphs) == (2 if captured else 0)
    assert len({len(graphs), told.count("upload")}) == 1


@kernels
def test_a_problem_of_the_host_is_neither_held_nor_marked(host: Host, cp: FakeCupy) -> None:
    told = journal(host, cp, case("cupy-kernel", Calls("empty", 4)))
    assert set(told) == {"launch_empty", "sync"}


@kernels
@pytest.mark.parametrize(("slow", "medians"), [(0, 3), (2 * MEDIAN, 5)])
def test_the_ramp_ends_when_three_medians_agree(
    host: Host, cp: FakeCupy, monkeypatch: pytest.MonkeyPatch, slow: int, medians: int
) -> None:
    """The clock of a cold GPU rises: `slow` launches, each 2 % shorter than the last."""
    shares = itertools.chain((1.02 ** (slow - i) for i in range(slow)), itertools.repeat(1.0))
    cp.cost = lambda name: SECONDS * next(shares)
    host.prepare(case("cuda-naive"))
    cp.journal.clear()
    calibrated: list[str] = []
    monkeypatch.setattr(contest, "calibrated", lambda *given: calibrated.extend(cp.journal) or SECONDS)
    host.open([case("cuda-naive")], [True], 1)
    assert calibrated.count("hold") == medians * MEDIAN + EMPTY  # then what two marks alone take
