"""The suite's kernels, one after another, by the best variant of each product: near what a step needs."""

import importlib.util
import sys
from functools import partial
from pathlib import Path

# The suite's root, behind macro/agent: this file is run by path.
sys.path.insert(1, str(next(x for x in Path(__file__).resolve().parents if not (x / "__init__.py").exists())))

import device_clocks  # of macro/agent
import numpy as np
import numpy_losses
import numpy_optimizers
import recorder
import suite_device
import suite_layers
import suite_products
import torch_device

from kernels.build import compiler
from kernels.catalog import find
from kernels.devices.cpu import open_device
from kernels.ops.activation.problem import Activation
from kernels.ops.gemm import Gemm
from kernels.ops.optimizer.problem import Optimizer
from kernels.ops.softmax.problem import Softmax
from kernels.setting import Setting

ROWS = {"kernels-only": {"chooses": True}}  # times kernels, so nothing may run beside it
RECIPE = {}
DEVICES = ("cpu", "cuda", "fake")
KINDS, LOSSES, OPTIMIZERS = suite_layers.KINDS, numpy_losses.KINDS, numpy_optimizers.KINDS


def available():
    compiler()


def identity(job):
    flags = {"products": suite_products.USED, "among": "".join(suite_products.AMONG)}
    on_gpu = suite_device.place(job) != "cpu"
    flags.update(suite_products.ON if on_gpu else {"torch": suite_device.installed("torch")})
    release = suite_device.installed("kernelgap", "of this checkout")
    facts = {"framework": "kernels-only", "version": release, "flags": flags, "threads": job["threads"]}
    return dict(facts, faults=suite_products.FAULTS) if suite_products.FAULTS else facts


def trace(model, run):
    return model.do.trace(run)


def profile(model, call, count, path):
    """Write a GPU trace by PyTorch's profiler, which sees all kernels of a process; return why not."""
    if isinstance(getattr(model, "clock", None), device_clocks.Played):
        return device_clocks.play(model.do, call, count, path)
    try:
        import cupy
        import torch

        torch.cuda.set_device(cupy.cuda.runtime.getDevice())
    except (ImportError, OSError, AssertionError, RuntimeError) as error:  # missing, or built without CUDA
        return f"nothing tells its kernels but PyTorch's profiler: {error}"
    return torch_device.profile(torch, call, count, path)


def record(model, run):
    return model.do.record(run)


def build(job):
    """Return the model with its kernels chosen, so that they are proven and reported before any timing.

    A chain of dense layers without a last activation fuses SGD's updates into its products on a processor; any other
    graph, loss or optimizer has its updates as passes.
    """
    layers, before = job["network"]["layers"], ["input"] + [layer["name"] for layer in job["network"]["layers"]]
    usual = job["network"]["loss"] == "softmax" and job["network"]["optimizer"] == "sgd"
    straight = all(layer["after"] == [name] for layer, name in zip(layers, before))
    dense = all(layer["kind"] == "dense" for layer in layers) and layers[-1]["activation"] == "none"
    if straight and dense and usual and suite_device.place(job) == "cpu":
        model = Model(job)
        model.choose()
    else:
        model = _graph(job)
        model.gradient()
    if job.get("device", "cpu") != "cpu":
        played = job["device"] == "fake"
        model.clock = device_clocks.Played() if played else device_clocks.Marks(model.products.device)
    return model


def _graph(job):
    spec = importlib.util.spec_from_file_location("plain", str(Path(__file__).with_name("numpy.py")))
    plain = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain)

    class Graph(plain.Model):
        builders = KINDS

        def __init__(self, job):
            self.products = suite_products.Products(job)
            super().__init__(job)
            self.optimizer = suite_layers.optimizer(job["network"], self.weights, self.products)

    return Graph(job)


def kernel(problem, variant, buffers, threads):
    """Return the call of a kernel of the suite on these buffers."""
    return find(problem.op, variant).prepare(problem, open_device(), Setting(threads))(buffers).call


