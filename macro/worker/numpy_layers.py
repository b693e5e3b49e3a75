"""Layers in NumPy, called by its adapter layer by layer.

In the style of Python 3.6. Each call goes through the recorder, with the row that it serves. Arrays are allocated once.
"""

from functools import partial
from itertools import accumulate

import layouts  # beside this file
import numpy as np

CONVOLUTION = "convolution"  # unfolding, products and folding are its parts
CHUNK = 16 << 20  # bytes of unfolded images at once: about what a last cache holds


def aligned(shape):
    """Return float32 zeros that begin at a multiple of 64 bytes, which streaming stores need."""
    count = 4 * int(np.prod(shape))
    raw = np.zeros(count + 64, np.uint8)
    start = -raw.__array_interface__["data"][0] % 64
    return raw[start : start + count].view(np.float32).reshape(shape)


def copied(array):
    """Return an aligned copy; of integers a plain one."""
    if array.dtype.kind != "f":
        return array.copy()
    copy = aligned(array.shape)
    copy[...] = array
    return copy


def host(array):
    """Return a copy in host memory."""
    return array.copy()


class Products(object):
    """The model as its layers use it: `do`, `batch`, `weights`, `grads`, and `order` of the terms of sums."""

    order = None

    def dot(self, row, a, b, out, column="gemm"):
        """Compute a·b, of stacks of matrices too, with the terms in the model's order."""
        call = np.dot if a.ndim == 2 else np.matmul
        if self.order is None:
            self.do(row, column, call, a, b, out=out)
        else:
            order = self.order(a.shape[-1])
            call(np.ascontiguousarray(a[..., order]), np.ascontiguousarray(b[..., order, :]), out=out)


class Layer(object):
    """A layer: `forward` returns z, before the activation; `backward` the inputs' gradients from z's."""

    def __init__(self, model, spec):
        self.model, self.spec, self.do, self.batch = model, spec, model.do, model.batch
        self.name, self.after, self.activation = spec["name"], spec["after"], spec["activation"]
        self.keeps = self.activation != "none"  # backward needs the output again
        self.owns = not self.keeps and spec["kind"] != "flatten"  # its output may be overwritten
        self.z = aligned(self.shape(spec["out"]))
        self.y = aligned(self.z.shape) if self.keeps else self.z
        self.dx = [None if spec["first"] else aligned(self.shape(x)) for x in spec["in"]]
        self.state = {}

    def shape(self, of):
        return tuple([self.batch] + list(of))

    def row(self, role):
        return ["%s %s" % (self.name, role)]

    def weight(self, name):
        return self.model.weights["%s.%s" % (self.name, name)]

    def grad(self, name):
        return self.model.grads["%s.%s" % (self.name, name)]

    def activate(self, z):
        pass_ = partial(self.do, self.row("activation"), "element-wise")
        if self.activation == "sigmoid":
            pass_(np.negative, z, out=self.y)
            pass_(np.exp, self.y, out=self.y)
            pass_(np.add, self.y, np.float32(1), out=self.y)
            return pass_(np.reciprocal, self.y, out=self.y)
        if self.activation == "relu":
            return pass_(np.maximum, z, np.float32(0), out=self.y)
        return z

    def derive(self, dy):
        """Return the gradient of z, written into z, from that of y."""
        pass_ = partial(self.do, self.row("activation gradient"), "element-wise")
        if self.activation == "sigmoid":
            pass_(np.subtract, np.float32(1), self.y, out=self.z)
            pass_(np.multiply, self.z, self.y, out=self.z)
            return pass_(np.multiply, dy, self.z, out=self.z)
        if self.activation == "relu":
            alive = pass_(np.greater, self.y, 0)
            return pass_(np.multiply, dy, alive, out=self.z)
        return dy

    def keep(self):
        """Save what a step keeps for the next."""


class Dense(Layer):
    def forward(self, inputs):
        self.x = inputs[0]
        self.model.dot(self.row("forward"), self.x, self.weight("weight"), self.z)
        self.do(self.row("forward"), "element-wise", np.add, self.z, self.weight("bias"), self.z)
        return self.z

    def backward(self, dz):
        self.model.dot(self.row("wgrad"), self.x.T, dz, self.grad("weight"))
        self.do(self.row("bias gradient"), "reduction", dz.sum, axis=0, out=self.grad("bias"))
        if self.dx[0] is not None:
            self.model.dot(self.row("dgrad"), dz, self.weight("weight").T, self.dx[0])
        return self.dx


