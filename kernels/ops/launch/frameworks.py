"""Rungs through torch: its operators, eager and compiled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from typing import TYPE_CHECKING, Any

from kernels import state
from kernels.errors import Unavailable, said
from kernels.launch import Launch
from kernels.libs import torch as torch_library
from kernels.ops.launch.interpreted import chained
from kernels.ops.launch.problem import Calls

if TYPE_CHECKING:
    from kernels.launch import Bind
    from kernels.problem import Array


def _torch(setting: Any) -> Any:
    torch = torch_library.load()
    torch.set_num_threads(setting.threads)
    torch.set_grad_enabled(False)
    return torch


def eager(problem: Calls, device: object, setting: Any) -> Bind:
    """torch.mm into c; or zero_() of no element of x, which goes the same way and finds nothing to do."""
    torch = _torch(setting)

    def gemm(buffers: Sequence[Array]) -> Launch:
        a, b, c = (torch.from_numpy(x) for x in buffers)
        product = torch.mm

        def run() -> None:
            for _ in repeat(None, problem.chain):
                product(a, b, out=c)

        return Launch(run, uses=problem.chain)

    def empty(buffers: Sequence[Array]) -> Launch:
        none = torch.from_numpy(buffers[0])[:, :0]
        return chained(torch.Tensor.zero_, (none,), problem.chain)

    return gemm if problem.kernel == "gemm" else empty


def compiled(problem: Calls, device: Any, setting: Any) -> Bind:
    """A function of one torch.mm through torch.compile: its guards are looked through at each call."""
    import os

    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(state.folder() / "inductor"))
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no pool of processes beside the measurement
    torch = _torch(setting)

    def product(a: Any, b: Any, c: Any) -> None:
        torch.mm(a, b, out=c)

    function: Callable[..., object] = torch.compile(product, fullgraph=True, dynamic=False)
    try:
        function(*(torch.zeros(x.shape) for x in problem.operands()))
    except Exception as error:  # whatever its compilers raise
        raise Unavailable(f"torch.compile cannot compile here ({said(error)}): apt-get install g++") from None
    return lambda buffers: chained(function, [torch.from_numpy(x) for x in buffers], problem.chain)
