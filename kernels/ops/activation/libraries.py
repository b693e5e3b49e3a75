"""Activations by NumPy, PyTorch and Numba, each into preallocated memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kernels.launch import Bind, Launch
from kernels.lazy import np
from kernels.libs import numba
from kernels.libs import torch as torch_library
from kernels.maths import alone
from kernels.ops.activation.problem import Activation
from kernels.problem import Array
from kernels.setting import Setting

BY_MKL = ("exp", "tanh")  # kinds that PyTorch computes by MKL if it was built with MKL


def inputs(problem: Activation, buffers: Sequence[Any]) -> list[Any]:
    """Return the buffers that are read, in order; in place the last of them is also the result."""
    return list(buffers) if problem.place == "in" else list(buffers[:-1])


def numpy_chain(problem: Activation, device: object, setting: Setting) -> Bind:
    """Prepare a chain of ufuncs, each a pass over the whole array."""
    alone(setting)
    mask = np.empty((1, problem.count), bool)
    spare = np.empty((1, problem.count), np.float32) if problem.phase == "dgrad" else None
    steps: dict[tuple[str, str], Callable[..., object]] = {
        ("relu", "forward"): lambda x, y: np.maximum(x, 0, out=y),
        ("sigmoid", "forward"): partial(_numpy_sigmoid, np),
        ("tanh", "forward"): lambda x, y: np.tanh(x, out=y),
        ("exp", "forward"): lambda x, y: np.exp(x, out=y),
        ("relu", "dgrad"): lambda x, d, y: np.multiply(d, np.greater(x, 0, out=mask), out=y),
        ("sigmoid", "dgrad"): lambda x, d, y: np.multiply(
            np.multiply(np.subtract(1, x, out=spare), x, out=spare), d, out=y
        ),
        ("tanh", "dgrad"): lambda x, d, y: np.multiply(
            np.subtract(1, np.multiply(x, x, out=spare), out=spare), d, out=y
        ),
        ("exp", "dgrad"): lambda x, d, y: np.multiply(x, d, out=y),
    }
    step = steps[problem.kind, problem.phase]
    return lambda buffers: Launch(partial(step, *inputs(problem, buffers), buffers[-1]))


def _numpy_sigmoid(np: Any, x: Array, y: Array) -> None:
    np.negative(x, out=y)
    np.exp(y, out=y)
    np.add(y, 1, out=y)
    np.reciprocal(y, out=y)


def numpy_kernel() -> tuple[str | None, str | None]:
    """Return NumPy's version and the widest SIMD set of its loops for exp and tanh."""
    import importlib

    core: Any = importlib.import_module("numpy._core._multiarray_umath")
    sets = ("X86_V4", "AVX512_SKX", "X86_V3", "AVX2", "ASIMD")
    wide = next((f" ({name})" for name in sets if core.__cpu_features__.get(name)), "")
    return f"NumPy {np.__version__}, its own SIMD loops{wide}", None


def torch_steps(torch: Any) -> dict[tuple[str, str], Callable[..., object]]:
    """Return the operators that write to a given output, by kind and phase; CPU and GPU share them."""
    aten = torch.ops.aten
    return {
        ("relu", "forward"): lambda x, y: aten.clamp_min.out(x, 0, out=y),
        ("sigmoid", "forward"): lambda x, y: torch.sigmoid(x, out=y),
        ("tanh", "forward"): lambda x, y: torch.tanh(x, out=y),
        ("exp", "forward"): lambda x, y: torch.exp(x, out=y),
        ("relu", "dgrad"): lambda x, d, y: aten.threshold_backward.grad_input(d, x, 0, grad_input=y),
        ("sigmoid", "dgrad"): lambda x, d, y: aten.sigmoid_backward.grad_input(d, x, grad_input=y),
        ("tanh", "dgrad"): lambda x, d, y: aten.tanh_backward.grad_input(d, x, grad_input=y),
        ("exp", "dgrad"): lambda x, d, y: torch.mul(d, x, out=y),
    }


def torch_out(problem: Activation, device: object, setting: Setting) -> Bind:
    torch = torch_library.on_threads(setting.threads)
    step = torch_steps(torch)[problem.kind, problem.phase]
    kernel = None if problem.phase == "forward" and problem.kind in BY_MKL else torch_library.loops()

    def bind(buffers: Sequence[Array]) -> Launch:
        tensors = [torch_library.tensor(torch, x) for x in buffers]
        return Launch(partial(step, *inputs(problem, tensors), tensors[-1]), kernel=kernel)

    return bind


def torch_kernel() -> tuple[str | None, str | None]:
    """Return torch's version and the library that computes its functions.

    Profiles show MKL's VML in exp and tanh, torch's vectorized functions in the others.
    """
    torch = torch_library.load()
    inside = "exp and tanh by MKL VML" if torch.backends.mkl.is_available() else "exp and tanh by SLEEF"
    return (
        f"torch {torch.__version__}, {inside}, else its own {torch.backends.cpu.get_cpu_capability()} vectors",
        None,
    )


def numba_loop(problem: Activation, device: Any, setting: Setting) -> Bind:
    """Prepare a plain loop over the elements, which LLVM vectorizes if it contains no call."""
    import math

    alone(setting)
    unit, zero = np.float32(1), np.float32(0)
    functions: dict[str, Callable[[Any], Any]] = {
        "relu": lambda x: max(x, zero),
        "sigmoid": lambda x: unit / (unit + math.exp(-x)),
        "tanh": lambda x: math.tanh(x),
        "exp": lambda x: math.exp(x),
    }
    njit = numba.load().njit(error_model="numpy")
    function = njit(functions[problem.kind])

    @njit  # type: ignore[untyped-decorator]
    def loop(x: Any, y: Any) -> None:
        for i in range(x.shape[1]):
            y[0, i] = function(x[0, i])

    def bind(buffers: Sequence[Array]) -> Launch:
        (x,), y = inputs(problem, buffers), buffers[-1]
        if not loop.signatures:
            loop.compile((loop.typeof_pyval(x), loop.typeof_pyval(y)))
        return Launch(partial(loop, x, y))

    return bind


def numba_kernel() -> tuple[str | None, str | None]:
    """Return Numba's version and the library that computes its scalar functions."""
    module = numba.load()
    library = "Intel SVML" if module.config.USING_SVML else "libm"
    return f"numba {module.__version__}, {library}", None
