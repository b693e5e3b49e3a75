"""cuDNN's sums, rectifiers and dropout in NumPy behind the names of its C interface."""

from __future__ import annotations

from ctypes import c_double, c_float, c_int, c_size_t, c_ulonglong, c_void_p

import numpy as np

from tests.simulated.fake_cublas import REF, Reach, array, typed
from tests.simulated.fake_cudnn_layers import Layers

STATES, BLOCK = 64, 16  # bytes of the generators; elements of whose mask one byte more is asked for


class Pointwise(Layers):
    """What a library has beside convolutions, element by element."""

    reach: Reach
    dropouts: dict[int, tuple[float, np.random.Generator]]  # the share that each descriptor drops, and its generator

    @typed
    def cudnnCreateOpTensorDescriptor(self, opTensorDesc: REF) -> int:
        return self._new(opTensorDesc)

    @typed
    def cudnnSetOpTensorDescriptor(self, desc: c_void_p, op: c_int, compType: c_int, nan: c_int) -> int:
        assert (op.value, compType.value, nan.value) == (0, 0, 1)
        self.made[desc.value or 0] = ()
        return 0

    @typed
    def cudnnOpTensor(
        self,
        handle: c_void_p,
        how: c_void_p,
        alpha1: REF,
        a_desc: c_void_p,
        a: c_void_p,
        alpha2: REF,
        b_desc: c_void_p,
        b: c_void_p,
        beta: REF,
        c_desc: c_void_p,
        c: c_void_p,
    ) -> int:
        assert self.made[how.value or 0] == () and alpha2._obj.value == 1.0
        first, second, to = self._operand(a_desc, a), self._operand(b_desc, b), self._operand(c_desc, c)
        assert first.shape == to.shape and all(x in (1, y) for x, y in zip(second.shape, to.shape, strict=True))
        return self._does(alpha1, beta, to, lambda: first.astype(np.float64) + second)

    @typed
    def cudnnCreateActivationDescriptor(self, activationDesc: REF) -> int:
        return self._new(activationDesc)

    @typed
    def cudnnSetActivationDescriptor(self, desc: c_void_p, mode: c_int, nan: c_int, coef: c_double) -> int:
        assert (mode.value, nan.value, coef.value) == (1, 1, 0.0)
        self.made[desc.value or 0] = ()
        return 0

    @typed
    def cudnnActivationForward(
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
        return self._does(alpha, beta, to, lambda: np.maximum(given, 0))

    @typed
    def cudnnActivationBackward(
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
        return self._does(alpha, beta, to, lambda: np.where(given > 0, slope, 0))

    @typed
    def cudnnConvolutionBackwardBias(
        self, handle: c_void_p, alpha: REF, dy_desc: c_void_p, dy: c_void_p, beta: REF, db_desc: c_void_p, db: c_void_p
    ) -> int:
        slope, to = self._operand(dy_desc, dy), self._operand(db_desc, db)
        return self._does(alpha, beta, to, lambda: slope.astype(np.float64).sum(axis=(0, 2, 3), keepdims=True))

    @typed
    def cudnnCreateDropoutDescriptor(self, dropoutDesc: REF) -> int:
        return self._new(dropoutDesc)

    @typed
    def cudnnDropoutGetStatesSize(self, handle: c_void_p, size: REF) -> int:
        size._obj.value = STATES
        return 0

    @typed
    def cudnnDropoutGetReserveSpaceSize(self, xdesc: c_void_p, size: REF) -> int:
        count = int(np.prod(self.made[xdesc.value or 0][1:]))
        size._obj.value = count + -(-count // BLOCK)
        return 0

    @typed
    def cudnnSetDropoutDescriptor(
        self, desc: c_void_p, handle: c_void_p, rate: c_float, states: c_void_p, size: c_size_t, seed: c_ulonglong
    ) -> int:
        assert size.value == STATES and 0 <= rate.value < 1
        self.reach(states.value or 0, STATES)
        self.dropouts[desc.value or 0] = (rate.value, np.random.default_rng(seed.value))
        return 0

    def _mask(self, desc: c_void_p, place: c_void_p, size: c_size_t) -> np.ndarray:
        count = int(np.prod(self.made[desc.value or 0][1:]))
        assert size.value == count + -(-count // BLOCK)
        return array(self.reach, place, np.uint8, (size.value,))[:count]

    @typed
    def cudnnDropoutForward(
        self,
        handle: c_void_p,
        how: c_void_p,
        xdesc: c_void_p,
        x: c_void_p,
        ydesc: c_void_p,
        y: c_void_p,
        reserve: c_void_p,
        size: c_size_t,
    ) -> int:
        rate, rng = self.dropouts[how.value or 0]
        mask, given, to = self._mask(xdesc, reserve, size), self._operand(xdesc, x), self._operand(ydesc, y)

        def step() -> None:
            mask[...] = rng.random(len(mask)) >= rate
            to[...] = given * mask.reshape(to.shape) / (1 - rate)

        self.enqueue(step, self.stream)
        return 0

    @typed
    def cudnnDropoutBackward(
        self,
        handle: c_void_p,
        how: c_void_p,
        dydesc: c_void_p,
        dy: c_void_p,
        dxdesc: c_void_p,
        dx: c_void_p,
        reserve: c_void_p,
        size: c_size_t,
    ) -> int:
        rate = self.dropouts[how.value or 0][0]
        mask, slope, to = self._mask(dydesc, reserve, size), self._operand(dydesc, dy), self._operand(dxdesc, dx)

        def step() -> None:
            to[...] = slope * mask.reshape(to.shape) / (1 - rate)

        self.enqueue(step, self.stream)
        return 0
