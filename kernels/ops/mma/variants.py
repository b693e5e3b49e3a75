"""One kernel for each instruction and type."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kernels import grid
from kernels.errors import Unavailable
from kernels.libs import cuda as cuda_library
from kernels.ops.mma import cuda
from kernels.variant import CEILING, Variant

if TYPE_CHECKING:
    from kernels.launch import Bind
    from kernels.ops.mma.problem import Mma


def prepare(problem: Mma, device: Any, setting: object) -> Bind:
    """Raises Unavailable for an instruction that the device has not."""
    if problem.unit == "wgmma" and device.arch != "sm_90":
        raise Unavailable(f"wgmma is Hopper's, sm_90a: {device.name} is {device.arch}")
    names = [x.name for x in problem.operands()]
    geometries = cuda.launches(problem, cuda.kernel(problem))
    return grid.bound(cuda.SOURCES[problem.unit], geometries, names, device)


VARIANTS = (Variant("cuda", "cuda", "suite", prepare, missing=cuda_library.missing, roles=(CEILING,)),)
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {}
