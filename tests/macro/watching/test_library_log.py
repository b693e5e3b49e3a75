"""What a framework's libraries log of a step: of PyTorch where it is, of an adapter that says what it likes."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from kernels.ops.gemm.problem import Gemm
from macro.frameworks import Framework, find
from macro.networks.base import chain
from macro.processes.job import Setting
from macro.timing.entry import Entry, Plan, begin
from macro.watching import library_log
from tests.simulated import frameworks

NET = chain("tiny", "a test", 32, (24, 40, 16, 8), rate=0.1)
PLAN = Plan(NET, 32, "step", 1.0, 1)


def logged(framework: Framework, folder: Path) -> list[Gemm]:
    entry = Entry(framework, Setting())
    with ExitStack() as stack:
        begin(PLAN, entry, entry.setting, folder, stack)
    return library_log.logged(PLAN, entry, folder, lambda said: None).products


@pytest.mark.slow
def test_each_product_of_a_step_of_pytorch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="no torch: pip install torch")
    if not torch.backends.mkl.is_available():
        pytest.skip("a torch without MKL")
    found = set(logged(find("pytorch"), tmp_path))
    assert found >= {
        Gemm(32, 40, 24, "nt"),
        Gemm(32, 16, 40, "nt"),
        Gemm(32, 8, 16, "nt"),  # forward
        Gemm(32, 16, 8),
        Gemm(32, 40, 16),  # dgrad, but of the input
        Gemm(40, 24, 32, "tn"),
        Gemm(16, 40, 32, "tn"),
        Gemm(8, 16, 32, "tn"),  # wgrad
    }


def test_what_a_library_still_holds_as_it_ends_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    plugin = frameworks.write(tmp_path, "talks", frameworks.TALKS.replace("{fault}", "pass"))
    assert logged(plugin, tmp_path) == [Gemm(32, 40, 24, "nt")]


def test_one_that_fails_while_it_talks_logs_nothing(tmp_path: Path) -> None:
    fault = f'os.environ.get("MKL_VERBOSE") and (print("{frameworks.LINE}", flush=True), os._exit(3))'
    plugin = frameworks.write(tmp_path, "talks", frameworks.TALKS.replace("{fault}", fault))
    assert logged(plugin, tmp_path) == []


def test_a_framework_of_other_libraries_is_not_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_log, "Process", None)  # starting one would fail
    assert logged(find("numpy"), tmp_path) == []
