"""Our own CUDA kernels, each launched once: at a small odd size with its answer checked, or at one at which memory,
not a cache, serves it."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import nvcc
from kernels.catalog import find
from kernels.devices.cuda import KIND
from kernels.errors import SuiteError, UsageError, said
from kernels.launch import Launch
from kernels.ops.activation import Activation
from kernels.ops.biasact import BiasAct
from kernels.ops.cast import Cast
from kernels.ops.cast import gpu as cast
from kernels.ops.cast.problem import KINDS as CASTS
from kernels.ops.chase import Chase
from kernels.ops.conv import Conv
from kernels.ops.dropout import Dropout
from kernels.ops.exchange import Exchange
from kernels.ops.fma import Fma
from kernels.ops.gemm import Gemm
from kernels.ops.launch import Calls
from kernels.ops.mma import Mma
from kernels.ops.mma.gpu import ARCHS
from kernels.ops.mma.problem import GPU
from kernels.ops.norm import Norm
from kernels.ops.optimizer import Optimizer
from kernels.ops.pooling import Pooling
from kernels.ops.softmax import Softmax
from kernels.ops.spmm import Spmm
from kernels.ops.stream import Stream
from kernels.ops.transpose import Transpose
from kernels.problem import Problem
from kernels.setting import Setting

if TYPE_CHECKING:
    from kernels.devices.cuda import Cuda

OPS = Path(nvcc.__file__).parent / "ops"
DATA = "uniform"  # what steps with a second moment ask for, and right for all


@dataclass(frozen=True)
class Own:
    """A kernel, the row of its operation's table that launches it, and a problem."""

    kernel: str
    row: str
    problem: Problem


def _activation(kernel: str, count: int) -> Own:
    kind, _, phase = kernel.partition("_")
    return Own(kernel, OURS, Activation(count, kind, phase))


def _convolution(kernel: str, row: str) -> Own:
    """In the pass that has it; of 3 × 3, more tiles down than across."""
    passes = {"gradient": "wgrad", "dfilter": "wgrad", "back": "dgrad"}
    stage = kernel.partition("_")[2]
    return Own(
        kernel, row, Conv(2, 5, 13, 7, 3, pad=1, direction=passes.get(stage, stage if row == IMPLICIT else "forward"))
    )


IMPLICIT = "cuda-implicit"
TILED = ("image", "gradient", "result", "filter", "dfilter")
OURS = KIND.kernels  # the row of a table whose kernel is written here
TYPES = ("tf32", "bf16", "fp16")
POOLS = ("max", "avg")
KINDS, PHASES = ("relu", "sigmoid", "tanh", "exp"), ("forward", "dgrad")
SMALL = (
    Own("sgemm_naive", "cuda-naive", Gemm(70, 129, 45)),
    Own("sgemm_tiled", "cuda-tiled", Gemm(70, 129, 45, "tn")),
    Own("transpose_naive", "cuda-naive", Transpose(129, 70)),
    Own("transpose_tiled", "cuda-tiled", Transpose(129, 70)),
    *(Own(f"stream_{kind}", OURS, Stream(kind, 4 * 40003)) for kind in ("read", "copy", "triad")),
    Own("fma_chains10", OURS, Fma(KIND.isas()[-1], 131, processors=2)),
    *(Own(f"{unit}_{dtype}", OURS, Mma(dtype, unit, 7, 2)) for unit in GPU for dtype in TYPES),
    *(Own(f"launch_{kernel}", "cupy-kernel", Calls(kernel, 2)) for kernel in ("empty", "gemm")),
    *(Own(f"optimizer_{rule}", OURS, Optimizer(rule, 3, 1027)) for rule in ("sgd", "momentum", "adam")),
    *(_activation(f"{kind}_{phase}", 4099) for phase in PHASES for kind in KINDS),
    Own("softmax_index", OURS, Softmax(3, 1025)),
    Own("softmax_onehot", OURS, Softmax(3, 1025, "one-hot")),
    *(Own(f"pooling_{pool}_forward", OURS, Pooling(3, 5, 12, 3, pool)) for pool in POOLS),
    *(Own(f"pooling_{pool}_dgrad", OURS, Pooling(3, 5, 12, 3, pool, phase="step")) for pool in POOLS),
    *(Own(f"biasact_{phase}", OURS, BiasAct(67, 129, phase=phase)) for phase in PHASES),
    Own("csr_rows", "cuda-csr", Spmm(33, 300, 65, 0.1)),
    *(Own(f"dropout_{name}", OURS, Dropout(20011)) for name in ("key", "both")),
    Own("chase_build", OURS, Chase(64 * 1000)),
    Own("chase_touch", OURS, Chase(64 * 1000)),
    Own("chase_walk", OURS, Chase(64 * 20011)),
    *(Own(cast.kernel(x), OURS, x) for x in (Cast(2500, kind) for kind in CASTS)),
    Own("exchange_load", OURS, Exchange("load", 3, 1027, 2)),
    Own("exchange_shuffle", OURS, Exchange("shuffle", 1, 17, 2)),
    *(_convolution(f"implicit_{name}", IMPLICIT) for name in ("forward", "dgrad", "wgrad")),
    *(_convolution(f"columns_{name}", "cuda-im2col") for name in ("of", "back")),
    *(_convolution(f"frames_{name}", "cufft") for name in ("of", "back")),
    *(_convolution(f"winograd{m}_{name}", f"cuda-winograd-{m}x3") for m in (2, 4) for name in TILED),
    Own("norm_train_forward", OURS, Norm(7, 5, 9)),
    Own("norm_train_dgrad", OURS, Norm(7, 5, 9, phase="step")),
    Own("norm_frozen_forward", OURS, Norm(7, 5, 9, mode="frozen")),
    Own("norm_frozen_dgrad", OURS, Norm(7, 5, 9, mode="frozen", phase="step")),
    Own("norm_lrn_forward", OURS, Norm(7, 5, 9, "lrn")),
    Own("norm_lrn_dgrad", OURS, Norm(7, 5, 9, "lrn", phase="step")),
    *(Own(f"exchange_{name}", OURS, Exchange("add-global", 1500, 17, 2)) for name in ("clear", "add_global")),
    # Last: under compute-sanitizer 2025.3 on an H100 it did not end.
    Own("exchange_add_shared", OURS, Exchange("add-shared", 31, 17, 2)),
)
LARGE = (  # operands of 268 MB: a cache holds a fifth of one
    *(Own(f"stream_{kind}", OURS, Stream(kind, 1 << 28)) for kind in ("read", "copy", "triad")),
    Own("transpose_tiled", "cuda-tiled", Transpose(8192, 8192)),
    *(Own(f"optimizer_{rule}", OURS, Optimizer(rule, 1, 1 << 26)) for rule in ("sgd", "adam")),
    _activation("relu_forward", 1 << 26),
    Own("softmax_index", OURS, Softmax(8192, 8192)),
)


