"""The command `python -m micro.ceiling`, for real and short."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kernels import ceilings
from micro import ceiling
from micro._plan import Budget
from reports import store
from tests.conftest import Ran


def test_every_ceiling_is_measured_kept_and_told(
    capsys: pytest.CaptureFixture[str], own_state: Path, in_process: Callable[..., Ran],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(ceiling, "BUDGET", Budget(seconds=1.0, target=0.5))
    ran = in_process(capsys, ceiling.main, ["-q", "-o", str(tmp_path / "run.jsonl")])
    assert ran.code in (0, 1), ran.err  # 1: a rate that a moment of noise made too high is refused
    results = [x for x in store.read(tmp_path / "run.jsonl").results if x.role == "measured"]
    assert {x.op for x in results} == {"fma", "stream"}
    assert not [x.name for x in results if x.status in ("failed", "skipped")]
    kept = ceilings.load()
    assert kept is not None and "sse" in kept.flops and set(kept.bandwidth) == {"read", "copy", "triad"}
    assert ran.out.startswith("multiply-adds: sse ") and "\nread: " in ran.out
