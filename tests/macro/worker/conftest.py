"""What looks into a PyTorch program, as a script's process has it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[3] / "macro/worker"
NAMES = ("recorder", "names", "torch_recompute", "torch_watch")


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module of that name; others find what lies beside it."""
    torch = pytest.importorskip("torch", reason="no torch: pip install torch")
    torch.set_num_threads(1)  # its pool's threads would spin in tests of what a process takes
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setenv("KINETO_LOG_LEVEL", "6")
    with torch.enable_grad():  # kernels of this suite, in other tests of this process, switch gradients off
        yield importlib.import_module("torch_watch")
    for name in NAMES:
        sys.modules.pop(name, None)
