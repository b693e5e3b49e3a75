"""A device called cuda:0: a real GPU where there is one, else the fake CuPy with all that lies behind it."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from typing import Any

import pytest

from kernels.devices.cuda import Cuda, open_device
from kernels.libs import cuda
from kernels.variant import Variant
from tests.simulated import fake_gpu, launcher
from tests.simulated.fake_cupy import FakeCupy

REAL = cuda.missing() is None


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cuda]:
    """Of a module's tests; what the fake put in the place of other things is taken back after them."""
    if REAL:
        yield open_device("0")
        return
    if reason := launcher.missing():
        pytest.skip(reason)
    with pytest.MonkeyPatch.context() as patch:
        fake = FakeCupy()
        fake_gpu.install(patch, fake, tmp_path_factory.mktemp("cubins"))
        yield Cuda(0, fake)


def missing(row: Variant[Any]) -> str | None:
    """Why a row cannot be tried here. The fake has all but what computes: PyTorch, and Numba's simulator."""
    if REAL:
        return row.missing()
    if row.provider == "torch" and importlib.util.find_spec("torch") is None:
        return "no torch: pip install torch"
    if row.provider == "numba" and not _simulating():
        return "tried in Numba's simulator, in a process of its own"
    return None


def _simulating() -> bool:
    """Whether Numba was imported as its simulator, which is chosen before."""
    return os.environ.get("NUMBA_ENABLE_CUDASIM") == "1" and importlib.util.find_spec("numba") is not None
