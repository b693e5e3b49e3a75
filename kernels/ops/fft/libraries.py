"""The transforms of SciPy, NumPy, FFTW and PyTorch, in single precision, from operand to operand.

Back, FFTW destroys the spectrum and does not divide by the number of places: it is given a copy that is divided.
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
    """Both operands, of which the spectrum is one of complex numbers; NumPy's arrays, or CuPy's."""
    import numpy as np

    x, y = buffers
    return (x, y.view(np.complex64)) if problem.direction == "r2c" else (x.view(np.complex64), y)


def scipy_copied(problem: Fft, device: object, setting: Setting) -> Bind:
    """They allocate their result, which is copied: they take no output."""
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
    """Where it does not compute in single precision: it multiplies by 1, an integer, and so takes its loop for doubles;
    back it multiplies by a float."""
    return None if problem.direction == "c2r" else "to a spectrum NumPy computes in double precision: --direction c2r"


def numpy_out(problem: Fft, device: object, setting: Setting) -> Bind:
    """irfftn: irfft2 forgets its `out` (NumPy 2.4). What it makes of the columns it allocates."""
    import numpy as np

    alone(setting)
    columns = problem.operands()[0].nbytes

    def bind(buffers: Sequence[Array]) -> Launch:
        x, y = numbers(problem, buffers)
        return Launch(partial(np.fft.irfftn, x, s=(problem.h, problem.w), axes=(1, 2), out=y), workspace=columns)

    return bind


def torch_out(problem: Fft, device: object, setting: Setting) -> Bind:
    """It allocates its result, `out` or not, and copies it there itself."""
    import numpy as np

    torch = torch_library.load()
    torch.set_num_threads(setting.threads)
    torch.set_grad_enabled(False)

    def call(buffers: Sequence[Array]) -> Callable[[], Any]:
        return torch_transform(torch, problem, *map(torch.from_numpy, numbers(problem, buffers)))

    held = torch_library.peak(torch, call([np.zeros(x.shape, np.float32) for x in problem.operands()]))
    return lambda buffers: Launch(call(buffers), workspace=held)


def torch_transform(torch: Any, problem: Fft, x: Any, y: Any) -> Callable[[], Any]:
    """From tensor to tensor."""
    if problem.direction == "r2c":
        return partial(torch.fft.rfft2, x, out=y)
    return partial(torch.fft.irfft2, x, s=(problem.h, problem.w), out=y)


def fftw_planned(problem: Fft, device: Any, setting: Setting) -> Bind:
    """Measured plans, made for memory of their own. Raises Unavailable."""
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
