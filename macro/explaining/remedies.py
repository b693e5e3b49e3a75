"""What a user can do about a certain difference: in his own script or its start, and the command that measures it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kernels.heap import POLICIES
from macro.explaining.gap import Gap, named_bars
from macro.timing.turns import Entry, Plan
from macro.watching.watch import Side
from reports.explanation import Cell
from reports.units import seconds

KEEP = " ".join(f"{name}={value}" for name, value in POLICIES["keep"].items())


@dataclass(frozen=True)
class Remedy:
    """`cause`: the column whose certain difference it is for; `applies`: to which of its cells, on the side that has
    more of them; `type`: what a user types, or writes; `command`: what measures it, with the network and framework."""

    name: str
    cause: str
    applies: Callable[[Cell, str, Entry], bool]
    type: str
    command: str


REMEDIES = (
    Remedy(
        "keep freed memory",
        "OS memory",
        lambda cell, side, entry: entry.setting.heap == "default",
        f"start the program with {KEEP}, or give each step the same buffers",
        "python -m macro explain {net} {framework} {framework} --heap default,keep",
    ),
    Remedy(
        "MKL's vendor check",
        "gemm",
        lambda cell, side, entry: (cell.seen[side] or "").startswith("mkl_blas_def"),
        "echo 'int mkl_serv_intel_cpu_true(void) { return 1; }' | gcc -shared -fPIC -xc - -o intel.so, then start the "
        "program with LD_PRELOAD=$PWD/intel.so; other kernels, other roundings",
        "LD_PRELOAD=$PWD/intel.so python -m macro run {net} --frameworks {framework}",
    ),
    Remedy(
        "weights stored as they are read",
        "gemm",
        lambda cell, side, entry: cell.how.get("a") != cell.how.get("b"),
        "keep W inputs × outputs where the other side does (x @ W for F.linear(x, W)), or the other way round",
        "python -m micro.gemm --net {net}",
    ),
    Remedy(
        "one pass for the update",
        "update",
        lambda cell, side, entry: entry.division == "default",
        "take the fused optimizer: torch.optim.SGD(…, fused=True)",
        "python -m micro.optimizer --together",
    ),
    Remedy(
        "parameters given back in place",
        "copy",
        lambda cell, side, entry: "parameter copy" in cell.members,
        "let the step take over its parameters' memory: jax.jit(step, donate_argnums=0)",
        "python -m macro run {net} --frameworks {framework} --division default,tuned",
    ),
    Remedy(
        "fewer calls",
        "framework",
        lambda cell, side, entry: True,
        "compile the step (torch.compile, jax.jit), or take a larger batch",
        "python -m micro.launch --ladder",
    ),
    Remedy(
        "fewer calls from Python",
        "interpreter",
        lambda cell, side, entry: True,
        "compile the step (torch.compile, jax.jit), or take a larger batch",
        "python -m micro.launch --ladder",
    ),
    Remedy(
        "threads",
        "barrier and spin",
        lambda cell, side, entry: entry.setting.threads > 1,
        "take fewer threads: OMP_NUM_THREADS=1, torch.set_num_threads(1)",
        "python -m macro run {net} --frameworks {framework} --threads 1",
    ),
)


def sentences(gap: Gap, plan: Plan, sides: Sequence[Side]) -> list[str]:
    """One for each remedy of a cause that is certain, the one that may bring most first."""
    ranked = sorted(_found(gap, sides), key=lambda one: -one[1])
    return [
        f"To try: {remedy.name}: up to {seconds(most)} of a {plan.phase} of {entry.framework.name}. Do: {remedy.type}. "
        f"Measure: {remedy.command.format(net=plan.named, framework=entry.framework.name)}"
        for remedy, most, entry in ranked
    ]


def _found(gap: Gap, sides: Sequence[Side]) -> Iterator[tuple[Remedy, float, Entry]]:
    """Remedies, how many seconds they may bring at most, and what they are for."""
    causes = {bar.name: bar for bar in named_bars(gap, "cause")}
    for remedy in REMEDIES:
        if (bar := causes.get(remedy.cause)) is None:
            continue
        side = "a" if bar.gap > 0 else "b"
        entry = sides["ab".index(side)].entry
        sign = 1 if bar.gap > 0 else -1
        cells = [cell for cell in gap.cells if cell.column == remedy.cause and sign * cell.gap > 0]
        most = sum(abs(cell.gap) for cell in cells if remedy.applies(cell, side, entry))
        if most > 0:
            yield remedy, most, entry
