"""Image layers in NumPy: convolution, pooling, batch and local response normalization."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import graphs  # beside this file
import layouts
import numpy as np
import numpy_layers
from numpy_layers import Layer

CONVOLUTION = "convolution"  # column of im2col, its GEMMs and col2im
CHUNK = 16 << 20  # bytes of unfolded images at once, about the size of a last-level cache


class Windows:
    """Positions of a square window on padded images, with views of the elements under each."""

    def __init__(self, size: Any, window: int, stride: Any, pads: Any, dilation: int, places: Any) -> None:
        self.window, self.stride, self.dilation, self.places = window, stride, dilation, places
        self.top, self.left = pads[:2]
        reach = [(n - 1) * stride + (window - 1) * dilation + 1 for n in places]
        self.size, self.padded = size, [max(reach[0], self.top + size[0]), max(reach[1], self.left + size[1])]

    def inside(self, padded: Any) -> Any:
        """Return the images without their padding."""
        return padded[..., self.top : self.top + self.size[0], self.left : self.left + self.size[1]]

    def around(self, x: Any, value: Any = 0.0) -> Any:
        """Return images padded with `value`."""
        if self.padded == list(x.shape[-2:]):
            return x
        padded = np.full(x.shape[:-2] + tuple(self.padded), value, np.float32)
        self.inside(padded)[...] = x
        return padded

    def under(self, padded: Any) -> Iterator[Any]:
        """Yield (row, column, view) for each window element; the view has that element at all positions."""
        ends = [(n - 1) * self.stride + 1 for n in self.places]
        for r in range(self.window):
            for s in range(self.window):
                top, left = r * self.dilation, s * self.dilation
                view = padded[..., top : top + ends[0] : self.stride, left : left + ends[1] : self.stride]
                yield r, s, view


class Conv(Layer):
    """Convolution by im2col and GEMM (Chellapilla, Puri, Simard, 2006), in chunks of images."""

    def __init__(self, model: Any, spec: dict[str, Any]) -> None:
        super().__init__(model, spec)
        (self.c, h, w), (self.k, oh, ow) = spec["in"][0], spec["out"]
        self.windows = Windows((h, w), spec["kernel"], spec["stride"], layouts.pads(spec), spec["dilation"], (oh, ow))
        self.groups, self.taps = spec["groups"], spec["kernel"] ** 2
        self.terms = self.c // self.groups * self.taps
        self.many = max(1, min(self.batch, CHUNK // (4 * self.groups * self.terms * oh * ow)))
        self.columns = np.empty((self.many, self.groups, self.terms, oh * ow), np.float32)

    def chunks(self) -> Iterator[Any]:
        for start in range(0, self.batch, self.many):
            yield slice(start, min(self.batch, start + self.many))

    def filters(self) -> Any:
        """Return weights as groups × filters × terms."""
        return self.weight("weight").reshape(self.groups, self.k // self.groups, self.terms)

    def results(self, y: Any) -> Any:
        """Return outputs as a view of images × groups × filters × positions."""
        return y.reshape(len(y), self.groups, self.k // self.groups, -1)

    def unfold(self, x: Any) -> Any:
        """Return inputs unfolded (im2col) to images × groups × terms × positions."""
        columns = self.columns[: len(x)]
        taps = columns.reshape(len(x), self.c, self.windows.window, self.windows.window, *self.windows.places)
        for r, s, view in self.windows.under(self.windows.around(x)):
            taps[:, :, r, s] = view
        return columns

    def forward(self, inputs: list[Any]) -> Any:
        self.x, row = inputs[0], self.row("forward")
        for part in self.chunks():
            columns = self.do(row, CONVOLUTION, self.unfold, self.x[part])
            self.model.dot(row, self.filters(), columns, self.results(self.z[part]), CONVOLUTION)
        if self.spec["bias"]:
            self.do(row, "element-wise", np.add, self.z, self.weight("bias")[:, None, None], self.z)
        return self.z

    def backward(self, dz: Any) -> Any:
        self.grad("weight")[...] = 0
        for part in self.chunks():
            columns = self.do(self.row("wgrad"), CONVOLUTION, self.unfold, self.x[part])
            self._weights(self.results(dz[part]), columns)
            if self.dx[0] is not None:
                row, inner = self.row("dgrad"), columns  # reuses the buffer of unfolded images
                self.model.dot(row, self.filters().transpose(0, 2, 1), self.results(dz[part]), inner, CONVOLUTION)
                self.do(row, CONVOLUTION, self.fold, inner, self.dx[0][part])
        if self.spec["bias"]:
            self.do(self.row("bias gradient"), "reduction", dz.sum, axis=(0, 2, 3), out=self.grad("bias"))
        return self.dx

    def _weights(self, dy: Any, columns: Any) -> None:
        """Add a chunk of images' contribution to the weight gradient."""
        row, total = self.row("wgrad"), self.grad("weight").reshape(self.groups, -1, self.terms)
        by_image = np.empty((len(dy), *total.shape), np.float32)
        self.model.dot(row, dy, columns.transpose(0, 1, 3, 2), by_image, CONVOLUTION)
        self.do(row, CONVOLUTION, np.add, total, by_image.sum(axis=0), out=total)

    def fold(self, columns: Any, dx: Any) -> None:
        """Sum the gradients of window elements into the images' gradient `dx` (col2im)."""
        taps = columns.reshape(len(dx), self.c, self.windows.window, self.windows.window, *self.windows.places)
        padded = np.zeros(dx.shape[:2] + tuple(self.windows.padded), np.float32)
        for r, s, view in self.windows.under(padded):
            view += taps[:, :, r, s]
        dx[...] = self.windows.inside(padded)


