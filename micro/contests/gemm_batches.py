"""Contests of micro/gemm.py --batches: equally many samples through a layer, by batch size.

One batch is reused, so that its rows stay in cache, as the inputs of a layer just computed do."""

from __future__ import annotations

from dataclasses import replace

from kernels.errors import UsageError
from kernels.ops.gemm.problem import Gemm
from micro.planning.benchmark import Request
from micro.planning.contest import Contest

SAMPLES = 4096
BATCHES = (4096, 2048, 1024, 256, 64, 16)
LAYER = Gemm(SAMPLES, 1024, 1024)
LIBRARIES = ("openblas", "mkl")  # whose products a launch can call again and again
DIFFERS = "work: differs (the batch; each case does as many products as make up as many samples)"


def batches(asked: Request) -> list[Contest]:
    """Compare all samples at once with parts of them one after another. Raises UsageError.

    All samples are SAMPLES, or the largest requested M."""
    if asked.device.undivided:
        return []
    named = sorted(asked.axes["m"], reverse=True) if "m" in asked.given else BATCHES
    layer = replace(LAYER, m=named[0], **{x: asked.axes[x][0] for x in ("n", "k", "trans") if x in asked.given})
    if len(named) == 1:
        raise UsageError(f"--m {named[0]}: --batches sets several against the largest; name two or more")
    if odd := [m for m in named if named[0] % m]:
        raise UsageError(f"--m {odd[0]}: --batches takes parts of {named[0]}, which it divides")
    names = asked.variants if "variant" in asked.given else LIBRARIES
    contests = []
    for name in names:
        counts = [(m, named[0] // m) for m in named]
        cases = tuple(asked.case(replace(layer, m=m), f"{name}*{count}" if count > 1 else name) for m, count in counts)
        question = f"what do {named[0]} samples cost in smaller batches?"
        contests.append(Contest(f"batches/n:{layer.n}/k:{layer.k}/variant:{name}", question, DIFFERS, cases))
    return contests
