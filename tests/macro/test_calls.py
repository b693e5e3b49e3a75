"""What a framework's libraries log of a step: of PyTorch where it is, of an adapter that says what it likes."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from kernels.ops.gemm.problem import Gemm
from macro import _calls, _job
from macro._job import Setting
from macro._steps import Entry, Plan, begin
from macro.frameworks import Framework, find
from macro.networks.base import Network, dense
from tests.macro import adapters

NET = Network("tiny", "a test", 32, dense(24, 40, 16, 8), rate=0.1)
PLAN = Plan(NET, 32, "step", 1.0, 1)
LINE = (
    "MKL_VERBOSE SGEMM(T,N,40,32,24,0x1,0x2,24,0x3,24,0x4,0x5,40) 1.00us CNR:OFF Dyn:0 FastMM:1 TID:0  NThr:1"
)
TALKS = f"""
import os

plain_identity, plain_build = identity, build


def identity(job):
    return dict(plain_identity(job), blas="MKL")


def build(job):
    model = plain_build(job)
    plain_step = model.step

    def step():
        plain_step()
        {{fault}}
        if os.environ.get("MKL_VERBOSE"):
            print("{LINE}")  # in a buffer, until it ends

    model.step = step
    return model
"""


def logged(framework: Framework, folder: Path) -> list[Gemm]:
    files, entry = _job.write_arrays(NET, 32, folder), Entry(framework, Setting())
    with ExitStack() as stack:
        begin(PLAN, entry, entry.setting, files, folder, stack)
    return _calls.logged(PLAN, entry, files, folder)


def test_each_product_of_a_step_of_pytorch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    if not torch.backends.mkl.is_available():
        pytest.skip("a torch without MKL")
    found = set(logged(find("pytorch"), tmp_path))
    assert found >= {
        Gemm(32, 40, 24, "nt"), Gemm(32, 16, 40, "nt"), Gemm(32, 8, 16, "nt"),  # forward
        Gemm(32, 16, 8), Gemm(32, 40, 16),  # dgrad, but of the input
        Gemm(40, 24, 32, "tn"), Gemm(16, 40, 32, "tn"), Gemm(8, 16, 32, "tn"),  # wgrad
    }  # fmt: skip


def test_what_a_library_still_holds_as_it_ends_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    plugin = adapters.write(tmp_path, "talks", TALKS.replace("{fault}", "pass"))
    assert logged(plugin, tmp_path) == [Gemm(32, 40, 24, "nt")]


def test_one_that_fails_while_it_talks_logs_nothing(tmp_path: Path) -> None:
    fault = 'os.environ.get("MKL_VERBOSE") and os._exit(3)'
    plugin = adapters.write(tmp_path, "talks", TALKS.replace("{fault}", fault))
    assert logged(plugin, tmp_path) == []


def test_a_framework_of_other_libraries_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_calls, "Process", None)  # starting one would fail
    assert logged(find("numpy"), tmp_path) == []
