"""Whole steps of a network on a GPU, or of the stand-in: NumPy's answer, a clock and a profiler that see them."""

from __future__ import annotations

from pathlib import Path

import pytest

from macro.equality.proof import prove
from macro.frameworks import find
from macro.processes import job
from macro.processes.job import Setting
from macro.processes.process import Process
from macro.running.on_device import NAME
from macro.traces import chrome
from tests.gpu.conftest import REAL
from tests.macro.equality.odd_networks import NET

TIMED = ("pytorch", "pytorch-compile") if REAL else ("numpy",)  # by the device's own clock, and by kernel
NAMES = ("jax", "kernels-only", *TIMED) if REAL else TIMED  # what never ran first: a visit may end before the last

SETTING = Setting(device="cuda:0" if REAL else "fake")


@pytest.mark.parametrize("name", NAMES)
def test_its_clock_and_its_profiler_see_the_steps(name: str, tmp_path: Path) -> None:
    files = job.write_arrays(NET, NET.batch, tmp_path)
    written = job.write(find(name), NET, NET.batch, SETTING, files, tmp_path)
    trace = tmp_path / "trace.json.gz"
    with Process(find(name), written, SETTING, tmp_path / "log") as process:
        hello = process.expect("hello")
        process.expect("built")
        reply = process.ask(60.0, "steps", do="steps", phase="step", count=5)
        profiled = process.ask(60.0, "profiled", do="profile", phase="step", count=3, path=str(trace))
    if name in TIMED:
        assert len(reply["device_ns"]) == 5 and min(reply["device_ns"]) > 0
        assert sum(reply["device_ns"]) <= 1.01 * sum(reply["wall_ns"])  # nothing but the steps is between its marks
    assert profiled["reason"] is None
    read = chrome.read(trace, NAME)
    assert len(read.steps) == 1 and len(read.devices) == 1
    start, end = read.steps[0]
    kernels = [x for x in read.devices[0].work if x.kind == "kernel" and start <= x.start <= end]
    assert len(kernels) % 3 == 0 and len(kernels) >= 3 * (len(NET.nodes) if name in TIMED else 1)  # XLA fuses
    if REAL and name in TIMED:
        assert hello["tf32"] == {"matmul": False, "cudnn": False}


@pytest.mark.parametrize("name", NAMES)
def test_equal_work(name: str, own_state: Path, tmp_path: Path) -> None:
    (verdict,) = prove(NET, NET.batch, [(find(name), SETTING)], tmp_path, lambda text: None)
    if not verdict.compared:
        pytest.skip(f"{name}: {verdict.why}")
    assert verdict.equal, verdict.why
