"""cuDNN's layers beside convolutions in NumPy, in float64. Images have their channels in front of their pixels,
however they lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.simulated.fake_c import CLibrary, array

MAXIMUM = 0  # of cudnnPoolingMode_t
STATES, BLOCK = 64, 16  # bytes of the generators; elements of whose mask one byte more is asked for


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


class Layers(CLibrary):
    """The functions of poolings, normalizations, sums, rectifiers and dropout."""

    prefix = "cudnn"

    def _image(self, descriptor: int, place: int) -> np.ndarray:
        """Images with their channels in front of their pixels, as they lie in memory."""
        order, (n, c, h, w) = self.alive[descriptor].order, self.alive[descriptor].dims
        if order:
            return array(self.reach, place, np.float32, (n, h, w, c)).transpose(0, 3, 1, 2)
        return array(self.reach, place, np.float32, (n, c, h, w))

    def _images(self, x: Any, *names: str) -> list[np.ndarray]:
        given = vars(x)
        return [self._image(given.get(f"{name}Desc") or given[f"{name}desc"], given[name]) for name in names]

    def _does(self, x: Any, out: np.ndarray, answer: Callable[[], np.ndarray]) -> None:
        """Enqueue α · answer + β · out, with the first two factors of the call 1 and 0."""
        alpha, beta = (factor.value for name, factor in vars(x).items() if name.startswith(("alpha", "beta")))
        assert (alpha, beta) == (1.0, 0.0)
        self._enqueue(x, out, answer)

    def _enqueue(self, x: Any, out: np.ndarray, answer: Callable[[], np.ndarray]) -> None:
        def step() -> None:
            out[...] = answer()

        self.enqueue(step, self.alive[x.handle].stream)

    def _forward(self, x: Any, function: Callable[[np.ndarray], np.ndarray]) -> None:
        given, to = self._images(x, "x", "y")
        self._does(x, to, lambda: function(given))

    def _backward(self, x: Any, function: Callable[[np.ndarray, np.ndarray], np.ndarray]) -> None:
        _, slope, given, to = self._images(x, "y", "dy", "x", "dx")
        self._does(x, to, lambda: function(slope, given))

    def SetTensor4dDescriptor(self, x: Any) -> None:
        assert x.dataType == 0
        self.alive[x.tensorDesc].order, self.alive[x.tensorDesc].dims = x.format, (x.n, x.c, x.h, x.w)

    def SetPooling2dDescriptor(self, x: Any) -> None:
        assert (x.maxpoolingNanOpt, x.verticalPadding, x.horizontalPadding) == (1, 0, 0)
        assert (x.windowHeight, x.verticalStride) == (x.windowWidth, x.horizontalStride)
        self.alive[x.poolingDesc].how = (x.mode, x.windowHeight, x.verticalStride)

    def PoolingForward(self, x: Any) -> None:
        self._forward(x, lambda given: pooled(given, *self.alive[x.poolingDesc].how))

    def PoolingBackward(self, x: Any) -> None:
        self._backward(x, lambda slope, given: unpooled(slope, given, *self.alive[x.poolingDesc].how))

    def SetLRNDescriptor(self, x: Any) -> None:
        assert 1 <= x.lrnN <= 16 and x.lrnK >= 1e-5 and x.lrnBeta >= 0.01
        self.alive[x.normDesc].how = (x.lrnN, x.lrnAlpha, x.lrnBeta, x.lrnK)

    def LRNCrossChannelForward(self, x: Any) -> None:
        assert x.lrnMode == 0
        self._forward(x, lambda given: responded(given, *self.alive[x.normDesc].how))

    def LRNCrossChannelBackward(self, x: Any) -> None:
        assert x.lrnMode == 0
        self._backward(x, lambda slope, given: unresponded(slope, given, *self.alive[x.normDesc].how))

    def SetActivationDescriptor(self, x: Any) -> None:
        assert (x.mode, x.reluNanOpt, x.coef) == (1, 1, 0.0)

    def ActivationForward(self, x: Any) -> None:
        self._forward(x, lambda given: np.maximum(given, 0))

    def ActivationBackward(self, x: Any) -> None:
        self._backward(x, lambda slope, given: np.where(given > 0, slope, 0))

    def ConvolutionBackwardBias(self, x: Any) -> None:
        slope, to = self._images(x, "dy", "db")
        self._does(x, to, lambda: slope.astype(np.float64).sum(axis=(0, 2, 3), keepdims=True))

    def SetOpTensorDescriptor(self, x: Any) -> None:
        assert (x.opTensorOp, x.opTensorCompType, x.opTensorNanOpt) == (0, 0, 1)

    def OpTensor(self, x: Any) -> None:
        places = (x.aDesc, x.A), (x.bDesc, x.B), (x.cDesc, x.C)
        first, second, to = (self._image(*place) for place in places)
        assert first.shape == to.shape and all(x in (1, y) for x, y in zip(second.shape, to.shape, strict=True))
        assert (x.alpha1.value, x.alpha2.value, x.beta.value) == (1.0, 1.0, 0.0)
        self._enqueue(x, to, lambda: first.astype(np.float64) + second)

    def DeriveBNTensorDescriptor(self, x: Any) -> None:
        assert x.mode == 1
        derived = self.alive[x.derivedBnDesc]
        derived.order, derived.dims = 0, (1, self.alive[x.xDesc].dims[1], 1, 1)

    def BatchNormalizationForwardTraining(self, x: Any) -> None:
        assert x.mode == 1 and not x.resultRunningMean and not x.resultRunningVariance
        given, to = self._images(x, "x", "y")
        places = x.bnScale, x.bnBias, x.resultSaveMean, x.resultSaveInvVariance
        gain, offset, means, rstds = (self._image(x.bnScaleBiasMeanVarDesc, place) for place in places)

        def answer() -> np.ndarray:
            means[...], variance = statistics(given)
            rstds[...] = 1 / np.sqrt(variance + x.epsilon)
            return normalized(given, gain, offset, *statistics(given), x.epsilon)

        self._does(x, to, answer)

    def BatchNormalizationForwardInference(self, x: Any) -> None:
        assert x.mode == 1
        places = x.bnScale, x.bnBias, x.estimatedMean, x.estimatedVariance
        rows = [self._image(x.bnScaleBiasMeanVarDesc, place) for place in places]
        self._forward(x, lambda given: normalized(given, *rows, x.epsilon))

    def BatchNormalizationBackward(self, x: Any) -> None:
        assert x.mode == 1 and x.epsilon > 0
        factors = x.alphaDataDiff, x.betaDataDiff, x.alphaParamDiff, x.betaParamDiff
        assert [factor.value for factor in factors] == [1.0, 0.0, 1.0, 0.0]
        given, slope, to = self._images(x, "x", "dy", "dx")
        places = x.bnScale, x.dBnScaleResult, x.dBnBiasResult, x.savedMean, x.savedInvVariance
        gain, of_scale, of_shift, means, rstds = (self._image(x.dBnScaleBiasDesc, place) for place in places)

        def answer() -> np.ndarray:
            gradient, of_scale[...], of_shift[...] = unnormalized(given, slope, gain, means, rstds)
            return gradient

        self._enqueue(x, to, answer)

    def DropoutGetStatesSize(self, x: Any) -> None:
        x.sizeInBytes.value = STATES

    def DropoutGetReserveSpaceSize(self, x: Any) -> None:
        x.sizeInBytes.value = self._mask_bytes(x.xdesc)

    def _mask_bytes(self, descriptor: int) -> int:
        count = int(np.prod(self.alive[descriptor].dims))
        return count + -(-count // BLOCK)

    def SetDropoutDescriptor(self, x: Any) -> None:
        assert x.stateSizeInBytes == STATES and 0 <= x.dropout < 1
        self.reach(x.states, STATES)
        self.alive[x.dropoutDesc].how = (x.dropout, np.random.default_rng(x.seed))

    def DropoutForward(self, x: Any) -> None:
        rate, rng = self.alive[x.dropoutDesc].how
        given, to = self._images(x, "x", "y")
        mask = self._mask(x, x.xdesc, to)

        def answer() -> np.ndarray:
            mask[...] = rng.random(mask.size).reshape(mask.shape) >= rate
            return given * mask / (1 - rate)

        self._enqueue(x, to, answer)

    def DropoutBackward(self, x: Any) -> None:
        rate, _ = self.alive[x.dropoutDesc].how
        slope, to = self._images(x, "dy", "dx")
        mask = self._mask(x, x.dydesc, to)
        self._enqueue(x, to, lambda: slope * mask / (1 - rate))

    def _mask(self, x: Any, descriptor: int, like: np.ndarray) -> np.ndarray:
        assert x.reserveSpaceSizeInBytes == self._mask_bytes(descriptor)
        reserve = array(self.reach, x.reserveSpace, np.uint8, (x.reserveSpaceSizeInBytes,))
        return reserve[: like.size].reshape(like.shape)
