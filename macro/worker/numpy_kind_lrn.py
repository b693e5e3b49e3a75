"""Local response normalization in NumPy: z = x * scale ** -beta.

The scale is k + alpha/size * the sum of x * x of the channels around. In the style of Python 3.6.
"""

import numpy as np
from numpy_layers import Layer


class LocalResponseNorm(Layer):
    def forward(self, inputs):
        self.do(self.row("forward"), "normalization", self._forward, inputs[0], self.z)
        return self.z

    def _forward(self, x, z):
        self.x, spec = x, self.spec
        self.share = np.float32(spec["alpha"] / spec["size"])
        self.scale = self._around(x * x) * self.share + np.float32(spec["k"])
        np.multiply(x, self.scale ** np.float32(-spec["beta"]), out=z)

    def _around(self, x):
        """Return sums of neighboring channels, as many before as behind, in the model's order of terms."""
        reach, channels = self.spec["size"] // 2, x.shape[1]
        shifts = range(-reach, reach + 1)
        if self.model.order is not None:
            shifts = [shifts[i] for i in self.model.order(len(shifts))]
        sums = np.zeros_like(x)
        for shift in shifts:
            first, last = max(0, shift), min(channels, channels + shift)
            if first < last:
                sums[:, first - shift : last - shift] += x[:, first:last]
        return sums

    def backward(self, dz):
        if self.dx[0] is not None:
            self.do(self.row("gradient"), "normalization", self._backward, dz, self.dx[0])
        return self.dx

    def _backward(self, dz, dx):
        beta = np.float32(self.spec["beta"])
        power = self.scale**-beta
        np.multiply(dz, power, out=dx)
        dx -= 2 * self.share * beta * self.x * self._around(dz * self.x * power / self.scale)


BUILDER = LocalResponseNorm
