"""Layers in NumPy, used by NumPy's adapter.

Each call goes through the recorder, with the row that it serves. Arrays are allocated once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import accumulate
from typing import Any

import numpy as np


def aligned(shape: Any) -> Any:
    """Return float32 zeros aligned to 64 bytes, as streaming stores require."""
    count = 4 * int(np.prod(shape))
    raw = np.zeros(count + 64, np.uint8)
    start = -raw.__array_interface__["data"][0] % 64
    return raw[start : start + count].view(np.float32).reshape(shape)


def copied(array: Any) -> Any:
    """Return an aligned float32 copy; integers are copied without alignment."""
    if array.dtype.kind != "f":
        return array.copy()
    copy = aligned(array.shape)
    copy[...] = array
    return copy


def host(array: Any) -> Any:
    """Return a copy in host memory."""
    return array.copy()


def flat(array: Any) -> Any:
    """Return a view of an array as a matrix with its last axis as columns."""
    return array.reshape(-1, array.shape[-1])


class Products:
    """Interface of the model to its layers; `order`: permutation of the terms of sums, or None."""

    order: Callable[[int], Any] | None = None
    do: Any
    batch: int
    weights: dict[str, Any]
    grads: dict[str, Any]

    def dot(self, row: Any, a: Any, b: Any, out: Any, column: str = "gemm") -> None:
        """Compute out = a·b, also for stacks of matrices, summed in the model's order of terms."""
        call = np.dot if a.ndim == 2 else np.matmul
        if self.order is None:
            self.do(row, column, call, a, b, out=out)
        else:
            order = self.order(a.shape[-1])
            call(np.ascontiguousarray(a[..., order]), np.ascontiguousarray(b[..., order, :]), out=out)


class Layer:
    """A layer: `forward` returns z, before the activation; `backward` maps z's gradient to the inputs'."""

    def __init__(self, model: Any, spec: dict[str, Any]) -> None:
        self.model, self.spec, self.do, self.batch = model, spec, model.do, model.batch
        self.name, self.after, self.activation = spec["name"], spec["after"], spec["activation"]
        self.keeps = self.activation != "none"  # whether backward needs the output
        self.owns = not self.keeps and spec["kind"] != "flatten"  # whether its output may be overwritten
        self.z = aligned(self.shape(spec["out"]))
        self.y = aligned(self.z.shape) if self.keeps else self.z
        self.dx = [None if spec["first"] else aligned(self.shape(x)) for x in spec["in"]]
        self.state: dict[str, Any] = {}

    def shape(self, of: Any) -> Any:
        return (self.batch, *list(of))

    def row(self, role: str) -> list[Any]:
        return [f"{self.name} {role}"]

    def weight(self, name: str) -> Any:
        return self.model.weights[f"{self.name}.{name}"]

    def grad(self, name: str) -> Any:
        return self.model.grads[f"{self.name}.{name}"]

    def activate(self, z: Any) -> Any:
        pass_ = partial(self.do, self.row("activation"), "element-wise")
        if self.activation == "sigmoid":
            pass_(np.negative, z, out=self.y)
            pass_(np.exp, self.y, out=self.y)
            pass_(np.add, self.y, np.float32(1), out=self.y)
            return pass_(np.reciprocal, self.y, out=self.y)
        if self.activation == "relu":
            return pass_(np.maximum, z, np.float32(0), out=self.y)
        if self.activation == "tanh":
            return pass_(np.tanh, z, out=self.y)
        return z

    def derive(self, dy: Any) -> Any:
        """Return the gradient of z from that of y; with an activation it overwrites z's array."""
        pass_ = partial(self.do, self.row("activation gradient"), "element-wise")
        if self.activation == "sigmoid":
            pass_(np.subtract, np.float32(1), self.y, out=self.z)
            pass_(np.multiply, self.z, self.y, out=self.z)
            return pass_(np.multiply, dy, self.z, out=self.z)
        if self.activation == "tanh":
            pass_(np.multiply, self.y, self.y, out=self.z)
            pass_(np.subtract, np.float32(1), self.z, out=self.z)
            return pass_(np.multiply, dy, self.z, out=self.z)
        if self.activation == "relu":
            alive = pass_(np.greater, self.y, 0)
            return pass_(np.multiply, dy, alive, out=self.z)
        return dy

    def keep(self) -> None:
        """Update the state that the next step uses, such as running statistics."""


