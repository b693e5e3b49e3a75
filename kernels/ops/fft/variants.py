"""Transforms of images: ours, SciPy's and NumPy's pocketfft, FFTW, PyTorch's MKL; on a GPU cuFFT's.

The inverses of FFTW and cuFFT destroy the spectrum and do not divide by h·w: they get a divided
copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from kernels import build, openmp
from kernels.launch import Bind, Launch, held, in_turn
from kernels.lazy import np
from kernels.libs import cufft, fftw, skcuda, torch_cuda
from kernels.libs import torch as torch_library
from kernels.libs.cuda import CUPY
from kernels.libs.cufft import CUFFT
from kernels.libs.fftw import FFTW
from kernels.libs.skcuda import SKCUDA
from kernels.libs.torch import TORCH
from kernels.libs.torch_cuda import TORCH_CUDA
from kernels.maths import INT64, alone, flags
from kernels.native import structure
from kernels.ops.fft.problem import Fft
from kernels.problem import Array
from kernels.provider import NUMPY, SCIPY, SUITE, pocketfft
from kernels.setting import Setting
from kernels.variant import Variant, row

SOURCE = Path(__file__).with_name("fft.c")
PAGE = 4096  # bytes
LEAST = 32  # floats: two of the widest vectors
# C struct `argument` of fft.c.
# It covers `batch` images from x and y on, which may be any of a problem's.
Argument = structure("pointer: x y workspace waves", "int64: batch h w")


def waves(problem: Fft) -> Array:
    """Return twiddle factors: the w-th, then the h-th roots of unity, clockwise for r2c, else reversed."""
    turn = -2j if problem.direction == "r2c" else 2j
    circles = [np.exp(turn * np.pi * np.arange(n) / n) for n in (problem.w, problem.h)]
    return np.concatenate(circles).astype(np.complex64)


def c_accepts(problem: Fft) -> str | None:
    """Return why fft.c cannot run `problem`, or None: its passes have radix 4 and 2 and full vectors."""
    fits = all(n >= LEAST and n & (n - 1) == 0 for n in (problem.h, problem.w))
    return None if fits else f"lengths must be powers of two of at least {LEAST}: --h 64 --w 64"


def c_kernel(problem: Fft, device: Any, setting: Setting) -> Bind:
    """Prepare the kernel of fft.c. Raises Unavailable, BuildError."""
    compiler_flags = (*flags(), *openmp.flags(setting))
    function = build.address(SOURCE, f"fft_{problem.direction}", compiler_flags)
    kernel = openmp.compiled(SOURCE, compiler_flags, setting)
    size = build.load(SOURCE, compiler_flags).fft_workspace
    size.argtypes, size.restype = (INT64, INT64), INT64
    table, each = waves(problem), -(-size(problem.h, problem.w) // PAGE) * PAGE
    block = device.allocate(each * setting.threads)
    images = {x.name: x.nbytes // problem.batch for x in problem.operands()}
    axis = openmp.Axis("batch", problem.batch, images, apart={"workspace": each})

    def bind(buffers: Sequence[Array]) -> Launch:
        argument = Argument(
            workspace=block.ctypes.data, waves=table.ctypes.data, batch=problem.batch, h=problem.h, w=problem.w
        )
        more = {"workspace": block.nbytes + table.nbytes, "kernel": kernel}
        return openmp.launched(function, argument, "xy", buffers, setting, axis, (block, table), **more)

    return bind


def numbers(problem: Fft, buffers: Sequence[Any]) -> tuple[Any, Any]:
    """Return x and y as NumPy or CuPy arrays, with the spectrum viewed as complex64."""
    x, y = buffers
    return (x, y.view(np.complex64)) if problem.direction == "r2c" else (x.view(np.complex64), y)


def scipy_copied(problem: Fft, device: object, setting: Setting) -> Bind:
    """Prepare scipy.fft, whose functions take no output: the result is copied to y."""
    from scipy import fft

    result = problem.operands()[1].nbytes

    def bind(buffers: Sequence[Array]) -> Launch:
        x, y = numbers(problem, buffers)
        transform: Callable[[], Array] = partial(fft.rfft2, x, workers=setting.threads)
        if problem.direction == "c2r":
            transform = partial(fft.irfft2, x, s=(problem.h, problem.w), workers=setting.threads)
        return Launch(lambda: np.copyto(y, transform()), workspace=result)

    return bind


def numpy_accepts(problem: Fft) -> str | None:
    """Return why NumPy's transform would not be in single precision, or None.

    The forward transform scales by the integer 1 and so runs the loop for doubles; the inverse scales by a float.
    """
    return None if problem.direction == "c2r" else "NumPy's r2c loop computes in double precision: --direction c2r"


def numpy_out(problem: Fft, device: object, setting: Setting) -> Bind:
    """Prepare np.fft.irfftn, which allocates the columns' result; irfft2 ignores its `out` (NumPy 2.4)."""
    alone(setting)
    columns = problem.operands()[0].nbytes

    def bind(buffers: Sequence[Array]) -> Launch:
        x, y = numbers(problem, buffers)
        return Launch(partial(np.fft.irfftn, x, s=(problem.h, problem.w), axes=(1, 2), out=y), workspace=columns)

    return bind


