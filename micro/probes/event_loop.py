"""Our own path against the plainest way to time a product: torch.mm between two events, in a loop."""

from __future__ import annotations

from typing import Any

from kernels.libs import torch_cuda
from micro.probing.facts import Facts, need

QUESTION = "is a product timed by this suite what an event loop around torch.mm says, at 4096³?"
LIMIT = 90.0
PART = 1
RANK = 30
SIZE, BLOCKS, LAUNCHES = 4096, 15, 10


def ask() -> dict[str, Any]:
    need("cupy", "torch")
    facts = Facts()
    facts.note("before", loop())
    facts.note("ours", ours())
    facts.note("after", loop())
    answers = facts.found
    plain = (answers["before"]["median"] + answers["after"]["median"]) / 2
    for route, seconds in answers["ours"].items():
        facts.note(f"{route} over the loop", seconds / plain if isinstance(seconds, float) else None)
    return facts.found


def loop() -> dict[str, float]:
    """Seconds of a product: median, least and most of some blocks of launches between two events."""
    import torch

    torch_cuda.arithmetic(torch)()
    event: Any = torch.cuda.Event
    a, b = (torch.randn(SIZE, SIZE, device="cuda") for _ in "ab")
    c = torch.empty_like(a)
    took = []
    for _ in range(BLOCKS):
        start, end = (event(enable_timing=True) for _ in "ab")
        torch.mm(a, b, out=c)
        start.record()
        for _ in range(LAUNCHES):
            torch.mm(a, b, out=c)
        end.record()
        torch.cuda.synchronize()
        took.append(start.elapsed_time(end) * 1e-3 / LAUNCHES)
    took.sort()
    return {"median": took[len(took) // 2], "least": took[0], "most": took[-1]}


def ours() -> dict[str, float | str | None]:
    """The same product by the suite: its medians."""
    import micro

    plan = micro.plan("gemm", m=SIZE, n=SIZE, k=SIZE, variant=["torch-cuda", "cublas"], device="cuda:0", budget="4s")
    run = micro.measure(plan)
    return {x.variant: x.seconds.median if x.seconds else x.reason for x in run.results if x.role == "measured"}
