"""The cuda device's order of steps, on a runtime that is not there. What only a GPU can tell is not told here."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kernels.devices.base import ALIGNMENT
from kernels.devices.cuda import Cuda
from kernels.errors import LaunchError, Unavailable
from kernels.ops.gemm.problem import Gemm
from kernels.variant import Launch, find
from micro import _loop
from tests.simulated.fake_cupy import FakeCupy

SECONDS = 3e-6


@pytest.fixture
def cp() -> FakeCupy:
    return FakeCupy()


@pytest.fixture
def device(cp: FakeCupy) -> Cuda:
    return Cuda(0, cp)


def launch(cp: FakeCupy, capturable: bool) -> Launch:
    return Launch(lambda: cp.launch("kernel", SECONDS), capturable=capturable)


def visits(launches: int, warm: int, cold: bool) -> _loop.Visits:
    return _loop.Visits(np.zeros(1, np.int32), [], [launches], [warm], [cold], [0])


@pytest.mark.parametrize("capturable", [False, True])
def test_a_visit_in_the_order_of_nvbench(cp: FakeCupy, device: Cuda, capturable: bool) -> None:
    """Warm up, wait, hold, mark, enqueue, mark, release, wait: the launches stand ready behind the mark."""
    cp.journal.clear()
    timed = _loop.stepwise(device, [[launch(cp, capturable)]], visits(launches=5, warm=2, cold=False))
    ready = ["kernel"] * 5 + ["upload"] if capturable else []
    run = ["graph of 5"] if capturable else ["kernel"] * 5
    assert cp.journal == ["kernel", "kernel", "sync", *ready, "hold", "mark", *run, "mark", "sync"]
    assert timed.wall[0] == pytest.approx(5 * SECONDS)
    assert math.isnan(timed.cpu[0])  # a GPU has no processor time


def test_a_cold_visit_writes_twice_the_second_level_cache(cp: FakeCupy, device: Cuda) -> None:
    cp.journal.clear()
    _loop.stepwise(device, [[launch(cp, False)]], visits(launches=1, warm=0, cold=True))
    assert cp.journal[:2] == [f"memset {2 << 20}", "sync"]


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
    block = device.allocate(a.nbytes + b.nbytes + 4 * ALIGNMENT)
    assert int(block.data.ptr) % ALIGNMENT == 0
    block[...] = 0xA5
    view = device.view(block, ALIGNMENT, a)
    x = np.arange(15, dtype=np.float32).reshape(a.shape)
    device.put(view, x)
    assert np.array_equal(device.get(view), x)
    assert int((np.asarray(block) != 0xA5).sum()) <= x.nbytes
    assert np.asarray(block)[:ALIGNMENT].tolist() == [0xA5] * ALIGNMENT


def test_scattered_memory_is_normal_and_repeats(device: Cuda) -> None:
    block = device.allocate(4 << 10)
    device.scatter(block, seed=3)
    values = np.asarray(block).view(np.float32)
    assert abs(float(values.mean())) < 0.2 and 0.8 < float(values.std()) < 1.2


def test_no_memory_is_one_line(device: Cuda, cp: FakeCupy) -> None:
    with pytest.raises(LaunchError, match=r"^out of device memory: Out of memory allocating [\d,]+ bytes$"):
        device.allocate(2 << 30)


def test_a_kernel_for_the_processor_is_not_adopted(device: Cuda) -> None:
    with pytest.raises(Unavailable, match="openblas is a kernel for cpu, not for cuda:0"):
        device.adopt(find("gemm", "openblas"))


def test_it_says_what_it_is(device: Cuda) -> None:
    told = device.describe()
    assert (told["model"], told["vendor"], told["isa"]) == ("Fake GPU", "NVIDIA", ["sm_90"])
    assert (device.limits().cores, device.limits().caches) == (4, (1 << 20,))