def _wgrad(inputs, outputs, batch, mean):
    """Return the product that computes a gradient of weights."""
    return Gemm(alpha=mean, m=inputs, n=outputs, k=batch, trans="tn")


class Model:
    """A chain of dense layers, weights inputs × outputs.

    A step of plain SGD computes each gradient and the change of the weights in one product; with momentum the product
    adds to the velocity, and one pass moves the weights.
    """

    def __init__(self, job):
        with np.load(job["weights"]) as weights, np.load(job["data"]) as data:
            self.layers = job["network"]["layers"]
            self.weights = {name: weights[name].copy() for name in weights.files}
            self.x, self.labels = data["x"].copy(), data["labels"].astype(np.int64)
        self.rate, self.mu = job["network"]["rate"], job["network"]["momentum"]
        self.batch, self.threads = len(self.labels), job["threads"]
        self.products = suite_products.Products(job)
        self.velocity = {name: np.zeros_like(w) for name, w in self.weights.items()} if self.mu else {}
        self.y = [np.zeros((self.batch, layer["outputs"]), np.float32) for layer in self.layers]
        self.dx = [np.zeros((self.batch, layer["inputs"]), np.float32) for layer in self.layers]
        self.grads, self.do = None, recorder.Steps()
        self._forward = [call for i in range(len(self.layers)) for call in self._layer(i)]
        self.dz = self.losses = None
        self._loss = self._softmax()
        self._step = self._backward(moves=True)
        self._gradient = None

    def work(self):
        counts = {name: int(w.size) for name, w in self.weights.items()}
        return {"parameters": counts, "batch": self.batch, "dtype": "float32", "layout": "inputs x outputs"}

    def choose(self):
        """Choose the products of the separate gradient phase; its arrays are allocated at its first call."""
        for layer in self.layers:
            mean = 1.0 / self.batch if layer is self.layers[-1] else 1.0
            self.products.prepared(_wgrad(layer["inputs"], layer["outputs"], self.batch, mean))

    def _input(self, i):
        return self.y[i - 1] if i else self.x

    def _layer(self, i):
        """Return the calls of a layer: copy the bias, add the product to it, apply the activation in place."""
        layer, y = self.layers[i], self.y[i]
        bias = self.weights[layer["name"] + ".bias"]
        problem = Gemm(self.batch, layer["outputs"], layer["inputs"], beta=1.0)
        product = self.products.bind(problem, [self._input(i), self.weights[layer["name"] + ".weight"], y])
        rows = [layer["name"] + " forward"]
        calls = [(rows, "element-wise", lambda: np.copyto(y, bias)), (rows, "gemm", product)]
        if layer["activation"] != "none":
            activation = Activation(y.size, layer["activation"], place="in")
            call = kernel(activation, "c", [y.reshape(1, -1)], self.threads)
            calls.append(([layer["name"] + " activation"], "element-wise", call))
        return calls

    def _softmax(self):
        """Return the call that computes p − y and the loss of every sample."""
        logits, classes = self.y[-1], self.layers[-1]["outputs"]
        self.dz, self.losses = np.zeros_like(logits), np.zeros(self.batch, np.float32)
        call = kernel(Softmax(self.batch, classes), "c", [logits, self.labels, self.dz, self.losses], 1)
        return [(["loss"], "softmax", call)]

    def _backward(self, moves):
        """Return the calls of the backward pass, from the last layer to the first.

        With `moves` each layer's weights are updated after the gradient of its input has been computed from the old
        ones.
        """
        calls, dz = [], self.dz
        mean = 1.0 / self.batch
        for i in reversed(range(len(self.layers))):
            layer = self.layers[i]
            inputs, outputs, w = layer["inputs"], layer["outputs"], self.weights[layer["name"] + ".weight"]
            if not layer["first"]:
                problem = Gemm(self.batch, inputs, outputs, "nt", alpha=mean)
                product = self.products.bind(problem, [dz, w, self.dx[i]])
                calls.append(([layer["name"] + " dgrad"], "gemm", product))
            calls += self._weight(layer["name"], self._input(i), dz, mean, moves)
            if i:
                dz, mean = self.dx[i], 1.0
                kind = self.layers[i - 1]["activation"]
                if kind != "none":
                    derivative = Activation(dz.size, kind, phase="dgrad", place="in")
                    call = kernel(derivative, "c", self._sources(derivative, i, dz), self.threads)
                    row = self.layers[i - 1]["name"] + " activation gradient"
                    calls.append(([row], "element-wise", call))
        return calls

    def _sources(self, problem, i, dz):
        """Return a derivative's operands: the forward pass's output, and the gradient that is scaled in place."""
        by_name = {"x": self._input(i).reshape(1, -1), "y": dz.reshape(1, -1), "dy": dz.reshape(1, -1)}
        return [by_name[operand.name] for operand in problem.operands()]

    def _weight(self, name, x, dz, mean, moves):
        """Return the calls for a layer's weight and bias: their gradients, or with `moves` their update."""
        inputs, outputs = x.shape[1], dz.shape[1]
        row = np.zeros(outputs, np.float32)
        bias = self.weights[name + ".bias"]
        grad, moving, both = [name + " wgrad"], [name + " update"], [name + " wgrad", name + " update"]
        sums = [([name + " bias gradient"], "reduction", lambda: np.add.reduce(dz, axis=0, out=row))]
        size = {"m": inputs, "n": outputs, "k": self.batch, "trans": "tn"}
        if not moves:
            target = self.grads[name + ".weight"]
            product = self.products.bind(_wgrad(inputs, outputs, self.batch, mean), [x, dz, target])
            scaled = partial(np.multiply, row, np.float32(mean), out=self.grads[name + ".bias"])
            return [(grad, "gemm", product), *sums, ([name + " bias gradient"], "element-wise", scaled)]
        weight = self.weights[name + ".weight"]
        if not self.mu:
            product = self.products.bind(Gemm(alpha=-self.rate * mean, beta=1.0, **size), [x, dz, weight])

            def moved_bias():
                np.subtract(bias, row * np.float32(self.rate * mean), out=bias)

            return [(both, "gemm", product), *sums, (moving, "update", moved_bias)]
        v, vb = self.velocity[name + ".weight"], self.velocity[name + ".bias"]
        product = self.products.bind(Gemm(alpha=mean, beta=self.mu, **size), [x, dz, v])
        # The velocity takes the place of a gradient.
        by_velocity = Optimizer(rule="sgd", tensors=1, size=weight.size, lr=self.rate, decay=0.0)
        moved = kernel(by_velocity, "c", [v.reshape(-1), weight.reshape(-1)], self.threads)

        def move_bias():
            np.multiply(vb, np.float32(self.mu), out=vb)
            np.add(vb, row * np.float32(mean), out=vb)
            np.subtract(bias, vb * np.float32(self.rate), out=bias)

        return [(grad, "gemm", product), (moving, "update", moved), *sums, (moving, "update", move_bias)]

    def forward(self):
        self._all(self._forward)

    def outputs(self):
        self.forward()
        return self.y[-1].copy()

    def _all(self, calls):
        for rows, column, call in calls:
            self.do(rows, column, call)

    def gradient(self):
        if self._gradient is None:
            self.grads = {name: np.zeros_like(w) for name, w in self.weights.items()}
            self._gradient = self._backward(moves=False)
        self.forward()
        self._all(self._loss + self._gradient)

    def step(self):
        self.forward()
        self._all(self._loss + self._step)

    def loss(self):
        self.forward()
        self._all(self._loss)
        return float(self.losses.astype(np.float64).mean())

    def gradients(self):
        self.gradient()
        return {name: array.copy() for name, array in self.grads.items()}

    def parameters(self):
        return {name: array.copy() for name, array in self.weights.items()}
