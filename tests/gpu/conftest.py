"""A device called cuda:0: a real GPU where there is one, else the fake CuPy with all that lies behind it."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from typing import Any

import pytest

from kernels.devices.cuda import Cuda, open_device
from kernels.errors import summary
from kernels.libs import cuda
from kernels.ops.conv import cudnn_rows
from kernels.ops.gemm import fastest
from kernels.variant import Variant
from tests.simulated import fake_gpu, launcher
from tests.simulated.fake_cupy import FakeCupy

REAL = cuda.missing() is None
LOST = re.compile(  # as CuPy and Numba name them, as torch words them, as our own bindings number them
    r"cuda_?error_?(illegal_?address|launch_?fail|misaligned_?address|illegal_?instruction|hardware_?stack|"
    r"invalid_?address_?space|invalid_?pc|launch_?timeout|assert|ecc_?uncorrectable)|"
    r"illegal memory access|unspecified launch failure|misaligned address|device-side assert|"
    r"^LaunchError: cu\w+ returned 7(00|02|09|1[04-9])\b",
    re.IGNORECASE,
)


def lost(error: BaseException | None) -> bool:
    """Whether CUDA's context is: the error then sticks, and all that follows fails with the same text."""
    while error is not None:
        if LOST.search(summary(error)) and not isinstance(error, AssertionError):
            return True
        error = error.__cause__ or error.__context__
    return False


def pytest_exception_interact(node: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """Write a line for each failure as it happens, and end the run where the GPU is lost to this process."""
    assert call.excinfo is not None
    error = call.excinfo.value
    told = " ".join((f"{node.nodeid}: {summary(error)}", *getattr(error, "__notes__", ())))
    if reporter := node.config.pluginmanager.get_plugin("terminalreporter"):
        reporter.ensure_newline()
        reporter.write_line(f"FAILED {told}")
    if lost(error):
        pytest.exit(f"after {told}: the GPU's context is lost, and no later test could pass", returncode=1)


@pytest.fixture(scope="module")
def device(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cuda]:
    """Of a module's tests; what the fake put in the place of other things is taken back after them."""
    if REAL:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fastest, "WARM", 0.0)  # which offer is the best is not asked
            yield open_device("0")
        return
    if reason := launcher.missing():
        pytest.skip(reason)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cudnn_rows, "SEARCHED", 1 << 20)
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
