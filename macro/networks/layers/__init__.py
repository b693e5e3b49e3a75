"""Kinds of layers: the Layer classes in this folder's files, looked up by their `kind`."""

from __future__ import annotations

import importlib
from functools import cache
from pathlib import Path

from kernels.errors import choice
from macro.networks.layer import Layer
from macro.networks.layers.images import BatchNorm, LocalResponseNorm, Pool
from macro.networks.layers.plain import Activation, Add, Concat, Dropout, Flatten, Shortcut
from macro.networks.layers.products import Convolution, Dense
from macro.networks.layers.sequences import Embedding, Mean, Recurrent

__all__ = (
    "Activation",
    "Add",
    "BatchNorm",
    "Concat",
    "Convolution",
    "Dense",
    "Dropout",
    "Embedding",
    "Flatten",
    "LocalResponseNorm",
    "Mean",
    "Pool",
    "Recurrent",
    "Shortcut",
)


@cache
def _kinds() -> dict[str, type[Layer]]:
    stems = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))
    members = [x for stem in stems for x in vars(importlib.import_module(f"{__name__}.{stem}")).values()]
    return {x.kind: x for x in members if isinstance(x, type) and issubclass(x, Layer) and x is not Layer}


def find(kind: str) -> type[Layer]:
    """Return the layer class of a kind. Raises ValueError for an unknown kind."""
    if kind not in _kinds():
        raise ValueError(f"kind {kind}: {choice(kind, sorted(_kinds()))}")
    return _kinds()[kind]
