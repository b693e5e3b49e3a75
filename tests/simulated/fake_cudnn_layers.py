"""cuDNN's layers beside convolutions by the suite's own float64 references: operands, layouts and factors are real.

Images have their channels in front of their pixels, however they lie.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernels.ops.norm.problem import ALPHA, BETA, BIAS, EPSILON, WIDTH, batch, local
from kernels.ops.pooling.problem import STRIDE, Pooling
from tests.simulated.fake_c import CLibrary, array

POOLS = {0: "max", 2: "avg"}  # cudnnPoolingMode_t
STATES, BLOCK = 64, 16  # bytes of the generators; elements of whose mask one byte more is asked for


def pooled(how: tuple[int, int, int], x: np.ndarray, dy: np.ndarray | None = None) -> np.ndarray:
    """Return y, or dx, whose gradient goes to the first of equal maxima."""
    mode, window, stride = how
    assert stride == STRIDE
    problem = Pooling(*x.shape[:3], window, POOLS[mode], phase="forward" if dy is None else "step")
    return problem.reference({"x": x, "dy": dy})["y" if dy is None else "dx"]


def responded(how: tuple[float, ...], x: np.ndarray, dy: np.ndarray | None = None) -> np.ndarray:
    """Return y, or dx."""
    assert how == (WIDTH, ALPHA, BETA, BIAS)
    given = {"x": planes(x)} if dy is None else {"x": planes(x), "dy": planes(dy)}
    return local(given, dy is not None)["y" if dy is None else "dx"].reshape(x.shape)


def planes(x: np.ndarray) -> np.ndarray:
    """Return images with their pixels in a row."""
    return x.reshape(*x.shape[:2], -1)


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
        self._forward(x, lambda given: pooled(self.alive[x.poolingDesc].how, given))

    def PoolingBackward(self, x: Any) -> None:
        self._backward(x, lambda slope, given: pooled(self.alive[x.poolingDesc].how, given, slope))

    def SetLRNDescriptor(self, x: Any) -> None:
        assert 1 <= x.lrnN <= 16 and x.lrnK >= 1e-5 and x.lrnBeta >= 0.01
        self.alive[x.normDesc].how = (x.lrnN, x.lrnAlpha, x.lrnBeta, x.lrnK)

    def LRNCrossChannelForward(self, x: Any) -> None:
        assert x.lrnMode == 0
        self._forward(x, lambda given: responded(self.alive[x.normDesc].how, given))

    def LRNCrossChannelBackward(self, x: Any) -> None:
        assert x.lrnMode == 0
        self._backward(x, lambda slope, given: responded(self.alive[x.normDesc].how, given, slope))

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
        assert (x.mode, x.epsilon) == (1, EPSILON) and not x.resultRunningMean and not x.resultRunningVariance
        given, to = self._images(x, "x", "y")
        rows = self._rows(x, x.bnScaleBiasMeanVarDesc, "bnScale", "bnBias", "resultSaveMean", "resultSaveInvVariance")

        def answer() -> np.ndarray:
            found = batch({"x": planes(given), "scale": rows[0], "shift": rows[1]}, None, False)
            rows[2][...], rows[3][...] = found["mean"], found["rstd"]
            return found["y"].reshape(given.shape)

        self._does(x, to, answer)

    def BatchNormalizationForwardInference(self, x: Any) -> None:
        assert (x.mode, x.epsilon) == (1, EPSILON)
        names = "bnScale", "bnBias", "estimatedMean", "estimatedVariance"
        scale, shift, mean, variance = self._rows(x, x.bnScaleBiasMeanVarDesc, *names)

        def function(given: np.ndarray) -> np.ndarray:
            found = batch({"x": planes(given), "scale": scale, "shift": shift}, (mean[0], variance[0]), False)
            return found["y"].reshape(given.shape)

        self._forward(x, function)

    def BatchNormalizationBackward(self, x: Any) -> None:
        assert (x.mode, x.epsilon) == (1, EPSILON)
        factors = x.alphaDataDiff, x.betaDataDiff, x.alphaParamDiff, x.betaParamDiff
        assert [factor.value for factor in factors] == [1.0, 0.0, 1.0, 0.0]
        given, slope, to = self._images(x, "x", "dy", "dx")
        names = "bnScale", "dBnScaleResult", "dBnBiasResult", "savedMean", "savedInvVariance"
        scale, of_scale, of_shift, mean, rstd = self._rows(x, x.dBnScaleBiasDesc, *names)

        def answer() -> np.ndarray:
            known = {"x": planes(given), "dy": planes(slope), "scale": scale, "shift": np.zeros_like(scale)}
            found = batch(known, None, True)
            assert np.allclose(mean, found["mean"], atol=1e-3) and np.allclose(rstd, found["rstd"], rtol=1e-3)
            of_scale[...], of_shift[...] = found["dscale"], found["dshift"]
            return found["dx"].reshape(given.shape)

        self._enqueue(x, to, answer)

    def _rows(self, x: Any, descriptor: int, *names: str) -> list[np.ndarray]:
        """Return arrays of a number for each channel."""
        return [self._image(descriptor, getattr(x, name)).reshape(1, -1) for name in names]

    def DropoutGetStatesSize(self, x: Any) -> None:
        x.sizeInBytes.value = STATES

    def DropoutGetReserveSpaceSize(self, x: Any) -> None:
        x.sizeInBytes.value = self._mask_bytes(x.xdesc)

    def _mask_bytes(self, descriptor: int) -> int:
        count = int(np.prod(self.alive[descriptor].dims))
        return count + -(-count // BLOCK)

    def SetDropoutDescriptor(self, x: Any) -> None:
        assert x.stateSizeInBytes == (STATES if x.states else 0) and 0 <= x.dropout < 1
        if x.states:
            self.reach(x.states, STATES)
        else:
            assert x.dropout == 0
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
