"""Rows of networks that branch, kinds of work by layer, and builders of layer kinds in own files."""

from __future__ import annotations

import glob
import importlib
import os
from typing import Any

PRODUCTS = ("dense", "conv")  # kinds with separate products dgrad and wgrad
WORK_KINDS = {
    "conv": "convolution",
    "pool": "pooling",
    "norm": "normalization",
    "lrn": "normalization",
    "embedding": "embedding",
    "recurrent": "recurrent cell",
}  # kinds of layers all of whose work is of one kind


def work_kinds(layers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return {layer: kind of work} for the layers in WORK_KINDS, whose work is all of one kind."""
    return {spec["name"]: WORK_KINDS[spec["kind"]] for spec in layers if spec["kind"] in WORK_KINDS}


def work_kind(served: list[str], layers: list[dict[str, Any]]) -> str | None:
    """Return the kind of work of rows of a recurrent layer or an embedding, whose products have no column of their own.

    None for rows of other layers, of several, and of updates.
    """
    owners = {spec["name"]: spec["kind"] for spec in layers if spec["kind"] in ("recurrent", "embedding")}
    ends = (" forward", " gradient")
    kinds = {owners.get(row.rpartition(" ")[0], "") if row.endswith(ends) else "" for row in served}
    return WORK_KINDS.get(kinds.pop()) if len(kinds) == 1 else None


def in_order(layers: list[dict[str, Any]]) -> bool:
    """Return whether the order of operations determines their layers: all dense, and none of a sequence."""
    return all(spec["kind"] == "dense" and len(spec["in"][0]) == 1 for spec in layers)


def forks(layers: list[dict[str, Any]]) -> set[str]:
    """Return the layers whose output several layers use, so that its gradients are summed."""
    taken = [name for spec in layers for name in spec["after"]]
    return {name for name in taken if taken.count(name) > 1 and name != "input"}


def joined(spec: dict[str, Any], layers: list[dict[str, Any]]) -> str | None:
    """Return the row of the gradient sum that a layer's gradient enters; None if none or several."""
    rows = [f"{name} gradient sum" for name in sorted(set(spec["after"]) & forks(layers))]
    return rows[0] if len(rows) == 1 else None


def builders(framework: str) -> dict[str, Any]:
    """Return {kind: BUILDER} of files such as numpy_kind_group_norm.py (kind group_norm, for NumPy)."""
    by_kind, begin = {}, framework + "_kind_"
    for path in sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), begin + "*.py"))):
        stem = os.path.splitext(os.path.basename(path))[0]
        by_kind[stem[len(begin) :]] = importlib.import_module(stem).BUILDER
    return by_kind