class Dense(Layer):
    """Dense layer; of sequences with all steps as rows of one matrix.

    A tied layer keeps the gradient of the weights of their owner, outputs × inputs, in `shared`."""

    def __init__(self, model: Any, spec: dict[str, Any]) -> None:
        super().__init__(model, spec)
        self.tied = spec.get("tied", "")
        if self.tied:
            self.shared = aligned(model.weights[self.tied + ".weight"].shape)

    def forward(self, inputs: list[Any]) -> Any:
        self.x = flat(inputs[0])
        self.model.dot(self.row("forward"), self.x, self._weights(), flat(self.z))
        self.do(self.row("forward"), "element-wise", np.add, self.z, self.weight("bias"), self.z)
        return self.z

    def backward(self, dz: Any) -> Any:
        dz = flat(dz)
        if self.tied:
            self.model.dot(self.row("wgrad"), dz.T, self.x, self.shared)
        else:
            self.model.dot(self.row("wgrad"), self.x.T, dz, self.grad("weight"))
        self.do(self.row("bias gradient"), "reduction", dz.sum, axis=0, out=self.grad("bias"))
        if self.dx[0] is not None:
            self.model.dot(self.row("dgrad"), dz, self._weights().T, flat(self.dx[0]))
        return self.dx

    def _weights(self) -> Any:
        """Return the weights, inputs × outputs."""
        return self.model.weights[self.tied + ".weight"].T if self.tied else self.weight("weight")


class Add(Layer):
    def forward(self, inputs: list[Any]) -> Any:
        return self.do(self.row("forward"), "element-wise", np.add, inputs[0], inputs[1], out=self.z)

    def backward(self, dz: Any) -> list[Any]:
        return [dz, dz]


class Concat(Layer):
    def __init__(self, model: Any, spec: dict[str, Any]) -> None:
        super().__init__(model, spec)
        ends = accumulate(shape[0] for shape in spec["in"])
        self.parts = [slice(end - shape[0], end) for end, shape in zip(ends, spec["in"])]

    def forward(self, inputs: list[Any]) -> Any:
        return self.do(self.row("forward"), "copy", np.concatenate, inputs, axis=1, out=self.z)

    def backward(self, dz: Any) -> Any:
        for dx, part in zip(self.dx, self.parts):
            if dx is not None:
                self.do(self.row("gradient"), "copy", np.copyto, dx, dz[:, part])
        return self.dx


class Flatten(Layer):
    def forward(self, inputs: list[Any]) -> Any:
        self.shape_in = inputs[0].shape
        self.z = inputs[0].reshape(self.batch, -1) if not self.keeps else self._flat_copy(inputs[0])
        return self.z

    def _flat_copy(self, x: Any) -> Any:
        """Return a copy, since the activation's gradient will overwrite z."""
        return x.reshape(self.batch, -1).copy()

    def backward(self, dz: Any) -> list[Any]:
        return [dz.reshape(self.shape_in)]


class Dropout(Layer):
    """Dropout: z = x * mask; the mask is given, or drawn in each step."""

    def __init__(self, model: Any, spec: dict[str, Any]) -> None:
        super().__init__(model, spec)
        given = spec.get("mask")
        self.drawn: Any = None
        if given is not None:
            self.mask = copied(given)
        else:
            self.mask, self.drawn = aligned(self.z.shape), np.random.default_rng(list(bytearray(self.name, "utf-8")))

    def _draw(self) -> None:
        keep = 1.0 - self.spec["share"]
        self.drawn.random(self.mask.shape, dtype=np.float32, out=self.mask)
        np.less(self.mask, np.float32(keep), out=self.mask)
        self.mask *= np.float32(1.0 / keep)

    def forward(self, inputs: list[Any]) -> Any:
        if self.drawn is not None:
            self.do(self.row("forward"), "random numbers", self._draw)
        self.do(self.row("forward"), "element-wise", np.multiply, inputs[0], self.mask, out=self.z)
        return self.z

    def backward(self, dz: Any) -> Any:
        if self.dx[0] is not None:
            self.do(self.row("gradient"), "element-wise", np.multiply, dz, self.mask, out=self.dx[0])
        return self.dx


class Shortcut(Layer):
    """Shortcut without weights (option A of ResNet): strided pixels, zeros for new channels."""

    def forward(self, inputs: list[Any]) -> Any:
        stride, channels = self.spec["stride"], self.spec["in"][0][0]

        def subsampled(x: Any, z: Any) -> None:
            z[:, :channels] = x[:, :, ::stride, ::stride]
            z[:, channels:] = 0

        self.do(self.row("forward"), "copy", subsampled, inputs[0], self.z)
        return self.z

    def backward(self, dz: Any) -> Any:
        stride, channels = self.spec["stride"], self.spec["in"][0][0]

        def spread(dz: Any, dx: Any) -> None:
            dx[...] = 0
            dx[:, :, ::stride, ::stride] = dz[:, :channels]

        if self.dx[0] is not None:
            self.do(self.row("gradient"), "copy", spread, dz, self.dx[0])
        return self.dx


class Activation(Layer):
    """A layer that is only an activation; z is the input."""

    def forward(self, inputs: list[Any]) -> Any:
        return inputs[0]

    def backward(self, dz: Any) -> list[Any]:
        return [dz]


KINDS = {
    "dense": Dense,
    "add": Add,
    "concat": Concat,
    "flatten": Flatten,
    "dropout": Dropout,
    "shortcut": Shortcut,
    "activation": Activation,
}  # without image layers
