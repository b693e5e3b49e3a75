"""Transforms on a GPU by cuFFT, through our binding, scikit-cuda, CuPy and PyTorch. Never run on a GPU.

Back, cuFFT destroys the spectrum and does not divide by the number of places: whoever calls it is given a copy that is
divided, by CuPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from kernels import grid
from kernels.launch import Launch
from kernels.libs import cufft, skcuda, torch_cuda
from kernels.ops.fft.problem import Fft

if TYPE_CHECKING:
    from kernels.launch import Bind

TRANSFORM = 4  # kernels of one of cuFFT's calls at most, as a guess: rows, columns, their exchange


class Plan(Protocol):
    """Of our binding, or of scikit-cuda."""

    def call(self, source: int, target: int) -> Callable[[], None]: ...


def by_cufft(problem: Fft, device: Any, setting: object) -> Bind:
    """In a work area that is allocated here."""
    plan = cufft.plan((problem.h, problem.w), problem.batch, problem.direction == "c2r", device.stream.ptr, behind=True)
    area = device.allocate(max(1, plan.nbytes))
    plan.work_in(int(area.data.ptr))
    return _planned(problem, device, plan, area, plan.nbytes)


def by_scikit(problem: Fft, device: Any, setting: object) -> Bind:
    """In a work area that cuFFT allocates."""
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
        return Launch(call, workspace=workspace, capturable=True, kernels=TRANSFORM + back)

    return bind


def by_cupy(problem: Fft, device: Any, setting: object) -> Bind:
    """It allocates its result, which is copied, and keeps its plans; back, a copy of the spectrum too."""
    fft, size = device.cp.fft, (problem.h, problem.w)
    held = problem.operands()[1].nbytes + (problem.operands()[0].nbytes if problem.direction == "c2r" else 0)

    def bind(buffers: Sequence[Any]) -> Launch:
        x, y = buffers

        def call(keep: object = buffers) -> None:
            if problem.direction == "r2c":
                y.view("c8")[...] = fft.rfft2(x)
            else:
                y[...] = fft.irfft2(x.view("c8"), s=size)

        return Launch(call, workspace=held, kernels=TRANSFORM + 3)

    return bind


def by_torch(problem: Fft, device: Any, setting: object) -> Bind:
    """It allocates its result, `out` or not, and copies it there itself."""
    torch = torch_cuda.load(device)
    held = sum(x.nbytes for x in problem.operands())

    def bind(buffers: Sequence[Any]) -> Launch:
        x, y = buffers
        if problem.direction == "r2c":
            given, out = torch_cuda.tensor(torch, x), torch_cuda.tensor(torch, y.view("c8"))
        else:
            given, out = torch_cuda.tensor(torch, x.view("c8")), torch_cuda.tensor(torch, y)

        def call(keep: object = buffers) -> None:
            if problem.direction == "r2c":
                torch.fft.rfft2(given, out=out)
            else:
                torch.fft.irfft2(given, s=(problem.h, problem.w), out=out)

        return Launch(call, workspace=held, kernels=TRANSFORM + 3)

    return bind
