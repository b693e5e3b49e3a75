"""The hold of a stream: what is enqueued behind it waits for the release, and a hold that broke is seen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kernels.catalog import find
from kernels.devices.cuda import Cuda
from kernels.launch import Launch
from kernels.ops.launch import Calls
from kernels.setting import Setting
from micro.worker import guards

DEPTH = 2000  # launches: more than the queue of a stream takes


@pytest.fixture
def empty(device: Cuda) -> Iterator[Launch]:
    """A launch of the empty kernel, which was launched once: a first launch may load it."""
    row, problem = find("launch", "cupy-kernel"), Calls("empty", 1)
    bench = guards.Bench(device, problem)
    launch = row.prepare(problem, device, Setting(device=device.name))(bench.views)
    launch.call()
    device.sync()
    yield launch
    device.release()
    device.sync()


def test_what_is_held_has_not_begun(device: Cuda) -> None:
    """An event behind the holding kernel has not passed until that lets go."""
    device.sync()
    device.hold()
    mark = device.mark()
    assert not mark.done
    device.release()
    device.sync()
    assert mark.done


def test_a_held_stream_takes_all_launches_of_a_visit(device: Cuda, empty: Launch) -> None:
    """Were its queue too short, the caller would have waited until the holding kernel lost its patience."""
    device.hold()
    mark = device.mark()
    for _ in range(device.kind.queue):
        empty.call()
    assert not mark.done


def test_a_graph_is_one_entry_of_the_queue(device: Cuda, empty: Launch) -> None:
    """However many launches it has."""
    replay = device.captured(empty, DEPTH)
    device.hold()
    mark = device.mark()
    replay()
    assert not mark.done


def test_a_hold_that_broke_is_seen(device: Cuda, empty: Launch) -> None:
    """Its caller waits at a full queue and cannot release: the holding kernel loses its patience."""
    device.hold()
    mark = device.mark()
    for _ in range(DEPTH):
        empty.call()
    assert device.passed(mark)


def test_time_runs_from_the_release(device: Cuda) -> None:
    """What is enqueued while the stream is held lies between the marks without a gap."""
    device.hold()
    marks = [device.mark() for _ in range(3)]
    device.release()
    device.sync()
    gaps = [device.between(marks[i], marks[i + 1]).wall for i in range(2)]
    assert all(0 <= gap < 1e-3 for gap in gaps)
