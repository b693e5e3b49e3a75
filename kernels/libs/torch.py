"""PyTorch's CPU products; its MKL is linked in statically, so it is reached through Python only."""

from __future__ import annotations

import importlib.util


def missing() -> str | None:
    """Why torch is not here, told without importing it."""
    found = importlib.util.find_spec("torch")
    return None if found else "torch is not installed: pip install torch (README: the CPU build)"


def kernel() -> tuple[str | None, str | None]:
    """Version, and the instruction set where torch tells it: its MKL does not."""
    from importlib.metadata import version

    return f"torch {version('torch')}, MKL inside", None
