"""Local response normalization in NumPy: z = x * scale ** -beta, where scale = k + alpha/size * the sum of x * x of the
channels around. In the style of Python 3.6."""

import numpy as np
from numpy_layers import Layer


class LocalResponseNorm(Layer):
    def forward(self, inputs):
        self.do(self.row("forward"), "normalization", self._forward, inputs[0], self.z)
        return self.z

    def _forward(self, x, z):
        self.x, told = x, self.told
        self.share = np.float32(told["alpha"] / told["size"])
        self.scale = self._around(x * x) * self.share + np.float32(told["k"])
        np.multiply(x, self.scale ** np.float32(-told["beta"]), out=z)

    def _around(self, x):
        """Sums of neighboring channels, as many before as behind; in another order where there is one."""
        reach, channels = self.told["size"] // 2, x.shape[1]
        shifts = range(-reach, reach + 1)
        if self.model.order is not None:
            shifts = [shifts[i] for i in self.model.order(len(shifts))]
        whole = np.zeros_like(x)
        for shift in shifts:
            first, last = max(0, shift), min(channels, channels + shift)
            if first < last:
                whole[:, first - shift : last - shift] += x[:, first:last]
        return whole

    def backward(self, dz):
        if self.dx[0] is not None:
            self.do(self.row("gradient"), "normalization", self._backward, dz, self.dx[0])
        return self.dx

    def _backward(self, dz, dx):
        beta = np.float32(self.told["beta"])
        power = self.scale**-beta
        np.multiply(dz, power, out=dx)
        dx -= 2 * self.share * beta * self.x * self._around(dz * self.x * power / self.scale)


BUILDER = LocalResponseNorm
