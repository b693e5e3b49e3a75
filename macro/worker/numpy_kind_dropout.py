"""Dropout in NumPy: z = x * mask, given or drawn in each step. In the style of Python 3.6."""

import numpy as np
from numpy_layers import Layer, aligned, copied


class Dropout(Layer):
    def __init__(self, model, spec):
        Layer.__init__(self, model, spec)
        given, self.drawn = spec.get("mask"), None
        if given is not None:
            self.mask = copied(given)
        else:
            self.mask, self.drawn = aligned(self.z.shape), np.random.default_rng(list(bytearray(self.name, "utf-8")))

    def _draw(self):
        keep = 1.0 - self.spec["share"]
        self.drawn.random(self.mask.shape, dtype=np.float32, out=self.mask)
        np.less(self.mask, np.float32(keep), out=self.mask)
        self.mask *= np.float32(1.0 / keep)

    def forward(self, inputs):
        if self.drawn is not None:
            self.do(self.row("forward"), "random numbers", self._draw)
        self.do(self.row("forward"), "element-wise", np.multiply, inputs[0], self.mask, out=self.z)
        return self.z

    def backward(self, dz):
        if self.dx[0] is not None:
            self.do(self.row("gradient"), "element-wise", np.multiply, dz, self.mask, out=self.dx[0])
        return self.dx


BUILDER = Dropout
