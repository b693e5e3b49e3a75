"""Who is asked what it is before anything is timed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from kernels.errors import Unavailable
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

    monkeypatch.setattr(gate, "_ask", ask)
    monkeypatch.setattr(gate, "_proven", lambda *of: True)
    rows = [("numpy", Setting(1)), ("jax", Setting(1)), ("numpy", Setting(2)), ("jax", Setting(2))]
    entries = [Entry(find(name), setting) for name, setting in [*rows, ("numpy", Setting(2, "keep"))]]
    gate.refuse_unequal(Plan(SMALL, 4, "step", 1.0, 1), entries, tmp_path, lambda text: None)
    assert asked == [("numpy", 1), ("jax", 1), ("numpy", 2)]  # another heap is another program's
    assert [entry.status for entry in entries] == ["ok", "skipped", "ok", "skipped", "ok"]
    assert entries[2].identity == {"framework": "numpy"} and entries[3].reason == "not here"
