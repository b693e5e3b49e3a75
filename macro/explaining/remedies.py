"""Remedies for a difference: changes to a script or its start, and the commands that measure them.

A remedy of a certain difference is to be tried; that of a large one that may be chance, to be checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from macro.explaining.advice import KEEP
from macro.explaining.certain import LEAST
from macro.explaining.gap import Gap, mean, named_bars
from macro.timing.entry import Entry, Plan
from macro.watching.watch import Side
from reports.explanation import Bar, Cell
from reports.units import seconds

MEMSET = "__memset"  # the C library's


@dataclass(frozen=True)
class Remedy:
    """A change that may reduce a difference."""

    name: str
    cause: str  # the column whose difference it is for
    applies: Callable[[Cell, str, Entry], bool]  # to a cell, on the side that has more of it
    type: str  # what a user types, or writes
    command: str  # that measures it, formatted with net, framework and step


REMEDIES = (
    Remedy(
        "keep freed memory",
        "OS memory",
        lambda cell, side, entry: entry.setting.heap == "default",
        f"start the program with {KEEP}, or give each step the same buffers",
        "python -m macro whatif {step} heap-keep",
    ),
    Remedy(
        "MKL's vendor check",
        "gemm",
        lambda cell, side, entry: (cell.seen[side] or "").startswith("mkl_blas_def"),
        "echo 'int mkl_serv_intel_cpu_true(void) { return 1; }' | gcc -shared -fPIC -xc - -o intel.so, then start the "
        "program with LD_PRELOAD=$PWD/intel.so; other kernels, other roundings",
        "python -m macro whatif {step} mkl-dispatch",
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
        "optimizer",
        lambda cell, side, entry: entry.division == "default" and _torch(cell, side, entry),
        "take the fused optimizer, which there is of all rules but RMSprop's: torch.optim.*(…, fused=True)",
        "python -m micro.optimizer --together",
    ),
    Remedy(
        "products that do not clear first",
        "clear",
        lambda cell, side, entry: (
            entry.framework.name.startswith("numpy") and (cell.seen[side] or "").startswith(MEMSET)
        ),
        "np.dot(a, b, out=c) fills c with zeros, and OpenBLAS does so again before it adds the product: "
        "np.matmul(a, b, out=c) saves one of the two",
        "python -m micro.gemm --net {net} --variant numpy",
    ),
    Remedy(
        "gradients not set to zero",
        "clear",
        lambda cell, side, entry: _torch(cell, side, entry),
        "let gradients be made anew: optimizer.zero_grad(set_to_none=True); torch.empty, where all is written anyway",
        "python -m macro run {net} --frameworks {framework}",
    ),
    Remedy(
        "parameters given back in place",
        "copy",
        lambda cell, side, entry: "parameter copy" in cell.members and entry.setting.knobs.get("donated") is False,
        "let the step take over its parameters' memory: jax.jit(step, donate_argnums=0)",
        "python -m macro run {net} --frameworks {framework} --heap default,keep",
    ),
    Remedy(
        "fewer calls",
        "dispatch",
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
        "spin",
        lambda cell, side, entry: entry.setting.threads > 1,
        "take fewer threads: OMP_NUM_THREADS=1, torch.set_num_threads(1)",
        "python -m macro run {net} --frameworks {framework} --threads 1",
    ),
)


def _torch(cell: Cell, side: str, entry: Entry) -> bool:
    """Return whether the cell is PyTorch's, that of a user's script too."""
    return entry.framework.name.startswith("pytorch") or "torch" in (cell.seen[side] or "")


def sentences(gap: Gap, plan: Plan, sides: Sequence[Side]) -> list[str]:
    """Return remedies of certain causes, the largest saving first, then of causes that may be chance."""
    certain, doubtful = named_bars(gap, "cause"), _doubtful(gap)
    lines = [f"To try: {text}" for text in _lines(gap, certain, plan, sides)]
    return [*lines, *(f"To check, it may be chance: {text}" for text in _lines(gap, doubtful, plan, sides))]


def _doubtful(gap: Gap) -> list[Bar]:
    """Return large causes whose interval excludes 0, but not with all causes tested at once."""
    least = LEAST * max(gap.step.values())
    return [x for x in gap.bars["cause"] if x.alone and not x.sure and abs(x.gap) >= least]


def _lines(gap: Gap, bars: Sequence[Bar], plan: Plan, sides: Sequence[Side]) -> Iterator[str]:
    batch = f" --batch {plan.batch}" if plan.batch != plan.network.batch else ""
    for remedy, most, entry in sorted(_applicable(gap, bars, sides), key=lambda x: -x[1]):
        net, framework = plan.named, entry.framework.name
        command = remedy.command.format(net=net, framework=framework, step=f"{net} {framework}{batch}")
        witness = _account(sides) if remedy.cause == "OS memory" and bars and not bars[0].sure else ""
        yield (
            f"{remedy.name}: up to {seconds(most)} of a {plan.phase} of {framework}{witness}. Do: {remedy.type}. "
            f"Measure: {command}"
        )


def _account(sides: Sequence[Side]) -> str:
    """Format the operating system's own accounting of plain steps, which cross-checks its share."""
    times = [mean([x for process in side.processes for x in process.system]) for side in sides]
    parts = " against ".join(
        f"{seconds(took)} in {side.entry.framework.name}" for took, side in zip(times, sides, strict=True)
    )
    return f" (by the operating system's own account of plain steps {parts})"


def _applicable(gap: Gap, bars: Sequence[Bar], sides: Sequence[Side]) -> Iterator[tuple[Remedy, float, Entry]]:
    """Yield each remedy of these causes, the seconds that it saves at most, and its entry."""
    causes = {bar.name: bar for bar in bars}
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
