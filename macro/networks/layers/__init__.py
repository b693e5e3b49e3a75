"""Kinds of layers, one a file: LAYER is its class, the file's name the kind's."""

from __future__ import annotations

import importlib
from pathlib import Path

from kernels.errors import choice
from macro.networks.layer import Layer


def names() -> list[str]:
    """Return the names of all kinds."""
    return sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))


def find(kind: str) -> type[Layer]:
    """Return the class of a kind. Raises ValueError."""
    if kind not in names():
        raise ValueError(f"kind {kind}: {choice(kind, names())}")
    layer: type[Layer] = importlib.import_module(f"{__name__}.{kind}").LAYER
    return layer
