"""What rows a network's graph has beside those of chains, and the builders of kinds that have a file of their own.

Standard library alone, and Python 3.6.
"""

import glob
import importlib
import os

PRODUCTS = ("dense", "conv")  # kinds whose gradients are products of their own
WORK_KINDS = {
    "conv": "convolution",
    "pool": "pooling",
    "norm": "normalization",
    "lrn": "normalization",
}  # the kind of work that all of a layer's is


def work_kinds(layers):
    """That, by layer, of those that have one."""
    return dict((spec["name"], WORK_KINDS[spec["kind"]]) for spec in layers if spec["kind"] in WORK_KINDS)


def forks(layers):
    """The layers whose output several take: their gradients are added."""
    taken = [name for spec in layers for name in spec["after"]]
    return set(name for name in taken if taken.count(name) > 1 and name != "input")


def joined(spec, layers):
    """The row of a sum of gradients that is made behind a layer's own; None where none is, or one of several."""
    rows = ["%s gradient sum" % name for name in sorted(set(spec["after"]) & forks(layers))]
    return rows[0] if len(rows) == 1 else None


def builders(framework):
    """Of kinds in files beside this one, `numpy_kind_group_norm.py` for the kind `group_norm` in NumPy: its BUILDER."""
    by_kind, begin = {}, framework + "_kind_"
    for path in sorted(glob.glob(os.path.join(os.path.dirname(os.path.abspath(__file__)), begin + "*.py"))):
        stem = os.path.splitext(os.path.basename(path))[0]
        by_kind[stem[len(begin) :]] = importlib.import_module(stem).BUILDER
    return by_kind
