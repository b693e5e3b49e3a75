"""Contests of micro/elementwise.py over images: pooling and normalization."""

from __future__ import annotations

from dataclasses import replace

from kernels.ops.norm.problem import Norm
from kernels.ops.pooling.problem import Pooling
from micro.contests.elementwise import along, here, variants
from micro.planning.benchmark import Request
from micro.planning.contest import Contest

# Pooling (C16, E1)

POOLED = (Pooling(16, 96, 55), Pooling(16, 96, 55, 3), Pooling(16, 64, 14))


def relu_place(asked: Request) -> list[Contest]:
    """Return contests of ReLU after max-pooling against ReLU before it, with equal results."""
    question = "ReLU before max-pooling, or after it?"
    pairs = {"c": ("c-relu-before", "c-relu-after"), "torch": ("torch-relu-before", "torch")}
    return [
        variants(asked, "relu-place", question, replace(x, phase=phase, relu="yes"), names, library)
        for x in POOLED
        for phase in ("step", "forward")
        for library, names in pairs.items()
    ]


def gradients(asked: Request) -> list[Contest]:
    """Return contests of max-pooling's gradient: recomputed argmax indices against stored ones."""
    question = "store the indices of the maxima, or recompute them?"
    return [variants(asked, "index", question, replace(x, phase="step"), ("c", "c-recompute")) for x in POOLED]


def layouts(asked: Request) -> list[Contest]:
    """Return contests of pooling in NHWC against NCHW."""
    question = "NCHW or NHWC?"
    both = ("nchw", "nhwc")
    return [
        along(asked, "layout", question, x, name, "layout", both)
        for x in POOLED
        for name in here(asked, Pooling.op, ("c", "torch"))
    ]


def pools(asked: Request) -> list[Contest]:
    """Return contests of average- against max-pooling, then of implementations of max-pooling."""
    both = ("max", "avg")
    ours = here(asked, Pooling.op, ("c",))[:1]
    contests = [along(asked, "pool", "maximum or average?", x, name, "pool", both) for x in POOLED for name in ours]
    names = here(asked, Pooling.op, ("c", "numpy", "torch"))
    return [*contests, *(variants(asked, "rivals", "which variant is fastest?", x, names) for x in POOLED)]


# Normalization (C13, C14)

NORMED = (Norm(16, 96, 27), Norm(16, 16, 16))
PHASES = ("forward", "step")


def batch_norm(asked: Request) -> list[Contest]:
    """Return contests of batch normalization: a call per operation against fused; implementations."""
    question = "fused, or separate operations?"
    steps = [replace(x, phase=phase) for x in NORMED for phase in PHASES]
    contests = [variants(asked, "fused", question, x, ("c", "c-ops"), "c") for x in steps]
    names = here(asked, Norm.op, ("c", "numpy", "torch"))
    return [*contests, *(variants(asked, "rivals", "which variant is fastest?", x, names) for x in NORMED)]


def statistics(asked: Request) -> list[Contest]:
    """Return contests of mean and variance in one pass, in two, and by Welford's recurrence."""
    question = "mean and variance in one pass, in two, or by Welford's recurrence?"
    return [variants(asked, "statistics", question, x, ("c", "c-two-passes", "c-welford")) for x in NORMED]


def modes(asked: Request) -> list[Contest]:
    """Return contests of batch normalization: batch statistics against running statistics."""
    question = "what does computing batch statistics cost?"
    both = ("frozen", "train")
    steps = [replace(x, phase=phase) for x in NORMED for phase in PHASES]
    names = here(asked, Norm.op, ("c", "torch"))
    contests = [along(asked, "mode", question, x, name, "mode", both) for x in steps for name in names]
    return [x for x in contests if len({case.skip is None for case in x.cases}) == 1]  # not one case alone


def local(asked: Request) -> list[Contest]:
    """Return contests of implementations of local response normalization across channels."""
    names = here(asked, Norm.op, ("c", "numpy", "torch"))
    return [variants(asked, "lrn", "which variant is fastest?", replace(x, method="lrn"), names) for x in NORMED]
