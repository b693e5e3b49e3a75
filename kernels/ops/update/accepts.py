"""Conditions on a step that several rows of the tables share, and their descriptions of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kernels.ops.update.problem import Update
from kernels.problem import Work

Accepts: TypeAlias = Callable[[Update], str | None]

# Rules that one product cannot apply: its result overwrites the gradient.
NOT_FUSED = {
    "nesterov": "it needs the gradient twice, as it is and in the velocity: take a separate form",
    "clip": "each element of the gradient is clipped before it is used: take a separate form",
    "norm": "all of the gradient is summed before any of it is used: take a separate form",
}


def parts(*names: str, also: Accepts | None = None) -> Accepts:
    """Return the condition that `problem.part` is one of `names`, and that `also` holds."""

    def accepts(problem: Update) -> str | None:
        if problem.part not in names:
            return f"it does another part of the step: --part {names[0]}"
        return also(problem) if also else None

    return accepts


def fusable(problem: Update) -> str | None:
    """Return why one product cannot make the whole step, or None."""
    return NOT_FUSED.get(problem.rule)


def rules(*names: str) -> Accepts:
    """Return the condition that the rule is one of `names`."""
    return lambda problem: None if problem.rule in names else f"written for {', '.join(names)}: --rule {names[0]}"


def called(separate: bool) -> Callable[[Update], str]:
    """Return a description of the column-major BLAS calls."""

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
    """Return the work of the fused form; with a velocity a pass reads it and changes the weights."""
    if problem.part == "step" and problem.velocity:
        return Work(problem.flops, problem.bytes + 4.0 * problem.count)
    return Work(problem.flops, problem.bytes)


def separate_work(gradients: int) -> Callable[[Update], Work]:
    """Return the work of separate forms: each gradient is written by its product and read by the pass."""

    def work(problem: Update) -> Work:
        return Work(problem.flops, problem.bytes + 8.0 * gradients * problem.count)

    return work
