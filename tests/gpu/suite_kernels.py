"""The suite's CUDA kernels, each launched once: at a small odd size with its answer checked, or at a size that memory,
not a cache, serves.

    python -m tests.gpu.suite_kernels PARENT FILE small|large [KERNEL …]

does so on the first GPU, for a tool that watches it; a line a kernel goes to FILE.
"""

from __future__ import annotations

import json
import os
import sys
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import nvcc
from kernels.catalog import find
from kernels.devices.cuda import KIND
from kernels.errors import SuiteError, UsageError, summary
from kernels.launch import Launch
from kernels.ops.activation import Activation
from kernels.ops.biasact import BiasAct
from kernels.ops.cast import Cast
from kernels.ops.cast import variants as cast
from kernels.ops.cast.problem import KINDS as CASTS
from kernels.ops.chase import Chase
from kernels.ops.conv import Conv
from kernels.ops.dropout import Dropout
from kernels.ops.exchange import Exchange
from kernels.ops.fma import Fma
from kernels.ops.gemm import Gemm
from kernels.ops.launch import Calls
from kernels.ops.mma import Mma
from kernels.ops.mma.problem import GPU
from kernels.ops.mma.variants import ARCHS
from kernels.ops.norm import Norm
from kernels.ops.optimizer import Optimizer
from kernels.ops.pooling import Pooling
from kernels.ops.softmax import Softmax
from kernels.ops.spmm import Spmm
from kernels.ops.stream import Stream
from kernels.ops.transpose import Transpose
from kernels.problem import Problem
from kernels.setting import Setting
from tests.gpu.session import processes

if TYPE_CHECKING:
    from kernels.devices.cuda import Cuda

OPS = Path(nvcc.__file__).parent / "ops"
DATA = "uniform"  # what steps with a second moment ask for, and right for all


@dataclass(frozen=True)
class SuiteKernel:
    """A kernel, the row of its operation's table that launches it, and a problem."""

    kernel: str
    row: str
    problem: Problem


@dataclass(frozen=True)
class Compiled:
    """Files that were to be compiled, how many were, and why the others were not."""

    files: int
    compiled: int
    failed: list[str]


def _activation(kernel: str, count: int) -> SuiteKernel:
    kind, _, phase = kernel.partition("_")
    return SuiteKernel(kernel, OURS, Activation(count, kind, phase))


def _convolution(kernel: str, row: str) -> SuiteKernel:
    """Return a kernel in the pass that has it; of 3 × 3, more tiles down than across."""
    passes = {"gradient": "wgrad", "dfilter": "wgrad", "back": "dgrad"}
    stage = kernel.partition("_")[2]
    direction = passes.get(stage, stage if row == IMPLICIT else "forward")
    return SuiteKernel(kernel, row, Conv(2, 5, 13, 7, 3, pad=1, direction=direction))