class Pool(Layer):
    def __init__(self, model: Any, spec: dict[str, Any]) -> None:
        super().__init__(model, spec)
        size, is_global = spec["in"][0][1:], spec["window"] == 0
        window, stride = (max(size), max(size)) if is_global else (spec["window"], spec["stride"])
        self.windows = Windows(size, window, stride, layouts.pads(spec), 1, spec["out"][1:])
        self.counts = np.zeros(spec["out"][1:], np.float32)
        for _, _, view in self.windows.under(self.windows.around(np.ones((1, 1, *tuple(size)), np.float32))):
            self.counts += view[0, 0]

    def forward(self, inputs: list[Any]) -> Any:
        self.x = inputs[0]
        largest = self.spec["mode"] == "max"
        self.do(self.row("forward"), "pooling", self._largest if largest else self._average, self.x, self.z)
        return self.z

    def _largest(self, x: Any, z: Any) -> None:
        z[...] = -np.inf
        for _, _, view in self.windows.under(self.windows.around(x, -np.inf)):
            np.maximum(z, view, out=z)
        self.top = z if not self.keeps else z.copy()

    def _average(self, x: Any, z: Any) -> None:
        z[...] = 0
        for _, _, view in self.windows.under(self.windows.around(x)):
            z += view
        z /= self.counts

    def backward(self, dz: Any) -> Any:
        if self.dx[0] is not None:
            largest = self.spec["mode"] == "max"
            self.do(self.row("gradient"), "pooling", self._to_largest if largest else self._to_all, dz, self.dx[0])
        return self.dx

    def _to_largest(self, dz: Any, dx: Any) -> None:
        """Pass each gradient to the window's maximum, the first in row order if several are equal."""
        padded = np.zeros(dx.shape[:2] + tuple(self.windows.padded), np.float32)
        given = np.zeros(dz.shape, bool)
        values = self.windows.under(self.windows.around(self.x, -np.inf))
        for (_, _, value), (_, _, view) in zip(values, self.windows.under(padded)):
            first = (value == self.top) & ~given
            view += dz * first
            given |= first
        dx[...] = self.windows.inside(padded)

    def _to_all(self, dz: Any, dx: Any) -> None:
        padded, share = np.zeros(dx.shape[:2] + tuple(self.windows.padded), np.float32), dz / self.counts
        for _, _, view in self.windows.under(padded):
            view += share
        dx[...] = self.windows.inside(padded)


