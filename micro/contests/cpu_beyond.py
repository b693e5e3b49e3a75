"""Contests of micro/cpu.py on oversubscription, nested thread pools, and clocks after wide vectors."""

from __future__ import annotations

from dataclasses import replace

from kernels.devices.cpu import cores, instruction_sets
from kernels.errors import UsageError
from kernels.ops.fma.fastest import peak_of
from kernels.ops.fma.problem import BEFORE, CHAINS
from kernels.ops.gemm.problem import Gemm
from micro.contests.cpu import contest, named_sets, named_threads, narrowed, peak, works
from micro.planning.benchmark import Request
from micro.planning.contest import Contest

TIMES = (1, 2, 4)  # threads a core
LIBRARIES = {"gemm": ("torch",), "activation": ("torch",), "softmax": ("torch",), "conv": ("torch",)}
PRODUCT = Gemm(1024, 1024, 1024)


def oversubscribe(asked: Request) -> list[Contest]:
    """Compare as many threads as cores with more, in OpenMP's and PyTorch's pools, and nested pools."""
    counts = named_threads(asked) or tuple(cores() * times for times in TIMES)
    if max(counts) <= cores():
        raise UsageError(f"--threads {max(counts)}: --oversubscribe takes more than the {cores()} cores that are here")
    contests = [] if narrowed(asked) or not works(asked) else nested(asked)
    for work in works(asked):
        if work.variant == "c" and work.problem.op == "stream":  # its team has a core for each
            continue
        names = asked.variants if "variant" in asked.given else (work.variant, *LIBRARIES.get(work.problem.op, ()))
        for name in names:
            settings = [
                replace(asked.settings[0], threads=many) for many in sorted({cores(), *counts}) if many >= cores()
            ]
            cases = [asked.case(work.problem, name, setting) for setting in settings]
            title = f"{work.title}: what do more threads than cores cost?"
            contests.append(contest("oversubscribed", title, "threads", cases))
    return contests


def nested(asked: Request) -> list[Contest]:
    """Compare OpenBLAS's threads with caller threads of one or of many library threads each.

    OpenBLAS has one pool: callers with many threads take turns in it."""
    many = cores()
    ways = (("openblas", many), (f"nested:{many}x1", many), (f"nested:{many}x{many}", many * many))
    cases = [asked.case(PRODUCT, name, replace(asked.settings[0], threads=count)) for name, count in ways]
    if many == 1:
        return []
    return [
        Contest(f"nested/{PRODUCT.name}", "whose threads: a library's, its caller's, or both's?", "pools", tuple(cases))
    ]


def clock(asked: Request) -> list[Contest]:
    """Compare 128-bit work just after a millisecond of multiply-adds of each instruction set."""
    light = replace(peak_of("sse"), chains=CHAINS)
    if not works(asked):
        return []
    for option, named in (("threads", named_threads(asked)), ("isa", named_sets(asked))):
        if named:
            raise UsageError(f"--{option} {named[0]}: --clock is of one core, after each set; leave one of the two out")
    cases = tuple(peak(asked, replace(light, after=name)) for name in BEFORE if name in instruction_sets())
    return [Contest("clock/sse", "does a wide set slow what follows?", "what ran before", cases)] if cases else []
