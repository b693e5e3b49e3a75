"""What several test files share: a state folder of their own, the command line in this process."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest

from tests.builds import share


@dataclass(frozen=True)
class Ran:
    """What a command left: its exit code and its two streams."""

    code: object
    out: str
    err: str


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Why tests were skipped: a line a reason with its count; `-rs` names the tests."""
    reasons = Counter(reason(report) for report in terminalreporter.stats.get("skipped", ()))
    for text, count in reasons.most_common():
        terminalreporter.write_line(f"{count} skipped: {text}")


def reason(report: pytest.TestReport) -> str:
    """Why a test was skipped, in one line."""
    place = report.longrepr
    text = str(place[2] if isinstance(place, tuple | list) else place)  # file, line, reason
    return re.sub(r"\s+", " ", text.removeprefix("Skipped: "))


def load(path: Path) -> ModuleType:
    """A Python file that is in no package, as a module."""
    spec = importlib.util.spec_from_file_location(f"{path.parent.name}_{path.stem}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def unsteered(patch: pytest.MonkeyPatch) -> None:
    """Remove the width of a terminal and the variables that steer a library."""
    from kernels.steering import STEERING

    patch.delenv("COLUMNS", raising=False)
    for name in [name for name in os.environ if name.startswith(STEERING)]:
        patch.delenv(name)


@pytest.fixture(autouse=True)
def _gradients() -> None:
    """As a process begins: PyTorch's kernels of this suite, in tests before, switch them off."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_grad_enabled(True)


@pytest.fixture
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A state folder that nobody else reads or writes, but for its builds."""
    from kernels import state

    monkeypatch.setenv(state.VARIABLE, str(share(tmp_path / "state")))
    state.folder.cache_clear()
    yield tmp_path / "state"
    state.folder.cache_clear()


@pytest.fixture
def light_fake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the fake device small caches, and look at its contests from the first rounds on: its time is its own."""
    from kernels.devices.base import Limits
    from kernels.devices.fake import Fake

    monkeypatch.setattr(
        Fake, "limits", lambda self: Limits(memory=8 << 30, cores=2, caches=(32 << 10, 1 << 20, 2 << 20))
    )
    monkeypatch.setattr("reports.stats.PATIENCE", 0.0)


@pytest.fixture
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four cores, so that lines of two threads are understood on a machine of one."""
    monkeypatch.setattr("kernels.devices.cpu.cores", lambda: 4)


@pytest.fixture
def in_process() -> Iterator[Callable[..., Ran]]:
    """`in_process(capsys, main, argv)`: what a command leaves that runs in this process."""
    before = signal.getsignal(signal.SIGTERM)

    def run(captured: pytest.CaptureFixture[str], main: Callable[..., int], *given: object) -> Ran:
        code: object
        try:
            code = main(*given)
        except SystemExit as end:
            code = end.code
        told = captured.readouterr()
        return Ran(code, told.out, told.err)

    yield run
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], own_state: Path, light_fake: None, in_process: Callable[..., Ran]
) -> Callable[..., Ran]:
    """`command("gemm", "--m", "8")`: the command `python -m micro.gemm --m 8`, in this process."""
    from micro.command.line import main

    return lambda name, *argv: in_process(capsys, main, importlib.import_module(f"micro.{name}").BENCHMARK, name, argv)


@pytest.fixture
def gemm(command: Callable[..., Ran]) -> Callable[..., Ran]:
    """`gemm("--m", "8")`: the command `python -m micro.gemm --m 8`, in this process."""
    return partial(command, "gemm")
