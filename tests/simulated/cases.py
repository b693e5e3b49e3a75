"""Which kernels there are, the odd shapes at which each is tried, and how far it is from float64."""

from __future__ import annotations

import functools
import json
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernels.dtypes import UNIT_ROUNDOFF
from kernels.nvcc import Geometry
from kernels.ops.activation import gpu as activation
from kernels.ops.biasact import variants as biasact
from kernels.ops.cast import variants as cast
from kernels.ops.chase import variants as chase
from kernels.ops.conv import columns, frames, implicit, winograd_cuda
from kernels.ops.dropout import variants as dropout
from kernels.ops.exchange import variants as exchange
from kernels.ops.fma import variants as fma
from kernels.ops.gemm import gpu as gemm
from kernels.ops.launch import gpu as launch
from kernels.ops.mma import variants as mma
from kernels.ops.norm import gpu as norm
from kernels.ops.optimizer import variants as optimizer
from kernels.ops.pooling import variants as pooling
from kernels.ops.softmax import gpu as softmax
from kernels.ops.spmm import variants as spmm
from kernels.ops.stream import variants as stream
from kernels.ops.transpose import variants as transpose
from kernels.problem import Problem
from micro.planning.contest import parse
from tests.simulated import launcher, parts

HOW: tuple[dict[str, Any], ...] = ({"align": 16}, {"align": 4, "backward": True})
ARCHS = ("sm_80", "sm_90", "sm_100")
ALONE = "sm_90a"  # of kernels that are for no other
PRUNED = (parts.Pruned(1, 1, 1, 1.0), parts.Pruned(33, 17, 65, 0.1), parts.Pruned(9, 300, 40, 0.05))  # empty rows
# By kernel: of one element or tile, of fewer than a block or a round takes, of more; extents that divide nothing.
PROBLEMS: dict[str, list[str]] = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))


@dataclass(frozen=True)
class Kernel:
    """A kernel of a .cu file with the three problems of its row in docs/cuda-kernels.md."""

    name: str
    source: Path
    launches: Callable[[Any, str], Sequence[Geometry]]
    problems: tuple[Problem, ...]


def _alone(launches: Callable[..., Sequence[Geometry]]) -> Callable[..., Sequence[Geometry]]:
    """Return the launches on one multiprocessor."""
    return functools.partial(launches, processors=1)


# Names of kernels, their file, what launches them.
TABLES: tuple[tuple[Iterable[str], Path, Callable[..., Sequence[Geometry]]], ...] = (
    (gemm.TILES, gemm.SOURCE, gemm.launches),
    (transpose.KERNELS, transpose.CUDA_SOURCE, transpose.launches),
    (stream.KERNELS, stream.CUDA_SOURCE, _alone(stream.launches)),
    (fma.KERNELS, fma.CUDA_SOURCE, fma.launches),
    (launch.BLOCKS, launch.SOURCE, launch.launches),
    (optimizer.KERNELS, optimizer.SOURCE, _alone(optimizer.launches)),
    (activation.KERNELS, activation.SOURCE, activation.launches),
    (pooling.KERNELS, pooling.CUDA_SOURCE, pooling.launches),
    (biasact.KERNELS, biasact.CUDA_SOURCE, biasact.launches),
    (dropout.KERNELS, dropout.CUDA_SOURCE, dropout.launches),
    (spmm.KERNELS, spmm.CUDA_SOURCE, spmm.launches),
    (chase.KERNELS, chase.CUDA_SOURCE, chase.launches),
    (cast.KERNELS, cast.CUDA_SOURCE, cast.launches),
    (exchange.KERNELS, exchange.SOURCE, exchange.launches),
    (implicit.KERNELS, implicit.SOURCE, implicit.launches),
    *((module.KERNELS, module.SOURCE, parts.launches) for module in (columns, frames, winograd_cuda)),
    (norm.KERNELS, norm.SOURCE, norm.launches),
    (softmax.KERNELS, softmax.SOURCE, softmax.launches),
    *((names, mma.SOURCES[unit], mma.launches) for unit, names in mma.KERNELS.items()),
)


def _problems(kernel: str) -> tuple[Problem, ...]:
    if kernel in spmm.KERNELS:
        return PRUNED
    known = PROBLEMS.get(kernel)
    return tuple(parse(f"{name}/variant:cuda").problem for name in known) if known else parts.of(kernel)


KERNELS = tuple(Kernel(x, source, launches, _problems(x)) for names, source, launches in TABLES for x in names)
NAMES = tuple(kernel.name for kernel in KERNELS)


def archs(kernel: Kernel) -> tuple[str, ...]:
    """What it is compiled for."""
    alone = kernel.launches(kernel.problems[0], kernel.name)[0].arch
    return (alone,) if alone else ARCHS


def find(name: str) -> Kernel:
    return KERNELS[NAMES.index(name)]


@dataclass(frozen=True)
class Error:
    """The largest |got - want|, and whether each element is within what the problem's check allows."""

    largest: float
    allowed: bool


def compare(problem: Problem, x: dict[str, Any], got: dict[str, Any]) -> Error:
    """Of all outputs; `got` may hold the inputs too. Masks differ from kernel to kernel: by what is asked of one."""
    if problem.op == dropout.CUDA_SOURCE.stem:
        made = {one.name: got[one.name].reshape(one.shape) for one in problem.outputs}
        found = problem.compare(x, made, UNIT_ROUNDOFF["fp32"], "dense")
        largest = max(float(one.error.max()) for one in found if one.test == "scaled")
        return Error(largest, all(bool((one.error <= one.bound).all()) for one in found))
    want = problem.reference(x)
    bound = problem.bound(x, want, UNIT_ROUNDOFF[problem.precision])
    errors = {name: np.abs(got[name].reshape(right.shape) - right) for name, right in want.items()}
    allowed = all(bool((error <= bound[name]).all()) for name, error in errors.items())  # NaN is not
    return Error(max(float(error.max()) for error in errors.values()), allowed)


def changed(text: str, kernel: str, old: str, new: str, nth: int | None) -> str:
    """Replace every such text, or the nth from the kernel on, or before the kernel in what it calls."""
    assert old in text
    if nth is None:
        return text.replace(old, new)
    start = text.index(f"{kernel}(") if old in text[text.index(f"{kernel}(") :] else 0
    for _ in range(nth):
        start = text.index(old, start) + len(old)
    at = text.index(old, start)
    return text[:at] + new + text[at + len(old) :]


def run(kernel: Kernel, problem: Problem, source: str | None = None, probe: str = "dense", **how: Any) -> Error:
    """One launch by the shim, of the kernel as it is or of another `source`. Raises launcher.LaunchFailed."""
    x = problem.fill(np.random.default_rng(zlib.crc32(problem.name.encode())), probe)
    text = source if source is not None else kernel.source.read_text()
    found = launcher.launch(text, kernel.launches(problem, kernel.name), problem.operands(), x, **how)
    return compare(problem, x, found)
