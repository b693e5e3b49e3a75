"""cuDNN's layers other than convolutions through its C interface of version 7.

Functions return descriptors or bound calls. Operands are pairs of a tensor's descriptor and an address; α is 1, β 0."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from kernels.libs.cublas import prepared
from kernels.libs.cudnn import FLOAT, INT, POINTER, SIZE, Cudnn

MODES = {"max": 0, "avg": 2}  # cudnnPoolingMode_t; averages exclude padding
PROPAGATE = 1  # cudnnNanPropagation_t
SPATIAL = 1  # cudnnBatchNormMode_t: a mean and a variance for each channel
ACROSS = 0  # cudnnLRNMode_t: over channels
ADD = 0  # cudnnOpTensorOp_t
RELU = 1  # cudnnActivationMode_t
MOST = 1 << 31  # elements of a tensor
KERNELS = 4  # most kernels of one call, a guess: sums, then their use
Operand = tuple[ctypes.c_void_p, int]


def too_many(elements: int, option: str = "--images") -> str | None:
    """Return why a tensor is too large for cuDNN, or None if it fits; `option`: the option to reduce."""
    return f"{elements} elements exceed cuDNN's 32-bit index: use a smaller {option}" if elements >= MOST else None


def pooling(on: Cudnn, mode: str, window: int, stride: int) -> ctypes.c_void_p:
    """Return the descriptor of a pooling of square windows, without padding; `mode`: a key of MODES."""
    how = on.make("cudnnCreatePoolingDescriptor")
    sizes = (window, window, 0, 0, stride, stride)
    on.call("cudnnSetPooling2dDescriptor", how, INT(MODES[mode]), INT(PROPAGATE), *map(INT, sizes))
    return how


def pool(on: Cudnn, how: ctypes.c_void_p, x: Operand, y: Operand) -> Callable[[], None]:
    """Return a call of the pooling's forward pass."""
    return _call(on, "cudnnPoolingForward", (how,), (x,), y)


def pool_gradient(
    on: Cudnn, how: ctypes.c_void_p, y: Operand, dy: Operand, x: Operand, dx: Operand
) -> Callable[[], None]:
    """Return a call of the pooling's gradient dx, which also reads the forward pass's x and y."""
    return _call(on, "cudnnPoolingBackward", (how,), (y, dy, x), dx)


def of_channels(on: Cudnn, x: ctypes.c_void_p) -> ctypes.c_void_p:
    """Return the descriptor of a batch normalization's parameters, derived from the descriptor of x."""
    derived = on.make("cudnnCreateTensorDescriptor")
    on.call("cudnnDeriveBNTensorDescriptor", derived, x, INT(SPATIAL))
    return derived


def normalize(
    on: Cudnn,
    x: Operand,
    y: Operand,
    row: ctypes.c_void_p,
    gain: tuple[int, int],
    epsilon: float,
    kept: tuple[int, int],
) -> Callable[[], None]:
    """Return a call that normalizes by the batch's statistics and writes the statistics to `kept`.

    `kept`: addresses of mean and 1/√(variance + ε); `gain`: addresses of scale and shift. Running statistics are not
    updated."""
    alpha, beta = _factors()
    none = (ctypes.c_double(0.0), POINTER(0), POINTER(0))
    given = (alpha, beta, *_given(x), *_given(y), row, *map(POINTER, gain), *none, ctypes.c_double(epsilon))
    return _ready(on, "cudnnBatchNormalizationForwardTraining", INT(SPATIAL), *given, *map(POINTER, kept))


def normalize_frozen(
    on: Cudnn,
    x: Operand,
    y: Operand,
    row: ctypes.c_void_p,
    gain: tuple[int, int],
    epsilon: float,
    kept: tuple[int, int],
) -> Callable[[], None]:
    """Return a call that normalizes by a given mean and variance, whose addresses are `kept`."""
    alpha, beta = _factors()
    given = (alpha, beta, *_given(x), *_given(y), row, *map(POINTER, (*gain, *kept)), ctypes.c_double(epsilon))
    return _ready(on, "cudnnBatchNormalizationForwardInference", INT(SPATIAL), *given)


def normalize_gradient(
    on: Cudnn,
    x: Operand,
    dy: Operand,
    dx: Operand,
    row: ctypes.c_void_p,
    scale: int,
    gradients: tuple[int, int],
    epsilon: float,
    kept: tuple[int, int],
) -> Callable[[], None]:
    """Return a call of dx and of scale's and shift's `gradients` (addresses); `kept`: `normalize`'s."""
    alpha, beta = _factors()
    given = (alpha, beta, alpha, beta, *_given(x), *_given(dy), *_given(dx), row, *map(POINTER, (scale, *gradients)))
    last = (ctypes.c_double(epsilon), *map(POINTER, kept))
    return _ready(on, "cudnnBatchNormalizationBackward", INT(SPATIAL), *given, *last)


def response(on: Cudnn, width: int, alpha: float, beta: float, bias: float) -> ctypes.c_void_p:
    """Return the descriptor of y = x / (bias + α/width · Σ x²)^β, the sum over `width` channels near x."""
    how = on.make("cudnnCreateLRNDescriptor")
    on.call("cudnnSetLRNDescriptor", how, ctypes.c_uint(width), *map(ctypes.c_double, (alpha, beta, bias)))
    return how


