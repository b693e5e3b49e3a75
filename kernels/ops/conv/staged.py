"""Calls that are several stages: transforms of the inputs, products, the inverse transform of the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kernels.launch import Bind
from kernels.ops.conv.problem import Conv
from kernels.problem import Work


@dataclass(frozen=True)
class Staged:
    """A prepared call, and each of its stages `alone`, by name and in order: on what the whole call before left in the
    memory that all share."""

    bind: Bind
    alone: Mapping[str, Bind]


def letters(problem: Conv) -> list[str]:
    """The last ones of the operands' names, which say what they hold in all passes: x, w, y."""
    return [x.name[-1] for x in problem.operands()]


def by_letter(problem: Conv, addresses: Sequence[int]) -> dict[str, int]:
    """Those of the operands, by these letters."""
    return dict(zip(letters(problem), addresses, strict=True))


def total(stages: Mapping[str, Work], kept: bool) -> float:
    """FLOPs of a whole call, the filter's transform in it or not."""
    return sum(work.flops for name, work in stages.items() if not (kept and name == "transform w"))


def in_order(problem: Conv, transforms: Mapping[str, Work], products: Work) -> dict[str, Work]:
    """By stage, from what the transform of each operand executes, by its letter."""
    *inputs, output = letters(problem)
    return {
        **{f"transform {name}": transforms[name] for name in inputs},
        "products": products,
        f"inverse {output}": transforms[output],
    }
