"""Transforms on a GPU by cuFFT, through our binding, scikit-cuda, CuPy and PyTorch.

cuFFT's inverse destroys the spectrum and does not divide by the number of elements: our binding and scikit-cuda get
a copy that CuPy has divided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kernels import grid
from kernels.launch import Launch, held
from kernels.libs import cufft, skcuda, torch_cuda
from kernels.ops.fft.libraries import numbers, torch_transform
from kernels.ops.fft.problem import Fft

if TYPE_CHECKING:
    from kernels.launch import Bind

COPIES = 3  # kernels of a package around cuFFT's at most: the spectrum kept, numbers divided, the result copied


class Plan(Protocol):
    """A cuFFT plan of our binding or of scikit-cuda."""

    def call(self, source: int, target: int) -> Callable[[], None]: ...


def by_cufft(problem: Fft, device: Any, setting: object) -> Bind:
    """Prepare cuFFT through our binding, in a work area allocated here."""
    plan = cufft.plan((problem.h, problem.w), problem.batch, problem.direction == "c2r", device.stream.ptr, behind=True)
    area = device.allocate(max(1, plan.nbytes))
    plan.work_in(int(area.data.ptr))
    return _planned(problem, device, plan, area, plan.nbytes)


def by_scikit(problem: Fft, device: Any, setting: object) -> Bind:
    """Prepare cuFFT through scikit-cuda, in a work area that cuFFT allocates."""
    size = problem.h, problem.w
    return _planned(
        problem, device, skcuda.transforms(size, problem.batch, problem.direction == "c2r", device.stream.ptr), None, 0
    )


def _planned(problem: Fft, device: Any, plan: Plan, area: object, nbytes: int) -> Bind:
    back, (source, _) = problem.direction == "c2r", problem.operands()
    copy = device.cp.empty(source.shape, "f4") if back else None
    workspace = nbytes + (source.nbytes if back else 0)

    def bind(buffers: Sequence[Any]) -> Launch:
        x, y = buffers
        transform = plan.call(int((x if copy is None else copy).data.ptr), int(y.data.ptr))
        divided = (lambda: device.cp.multiply(x, device.cp.float32(1 / problem.count), out=copy),) if back else ()
        call = grid.in_turn((*divided, transform), (plan, area, copy, *buffers))
        return Launch(call, workspace=workspace, capturable=True, kernels=cufft.KERNELS + back)

    return bind


def by_cupy(problem: Fft, device: Any, setting: object) -> Bind:
    """Prepare CuPy's transform, which allocates its result, copied to y, and caches its plans.

    The inverse also copies the spectrum.
    """
    fft, back = device.cp.fft, problem.direction == "c2r"
    source, target = problem.operands()

    def bind(buffers: Sequence[Any]) -> Launch:
        x, y = numbers(problem, buffers)
        transform = partial(fft.irfft2, x, s=(problem.h, problem.w)) if back else partial(fft.rfft2, x)

        def call(keep: object = buffers) -> None:
            y[...] = transform()

        return Launch(call, workspace=target.nbytes + back * source.nbytes, kernels=cufft.KERNELS + COPIES)

    return bind


def by_torch(problem: Fft, device: Any, setting: object) -> Bind:
    """Prepare PyTorch's transform, which allocates its result even with `out`, and copies it there."""
    torch = torch_cuda.load(device)
    nbytes = sum(x.nbytes for x in problem.operands())

    def bind(buffers: Sequence[Any]) -> Launch:
        x, y = (torch_cuda.tensor(torch, array) for array in numbers(problem, buffers))
        run = torch_transform(torch, problem, x, y)
        return held(run, buffers, workspace=nbytes, kernels=cufft.KERNELS + COPIES)

    return bind
