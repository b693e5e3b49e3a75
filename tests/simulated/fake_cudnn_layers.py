"""cuDNN's poolings and normalizations in NumPy behind the names of its C interface, in float64. Images have their
channels in front of their pixels, however they lie."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import c_double, c_int, c_uint, c_void_p
from typing import Any

import numpy as np

from tests.simulated.fake_cublas import REF, Enqueue, typed

MAXIMUM = 0  # of cudnnPoolingMode_t


def _windows(x: np.ndarray, window: int, stride: int) -> list[np.ndarray]:
    """For each place in a window the elements of all windows."""
    edge = (x.shape[2] - window) // stride + 1
    last = stride * (edge - 1) + 1
    return [x[:, :, r : r + last : stride, c : c + last : stride] for r in range(window) for c in range(window)]


def pooled(x: np.ndarray, mode: int, window: int, stride: int) -> np.ndarray:
    views = np.stack(_windows(x.astype(np.float64), window, stride))
    found: np.ndarray = views.max(axis=0) if mode == MAXIMUM else views.mean(axis=0)
    return found


def unpooled(slope: np.ndarray, x: np.ndarray, mode: int, window: int, stride: int) -> np.ndarray:
    """To the first of equal maxima, or to all elements alike."""
    gradient = np.zeros(x.shape)
    at = np.argmax(np.stack(_windows(x, window, stride)), axis=0)
    for i, view in enumerate(_windows(gradient, window, stride)):
        view += np.where(at == i, slope, 0) if mode == MAXIMUM else slope.astype(np.float64) / window**2
    return gradient


def statistics(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of each channel, as images of one pixel."""
    wide = x.astype(np.float64)
    return wide.mean(axis=(0, 2, 3), keepdims=True), wide.var(axis=(0, 2, 3), keepdims=True)


def normalized(
    x: np.ndarray, scale: np.ndarray, shift: np.ndarray, mean: np.ndarray, variance: np.ndarray, epsilon: float
) -> np.ndarray:
    answer: np.ndarray = scale * (x.astype(np.float64) - mean) / np.sqrt(variance + epsilon) + shift
    return answer


