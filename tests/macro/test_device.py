"""Steps on a device: by its clock, beside the processor's, explained by what its profiler saw; here on the stand-in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernels.errors import Unavailable
from kernels.libs import cuda
from macro import equal, explain, run
from macro.frameworks import find, interpreter
from macro.processes import job
from macro.processes.job import Setting
from macro.running import on_device
from macro.running.on_device import NAME
from macro.timing import results
from macro.timing.entry import Entry
from macro.traces import chrome
from reports import store
from tests.conftest import Ran, load
from tests.macro.conftest import SMALL
from tests.macro.models import started

AGENT = Path(job.__file__).parents[1] / "agent"
BRIEF = ("--budget", "0.1s", "--runs", "1", "-q")


@pytest.fixture
def command(
    small: Path, capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran]
) -> Iterator[Callable[..., Ran]]:
    """`command(run, …)`: of a small network, in this process."""
    yield lambda module, *more: in_process(capsys, module.main, [str(small), *more])


def test_steps_are_told_by_the_device_s_clock(command: Callable[..., Ran], tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    told = command(run, "--frameworks", "numpy,numpy", "--device", "fake", "-o", str(path), *BRIEF)
    assert told.code == 0, told.err
    read = store.read(path)
    for result in read.results:
        assert (result.device, result.clock, result.percent_of_ceiling) == ("fake", "event", None)
        assert result.seconds is not None and result.repeat is not None
        assert "--device fake" in result.repeat and result.name.endswith("/device:fake")
        assert len(result.wall_samples) == len(result.samples)
        assert result.canary is not None and list(result.canary) == ["crc32 of 1 MiB"]
    (compared,) = read.comparisons
    assert compared.ratio is not None and not any("wall" in note for note in compared.notes)
    assert "of GPU time" in told.out and "device fake" in told.out


@pytest.mark.slow
def test_the_same_framework_is_compared_on_both(command: Callable[..., Ran], tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    told = command(run, "--frameworks", "numpy,kernels-only,cntk", "--device", "cpu,fake", "-o", str(path), *BRIEF)
    assert told.code == 0, told.err
    read = store.read(path)
    assert [(x.variant, x.device) for x in read.results] == [
        (name, device) for device in ("cpu", "fake") for name in ("numpy", "kernels-only", "cntk")
    ]
    assert all(x.status != "skipped" for x in read.results if x.variant != "cntk")
    assert (read.results[5].status, read.results[5].reason) == (
        "skipped",
        "cntk runs only on cpu in this suite, not on fake",
    )
    between, of_kernels = (x for x in read.comparisons if x.differs == "device" and x.ratio is not None)
    assert (between.baseline, between.contender) == (read.results[0].name, read.results[3].name)
    assert (of_kernels.baseline, of_kernels.contender) == (read.results[1].name, read.results[4].name)
    assert between.ratio is not None and any("ratio of wall times" in note and "GPU" in note for note in between.notes)


def test_equal_work_there(command: Callable[..., Ran]) -> None:
    told = command(equal, "--frameworks", "numpy", "--device", "fake", "-q")
    assert told.code == 0 and "numpy: equal" in told.out


def test_it_is_explained_by_what_its_profiler_saw(command: Callable[..., Ran], tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    words = ("numpy", "numpy", "--device", "fake", "-o", str(path), *BRIEF)
    told = command(explain, *words)
    assert told.code == 0, told.err
    assert told.out.count("by its profiler (overhead included):") == 2
    head, *rows = told.out[told.out.index("\nof a step ") + 1 :].splitlines()
    assert head.split()[-3:] == ["numpy", "numpy~b", "more"]
    named = {row.partition("  ")[0] for row in rows[1:] if row}
    assert {"gemm", "optimizer", "element-wise", "softmax and loss", "idle"} <= named
    traces = [chrome.read(tmp_path / f"run-{letter}.json.gz", NAME) for letter in "ab"]
    calls = [sum(x.kind == "kernel" for x in one.devices[0].work) for one in traces]
    assert calls[0] == calls[1] > 0 and calls[0] % 10 == 0
    notes = [note.data for note in store.read(path).notes if note.topic == "device"]
    assert [note["framework"] for note in notes] == ["numpy", "numpy~b"]
    assert all(note["reason"] is None and note["devices"][0]["steps"] == 10 for note in notes)
    size = path.stat().st_size
    again = command(explain, *words, "--resume")
    assert again.code == 0 and path.stat().st_size == size
    assert again.out[again.out.index("\nof a step ") :] == told.out[told.out.index("\nof a step ") :]


@pytest.mark.parametrize(
    ("framework", "timed", "says"),
    [
        ("pytorch", 2e-3, "A step took 2.00 ms under the profiler, 2.00 ms without, 1.00 times as long."),
        ("pytorch", 1e-3, "2.00 times as long: part of the idle time below is the profiler's overhead."),
        ("jax~b", 2e-3, "1.00 times as long; XLA runs no CUDA graphs while it is profiled."),
    ],
)
def test_a_traced_step_stands_beside_the_timed_one(framework: str, timed: float, says: str) -> None:
    side = {"framework": framework, "step": timed, "devices": [{"seconds": 0.02, "steps": 10}]}
    (told,) = on_device._slower(side)
    assert told.endswith(says)
    assert not list(on_device._slower({**side, "step": None})) and not list(on_device._slower({**side, "devices": []}))


def test_a_framework_without_a_profiler_says_so(own_state: Path, tmp_path: Path) -> None:
    with started("kernels-only", SMALL, tmp_path) as process:
        process.expect("hello")
        process.expect("built")
        reply = process.ask(60.0, "profiled", do="profile", phase="step", count=1, path=str(tmp_path / "trace.json.gz"))
    assert reply["reason"].startswith("its kernels are recorded only by PyTorch's profiler: ")


def test_one_that_is_stopped_says_what_it_has(
    command: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*given: Any) -> dict[str, Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr(on_device, "_traced", stopped)
    told = command(explain, "numpy", "numpy", "--device", "fake", "-o", str(tmp_path / "run.jsonl"), *BRIEF)
    assert told.code == 130 and "--resume continues" in told.err and "\nof a step " not in told.out


def test_who_is_compared_on_two_devices() -> None:
    """On each device with the first that has steps there; each with itself on the first device, of as many threads."""
    entries = [
        Entry(find(name), Setting(threads, device=device))
        for device in ("cpu", "fake")
        for threads in (1, 2)
        for name in ("mxnet", "numpy", "pytorch")
    ]
    told = [(*pair, what) for pair, what in results._pairs(entries, "framework")]
    assert [x for x in told if x[2] == "device"] == [(i, i + 6, "device") for i in (1, 2, 4, 5)]
    assert [x for x in told if x[2] == "threads"] == [(0, 3, "threads")]
    assert [x for x in told if x[2] == "framework"] == [
        (first, i, "framework") for first, i in ((0, 1), (0, 2), (3, 4), (3, 5), (7, 6), (7, 8), (10, 9), (10, 11))
    ]


class Cuda:
    """PyTorch's, as far as the clock asks: a millisecond passes between two events."""

    def __init__(self) -> None:
        self.asked, self.now = list[str](), 0.0

    def synchronize(self) -> None:
        self.asked.append("wait")

    def Event(self, enable_timing: bool) -> Any:
        assert enable_timing
        self.now += 1.0
        at, asked = self.now, self.asked
        return SimpleNamespace(record=lambda: asked.append("mark"), elapsed_time=lambda other: other.at - at, at=at)

    def max_memory_allocated(self) -> int:
        return 1 << 20


