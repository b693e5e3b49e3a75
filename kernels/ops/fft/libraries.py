"""Single-precision transforms of SciPy, NumPy, FFTW and PyTorch, from operand to operand.

FFTW's inverse destroys the spectrum and does not divide by the number of elements: it gets a divided copy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from kernels.launch import Bind, Launch
from kernels.libs import fftw
from kernels.libs import torch as torch_library
from kernels.maths import alone
from kernels.ops.fft.problem import Fft
from kernels.setting import Setting

if TYPE_CHECKING:
    from kernels.problem import Array


def numbers(problem: Fft, buffers: Sequence[Any]) -> tuple[Any, Any]:
    """Return both operands, the spectrum viewed as complex64; NumPy's arrays, or CuPy's."""
    import numpy as np

    x, y = buffers
    return (x, y.view(np.complex64)) if problem.direction == "r2c" else (x.view(np.complex64), y)


def scipy_copied(problem: Fft, device: object, setting: Setting) -> Bind:
    """Prepare scipy.fft, whose functions take no output: the result is copied to y."""
    import numpy as np
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

    Forward it scales by the integer 1 and so runs its loop for doubles; the inverse scales by a float.
    """
    return None if problem.direction == "c2r" else "to a spectrum NumPy computes in double precision: --direction c2r"


def numpy_out(problem: Fft, device: object, setting: Setting) -> Bind:
    """Prepare np.fft.irfftn, since irfft2 ignores its `out` (NumPy 2.4); the columns' result is allocated."""
    import numpy as np

    alone(setting)
    columns = problem.operands()[0].nbytes

    def bind(buffers: Sequence[Array]) -> Launch:
        x, y = numbers(problem, buffers)
        return Launch(partial(np.fft.irfftn, x, s=(problem.h, problem.w), axes=(1, 2), out=y), workspace=columns)

    return bind


def torch_out(problem: Fft, device: object, setting: Setting) -> Bind:
    """Prepare PyTorch's transform, which allocates its result even with `out`, and copies it there."""
    import numpy as np

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
    import numpy as np

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
