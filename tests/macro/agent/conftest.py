"""What looks into a PyTorch program, as a script's process has it."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).parents[3] / "macro/agent"
CORE = FOLDER / "core"


@pytest.fixture
def beside(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The agent's modules find each other as they do where loop.py runs."""
    monkeypatch.syspath_prepend(str(CORE))
    monkeypatch.syspath_prepend(str(FOLDER))
    yield
    for path in FOLDER.rglob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.fixture
def with_torch(beside: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """PyTorch too, with gradients."""
    torch = pytest.importorskip("torch", reason="no torch: pip install torch")
    monkeypatch.setenv("KINETO_LOG_LEVEL", "6")
    with torch.enable_grad():
        yield


@pytest.fixture
def watch(with_torch: None) -> ModuleType:
    """The module `torch_watch`."""
    import torch

    torch.set_num_threads(1)  # its pool's threads would spin in tests of what a process takes
    return importlib.import_module("torch_watch")


@pytest.fixture
def boundary(with_torch: None) -> ModuleType:
    """The module `boundary`."""
    return importlib.import_module("boundary")
