"""Calls without an interpreter: a compiled C loop calls the kernel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from kernels import build
from kernels.launch import Bind, Launch
from kernels.libs.cblas import Blas
from kernels.native import launch, structure
from kernels.ops.launch.problem import Calls
from kernels.problem import Array

SOURCE = Path(__file__).with_name("launch.c")
Product = structure("pointer: a b c function", "int64: chain")  # C struct `product` of launch.c
Nothing = structure("pointer: x function", "int64: chain")  # C struct `nothing` of launch.c


def kernel(problem: Calls) -> int:
    """Return the address of the C function for the problem's kernel."""
    return build.address(SOURCE, f"launch_{problem.kernel}")


def _bind(entry: str, function: int, problem: Calls) -> Bind:
    called = build.address(SOURCE, entry)
    kind = Product if problem.kernel == "gemm" else Nothing
    names = [operand.name for operand in problem.operands()]

    def bind(buffers: Sequence[Array]) -> Launch:
        argument = kind(function=function, chain=problem.chain)
        return launch(called, argument, names, buffers, uses=problem.chain)  # the time is per call

    return bind


def from_c(problem: Calls, device: object, setting: object) -> Bind:
    """Prepare `chain` calls of our C function through a pointer."""
    return _bind(f"call_{problem.kernel}", kernel(problem), problem)


def library(load: Callable[[], Blas]) -> Callable[[Calls, object, object], Bind]:
    """Return a `prepare` of `chain` calls of a library's cblas_sgemm."""

    def prepare(problem: Calls, device: object, setting: object) -> Bind:
        blas = load()
        return _bind(f"call_cblas{64 if blas.wide else 32}", blas.sgemm, problem)

    return prepare


def nothing(problem: Calls, device: object, setting: object) -> Bind:
    """Prepare the empty harness, to measure its overhead per launch."""
    return _bind("call_nothing", 0, problem)
