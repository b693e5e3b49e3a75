"""NumPy: a step written by hand with its buffers kept; the reference, and what always runs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import device_clocks  # of macro/agent
import numpy as np
import numpy_images
import numpy_layers
import numpy_losses
import numpy_mistaken
import numpy_optimizers
import numpy_sequences
import recorder

ROWS: dict[str, dict[str, Any]] = {"numpy": {}}
RECIPE: dict[str, Any] = {}
DEVICES = ("cpu", "fake")
KINDS = {**numpy_images.KINDS, **numpy_sequences.KINDS}
LOSSES, OPTIMIZERS = numpy_losses.KINDS, numpy_optimizers.KINDS


def available() -> None:
    return None


def identity(job: dict[str, Any]) -> Any:
    facts: dict[str, Any] = {"framework": "numpy", "version": np.__version__, "blas": None}
    try:
        import threadpoolctl

        pools = threadpoolctl.threadpool_info()
        facts["threads"] = {pool["internal_api"]: pool["num_threads"] for pool in pools}
        openblas = [pool for pool in pools if pool["internal_api"] == "openblas"]
        if openblas:
            facts["blas"] = "OpenBLAS {} {}".format(openblas[0]["version"], openblas[0].get("architecture"))
            facts["dispatch"] = openblas[0].get("architecture")
    except ImportError:
        pass
    return facts


def trace(model: Any, run: Callable[[], object]) -> Any:
    return model.do.trace(run)


def profile(model: Any, call: Callable[..., Any], count: int, path: str) -> None:
    device_clocks.play(model.do, call, count, path)


def record(model: Any, run: Callable[[], object]) -> Any:
    return model.do.record(run)


def build(job: dict[str, Any]) -> Any:
    """Return the model; knobs perturb it to measure the bounds of equal work.

    `order`: another order of the terms of every sum. `shares`: a factor on the softmax. `elsewhere`: epsilon added at
    another place in an optimizer's formula, as in other libraries. `mistake`: one of numpy_mistaken.
    """
    knobs = job["knobs"]
    return Model(job, ORDERS.get(knobs.get("order")), knobs.get("shares"))


def _shuffled(count: int) -> Any:
    return np.random.RandomState(count).permutation(count)


ORDERS = {"reversed": lambda count: np.arange(count)[::-1], "shuffled": _shuffled}


class Model(numpy_layers.Products):
    """A network in NumPy: weights inputs × outputs, filters K×C×R×S, images N×C×H×W, sequences N×T×C.

    All arrays of a step are allocated once, except those of the loss.
    """

    builders = KINDS

    def __init__(self, job: dict[str, Any], order: Any = None, shares: Any = None) -> None:
        with np.load(job["weights"]) as weights, np.load(job["data"]) as data:
            self.weights = {name: numpy_layers.copied(self.lying(name, weights[name])) for name in weights.files}
            x, self.labels = (numpy_layers.copied(data[name]) for name in ("x", "labels"))
        self.batch, self.order = len(self.labels), order  # order of the terms of each sum, or None
        self.do = recorder.Steps()
        plan = dict(job["network"], elsewhere=job["knobs"].get("elsewhere"))
        self.criterion = self.pick_loss(plan, shares and np.float32(shares))
        self.optimizer = self.pick_optimizer(plan)
        self.grads = {name: numpy_layers.aligned(w.shape) for name, w in self.weights.items()}
        self.values = {"input": x}  # and each layer's output
        self.owners = {layer["tied"] for layer in job["network"]["layers"] if layer.get("tied")}
        builders = {**self.builders, **numpy_mistaken.KINDS.get(job["knobs"].get("mistake"), {})}
        self.layers = [builders[layer["kind"]](self, layer) for layer in job["network"]["layers"]]
        self.last = self.layers[-1].name
        self.dz: Any = None  # gradient of the outputs, if backward needs the outputs too
        self.sums: dict[str, Any] = {}  # {layer whose output several layers use: sum of gradients}
        self.clock = device_clocks.Played() if job.get("device") == "fake" else None

    def lying(self, name: str, array: Any) -> Any:
        """Return a weight, or its gradient, as this model stores it, and back: transposed, or as it is."""
        return array

    def pick_loss(self, plan: dict[str, Any], shares: Any) -> Any:
        return LOSSES[plan["loss"]](self.labels, plan["layers"][-1]["out"][-1], shares)

    def pick_optimizer(self, plan: dict[str, Any]) -> Any:
        return OPTIMIZERS[plan["optimizer"]](plan, self.weights)

    def work(self) -> dict[str, Any]:
        counts = {name: int(w.size) for name, w in self.weights.items()}
        return {"parameters": counts, "batch": self.batch, "dtype": "float32", "layout": "inputs x outputs"}

    def forward(self) -> None:
        for layer in self.layers:
            self.values[layer.name] = layer.activate(layer.forward([self.values[name] for name in layer.after]))
        self.logits = self.values[self.last]

    def outputs(self) -> Any:
        self.forward()
        return numpy_layers.host(self.logits)

    def loss(self) -> Any:
        self.forward()
        return self.criterion.value(self.logits)

    def gradient(self) -> None:
        self.forward()
        dz = self.logits
        if not self.layers[-1].owns:  # backward needs the outputs again
            if self.dz is None:
                self.dz = numpy_layers.aligned(dz.shape)
            self.dz[...] = dz
            dz = self.dz
        self.do(["loss"], "softmax", self.criterion.gradient, dz)
        self._backward(dz)

    def _backward(self, dz: Any) -> None:
        """Compute all weight gradients, summing output gradients where several layers use an output."""
        gradients = {self.last: dz}
        for layer in reversed(self.layers):
            if layer.name not in gradients:  # no layer up to this layer has parameters
                continue
            dy = layer.derive(gradients.pop(layer.name))
            earlier = layer.backward(dy)
            if layer.name in self.owners:
                self._add_tied(layer.name)
            for name, dx in zip(layer.after, earlier):
                if dx is not None and name != "input":
                    gradients[name] = self._sum(name, gradients[name], dx) if name in gradients else dx

    def _add_tied(self, name: str) -> None:
        """Add the gradients of weights that other layers share, which ran backward before."""
        for other in self.layers:
            if other.spec.get("tied") == name:
                total = self.grads[name + ".weight"]
                self.do([name + " gradient sum"], "element-wise", np.add, total, other.shared, out=total)

    def _sum(self, name: str, a: Any, b: Any) -> Any:
        if name not in self.sums:
            self.sums[name] = numpy_layers.aligned(a.shape)
        total = self.sums[name]
        return self.do([name + " gradient sum"], "element-wise", np.add, a, b, out=total)

    def step(self) -> None:
        self.gradient()
        for layer in self.layers:
            layer.keep()
        self.optimizer.begin()
        for name, w in self.weights.items():
            do = functools.partial(self.do, [name.rpartition(".")[0] + " update"], "update")
            self.optimizer.move(do, name, w, self.grads[name])

    def gradients(self) -> dict[str, Any]:
        self.gradient()
        return {name: numpy_layers.host(self.lying(name, array)) for name, array in self.grads.items()}

    def parameters(self) -> dict[str, Any]:
        return {name: numpy_layers.host(self.lying(name, array)) for name, array in self.weights.items()}

    def state(self) -> dict[str, Any]:
        """Return the running statistics of layers, by name."""
        return {name: numpy_layers.host(x) for layer in self.layers for name, x in layer.state.items()}
