"""Spans that the script opens while ours are told, and profilers of its own."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest


@pytest.fixture
def spans(watch: ModuleType, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[bool]]:
    """What starts and stops, and what was told of other profilers."""
    import torch

    kind, told = torch.autograd.profiler.profile, list[bool]()
    monkeypatch.setattr(kind, "_start_trace", kind._start_trace)
    return watch.Spans(torch, lambda: told.append(True)), told


def test_a_span_that_is_open_when_the_profiler_stops_ends_there(spans: tuple[Any, list[bool]]) -> None:
    import torch

    ours, told = spans
    kind = torch.autograd.profiler.record_function
    ways = kind.__enter__, kind.__exit__
    for _ in range(3):
        ours.start(False)
        long: Any = kind("epoch")
        long.__enter__()
        torch.ones(3)
        ours.stop()
        seen = ours.events()
        at = seen["columns"]["name"].index(seen["names"].index("epoch"))
        assert seen["columns"]["end"][at] > seen["columns"]["start"][at]
        ours.start(False)
        long.__exit__(None, None, None)  # wrote into the memory of the first
        with kind("short"):
            torch.ones(3)
        ours.stop()
        assert {"short", "aten::ones"} <= set(ours.events()["names"])
    assert (kind.__enter__, kind.__exit__) == ways and not told and not ours.open and not ours.cut


def test_another_profiler_is_told_of(spans: tuple[Any, list[bool]]) -> None:
    import torch

    ours, told = spans
    ours.start(False)
    ours.stop()
    assert not told
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        torch.ones(3)
    assert told == [True]
