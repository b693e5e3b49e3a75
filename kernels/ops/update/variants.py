"""Weight updates on a CPU: fused and separate forms by each library, and their parts alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from kernels.libs.openblas import OPENBLAS
from kernels.libs.torch import TORCH
from kernels.ops.gemm.variants import LIBRARIES
from kernels.ops.update import libraries, native
from kernels.ops.update.problem import Update
from kernels.problem import Work
from kernels.provider import SUITE
from kernels.variant import DEFAULT, Variant, row

Accepts: TypeAlias = Callable[[Update], str | None]

# Why a fused product, which keeps no gradient, cannot apply a rule.
NOT_FUSED = {
    "nesterov": "uses the gradient twice, directly and in the velocity: use a separate variant",
    "clip": "each gradient element must be clipped before the update: use a separate variant",
    "norm": "the norm needs the complete gradient first: use a separate variant",
}


def parts(*names: str, also: Accepts | None = None) -> Accepts:
    """Return a condition: `problem.part` is one of `names`, and `also`, if given, accepts the problem."""

    def accepts(problem: Update) -> str | None:
        if problem.part not in names:
            return f"does not compute this part of the step: --part {names[0]}"
        return also(problem) if also else None

    return accepts


def fusable(problem: Update) -> str | None:
    """Return why a fused product cannot apply the problem's rule, or None if it can."""
    return NOT_FUSED.get(problem.rule)


def rules(*names: str) -> Accepts:
    """Return a condition: the problem's rule is one of `names`."""
    return lambda problem: None if problem.rule in names else f"supports only {', '.join(names)}: --rule {names[0]}"


def called(separate: bool) -> Callable[[Update], str]:
    """Return a function that describes the column-major BLAS calls of the fused or separate form."""

    def blas(problem: Update) -> str:
        beta = "beta=0" if separate or problem.part == "wgrad" else "beta=1"
        if not separate and problem.velocity:
            beta = "beta=mu into V"
        elif not separate and problem.rule == "decay":
            beta = "beta=1-lr*decay"
        product = f"sgemm(N,T) m={problem.n} n={problem.m} k={problem.k} {beta}"
        twice = "2 x " if problem.products == 2 else ""
        after = "" if problem.part == "wgrad" else ", then a pass" if separate or problem.velocity else ""
        return f"TN = {twice}{product}{after}"

    return blas


def fused_work(problem: Update) -> Work:
    """Return the work of the fused form; with a velocity, a second pass reads V to update W."""
    if problem.part == "step" and problem.velocity:
        return Work(problem.flops, problem.bytes + 4.0 * problem.count)
    return Work(problem.flops, problem.bytes)


def separate_work(gradients: int) -> Callable[[Update], Work]:
    """Return a `work` function of separate forms, which write and read `gradients` gradient buffers."""

    def work(problem: Update) -> Work:
        return Work(problem.flops, problem.bytes + 8.0 * gradients * problem.count)

    return work


def _library(name: str, fused: tuple[str, ...], separate: tuple[str, ...]) -> tuple[Variant[Update], ...]:
    """Return the rows of a library: fused, separate, with two buffers, and the product alone.

    `fused` and `separate` are the roles of the first two rows.
    """
    provider, load = LIBRARIES[name]
    fuse, apart = native.library(load, "update_fused"), called(separate=True)
    once, twice = (native.library(load, "update_separate", buffers) for buffers in (1, 2))
    step, tied, gradient = parts("step"), parts("step", also=rules("tied")), native.library(load, "update_gradient")
    fusing = {"accepts": parts("step", also=fusable), "blas": called(separate=False), "work": fused_work}
    return (
        row(provider, f"fused:{name}", fuse, **fusing, roles=fused),
        row(provider, f"separate:{name}", once, accepts=step, blas=apart, work=separate_work(1), roles=separate),
        row(provider, f"two-buffers:{name}", twice, accepts=tied, blas=apart, work=separate_work(2), roles=()),
        row(provider, f"gradient:{name}", gradient, accepts=parts("wgrad"), blas=apart, roles=()),
    )


def _torch(name: str, step: libraries.Step, *of: str, **more: Any) -> Variant[Update]:
    return row(TORCH, f"{name}:torch", libraries.cpu(step), accepts=parts(*of, also=more.pop("also", None)), **more)


def _numpy(name: str, step: libraries.Step) -> Variant[Update]:
    return row(
        OPENBLAS,
        name,
        libraries.on_arrays(step),
        accepts=parts("step", also=rules("sgd")),
        python=True,
        work=separate_work(2),
        roles=("ways",),
    )


PASSES = ("sgd", "decay", "momentum", "unit", "nesterov", "clip", "tied")
EVERY = (DEFAULT, "ways")
VARIANTS: tuple[Variant[Update], ...] = (
    *_library("openblas", fused=EVERY, separate=EVERY),
    *_library("openblas-scipy", fused=("all",), separate=()),
    *_library("mkl", fused=EVERY, separate=(DEFAULT,)),
    _torch("fused", libraries.fused, "step", also=fusable, work=fused_work, roles=EVERY),
    _torch("separate", libraries.separate, "step", also=rules(*PASSES), work=separate_work(1), roles=EVERY),
    _torch("gradient", libraries.gradient, "wgrad", roles=()),
    _numpy("separate:numpy", libraries.numpy_separate),
    _numpy("temporaries:numpy", libraries.temporaries),
    row(SUITE, "c", native.c_pass, accepts=parts("update", "clear", "scale"), roles=("passes",)),
)