def torch_out(problem: Fft, device: object, setting: Setting) -> Bind:
    """Prepare PyTorch's transform, which allocates its result even with `out`, and copies it there."""
    torch = torch_library.on_threads(setting.threads)

    def call(buffers: Sequence[Array]) -> Callable[[], Any]:
        return torch_transform(torch, problem, *map(torch.from_numpy, numbers(problem, buffers)))

    held = torch_library.peak(torch, call([np.zeros(x.shape, np.float32) for x in problem.operands()]))
    return lambda buffers: Launch(call(buffers), workspace=held)


def torch_transform(torch: Any, problem: Fft, x: Any, y: Any) -> Callable[[], Any]:
    """Return the call of PyTorch's transform from tensor x to tensor y."""
    if problem.direction == "r2c":
        return partial(torch.fft.rfft2, x, out=y)
    return partial(torch.fft.irfft2, x, s=(problem.h, problem.w), out=y)


def fftw_planned(problem: Fft, device: Any, setting: Setting) -> Bind:
    """Prepare FFTW plans measured on scratch memory. Raises Unavailable."""
    back = problem.direction == "c2r"
    room = [device.allocate(x.nbytes).view(np.float32).reshape(x.shape) for x in problem.operands()]
    source, target = numbers(problem, room)
    images, spectra = (target, source) if back else (source, target)
    plan = fftw.plan(images, spectra, back, "measure", threads=setting.threads)
    kernel = fftw.kernel()[0], plan.isa
    if not back:
        return lambda buffers: Launch(plan.on(*numbers(problem, buffers)), kernel=kernel)
    copy, share = room[0], np.float32(1 / problem.count)

    def bind(buffers: Sequence[Array]) -> Launch:
        x, y = buffers
        transform = plan.on(source, y)

        def run() -> None:
            np.multiply(x, share, out=copy)
            transform()

        return Launch(run, workspace=copy.nbytes, kernel=kernel)

    return bind


COPIES = 3  # most kernels of a package besides cuFFT's: copy the spectrum, divide, copy the result


class Plan(Protocol):
    """A cuFFT plan, by our binding or by scikit-cuda."""

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
        call = in_turn((*divided, transform), (plan, area, copy, *buffers))
        return Launch(call, workspace=workspace, capturable=True, kernels=cufft.KERNELS + back)

    return bind


def by_cupy(problem: Fft, device: Any, setting: object) -> Bind:
    """Prepare CuPy's transform, with cached plans; it allocates its result, which is copied to y.

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


VARIANTS: tuple[Variant[Fft], ...] = (
    row(SCIPY, "scipy", scipy_copied, kernel=partial(pocketfft, "scipy")),
    row(NUMPY, "numpy", numpy_out, accepts=numpy_accepts, kernel=partial(pocketfft, "numpy")),
    row(FFTW, "pyfftw", fftw_planned),
    row(TORCH, "torch", torch_out),
    row(SUITE, "c", c_kernel, accepts=c_accepts),
    row(CUFFT, "cufft", by_cufft),
    row(SKCUDA, "skcuda", by_scikit),
    row(CUPY, "cupy", by_cupy),
    row(TORCH_CUDA, "torch-cuda", by_torch),
)
