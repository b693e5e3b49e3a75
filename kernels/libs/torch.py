"""PyTorch's CPU products; its MKL is linked in statically, so it is reached through Python only."""

from __future__ import annotations

import importlib.util
from typing import Any

from kernels.errors import Unavailable


def missing() -> str | None:
    """Why torch is not here, told without importing it."""
    found = importlib.util.find_spec("torch")
    return None if found else "torch is not installed: pip install torch (README: the CPU build)"


def load() -> Any:
    """The module. Raises Unavailable where it is there in part only."""
    try:
        import torch

        torch.mm, torch.from_numpy  # noqa: B018  (a folder left behind by pip is a module without either)
    except Exception as error:  # whatever a broken installation raises
        told = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        raise Unavailable(
            f"torch is installed but cannot be used ({told}): pip install --force-reinstall torch"
        ) from None
    return torch


def kernel() -> tuple[str | None, str | None]:
    """Version, and the instruction set where torch tells it: its MKL does not."""
    return f"torch {load().__version__}, MKL inside", None
