"""Rows of transfers and of chains of loads on device "cuda": to the host and back, and each way alone."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kernels.catalog import find
from kernels.devices.cuda import Cuda
from kernels.libs import cuda, pycuda
from kernels.ops.chase import Chase
from kernels.ops.exchange import Exchange
from kernels.ops.transfer import gpu
from kernels.ops.transfer.problem import HUNDRED, Transfer
from kernels.problem import Problem
from kernels.setting import Setting
from kernels.variant import Variant
from tests.gpu.conftest import REAL
from tests.gpu.rows import rows, tried

SIZES = [(4,), (4108,), (1200, HUNDRED), (0, "resnet-56")]
TRANSFERS = [Transfer(*size, clock=clock) for clock in ("device", "caller") for size in SIZES]
ROWS = rows("transfer", TRANSFERS)


HANDED = [
    Exchange("load", 32, 1027, 2),
    Exchange("shuffle", 1, 17, 2),
    Exchange("add-shared", 31, 17, 2),
    Exchange("add-global", 1500, 17, 2),
]
CHASES = rows("chase", [Chase(1024), Chase(64 * 20011)])


@pytest.mark.parametrize(("row", "problems"), [*ROWS, *CHASES, *rows("exchange", HANDED)])
def test_transfers(device: Cuda, row: Variant[Any], problems: list[Problem]) -> None:
    tried(device, row, problems)


WAYS = [(kind, way) for kind in gpu.KINDS for way in gpu.WAYS]


@pytest.mark.parametrize(("kind", "way"), WAYS)
def test_what_is_timed_moves_what_it_says(device: Cuda, kind: str, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host's memory is of ones at first; what is not written keeps what it had."""
    if reason := (pycuda.missing() if kind == "pycuda" else cuda.missing()) if REAL else None:
        pytest.skip(reason)
    hosts = list[gpu.Host]()

    class Kept(gpu.Host):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            hosts.append(self)

    monkeypatch.setattr(gpu, "Host", Kept)
    problem = Transfer(0, "resnet-56")
    views = [device.view(device.allocate(x.nbytes), 0, x) for x in problem.operands()]
    for view, byte in zip(views, (2, 3), strict=True):
        device.put(view, np.full(problem.size, byte, np.uint8).view(np.float32).reshape(view.shape))
    gpu.alone(kind, way, problem, device, None)(views).call()
    device.sync()
    x, y = (set(np.asarray(device.get(view)).reshape(-1).view(np.uint8).tolist()) for view in views)
    assert x == {2} and y == ({3} if way == "d2h" else {1})
    blocks = [set(ctypes.string_at(host.place, problem.size)) for host in hosts]
    assert blocks == {"h2d": [{1}], "d2h": [{2}], "both": [{1}, {2}]}[way]


@pytest.mark.skipif(REAL, reason="a GPU tells nobody what it was given")
@pytest.mark.parametrize(("row", "problems"), ROWS)
def test_what_is_timed_is_one_way(device: Cuda, row: Variant[Any], problems: list[Transfer]) -> None:
    """A copy for each buffer, two of both ways, and no more is enqueued than is told."""
    for problem in problems:
        parts = row.parts(problem)
        buffers = [device.view(device.allocate(x.nbytes), 0, x) for x in problem.operands()]
        for part, uses in parts or ((row, 1),):
            assert uses == 1
            launch = part.prepare(problem, device, Setting(device=device.name))(buffers)
            device.sync()
            device.cp.journal.clear()
            with contextlib.nullcontext() if problem.on_host else held(device):
                launch.call()
                told = [x for x in device.cp.journal if x not in ("sync", "hold")]
                assert ("sync" in device.cp.journal) == problem.on_host
            device.sync()
            copies = [x for x in told if x in ("memcpy", "copyto")]
            ways = 2 if row.name.startswith("both") else int(row.name != "products")
            assert len(copies) == ways * len(problem.lengths)
            assert told.count("library") == (gpu.count(problem) if "products" in row.name else 0)
            assert len(told) <= launch.kernels


@contextlib.contextmanager
def held(device: Cuda) -> Iterator[None]:
    """In which a copy that waits for its stream, as of memory that is not locked, is an error."""
    device.hold()
    try:
        yield
    finally:
        device.release()


@pytest.mark.slow
@pytest.mark.skipif(REAL, reason="the runtime tells nobody what it has locked")
@pytest.mark.parametrize("kind", [kind for kind in gpu.KINDS if kind != "pageable"])
def test_memory_of_the_host_is_given_back(device: Cuda, kind: str) -> None:
    gc.collect()
    before = dict(device.cp.host_blocks)
    problem = Transfer(4096)
    buffers = [device.view(device.allocate(x.nbytes), 0, x) for x in problem.operands()]
    launch = gpu.alone(kind, "both", problem, device, None)(buffers)
    assert len(device.cp.host_blocks) == len(before) + 2
    launch.call()
    device.sync()
    del launch
    gc.collect()
    assert device.cp.host_blocks == before


def test_a_copy_from_memory_that_is_not_locked_is_its_callers_time(device: Cuda) -> None:
    """It waits for its stream, which may not be held then."""
    row = find("transfer", "h2d-pageable")
    assert "--clock caller" in str(row.accepts(Transfer(64)))
    assert row.accepts(Transfer(64, clock="caller")) is None
    assert "--clock device" in str(find("transfer", "d2d").accepts(Transfer(64, clock="caller")))
    if REAL:
        return
    views = [device.view(device.allocate(x.nbytes), 0, x) for x in Transfer(64).operands()]
    launch = gpu.alone("pageable", "h2d", Transfer(64), device, None)(views)
    with held(device), pytest.raises(AssertionError, match="still held"):
        launch.call()
    device.sync()


def test_nothing_is_sent_back_within_a_process() -> None:
    row = find("transfer", "h2d-pinned")
    assert "--back after" in str(row.accepts(Transfer(64, back="along")))
    assert "--waits once" in str(row.accepts(Transfer(64, waits="each")))
    assert "--buffers one" in str(find("transfer", "d2d-cupy").accepts(Transfer(400, HUNDRED)))
