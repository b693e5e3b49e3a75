"""Who is asked what it is before anything is timed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kernels.errors import LaunchError, Unavailable
from macro.equality import gate
from macro.frameworks import find
from macro.networks.base import chain
from macro.processes.job import Setting
from macro.timing.entry import Entry, Plan

SMALL = chain("small", "a test", 4, (8, 4), 0.1)


def test_what_differs_in_threads_alone_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[tuple[str, int]]()

    def ask(entries: Sequence[Entry], *rest: object) -> None:
        for entry in entries:
            asked.append((entry.framework.name, entry.setting.threads))
            entry.identity = {"framework": entry.framework.name}
            if entry.framework.name == "jax":
                entry.fail(Unavailable("not here"))
            if (entry.framework.name, entry.setting.threads) == ("mxnet", 1):
                entry.identity = {}
                entry.fail(LaunchError("it died"))

    monkeypatch.setattr(gate, "_ask", ask)
    monkeypatch.setattr(gate, "_proven", lambda *of: True)
    names = ("numpy", "jax", "kernels-only", "mxnet")
    rows = [(name, Setting(threads)) for threads in (1, 2) for name in names]
    entries = [Entry(find(name), setting) for name, setting in [*rows, ("numpy", Setting(2, "keep"))]]
    gate.refuse_unequal(Plan(SMALL, 4, "step", 1.0, 1), entries, tmp_path, lambda text: None)
    # Kernels-only chooses others on two threads; another heap is another program's; who died once may live on two.
    ones, twos = [(name, 1) for name in names], [("kernels-only", 2), ("numpy", 2), ("mxnet", 2)]
    assert asked == [*ones, *twos]
    assert [entry.status for entry in entries] == [
        *("ok", "skipped", "ok", "failed"),
        *("ok", "skipped", "ok", "ok"),
        "ok",
    ]
    assert entries[4].identity == {"framework": "numpy"} and entries[5].reason == "not here"