def unnormalized(
    x: np.ndarray, slope: np.ndarray, scale: np.ndarray, mean: np.ndarray, rstd: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients of the images, the scale and the shift."""
    over = (0, 2, 3)
    apart, wide = (x.astype(np.float64) - mean) * rstd, slope.astype(np.float64)
    dscale, dshift = (wide * apart).sum(axis=over, keepdims=True), wide.sum(axis=over, keepdims=True)
    count = x.size / x.shape[1]
    return scale * rstd * (wide - dshift / count - apart * dscale / count), dscale, dshift


def responded(x: np.ndarray, width: int, alpha: float, beta: float, bias: float) -> np.ndarray:
    answer: np.ndarray = x / (bias + alpha / width * _near(x.astype(np.float64) ** 2, width)) ** beta
    return answer


def unresponded(slope: np.ndarray, x: np.ndarray, width: int, alpha: float, beta: float, bias: float) -> np.ndarray:
    size = bias + alpha / width * _near(x.astype(np.float64) ** 2, width)
    near = _near(slope * x / size ** (beta + 1), width)
    answer: np.ndarray = slope / size**beta - 2 * beta * alpha / width * x * near
    return answer


def _near(x: np.ndarray, width: int) -> np.ndarray:
    """The sum over as many neighboring channels."""
    total = x.copy()
    for away in range(1, width // 2 + 1):
        total[:, away:] += x[:, :-away]
        total[:, :-away] += x[:, away:]
    return total


class Layers:
    """What a library has beside convolutions."""

    enqueue: Enqueue
    stream: int | None
    made: dict[int, tuple[int, ...]]
    responses: dict[int, tuple[int, float, float, float]]

    def _new(self, place: Any) -> int:
        raise NotImplementedError

    def _at(self, place: c_void_p, order: int, dims: tuple[int, ...]) -> np.ndarray:
        raise NotImplementedError

    @typed
    def cudnnCreatePoolingDescriptor(self, poolingDesc: REF) -> int:
        return self._new(poolingDesc)

    @typed
    def cudnnSetPooling2dDescriptor(
        self,
        desc: c_void_p,
        mode: c_int,
        nan: c_int,
        height: c_int,
        width: c_int,
        pad_h: c_int,
        pad_w: c_int,
        stride_h: c_int,
        stride_w: c_int,
    ) -> int:
        assert (nan.value, pad_h.value, pad_w.value) == (1, 0, 0) and height.value == width.value
        assert stride_h.value == stride_w.value
        self.made[desc.value or 0] = (mode.value, height.value, stride_h.value)
        return 0

    @typed
    def cudnnDeriveBNTensorDescriptor(self, derived: c_void_p, x: c_void_p, mode: c_int) -> int:
        assert mode.value == 1
        self.made[derived.value or 0] = (0, 1, self.made[x.value or 0][2], 1, 1)
        return 0

    @typed
    def cudnnCreateLRNDescriptor(self, normDesc: REF) -> int:
        return self._new(normDesc)

    @typed
    def cudnnSetLRNDescriptor(
        self, desc: c_void_p, width: c_uint, alpha: c_double, beta: c_double, bias: c_double
    ) -> int:
        assert 1 <= width.value <= 16 and bias.value >= 1e-5 and beta.value >= 0.01
        self.responses[desc.value or 0] = (width.value, alpha.value, beta.value, bias.value)
        return 0

    def _operand(self, desc: c_void_p, place: c_void_p) -> np.ndarray:
        """Images with their channels in front of their pixels, as they lie in memory."""
        order, *dims = self.made[desc.value or 0]
        lying = self._at(place, order, tuple(dims))
        planes: np.ndarray = lying.transpose(0, 3, 1, 2) if order else lying
        return planes

    def _does(self, one: Any, zero: Any, out: np.ndarray, answer: Callable[[], np.ndarray]) -> int:
        """α · answer + β · out, with 1 and 0."""
        assert (one._obj.value, zero._obj.value) == (1.0, 0.0)

        def step() -> None:
            out[...] = answer()

        self.enqueue(step, self.stream)
        return 0

    @typed
    def cudnnPoolingForward(
        self,
        handle: c_void_p,
        how: c_void_p,
        alpha: REF,
        x_desc: c_void_p,
        x: c_void_p,
        beta: REF,
        y_desc: c_void_p,
        y: c_void_p,
    ) -> int:
        given, to = self._operand(x_desc, x), self._operand(y_desc, y)
        return self._does(alpha, beta, to, lambda: pooled(given, *self.made[how.value or 0]))

    @typed
    def cudnnPoolingBackward(
        self,
        handle: c_void_p,
        how: c_void_p,
        alpha: REF,
        y_desc: c_void_p,
        y: c_void_p,
        dy_desc: c_void_p,
        dy: c_void_p,
        x_desc: c_void_p,
        x: c_void_p,
        beta: REF,
        dx_desc: c_void_p,
        dx: c_void_p,
    ) -> int:
        self._operand(y_desc, y)
        slope, given, to = self._operand(dy_desc, dy), self._operand(x_desc, x), self._operand(dx_desc, dx)
        return self._does(alpha, beta, to, lambda: unpooled(slope, given, *self.made[how.value or 0]))

    def _row(self, desc: c_void_p, place: c_void_p) -> np.ndarray:
        """A parameter of each channel."""
        return self._at(place, 0, self.made[desc.value or 0][1:])

    @typed
    def cudnnBatchNormalizationForwardTraining(
        self,
        handle: c_void_p,
        mode: c_int,
        alpha: REF,
        beta: REF,
        x_desc: c_void_p,
        x: c_void_p,
        y_desc: c_void_p,
        y: c_void_p,
        row: c_void_p,
        scale: c_void_p,
        shift: c_void_p,
        factor: c_double,
        running_mean: c_void_p,
        running_variance: c_void_p,
        epsilon: c_double,
        mean: c_void_p,
        rstd: c_void_p,
    ) -> int:
        assert mode.value == 1 and not running_mean.value and not running_variance.value
        given, to = self._operand(x_desc, x), self._operand(y_desc, y)
        gain, offset, means, rstds = (self._row(row, place) for place in (scale, shift, mean, rstd))

        def answer() -> np.ndarray:
            means[...], variance = statistics(given)
            rstds[...] = 1 / np.sqrt(variance + epsilon.value)
            return normalized(given, gain, offset, *statistics(given), epsilon.value)

        return self._does(alpha, beta, to, answer)

    @typed
    def cudnnBatchNormalizationForwardInference(
        self,
        handle: c_void_p,
        mode: c_int,
        alpha: REF,
        beta: REF,
        x_desc: c_void_p,
        x: c_void_p,
        y_desc: c_void_p,
        y: c_void_p,
        row: c_void_p,
        scale: c_void_p,
        shift: c_void_p,
        mean: c_void_p,
        variance: c_void_p,
        epsilon: c_double,
    ) -> int:
        assert mode.value == 1
        given, to = self._operand(x_desc, x), self._operand(y_desc, y)
        rows = [self._row(row, place) for place in (scale, shift, mean, variance)]
        return self._does(alpha, beta, to, lambda: normalized(given, *rows, epsilon.value))

    @typed
    def cudnnBatchNormalizationBackward(
        self,
        handle: c_void_p,
        mode: c_int,
        alpha: REF,
        beta: REF,
        of_gain: REF,
        onto_gain: REF,
        x_desc: c_void_p,
        x: c_void_p,
        dy_desc: c_void_p,
        dy: c_void_p,
        dx_desc: c_void_p,
        dx: c_void_p,
        row: c_void_p,
        scale: c_void_p,
        dscale: c_void_p,
        dshift: c_void_p,
        epsilon: c_double,
        mean: c_void_p,
        rstd: c_void_p,
    ) -> int:
        assert (mode.value, of_gain._obj.value, onto_gain._obj.value) == (1, 1.0, 0.0) and epsilon.value > 0
        given, slope, to = self._operand(x_desc, x), self._operand(dy_desc, dy), self._operand(dx_desc, dx)
        gain, of_scale, of_shift, means, rstds = (
            self._row(row, place) for place in (scale, dscale, dshift, mean, rstd)
        )

        def answer() -> np.ndarray:
            found, of_scale[...], of_shift[...] = unnormalized(given, slope, gain, means, rstds)
            return found

        return self._does(alpha, beta, to, answer)

    @typed
    def cudnnLRNCrossChannelForward(
        self,
        handle: c_void_p,
        how: c_void_p,
        mode: c_int,
        alpha: REF,
        x_desc: c_void_p,
        x: c_void_p,
        beta: REF,
        y_desc: c_void_p,
        y: c_void_p,
    ) -> int:
        assert mode.value == 0
        given, to = self._operand(x_desc, x), self._operand(y_desc, y)
        return self._does(alpha, beta, to, lambda: responded(given, *self.responses[how.value or 0]))

    @typed
    def cudnnLRNCrossChannelBackward(
        self,
        handle: c_void_p,
        how: c_void_p,
        mode: c_int,
        alpha: REF,
        y_desc: c_void_p,
        y: c_void_p,
        dy_desc: c_void_p,
        dy: c_void_p,
        x_desc: c_void_p,
        x: c_void_p,
        beta: REF,
        dx_desc: c_void_p,
        dx: c_void_p,
    ) -> int:
        assert mode.value == 0
        self._operand(y_desc, y)
        slope, given, to = self._operand(dy_desc, dy), self._operand(x_desc, x), self._operand(dx_desc, dx)
        how_much = self.responses[how.value or 0]
        return self._does(alpha, beta, to, lambda: unresponded(slope, given, *how_much))
