"""A worker's host on this processor, and a check that does not wait for late answers."""

from __future__ import annotations

import ctypes

import pytest

from kernels.devices import open_device
from micro.worker import check
from micro.worker.host import Host


@pytest.fixture
def host() -> Host:
    return Host(open_device("cpu"), ctypes.addressof(ctypes.c_int32(-1)))


@pytest.fixture
def no_late_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for none: nothing answers late here, and waiting is most of the time a test takes."""
    monkeypatch.setattr(check, "LATE", 0.0)
