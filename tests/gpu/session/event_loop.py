"""A product as the suite times it against the plainest way to time it: torch.mm between two events, in a loop.

    python -m tests.gpu.session.event_loop

prints a line of JSON: seconds of a product by the loop, before and after, and by the suite, and their ratios.
"""

from __future__ import annotations

import json
from typing import Any

import micro
from kernels.libs import torch_cuda

SIZE, BLOCKS, LAUNCHES = 4096, 15, 10


def main() -> None:
    """Print the comparison, or why there is none."""
    if reason := torch_cuda.missing():
        print(reason)
        return
    before, suite, after = loop(), medians(), loop()
    plain = (before["median"] + after["median"]) / 2
    ratios = {f"{route} over the loop": x / plain for route, x in suite.items() if isinstance(x, float)}
    print(json.dumps({"before": before, "suite": suite, "after": after, **ratios}))


def loop() -> dict[str, float]:
    """Return seconds of a product: median, least and most of some blocks of launches between two events."""
    import torch

    torch_cuda.arithmetic(torch)()
    event: Any = torch.cuda.Event
    a, b = (torch.randn(SIZE, SIZE, device="cuda") for _ in "ab")
    c = torch.empty_like(a)
    seconds = []
    for _ in range(BLOCKS):
        start, end = (event(enable_timing=True) for _ in "ab")
        torch.mm(a, b, out=c)
        start.record()
        for _ in range(LAUNCHES):
            torch.mm(a, b, out=c)
        end.record()
        torch.cuda.synchronize()
        seconds.append(start.elapsed_time(end) * 1e-3 / LAUNCHES)
    seconds.sort()
    return {"median": seconds[len(seconds) // 2], "least": seconds[0], "most": seconds[-1]}


def medians() -> dict[str, float | str | None]:
    """Return the suite's median seconds of the same product by each route, or why there is none."""
    plan = micro.plan("gemm", m=SIZE, n=SIZE, k=SIZE, variant=["torch-cuda", "cublas"], device="cuda:0", budget="4s")
    run = micro.measure(plan)
    return {x.variant: x.seconds.median if x.seconds else x.reason for x in run.results if x.role == "measured"}


if __name__ == "__main__":
    main()
