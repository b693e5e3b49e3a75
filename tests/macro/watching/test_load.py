"""Who had the cores: the arithmetic, and the processor time of processes."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from macro.watching import load
from macro.watching.load import Load


@pytest.mark.parametrize(
    ("blocks", "share"),
    [
        ([], None),
        ([Load(0.0, 0.0, 0.0)], 0.0),
        ([Load(0.1, 0.0, 0.2)], 0.0),  # others had a core of their own
        ([Load(0.1, 0.1, 0.0)], 0.0),  # queued behind its own threads or children
        ([Load(0.1, 0.1, -0.01)], 0.0),
        ([Load(0.1, 0.1, 0.2)], 0.5),
        ([Load(0.1, 0.1, 0.05)], 0.25),
        ([Load(0.1, 0.1, 0.2), Load(0.2, 0.0, 0.0)], 0.25),
    ],
)
def test_others_take_what_threads_were_queued_for(blocks: list[Load], share: float | None) -> None:
    assert load.taken(blocks) == (share if share is None else pytest.approx(share))


def test_time_of_descendants_is_not_that_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    times, children = {1: 5.0, 2: 2.0, 3: 1.0}, {1: [2], 2: [3], 3: list[int]()}
    monkeypatch.setattr(os, "getpid", lambda: 1)
    monkeypatch.setattr(load, "processor_time", times.__getitem__)
    monkeypatch.setattr(load, "children", children.__getitem__)
    monkeypatch.setattr(load.Counters, "now", lambda: load.Counters(busy=30.0, allowed=10.0))
    assert load.others() == 2.0


def test_a_process_that_has_ended_has_no_time() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        assert process.pid in load.children(os.getpid())
        process.communicate(b"\n")
    assert load.processor_time(process.pid) == 0.0
    assert load.processor_time(os.getpid()) > 0.0
