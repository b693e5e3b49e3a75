"""Mistakes in layers of sequences, with which an answer is compared to name what is wrong with it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy_sequences
from numpy_layers import Layer


class Swapped(Layer):
    """A recurrent layer that takes the batch's axis for that of the steps."""

    def __init__(self, model: Any, spec: dict[str, Any]) -> None:
        super().__init__(model, spec)
        steps, inputs = spec["in"][0]
        states = spec["hidden"] * (1 + spec["bidirectional"])
        other = Turned(model, steps)
        inside = {"in": [[model.batch, inputs]], "out": [model.batch, states], "last": False}
        self.inner: Any = numpy_sequences.recurrent(other, {**spec, **inside})
        self.dy = np.zeros((model.batch, steps, states), np.float32)

    def forward(self, inputs: list[Any]) -> Any:
        states = self.inner.forward([np.ascontiguousarray(inputs[0].swapaxes(0, 1))]).swapaxes(0, 1)
        np.copyto(self.z, states[:, -1] if self.spec["last"] else states)
        return self.z

    def backward(self, dz: Any) -> Any:
        np.copyto(self.dy[:, -1] if self.spec["last"] else self.dy, dz)
        (dx,) = self.inner.backward(np.ascontiguousarray(self.dy.swapaxes(0, 1)))
        return [None if dx is None else np.ascontiguousarray(dx.swapaxes(0, 1))]


class Turned:
    """A model as a layer sees it, with another batch."""

    def __init__(self, model: Any, batch: int) -> None:
        self.model, self.batch = model, batch

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)


class ShortMean(numpy_sequences.Mean):
    """A mean over all steps but the last real one."""

    def real(self, ids: Any) -> Any:
        real = super().real(ids)
        real[:, :-1] &= real[:, 1:]
        real[:, -1] = False
        return real


def _ways(layer: Any) -> list[Any]:
    return getattr(layer, "ways", [layer])


def short(model: Any, spec: dict[str, Any]) -> Any:
    """Return a recurrent layer whose last state is that of the step before."""
    layer = numpy_sequences.recurrent(model, spec)
    for way in _ways(layer):
        way.end = -2
    return layer


def carried(model: Any, spec: dict[str, Any]) -> Any:
    """Return a recurrent layer that begins each pass with the state at the end of the one before."""
    layer: Any = numpy_sequences.recurrent(model, spec)
    forward = layer.forward

    def again(inputs: list[Any]) -> Any:
        z = forward(inputs)
        for way in _ways(layer):
            way.begins = way.states[:, way.steps[-1]].copy()
            way.begins_memory = way.memory[:, way.steps[-1]].copy() if hasattr(way, "memory") else None
        return z

    layer.forward = again
    return layer


KINDS: dict[Any, dict[str, Any]] = {
    "swapped": {"recurrent": Swapped},
    "short": {"recurrent": short, "mean": ShortMean},
    "carried": {"recurrent": carried},
}
