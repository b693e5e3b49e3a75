"""What a failure on a GPU says at once, and which one ends the run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kernels.errors import LaunchError
from tests.gpu.conftest import lost
from tests.processes import python

TESTS = """
import pytest

class CUDARuntimeError(RuntimeError):
    pass

def fails(text):
    error = CUDARuntimeError(text)
    error.add_note("cublas at gemm/m:3")
    raise error

def test_first():
    fails("cudaErrorInvalidValue: invalid argument")

def test_second():
    fails("cudaErrorIllegalAddress: an illegal memory access was encountered")

def test_third():
    pass
"""


def test_a_lost_context_ends_the_run_with_the_name_of_the_test(tmp_path: Path) -> None:
    """Any other failure is a line, and the next test runs."""
    (tmp_path / "conftest.py").write_text("from tests.gpu.conftest import pytest_exception_interact")
    (tmp_path / "test_some.py").write_text(TESTS)
    words = ("pytest", "-v", "--tb=line", "-p", "no:cacheprovider", "-p", "no:xdist", "-c", os.devnull)
    done = python("-m", *words, "--rootdir", str(tmp_path), str(tmp_path), timeout=600)
    first = "FAILED test_some.py::test_first: CUDARuntimeError: cudaErrorInvalidValue: invalid argument cublas at"
    assert first in done.stdout, done.stdout + done.stderr
    ended = "after test_some.py::test_second: CUDARuntimeError: cudaErrorIllegalAddress: an illegal memory access"
    assert f"Exit: {ended}" in done.stdout
    assert "test_third" not in done.stdout and "2 failed" in done.stdout
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("error", "sticks"),
    [
        (RuntimeError("cudaErrorLaunchFailure: unspecified launch failure"), True),
        (RuntimeError("CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered"), True),
        (RuntimeError("[716] Call to cuMemcpyDtoH results in CUDA_ERROR_MISALIGNED_ADDRESS"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be"), True),
        (RuntimeError("CUDA error: device-side assert triggered"), True),
        (LaunchError("cuLaunchKernel returned 700"), True),
        (LaunchError("cuEventRecord returned 719"), True),
        (RuntimeError("cudaErrorInvalidValue: invalid argument"), False),
        (RuntimeError("cudaErrorStreamCaptureInvalidated: operation failed due to a previous error"), False),
        (RuntimeError("CUDA_ERROR_OUT_OF_MEMORY: out of memory"), False),
        (LaunchError("cuLaunchKernel returned 701"), False),
        (LaunchError("cublasSgemm returned 14: CUBLAS_STATUS_INTERNAL_ERROR"), False),
        (AssertionError("cudaErrorIllegalAddress is in a text that differs"), False),
    ],
)
def test_which_errors_stick(error: Exception, sticks: bool) -> None:
    """Also where another exception came of it."""
    assert lost(error) == sticks
    try:
        try:
            raise error
        except Exception:
            raise KeyError("no event") from None
    except KeyError as other:
        assert lost(other) == sticks
