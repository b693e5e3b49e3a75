"""Which kernels there are, the odd shapes at which each is tried, and how far it is from float64."""

from __future__ import annotations

import functools
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kernels.dtypes import UNIT_ROUNDOFF
from kernels.nvcc import Geometry
from kernels.ops.activation import Activation
from kernels.ops.activation import gpu as activation
from kernels.ops.biasact import BiasAct
from kernels.ops.biasact import variants as biasact
from kernels.ops.cast import Cast
from kernels.ops.cast import variants as cast
from kernels.ops.cast.problem import KINDS
from kernels.ops.chase import variants as chase
from kernels.ops.chase.problem import LINE, Chase
from kernels.ops.conv import Conv, columns, frames, implicit, winograd_cuda
from kernels.ops.dropout import Dropout
from kernels.ops.dropout import variants as dropout
from kernels.ops.exchange import Exchange
from kernels.ops.exchange import variants as exchange
from kernels.ops.fma import Fma
from kernels.ops.fma import variants as fma
from kernels.ops.gemm import Gemm
from kernels.ops.gemm import gpu as gemm
from kernels.ops.launch import Calls
from kernels.ops.launch import gpu as launch
from kernels.ops.mma import Mma
from kernels.ops.mma import variants as mma
from kernels.ops.norm import Norm
from kernels.ops.norm import gpu as norm
from kernels.ops.optimizer import Optimizer
from kernels.ops.optimizer import variants as optimizer
from kernels.ops.pooling import Pooling
from kernels.ops.pooling import variants as pooling
from kernels.ops.softmax import Softmax
from kernels.ops.softmax import gpu as softmax
from kernels.ops.spmm import variants as spmm
from kernels.ops.stream import Stream
from kernels.ops.stream import variants as stream
from kernels.ops.transpose import Transpose
from kernels.ops.transpose import variants as transpose
from kernels.problem import Problem
from tests.simulated import launcher, parts

HOW: tuple[dict[str, Any], ...] = ({"align": 16}, {"align": 4, "backward": True})
ARCHS = ("sm_80", "sm_90", "sm_100")
ALONE = "sm_90a"  # of kernels that are for no other
PRODUCTS = (Gemm(1, 1, 1), Gemm(33, 65, 17), Gemm(70, 129, 45))
TRANSPOSITIONS = (Transpose(1, 1), Transpose(33, 65), Transpose(129, 70))  # the last has whole blocks too
CHAINS = (Fma("cuda", 1), Fma("cuda", 7, processors=3), Fma("cuda", 131, processors=2))
CALLS = (1, 2, 3)  # of one size: three draws of its inputs
MASKS = (Dropout(2), Dropout(1027, 0.25), Dropout(20011, 0.9))
PRUNED = (parts.Pruned(1, 1, 1, 1.0), parts.Pruned(33, 17, 65, 0.1), parts.Pruned(9, 300, 40, 0.05))  # empty rows
LOADS = tuple(Chase(LINE * lines) for lines in (16, 1000, 20011))  # fewer lines than loads, and more
COUNTS = (17, 1027, 40003)  # floats; on one multiprocessor the last takes five strides and leaves three


@dataclass(frozen=True)
class Kernel:
    """A kernel of a .cu file with the three problems of its row in docs/cuda-kernels.md."""

    name: str
    source: Path
    launches: Callable[[Any, str], Sequence[Geometry]]
    problems: tuple[Problem, ...]


ROWS = ((1, 1), (3, 37), (2, 1025))  # batch and classes: fewer than threads, more, and no multiple


def _activations(kernel: str) -> tuple[Activation, ...]:
    kind, phase = kernel.split("_")
    return tuple(Activation(count, kind, phase) for count in (1, 1027, 4099))


def _softmaxes(kernel: str) -> tuple[Softmax, ...]:
    return tuple(Softmax(*rows, "one-hot" if kernel.endswith("onehot") else "index") for rows in ROWS)


def _poolings(kernel: str) -> tuple[Pooling, ...]:
    """Windows that touch and that overlap, pixels in none of them, both layouts."""
    _, pool, last = kernel.split("_")
    phase = "step" if last == "dgrad" else "forward"
    sizes = ((1, 1, 2, 2, "nchw"), (2, 3, 9, 3, "nhwc"), (3, 5, 12, 3, "nchw"))
    return tuple(Pooling(*size, pool, layout, phase) for *size, layout in sizes)


def _biases(kernel: str) -> tuple[BiasAct, ...]:
    return tuple(BiasAct(*size, phase=kernel.partition("_")[2]) for size in ((1, 1), (3, 37), (67, 129)))


def _convolutions(kernel: str) -> tuple[Conv, ...]:
    """A single tap; padding that differs; strides, dilation and groups."""
    sizes: tuple[dict[str, Any], ...] = (
        {"n": 1, "c": 1, "h": 1, "w": 1, "k": 1, "r": 1, "s": 1},
        {"n": 2, "c": 3, "h": 9, "w": 7, "k": 5, "pad_top": 1, "pad_right": 2},
        {"n": 2, "c": 8, "h": 17, "w": 12, "k": 6, "r": 3, "s": 2, "stride": 2, "dilation": 2, "groups": 2, "pad": 2},
    )
    return tuple(Conv(**size, direction=kernel.rpartition("_")[2]) for size in sizes)