class Windows(object):
    """Places of a square window on padded images, and the elements under each."""

    def __init__(self, size, window, stride, pads, dilation, places):
        self.window, self.stride, self.dilation, self.places = window, stride, dilation, places
        self.top, self.left = pads[:2]
        reach = [(n - 1) * stride + (window - 1) * dilation + 1 for n in places]
        self.size, self.padded = size, [max(reach[0], self.top + size[0]), max(reach[1], self.left + size[1])]

    def inside(self, padded):
        """Return the images without their padding."""
        return padded[..., self.top : self.top + self.size[0], self.left : self.left + self.size[1]]

    def around(self, x, value=0.0):
        """Return images padded with `value`."""
        if self.padded == list(x.shape[-2:]):
            return x
        padded = np.full(x.shape[:-2] + tuple(self.padded), value, np.float32)
        self.inside(padded)[...] = x
        return padded

    def under(self, padded):
        """Yield (row, column, view) of each element of the window; the view is images × places."""
        ends = [(n - 1) * self.stride + 1 for n in self.places]
        for r in range(self.window):
            for s in range(self.window):
                top, left = r * self.dilation, s * self.dilation
                view = padded[..., top : top + ends[0] : self.stride, left : left + ends[1] : self.stride]
                yield r, s, view


class Conv(Layer):
    """A convolution by products with unfolded images (im2col: Chellapilla, Puri, Simard, 2006), in chunks."""

    def __init__(self, model, spec):
        Layer.__init__(self, model, spec)
        (self.c, h, w), (self.k, oh, ow) = spec["in"][0], spec["out"]
        self.windows = Windows((h, w), spec["kernel"], spec["stride"], layouts.pads(spec), spec["dilation"], (oh, ow))
        self.groups, self.taps = spec["groups"], spec["kernel"] ** 2
        self.terms = self.c // self.groups * self.taps
        self.many = max(1, min(self.batch, CHUNK // (4 * self.groups * self.terms * oh * ow)))
        self.columns = np.empty((self.many, self.groups, self.terms, oh * ow), np.float32)

    def chunks(self):
        for start in range(0, self.batch, self.many):
            yield slice(start, min(self.batch, start + self.many))

    def filters(self):
        """Return weights as groups × filters × terms."""
        return self.weight("weight").reshape(self.groups, self.k // self.groups, self.terms)

    def results(self, y):
        """Return outputs as images × groups × filters × places."""
        return y.reshape(len(y), self.groups, self.k // self.groups, -1)

    def unfold(self, x):
        """Return inputs as images × groups × terms × places."""
        columns = self.columns[: len(x)]
        taps = columns.reshape(len(x), self.c, self.windows.window, self.windows.window, *self.windows.places)
        for r, s, view in self.windows.under(self.windows.around(x)):
            taps[:, :, r, s] = view
        return columns

    def forward(self, inputs):
        self.x, row = inputs[0], self.row("forward")
        for part in self.chunks():
            columns = self.do(row, CONVOLUTION, self.unfold, self.x[part])
            self.model.dot(row, self.filters(), columns, self.results(self.z[part]), CONVOLUTION)
        if self.spec["bias"]:
            self.do(row, "element-wise", np.add, self.z, self.weight("bias")[:, None, None], self.z)
        return self.z

    def backward(self, dz):
        self.grad("weight")[...] = 0
        for part in self.chunks():
            columns = self.do(self.row("wgrad"), CONVOLUTION, self.unfold, self.x[part])
            self._weights(self.results(dz[part]), columns)
            if self.dx[0] is not None:
                row, inner = self.row("dgrad"), columns  # the unfolded images are not needed any more
                self.model.dot(row, self.filters().transpose(0, 2, 1), self.results(dz[part]), inner, CONVOLUTION)
                self.do(row, CONVOLUTION, self.fold, inner, self.dx[0][part])
        if self.spec["bias"]:
            self.do(self.row("bias gradient"), "reduction", dz.sum, axis=(0, 2, 3), out=self.grad("bias"))
        return self.dx

    def _weights(self, dy, columns):
        """Add the weights' gradient of a chunk of images."""
        row, total = self.row("wgrad"), self.grad("weight").reshape(self.groups, -1, self.terms)
        by_image = np.empty((len(dy),) + total.shape, np.float32)
        self.model.dot(row, dy, columns.transpose(0, 1, 3, 2), by_image, CONVOLUTION)
        self.do(row, CONVOLUTION, np.add, total, by_image.sum(axis=0), out=total)

    def fold(self, columns, dx):
        """Add the gradient of each element of the windows to the image under it."""
        taps = columns.reshape(len(dx), self.c, self.windows.window, self.windows.window, *self.windows.places)
        padded = np.zeros(dx.shape[:2] + tuple(self.windows.padded), np.float32)
        for r, s, view in self.windows.under(padded):
            view += taps[:, :, r, s]
        dx[...] = self.windows.inside(padded)


class Pool(Layer):
    def __init__(self, model, spec):
        Layer.__init__(self, model, spec)
        size, is_global = spec["in"][0][1:], spec["window"] == 0
        window, stride = (max(size), max(size)) if is_global else (spec["window"], spec["stride"])
        self.windows = Windows(size, window, stride, layouts.pads(spec), 1, spec["out"][1:])
        self.counts = np.zeros(spec["out"][1:], np.float32)
        for _, _, view in self.windows.under(self.windows.around(np.ones((1, 1) + tuple(size), np.float32))):
            self.counts += view[0, 0]

    def forward(self, inputs):
        self.x = inputs[0]
        largest = self.spec["mode"] == "max"
        self.do(self.row("forward"), "pooling", self._largest if largest else self._average, self.x, self.z)
        return self.z

    def _largest(self, x, z):
        z[...] = -np.inf
        for _, _, view in self.windows.under(self.windows.around(x, -np.inf)):
            np.maximum(z, view, out=z)
        self.top = z if not self.keeps else z.copy()

    def _average(self, x, z):
        z[...] = 0
        for _, _, view in self.windows.under(self.windows.around(x)):
            z += view
        z /= self.counts

    def backward(self, dz):
        if self.dx[0] is not None:
            largest = self.spec["mode"] == "max"
            self.do(self.row("gradient"), "pooling", self._to_largest if largest else self._to_all, dz, self.dx[0])
        return self.dx

    def _to_largest(self, dz, dx):
        """Pass gradients to the first of equal maxima, row by row."""
        padded = np.zeros(dx.shape[:2] + tuple(self.windows.padded), np.float32)
        given = np.zeros(dz.shape, bool)
        values = self.windows.under(self.windows.around(self.x, -np.inf))
        for (_, _, value), (_, _, view) in zip(values, self.windows.under(padded)):
            first = (value == self.top) & ~given
            view += dz * first
            given |= first
        dx[...] = self.windows.inside(padded)

    def _to_all(self, dz, dx):
        padded, share = np.zeros(dx.shape[:2] + tuple(self.windows.padded), np.float32), dz / self.counts
        for _, _, view in self.windows.under(padded):
            view += share
        dx[...] = self.windows.inside(padded)


class Norm(Layer):
    def __init__(self, model, spec):
        Layer.__init__(self, model, spec)
        self.channels = spec["in"][0][0]
        self.mean, self.variance = (np.full(self.channels, x, np.float32) for x in (0, 1))
        self.state = {self.name + ".mean": self.mean, self.name + ".variance": self.variance}
        self.count = self.z.size // self.channels
        self.hat = np.empty_like(self.z)

    def forward(self, inputs):
        self.do(self.row("forward"), "normalization", self._forward, inputs[0], self.z)
        return self.z

    def _forward(self, x, z):
        if self.spec["frozen"]:
            self.seen = self.mean, self.variance
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

    def _mean(self, x):
        """Return the mean of each channel, with the terms in the model's order."""
        if self.model.order is None:
            return x.mean(axis=(0, 2, 3))
        rows = np.moveaxis(x, 1, 0).reshape(self.channels, -1)
        return rows[:, self.model.order(rows.shape[1])].sum(axis=1) / np.float32(self.count)

    def backward(self, dz):
        self.do(self.row("gradient"), "normalization", self._backward, dz, self.dx[0])
        return self.dx

    def _backward(self, dz, dx):
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

    def keep(self):
        if not self.spec["frozen"]:
            share = np.float32(self.spec["share"])
            unbiased = self.seen[1] * np.float32(self.count / max(1.0, self.count - 1.0))
            for kept, seen in ((self.mean, self.seen[0]), (self.variance, unbiased)):
                kept += share * (seen - kept)


class Add(Layer):
    def forward(self, inputs):
        return self.do(self.row("forward"), "element-wise", np.add, inputs[0], inputs[1], out=self.z)

    def backward(self, dz):
        return [dz, dz]


class Concat(Layer):
    def __init__(self, model, spec):
        Layer.__init__(self, model, spec)
        ends = accumulate(shape[0] for shape in spec["in"])
        self.parts = [slice(end - shape[0], end) for end, shape in zip(ends, spec["in"])]

    def forward(self, inputs):
        return self.do(self.row("forward"), "copy", np.concatenate, inputs, axis=1, out=self.z)

    def backward(self, dz):
        for dx, part in zip(self.dx, self.parts):
            if dx is not None:
                self.do(self.row("gradient"), "copy", np.copyto, dx, dz[:, part])
        return self.dx


class Flatten(Layer):
    def forward(self, inputs):
        self.shape_in = inputs[0].shape
        self.z = inputs[0].reshape(self.batch, -1) if not self.keeps else self._flat_copy(inputs[0])
        return self.z

    def _flat_copy(self, x):
        """Return a copy for an activation, whose gradient is written into z."""
        return x.reshape(self.batch, -1).copy()

    def backward(self, dz):
        return [dz.reshape(self.shape_in)]


KINDS = {"dense": Dense, "conv": Conv, "pool": Pool, "norm": Norm, "add": Add, "concat": Concat, "flatten": Flatten}