def respond(on: Cudnn, how: ctypes.c_void_p, x: Operand, y: Operand) -> Callable[[], None]:
    """Return a call of the LRN's forward pass."""
    return _call(on, "cudnnLRNCrossChannelForward", (how, INT(ACROSS)), (x,), y)


def respond_gradient(
    on: Cudnn, how: ctypes.c_void_p, y: Operand, dy: Operand, x: Operand, dx: Operand
) -> Callable[[], None]:
    """Return a call of the LRN's gradient dx, which also reads the forward pass's x and y."""
    return _call(on, "cudnnLRNCrossChannelBackward", (how, INT(ACROSS)), (y, dy, x), dx)


def adding(on: Cudnn) -> ctypes.c_void_p:
    """Return the descriptor of an elementwise sum for `add`."""
    how = on.make("cudnnCreateOpTensorDescriptor")
    on.call("cudnnSetOpTensorDescriptor", how, INT(ADD), INT(FLOAT), INT(PROPAGATE))
    return how


def add(on: Cudnn, how: ctypes.c_void_p, a: Operand, b: Operand, to: Operand) -> Callable[[], None]:
    """Return a call of a + b; axes of b with extent 1 are broadcast."""
    (alpha, beta), alpha_b = _factors(), ctypes.c_float(1.0)
    return _ready(on, "cudnnOpTensor", how, alpha, *_given(a), alpha_b, *_given(b), beta, *_given(to))


def rectifier(on: Cudnn) -> ctypes.c_void_p:
    """Return the descriptor of the activation max(x, 0)."""
    how = on.make("cudnnCreateActivationDescriptor")
    on.call("cudnnSetActivationDescriptor", how, INT(RELU), INT(PROPAGATE), ctypes.c_double(0.0))
    return how


def rectify(on: Cudnn, how: ctypes.c_void_p, x: Operand, y: Operand) -> Callable[[], None]:
    """Return a call of ReLU's forward pass, which may run in place."""
    return _call(on, "cudnnActivationForward", (how,), (x,), y)


def rectify_gradient(
    on: Cudnn, how: ctypes.c_void_p, y: Operand, dy: Operand, x: Operand, dx: Operand
) -> Callable[[], None]:
    """Return a call of ReLU's gradient dx, which also reads the forward pass's x and y."""
    return _call(on, "cudnnActivationBackward", (how,), (y, dy, x), dx)


def bias_gradient(on: Cudnn, dy: Operand, db: Operand) -> Callable[[], None]:
    """Return a call of the bias gradient db, the sum of dy over each channel."""
    return _call(on, "cudnnConvolutionBackwardBias", (), (dy,), db)


def state_bytes(on: Cudnn) -> int:
    """Return the bytes of the random generators' states that `dropping` needs."""
    return _bytes(on, "cudnnDropoutGetStatesSize", on.handle)


def dropping(on: Cudnn, rate: float, states: tuple[int, int], seed: int) -> ctypes.c_void_p:
    """Return the descriptor of dropout; `states`: address and bytes of its generators, seeded here.

    The states' memory must live as long as the descriptor."""
    how = on.make("cudnnCreateDropoutDescriptor")
    given = (ctypes.c_float(rate), POINTER(states[0]), SIZE(states[1]), ctypes.c_ulonglong(seed))
    on.call("cudnnSetDropoutDescriptor", how, on.handle, *given)
    return how


def mask_bytes(on: Cudnn, x: ctypes.c_void_p) -> int:
    """Return the bytes of the mask that `drop` writes for `drop_gradient`."""
    return _bytes(on, "cudnnDropoutGetReserveSpaceSize", x)


def drop(on: Cudnn, how: ctypes.c_void_p, x: Operand, y: Operand, mask: tuple[int, int]) -> Callable[[], None]:
    """Return a call of dropout's forward pass; `mask`: address and bytes of the mask that it writes."""
    return _ready(on, "cudnnDropoutForward", how, *_given(x), *_given(y), POINTER(mask[0]), SIZE(mask[1]))


def drop_gradient(
    on: Cudnn, how: ctypes.c_void_p, dy: Operand, dx: Operand, mask: tuple[int, int]
) -> Callable[[], None]:
    """Return a call of dropout's gradient dx, by the mask that the last forward pass wrote."""
    return _ready(on, "cudnnDropoutBackward", how, *_given(dy), *_given(dx), POINTER(mask[0]), SIZE(mask[1]))


def _bytes(on: Cudnn, name: str, of: ctypes.c_void_p) -> int:
    size = SIZE()
    on.call(name, of, ctypes.byref(size))
    return size.value


def _call(on: Cudnn, name: str, how: tuple[Any, ...], given: tuple[Operand, ...], to: Operand) -> Callable[[], None]:
    alpha, beta = _factors()
    return _ready(on, name, *how, alpha, *(word for x in given for word in _given(x)), beta, *_given(to))


def _factors() -> tuple[ctypes.c_float, ctypes.c_float]:
    return ctypes.c_float(1.0), ctypes.c_float(0.0)


def _given(operand: Operand) -> tuple[ctypes.c_void_p, ctypes.c_void_p]:
    return operand[0], POINTER(operand[1])


def _ready(on: Cudnn, name: str, *arguments: Any) -> Callable[[], None]:
    """Return a call of a cuDNN function, with floats passed by address and all arguments kept alive."""
    given = [ctypes.byref(x) if isinstance(x, ctypes.c_float) else x for x in arguments]
    return prepared(getattr(on.api, name), (on.handle, *given), name, on.check, arguments)