def test_a_block_of_steps_waits_before_and_behind_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As programs ask for steps; in between stand events."""
    monkeypatch.syspath_prepend(str(AGENT / "core"))
    loop, device_clocks, cuda = load(AGENT / "core/loop.py"), load(AGENT / "device_clocks.py"), Cuda()
    reply = loop.steps(lambda: cuda.asked.append("step"), 3, device_clocks.Events(SimpleNamespace(cuda=cuda)))
    assert cuda.asked == ["wait", "mark", *["step", "mark"] * 3, "wait"]
    assert reply["device_ns"] == [1_000_000] * 3 and reply["device_peak_bytes"] == 1 << 20
    assert len(reply["wall_ns"]) == 3
    waited: list[str] = []
    plain = loop.steps(lambda: waited.append("step"), 2, device_clocks.Waits(lambda: waited.append("wait"), lambda: 0))
    assert waited == ["wait", "step", "step", "wait"] and plain["device_ns"] is None


@pytest.mark.skipif(cuda.driver_here(), reason="a GPU is here")
@pytest.mark.parametrize(("name", "says"), [("pytorch", "finds no GPU"), ("jax", "JAX ")])
def test_a_build_for_processors_sees_no_gpu(name: str, says: str, tmp_path: Path) -> None:
    pytest.importorskip(name.replace("pytorch", "torch"))
    gpu = started(name, SMALL, tmp_path, Setting(device="cuda:0"))
    with gpu as process, pytest.raises(Unavailable) as told:
        process.expect("hello")
    assert says in str(told.value) and "env create" not in str(told.value)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "clock"), [("pytorch", "event"), ("jax", "wall")])
def test_other_frameworks_on_the_stand_in(name: str, clock: str, command: Callable[..., Ran], tmp_path: Path) -> None:
    if interpreter(find(name)) is None:
        pytest.skip(f"no environment for {name}: python -m macro env create {name}")
    path = tmp_path / "run.jsonl"
    told = command(run, "--frameworks", name, "--device", "fake", "-o", str(path), *BRIEF)
    (result,) = store.read(path).results
    if result.status == "skipped":
        pytest.skip(result.reason or name)
    assert told.code == 0 and result.clock == clock and result.seconds is not None