def compiled(arch: str) -> dict[str, Any]:
    """All files compiled for a device of this architecture, at once: whoever launches their kernels finds them. How
    many, and what is said of those that failed; none where there is no nvcc: then they are compiled when launched."""
    asked = sources(arch) if nvcc.missing() is None else {}
    with ThreadPoolExecutor() as pool:
        failed = [reason for reason in pool.map(complaint, asked, asked.values()) if reason]
    return {"files": len(asked), "compiled": len(asked) - len(failed), "failed": failed}


def sources(arch: str) -> dict[Path, str]:
    """Our kernels' files, and what each is compiled for on a device of `arch`: one that is for a single architecture is
    for that one, or for no device of another."""
    archs = {path: ARCHS.get(path.stem) or arch for path in sorted(OPS.glob("*/*.cu"))}
    return {path: own for path, own in archs.items() if own.rstrip("a") == arch}


def complaint(source: Path, arch: str) -> str | None:
    """Why a file does not compile."""
    try:
        nvcc.cubin(source, arch)
    except SuiteError as error:
        return str(error)
    return None


def checked(device: Cuda, own: Own) -> dict[str, Any]:
    """One launch of a small problem, and whether its answer is right. What is only written was never written before:
    a kernel that reads it is seen by who watches for that."""
    import numpy as np

    x = own.problem.fill(np.random.default_rng(zlib.crc32(own.problem.name.encode())))

    def load(block: Any, view: Any, name: str) -> None:
        device.put(view, x[name])

    views, launch = bound(device, own, load)
    launch.call()
    device.sync()
    written = zip(own.problem.operands(), views, strict=True)
    got = {operand.name: device.get(view) for operand, view in written if operand.role != "in"}
    row = find(own.problem.op, own.row)
    evidence = row.judged(own.problem).compare(x, got, row.u(own.problem), "dense")
    return {"right": all(bool((one.error <= one.bound).all()) for one in evidence)}


def launched(device: Cuda, own: Own) -> dict[str, Any]:
    """One launch of a large problem on random operands."""
    import numpy as np

    operands = {operand.name: operand for operand in own.problem.operands()}

    def load(block: Any, view: Any, name: str) -> None:
        operand = operands[name]
        if operand.below:
            device.put(view, own.problem.indices(operand, np.random.default_rng(1)))
        else:
            device.scatter(block, 1, operand.dtype, DATA)

    _, launch = bound(device, own, load)
    launch.call()
    device.sync()
    return {}


def bound(device: Cuda, own: Own, load: Callable[[Any, Any, str], None]) -> tuple[list[Any], Launch]:
    """The operands, each in an allocation of its own so that a step beyond one is seen, and the call on them."""
    setting = Setting(device=device.name, data=DATA)
    bind = find(own.problem.op, own.row).prepare(own.problem, device, setting)
    views = []
    for operand in own.problem.operands():
        block = device.cp.empty(operand.nbytes, device.cp.uint8)
        views.append(device.view(block, 0, operand))
        if operand.role != "out":
            load(block, views[-1], operand.name)
    return views, bind(views)


def each(device: Cuda, size: str, kernels: tuple[str, ...], tell: Callable[[dict[str, Any]], None]) -> int:
    """Those of SMALL or LARGE that are named, or all; each is told as it was launched. How many there were."""
    some = SMALL if size == "small" else LARGE
    if strange := set(kernels) - {own.kernel for own in some}:
        raise UsageError(f"no {size} kernel {', '.join(sorted(strange))}")
    chosen = [own for own in some if not kernels or own.kernel in kernels]
    for own in chosen:
        try:
            facts = (checked if some is SMALL else launched)(device, own)
        except Exception as error:  # what watches it may say why
            facts = {"error": said(error)}
        tell({"kernel": own.kernel, **facts})
    return len(chosen)