IMPLICIT = "cuda-implicit"
TILED = ("image", "gradient", "result", "filter", "dfilter")
OURS = KIND.kernels  # the row of a table whose kernel is written here
TYPES = ("tf32", "bf16", "fp16")
POOLS = ("max", "avg")
KINDS, PHASES = ("relu", "sigmoid", "tanh", "exp"), ("forward", "dgrad")
SMALL = (
    SuiteKernel("sgemm_naive", "cuda-naive", Gemm(70, 129, 45)),
    SuiteKernel("sgemm_tiled", "cuda-tiled", Gemm(70, 129, 45, "tn")),
    SuiteKernel("transpose_naive", "cuda-naive", Transpose(129, 70)),
    SuiteKernel("transpose_tiled", "cuda-tiled", Transpose(129, 70)),
    *(SuiteKernel(f"stream_{kind}", OURS, Stream(kind, 4 * 40003)) for kind in ("read", "copy", "triad")),
    SuiteKernel("fma_chains10", OURS, Fma(KIND.isas()[-1], 131, processors=2)),
    *(SuiteKernel(f"{unit}_{dtype}", OURS, Mma(dtype, unit, 7, 2)) for unit in GPU for dtype in TYPES),
    *(SuiteKernel(f"launch_{kernel}", "cupy-kernel", Calls(kernel, 2)) for kernel in ("empty", "gemm")),
    *(SuiteKernel(f"optimizer_{rule}", OURS, Optimizer(rule, 3, 1027)) for rule in ("sgd", "momentum", "adam")),
    *(_activation(f"{kind}_{phase}", 4099) for phase in PHASES for kind in KINDS),
    SuiteKernel("softmax_index", OURS, Softmax(3, 1025)),
    SuiteKernel("softmax_onehot", OURS, Softmax(3, 1025, "one-hot")),
    *(SuiteKernel(f"pooling_{pool}_forward", OURS, Pooling(3, 5, 12, 3, pool)) for pool in POOLS),
    *(SuiteKernel(f"pooling_{pool}_dgrad", OURS, Pooling(3, 5, 12, 3, pool, phase="step")) for pool in POOLS),
    *(SuiteKernel(f"biasact_{phase}", OURS, BiasAct(67, 129, phase=phase)) for phase in PHASES),
    SuiteKernel("csr_rows", "cuda-csr", Spmm(33, 300, 65, 0.1)),
    *(SuiteKernel(f"dropout_{name}", OURS, Dropout(20011)) for name in ("key", "both")),
    SuiteKernel("chase_build", OURS, Chase(64 * 1000)),
    SuiteKernel("chase_touch", OURS, Chase(64 * 1000)),
    SuiteKernel("chase_walk", OURS, Chase(64 * 20011)),
    *(SuiteKernel(cast.kernel(x), OURS, x) for x in (Cast(2500, kind) for kind in CASTS)),
    SuiteKernel("exchange_load", OURS, Exchange("load", 3, 1027, 2)),
    SuiteKernel("exchange_shuffle", OURS, Exchange("shuffle", 1, 17, 2)),
    *(_convolution(f"implicit_{name}", IMPLICIT) for name in ("forward", "dgrad", "wgrad")),
    *(_convolution(f"columns_{name}", "cuda-im2col") for name in ("of", "back")),
    *(_convolution(f"frames_{name}", "cufft") for name in ("of", "back")),
    *(_convolution(f"winograd{m}_{name}", f"cuda-winograd-{m}x3") for m in (2, 4) for name in TILED),
    SuiteKernel("norm_train_forward", OURS, Norm(7, 5, 9)),
    SuiteKernel("norm_train_dgrad", OURS, Norm(7, 5, 9, phase="step")),
    SuiteKernel("norm_frozen_forward", OURS, Norm(7, 5, 9, mode="frozen")),
    SuiteKernel("norm_frozen_dgrad", OURS, Norm(7, 5, 9, mode="frozen", phase="step")),
    SuiteKernel("norm_lrn_forward", OURS, Norm(7, 5, 9, "lrn")),
    SuiteKernel("norm_lrn_dgrad", OURS, Norm(7, 5, 9, "lrn", phase="step")),
    *(SuiteKernel(f"exchange_{name}", OURS, Exchange("add-global", 1500, 17, 2)) for name in ("clear", "add_global")),
    # Last: under compute-sanitizer 2025.3 on an H100 it did not end.
    SuiteKernel("exchange_add_shared", OURS, Exchange("add-shared", 31, 17, 2)),
)
LARGE = (  # operands of 268 MB: a cache holds a fifth of one
    *(SuiteKernel(f"stream_{kind}", OURS, Stream(kind, 1 << 28)) for kind in ("read", "copy", "triad")),
    SuiteKernel("transpose_tiled", "cuda-tiled", Transpose(8192, 8192)),
    *(SuiteKernel(f"optimizer_{rule}", OURS, Optimizer(rule, 1, 1 << 26)) for rule in ("sgd", "adam")),
    _activation("relu_forward", 1 << 26),
    SuiteKernel("softmax_index", OURS, Softmax(8192, 8192)),
)


def compile_all(arch: str) -> Compiled:
    """Compile all files for a device at once, so that whoever launches their kernels finds them.

    Without nvcc there are none: they are compiled when they are launched.
    """
    files = sources(arch) if nvcc.missing() is None else {}
    with ThreadPoolExecutor() as pool:
        failed = [reason for reason in pool.map(complaint, files, files.values()) if reason]
    return Compiled(len(files), len(files) - len(failed), failed)