def _norms(kernel: str) -> tuple[Norm, ...]:
    """A single pixel of each image, fewer elements than threads, more."""
    phase, method = "step" if kernel.endswith("dgrad") else "forward", "lrn" if "lrn" in kernel else "batch"
    mode = "frozen" if "frozen" in kernel else "train"
    return tuple(Norm(*size, method, mode, phase) for size in ((3, 2, 1), (2, 3, 5), (7, 5, 9)))


def _conversions(kind: str) -> tuple[int, ...]:
    """One element, or a whole word of them; fewer than a block has; more."""
    return (2, 1022, 2500) if "bf16" in kind else (1, 1023, 2500)


def _exchanges(kernel: str) -> tuple[Exchange, ...]:
    """A step, fewer than a round, more than one; words of a bank, that do not divide the threads; several blocks."""
    how = {"clear": "add-global"}.get(name := kernel.partition("_")[2].replace("_", "-"), name)
    spreads = {"load": (0, 1, 32), "shuffle": (1, 1, 1), "add-shared": (1, 31, 1024), "add-global": (1, 31, 1500)}[how]
    sizes = zip(spreads, (1, 13, 1027 if how == "load" else 17), (1, 1, 2), strict=True)
    return tuple(Exchange(how, *size) for size in sizes)


def _products(unit: str, kernel: str) -> tuple[Mma, ...]:
    """A step, fewer than a round of eight, more than one; on one multiprocessor and on more."""
    dtype = kernel.rpartition("_")[2]
    return tuple(Mma(dtype, unit, steps, processors) for steps, processors in ((1, 1), (7, 2), (9, 1)))


def _streams(kind: str) -> tuple[Stream, ...]:
    return tuple(Stream(kind, 4 * count) for count in COUNTS)


KERNELS = (
    *(Kernel(name, gemm.SOURCE, gemm.launches, PRODUCTS) for name in gemm.TILES),
    *(Kernel(name, transpose.CUDA_SOURCE, transpose.launches, TRANSPOSITIONS) for name in transpose.KERNELS),
    *(
        Kernel(name, stream.CUDA_SOURCE, functools.partial(stream.launches, processors=1), _streams(name[7:]))
        for name in stream.KERNELS
    ),
    *(Kernel(name, fma.CUDA_SOURCE, fma.launches, CHAINS) for name in fma.KERNELS),
    *(
        Kernel(name, launch.SOURCE, launch.launches, tuple(Calls(name[7:], chain) for chain in CALLS))
        for name in launch.BLOCKS
    ),
    *(
        Kernel(
            name,
            optimizer.SOURCE,
            functools.partial(optimizer.launches, processors=1),
            tuple(Optimizer(rules[-1], 1, count) for count in COUNTS),
        )
        for name, rules in optimizer.KERNELS.items()
    ),
    *(Kernel(name, activation.SOURCE, activation.launches, _activations(name)) for name in activation.KERNELS),
    *(Kernel(name, pooling.CUDA_SOURCE, pooling.launches, _poolings(name)) for name in pooling.KERNELS),
    *(Kernel(name, biasact.CUDA_SOURCE, biasact.launches, _biases(name)) for name in biasact.KERNELS),
    *(Kernel(name, dropout.CUDA_SOURCE, dropout.launches, MASKS) for name in dropout.KERNELS),
    *(Kernel(name, spmm.CUDA_SOURCE, spmm.launches, PRUNED) for name in spmm.KERNELS),
    *(Kernel(name, chase.CUDA_SOURCE, chase.launches, LOADS) for name in chase.KERNELS),
    *(
        Kernel(name, cast.CUDA_SOURCE, cast.launches, tuple(Cast(count, kind) for count in _conversions(kind)))
        for name, kind in zip(cast.KERNELS, KINDS, strict=True)
    ),
    *(Kernel(name, exchange.SOURCE, exchange.launches, _exchanges(name)) for name in exchange.KERNELS),
    *(Kernel(name, implicit.SOURCE, implicit.launches, _convolutions(name)) for name in implicit.KERNELS),
    *(
        Kernel(name, module.SOURCE, parts.launches, parts.of(name))
        for module in (columns, frames, winograd_cuda)
        for name in module.KERNELS
    ),
    *(Kernel(name, norm.SOURCE, norm.launches, _norms(name)) for name in norm.KERNELS),
    *(Kernel(name, softmax.SOURCE, softmax.launches, _softmaxes(name)) for name in softmax.KERNELS),
    *(
        Kernel(name, mma.SOURCES[unit], mma.launches, _products(unit, name))
        for unit, names in mma.KERNELS.items()
        for name in names
    ),
)
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
