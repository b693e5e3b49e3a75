"""A device on the fake CuPy, and a machine on which everything seems to be here."""

from __future__ import annotations

from pathlib import Path

import pytest

from kernels.devices.cuda import Cuda
from kernels.libs import cuda
from micro.probing import clock, facts
from tests.simulated import fake_gpu, launcher
from tests.simulated.fake_cupy import FakeCupy


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Every package and a GPU, warm already."""
    monkeypatch.setattr(cuda, "missing", lambda: None)
    monkeypatch.setattr(facts, "present", lambda name: True)
    monkeypatch.setattr(clock, "warm", lambda cp: None)
    return monkeypatch


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cuda:
    if reason := launcher.missing():
        pytest.skip(reason)
    fake = FakeCupy()
    fake_gpu.install(monkeypatch, fake, tmp_path)
    return Cuda(0, fake)