def sources(arch: str) -> dict[Path, str]:
    """Return the kernels' files that a device of `arch` can run, and what each is compiled for."""
    archs = {path: ARCHS.get(path.stem) or arch for path in sorted(OPS.glob("*/*.cu"))}
    return {path: target for path, target in archs.items() if target.rstrip("a") == arch}


def complaint(source: Path, arch: str) -> str | None:
    """Return why a file does not compile."""
    try:
        nvcc.cubin(source, arch)
    except SuiteError as error:
        return str(error)
    return None


def checked(device: Cuda, kernel: SuiteKernel) -> dict[str, Any]:
    """Launch a small problem once and say whether its answer is right.

    What is only written was never written before: whoever watches for that sees a kernel that reads it.
    """
    import numpy as np

    x = kernel.problem.fill(np.random.default_rng(zlib.crc32(kernel.problem.name.encode())))

    def load(block: Any, view: Any, name: str) -> None:
        device.put(view, x[name])

    views, launch = bound(device, kernel, load)
    launch.call()
    device.sync()
    written = zip(kernel.problem.operands(), views, strict=True)
    got = {operand.name: device.get(view) for operand, view in written if operand.role != "in"}
    row = find(kernel.problem.op, kernel.row)
    evidence = row.judged(kernel.problem).compare(x, got, row.u(kernel.problem), "dense")
    return {"right": all(bool((output.error <= output.bound).all()) for output in evidence)}


def launched(device: Cuda, kernel: SuiteKernel) -> dict[str, Any]:
    """Launch a large problem once on random operands."""
    import numpy as np

    operands = {operand.name: operand for operand in kernel.problem.operands()}

    def load(block: Any, view: Any, name: str) -> None:
        operand = operands[name]
        if operand.below:
            device.put(view, kernel.problem.indices(operand, np.random.default_rng(1)))
        else:
            device.scatter(block, 1, operand.dtype, DATA)

    _, launch = bound(device, kernel, load)
    launch.call()
    device.sync()
    return {}


def bound(device: Cuda, kernel: SuiteKernel, load: Callable[[Any, Any, str], None]) -> tuple[list[Any], Launch]:
    """Return the operands, each in its own allocation so that a step beyond it is seen, and the call on them."""
    setting = Setting(device=device.name, data=DATA)
    bind = find(kernel.problem.op, kernel.row).prepare(kernel.problem, device, setting)
    views = []
    for operand in kernel.problem.operands():
        block = device.cp.empty(operand.nbytes, device.cp.uint8)
        views.append(device.view(block, 0, operand))
        if operand.role != "out":
            load(block, views[-1], operand.name)
    return views, bind(views)


def launch_each(device: Cuda, size: str, names: Sequence[str], report: Callable[[dict[str, Any]], None]) -> None:
    """Launch the named kernels of SMALL or LARGE, or all of them, and report each as it was launched."""
    some = SMALL if size == "small" else LARGE
    if strange := set(names) - {kernel.kernel for kernel in some}:
        raise UsageError(f"no {size} kernel {', '.join(sorted(strange))}")
    for kernel in some:
        if names and kernel.kernel not in names:
            continue
        try:
            facts = (checked if some is SMALL else launched)(device, kernel)
        except Exception as error:  # what watches it may say why
            facts = {"error": summary(error)}
        report({"kernel": kernel.kernel, **facts})


def main(parent: int, path: str, size: str, *names: str) -> None:
    """Launch kernels on the first GPU for a tool, whose own parent is `parent`."""
    processes.follow(parent)
    import cupy

    from kernels.devices.cuda import open_device

    cupy.cuda.set_allocator(None)  # no pool: a memory checker then has each operand's end
    file = os.open(path, os.O_WRONLY | os.O_APPEND)

    def report(line: dict[str, Any]) -> None:
        os.write(file, json.dumps(line).encode() + b"\n")

    launch_each(open_device("0"), size, names, report)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
