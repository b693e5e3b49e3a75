"""CUPTI beside torch: its kernels, and the same ones by torch's own profiler in another process."""

from __future__ import annotations

from typing import Any

from kernels.libs import cupti
from micro.probing import processes, tracing
from micro.probing.facts import Facts, need, package

QUESTION = "Does a CUPTI client in the process see torch's kernels, the same that torch.profiler sees?"
LIMIT = 100.0
PART = 3
RANK = 130


def ask() -> dict[str, Any]:
    need("cupti", "torch")
    facts = Facts()
    facts.ask("tracing", cupti.start)
    torch = package("torch")

    from micro.probing import programs

    work, wait = programs.torch_work()
    facts.ask("kernels", lambda: tracing.traced(work, wait))
    facts.ask("libraries", lambda: cupti.mapped("^lib(cu|nv|nccl)"))
    x = torch.ones(32, device="cuda")
    facts.ask("overhead", lambda: tracing.overhead(lambda: x.add_(1.0), wait, 10_000))
    facts.ask("torch.profiler", lambda: processes.inside("torch-profiler", seconds=60.0))
    return facts.found