class Norm(Layer):
    def __init__(self, model: Any, spec: dict[str, Any]) -> None:
        super().__init__(model, spec)
        self.channels = spec["in"][0][0]
        self.mean, self.variance = (np.full(self.channels, x, np.float32) for x in (0, 1))
        self.state = {self.name + ".mean": self.mean, self.name + ".variance": self.variance}
        self.count = self.z.size // self.channels
        self.hat = np.empty_like(self.z)

    def forward(self, inputs: list[Any]) -> Any:
        self.do(self.row("forward"), "normalization", self._forward, inputs[0], self.z)
        return self.z

    def _forward(self, x: Any, z: Any) -> None:
        if self.spec["frozen"]:
            self.seen: Any = self.mean, self.variance
        else:
            self.seen = self._mean(x), None
        centered = np.subtract(x, self.seen[0][:, None, None], out=self.hat)
        if self.seen[1] is None:
            self.seen = self.seen[0], self._mean(centered * centered)
        self.root = 1 / np.sqrt(self.seen[1] + np.float32(self.spec["epsilon"]))
        centered *= self.root[:, None, None]
        if self.spec["affine"]:
            np.multiply(self.hat, self.weight("scale")[:, None, None], out=z)
            z += self.weight("shift")[:, None, None]
        else:
            z[...] = self.hat

    def _mean(self, x: Any) -> Any:
        """Return the mean of each channel, summed in the model's order of terms."""
        if self.model.order is None:
            return x.mean(axis=(0, 2, 3))
        rows = np.moveaxis(x, 1, 0).reshape(self.channels, -1)
        return rows[:, self.model.order(rows.shape[1])].sum(axis=1) / np.float32(self.count)

    def backward(self, dz: Any) -> Any:
        self.do(self.row("gradient"), "normalization", self._backward, dz, self.dx[0])
        return self.dx

    def _backward(self, dz: Any, dx: Any) -> None:
        means = self._mean(dz), self._mean(dz * self.hat)
        if self.spec["affine"]:
            np.multiply(means[0], np.float32(self.count), out=self.grad("shift"))
            np.multiply(means[1], np.float32(self.count), out=self.grad("scale"))
        if dx is None:
            return
        scale = self.weight("scale") * self.root if self.spec["affine"] else self.root
        if self.spec["frozen"]:
            np.multiply(dz, scale[:, None, None], out=dx)
            return
        np.multiply(self.hat, means[1][:, None, None], out=dx)
        dx += means[0][:, None, None]
        np.subtract(dz, dx, out=dx)
        dx *= scale[:, None, None]

    def keep(self) -> None:
        if not self.spec["frozen"]:
            share = np.float32(self.spec["share"])
            unbiased = self.seen[1] * np.float32(self.count / max(1.0, self.count - 1.0))
            for kept, seen in ((self.mean, self.seen[0]), (self.variance, unbiased)):
                kept += share * (seen - kept)


class LocalResponseNorm(Layer):
    """Local response normalization: z = x * scale ** -beta.

    The scale is k + alpha/size * (sum of x * x over the neighboring channels).
    """

    def forward(self, inputs: list[Any]) -> Any:
        self.do(self.row("forward"), "normalization", self._forward, inputs[0], self.z)
        return self.z

    def _forward(self, x: Any, z: Any) -> None:
        self.x, spec = x, self.spec
        self.share = np.float32(spec["alpha"] / spec["size"])
        self.scale = self._around(x * x) * self.share + np.float32(spec["k"])
        np.multiply(x, self.scale ** np.float32(-spec["beta"]), out=z)

    def _around(self, x: Any) -> Any:
        """Return sums over the window centered on each channel, in the model's order of terms."""
        reach, channels = self.spec["size"] // 2, x.shape[1]
        shifts = list(range(-reach, reach + 1))
        if self.model.order is not None:
            shifts = [shifts[i] for i in self.model.order(len(shifts))]
        sums = np.zeros_like(x)
        for shift in shifts:
            first, last = max(0, shift), min(channels, channels + shift)
            if first < last:
                sums[:, first - shift : last - shift] += x[:, first:last]
        return sums

    def backward(self, dz: Any) -> Any:
        if self.dx[0] is not None:
            self.do(self.row("gradient"), "normalization", self._backward, dz, self.dx[0])
        return self.dx

    def _backward(self, dz: Any, dx: Any) -> None:
        beta = np.float32(self.spec["beta"])
        power = self.scale**-beta
        np.multiply(dz, power, out=dx)
        dx -= 2 * self.share * beta * self.x * self._around(dz * self.x * power / self.scale)


KINDS = dict(numpy_layers.KINDS, conv=Conv, pool=Pool, norm=Norm, lrn=LocalResponseNorm, **graphs.builders("numpy"))
