"""Layers by the suite's kernels: each GEMM and convolution by its fastest variant.

Activations and updates are the suite's kernels too. Pooling and batch normalization are PyTorch's operators if PyTorch
is installed; all else is NumPy's. Launches are bound to addresses: a layer's arrays stay in place from step to step,
except the input gradients of PyTorch's batch normalization.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import layouts  # beside this file
import numpy as np
import numpy_images
import numpy_layers
import numpy_losses
import numpy_optimizers
import suite_device

from kernels.libs import torch as library
from kernels.ops.activation.problem import Activation
from kernels.ops.conv.problem import Conv as Problem
from kernels.ops.conv.shape import SIDES
from kernels.ops.gemm import Gemm
from kernels.ops.optimizer.problem import RULES, Optimizer
from kernels.ops.softmax.problem import Softmax as Cross
from macro.networks.optimizers import rule


class Bound:
    """Launches of a layer, prepared at the first call and rebound if an array's address has changed.

    `alone`: on one thread, as kernels that have no threads require."""

    def __init__(self, products: Any, alone: bool = False) -> None:
        self.products, self.alone = products, alone
        self.prepared, self.calls = dict[str, Any](), dict[str, Any]()

    def __call__(self, what: str, problem: Callable[[], Any], arrays: Any) -> Any:
        where = tuple(map(suite_device.address, arrays))
        if what not in self.prepared:
            self.prepared[what] = self.products.prepared(problem(), self.alone)
        if what not in self.calls or self.calls[what][0] != where:
            self.calls[what] = where, self.prepared[what](arrays).call
        return self.calls[what][1]


class Dense(numpy_layers.Dense):
    """Dense layer whose GEMMs are the fastest variants of `micro.gemm`."""

    def __init__(self, model: Any, spec: dict[str, Any]) -> None:
        super().__init__(model, spec)
        self.bound = Bound(model.products)
        self.inputs, self.outputs = spec["in"][0][-1], spec["out"][-1]
        self.rows = self.z.size // self.outputs
        self.moved: Any = None  # array that a step's wgrad GEMM updates (weights or velocity), or None
        if isinstance(model.optimizer, Fused) and self.name + ".weight" in model.optimizer.inside:
            self.moved, factors = model.optimizer.target(self.name + ".weight", self.weight("weight"))
            moving = Gemm(self.inputs, self.outputs, self.rows, "tn", **factors)
            self.bound.prepared["update"] = model.products.prepared(moving)  # chosen before any step

    def forward(self, inputs: list[Any]) -> Any:
        self.x = numpy_layers.flat(inputs[0])
        self.do(self.row("forward"), "element-wise", np.copyto, self.z, self.weight("bias"))
        self._multiply(self.row("forward"), "forward", [self.x, self._stored(), numpy_layers.flat(self.z)])
        return self.z

    def backward(self, dz: Any) -> Any:
        dz = numpy_layers.flat(dz)
        if self.dx[0] is not None:  # first: a step may move the weights in the product below
            self._multiply(self.row("dgrad"), "dgrad", [dz, self._stored(), numpy_layers.flat(self.dx[0])])
        phase = "update" if self.model.stepping and self.moved is not None else "wgrad"
        if self.tied:
            self._multiply(self.row("wgrad"), phase, [dz, self.x, self.shared])
        else:
            target = self.moved if phase == "update" else self.grad("weight")
            rows = self.row("wgrad") + (self.row("update") if target is self.weight("weight") else [])
            self._multiply(rows, phase, [self.x, dz, target])
        self.do(self.row("bias gradient"), "reduction", dz.sum, axis=0, out=self.grad("bias"))
        return self.dx

    def _stored(self) -> Any:
        return self.model.weights[self.tied + ".weight"] if self.tied else self.weight("weight")

    def _multiply(self, rows: list[str], phase: str, arrays: list[Any]) -> None:
        self.do(rows, "gemm", self.bound(phase, lambda: self._product(phase), arrays))

    def _product(self, phase: str) -> Gemm:
        if phase == "forward":
            return Gemm(self.rows, self.outputs, self.inputs, "nt" if self.tied else "nn", beta=1.0)
        if phase == "dgrad":
            return Gemm(self.rows, self.inputs, self.outputs, "nn" if self.tied else "nt")
        m, n = (self.outputs, self.inputs) if self.tied else (self.inputs, self.outputs)
        return Gemm(m, n, self.rows, "tn")


class Conv(numpy_layers.Layer):
    """Convolution whose passes are the fastest variants of `micro.conv`."""

    def __init__(self, model: Any, spec: dict[str, Any]) -> None:
        super().__init__(model, spec)
        self.bound = Bound(model.products)

    def problem(self, direction: str) -> Any:
        (c, h, w), spec = self.spec["in"][0], self.spec
        sizes = {"n": self.batch, "c": c, "h": h, "w": w, "k": spec["filters"]}
        sizes.update(r=spec["kernel"], s=spec["kernel"])
        sizes.update((name, spec[name]) for name in ("stride", "groups", "dilation"))
        sizes.update(zip(SIDES, spec["pads"]) if spec["pads"] else {"pad": spec["pad"]})
        return Problem(direction=direction, **sizes)

    def run(self, direction: str, arrays: Any) -> None:
        call = self.bound(direction, lambda: self.problem(direction), arrays)
        self.do(self.row(direction), numpy_images.CONVOLUTION, call)

    def forward(self, inputs: list[Any]) -> Any:
        self.x = inputs[0]
        self.run("forward", [self.x, self.weight("weight"), self.z])
        if self.spec["bias"]:
            bias = self.weight("bias")[:, None, None]
            self.do(self.row("forward"), "element-wise", np.add, self.z, bias, self.z)
        return self.z

    def backward(self, dz: Any) -> Any:
        self.run("wgrad", [self.x, dz, self.grad("weight")])
        if self.spec["bias"]:
            self.do(self.row("bias gradient"), "reduction", dz.sum, axis=(0, 2, 3), out=self.grad("bias"))
        if self.dx[0] is not None:
            self.run("dgrad", [dz, self.weight("weight"), self.dx[0]])
        return self.dx


class Activated(numpy_layers.Layer):
    """Mixin that computes a layer's activation by the suite's kernels."""

    def __init__(self, model: Any, spec: dict[str, Any]) -> None:
        super().__init__(model, spec)
        self.passes = Bound(model.products)

    def activate(self, z: Any) -> Any:
        return self._pass("forward", "activation", [z, self.y]) if self.keeps else z

    def derive(self, dy: Any) -> Any:
        return self._pass("dgrad", "activation gradient", [self.y, dy, self.z]) if self.keeps else dy

    def _pass(self, phase: str, role: str, arrays: Any) -> Any:
        call = self.passes(
            phase, lambda: Activation(self.z.size, self.activation, phase), [array.reshape(1, -1) for array in arrays]
        )
        self.do(self.row(role), "element-wise", call)
        return arrays[-1]


def activated(builder: Any) -> Any:
    """Return a subclass of a layer class whose activation is the suite's kernel."""
    return type(builder.__name__, (Activated, builder), {})


class Moved:
    """Optimizer by a kernel of the suite, which updates weights and state in one pass."""

    def __init__(self, plan: dict[str, Any], weights: dict[str, Any], products: Any) -> None:
        self.rule = rule(plan["optimizer"], plan["momentum"])
        self.plan, self.bound = plan, Bound(products)
        self.state = {
            name: [np.zeros(w.size, np.float32) for _ in RULES[self.rule].state] for name, w in weights.items()
        }

    def begin(self) -> None:
        """Start a step."""

    def move(self, do: Callable[..., Any], name: str, w: Any, g: Any) -> None:
        settings = {"mu": self.plan["momentum"], "rho": self.plan["rho"], "eps": self.plan["epsilon"]}
        do(self.bound(name, lambda: self.pass_over(w, **settings), [g.reshape(-1), w.reshape(-1)] + self.state[name]))

    def pass_over(self, w: Any, **settings: float) -> Optimizer:
        """Return the pass that moves the weights `w` by the rule."""
        return Optimizer(rule=self.rule, tensors=1, size=w.size, lr=self.plan["rate"], decay=0.0, **settings)


class Fused(Moved):
    """SGD whose update of dense weights, or of their velocity, is fused into the weight-gradient GEMM."""

    def __init__(self, plan: dict[str, Any], weights: dict[str, Any], products: Any) -> None:
        super().__init__(plan, weights, products)
        shared = {layer.get("tied") for layer in plan["layers"]}  # of two products each
        alone = (
            x["name"] for x in plan["layers"] if x["kind"] == "dense" and not x["tied"] and x["name"] not in shared
        )
        self.inside = {f"{name}.weight" for name in alone}

    def target(self, name: str, w: Any) -> tuple[Any, dict[str, Any]]:
        """Return the array that a layer's wgrad GEMM updates (weights or velocity), and its alpha and beta."""
        if not self.plan["momentum"]:
            return w, {"alpha": -self.plan["rate"], "beta": 1.0}
        return self.state[name][0].reshape(w.shape), {"beta": self.plan["momentum"]}

    def move(self, do: Callable[..., Any], name: str, w: Any, g: Any) -> None:
        if name not in self.inside:
            super().move(do, name, w, g)
        elif self.plan["momentum"]:  # the velocity takes the place of a gradient
            do(self.bound(name, lambda: replace(self.pass_over(w), rule="sgd"), [*self.state[name], w.reshape(-1)]))


class Softmax(numpy_losses.Softmax):  # type: ignore[misc]
    """Cross-entropy of softmax, with the gradient by the suite's kernel."""

    def __init__(self, labels: Any, classes: int, products: Any) -> None:
        super().__init__(labels, classes)
        rows = len(self.labels)
        self.problem, self.bound = Cross(rows, classes), Bound(products)
        self.z, self.losses = np.zeros((rows, classes), np.float32), np.zeros(rows, np.float32)

    def gradient(self, z: Any) -> None:
        z = numpy_layers.flat(z)
        np.copyto(self.z, z)
        self.bound("loss", lambda: self.problem, [self.z, self.labels, z, self.losses])()
        z *= self.share


# Rules computed by NumPy's passes, by `on_gpu`: kernels lack adam's bias correction, and on a GPU the other rules.
BY_PASSES = {False: ("adam",), True: ("adam", "adagrad", "rmsprop")}


def optimizer(plan: dict[str, Any], weights: dict[str, Any], products: Any) -> Any:
    """Return the optimizer: by the suite's kernel, fused for SGD on a CPU, or by NumPy's passes."""
    if plan["optimizer"] in BY_PASSES[products.on_gpu]:
        return numpy_optimizers.KINDS[plan["optimizer"]](plan, weights)
    fuses = plan["optimizer"] == "sgd" and not products.on_gpu
    return (Fused if fuses else Moved)(plan, weights, products)


def torch(products: Any) -> Any:
    """Return PyTorch with gradients off; None if missing, or on a GPU, where arrays are CuPy's."""
    if library.missing() or products.on_gpu:
        return None
    module = library.load()
    module.set_num_threads(products.setting.threads)
    module.set_grad_enabled(False)
    return module


class Pool(numpy_images.Pool):
    """Pooling by PyTorch if opposite sides have equal padding, else by NumPy."""

    def __init__(self, model: Any, spec: dict[str, Any]) -> None:
        super().__init__(model, spec)
        size, is_global, (top, left, bottom, right) = spec["in"][0][1:], spec["window"] == 0, layouts.pads(spec)
        self.torch = torch(model.products)
        alike = (top, left) == (bottom, right) and 2 * max(top, left) <= spec["window"]
        self.by_torch = self.torch is not None and (is_global or alike)
        window, stride = (size, size) if is_global else ([spec["window"]] * 2, [spec["stride"]] * 2)
        self.how = (window, stride, [top, left])
        self.at: Any = None  # indices of maxima
        self.last = spec.get("rounding") == "ceil", False, None  # ceil_mode, count_include_pad, divisor_override

    def _of(self, *arrays: Any) -> list[Any]:
        return [self.torch.from_numpy(array) for array in arrays]

    def _largest(self, x: Any, z: Any) -> None:
        if not self.by_torch:
            super()._largest(x, z)
            return
        x, z = self._of(x, z)
        if self.at is None:
            self.at = self.torch.empty(z.shape, dtype=self.torch.int64)
        self.torch.ops.aten.max_pool2d_with_indices.out(x, *self.how, [1, 1], self.last[0], out=z, indices=self.at)

    def _average(self, x: Any, z: Any) -> None:
        if not self.by_torch:
            super()._average(x, z)
            return
        x, z = self._of(x, z)
        self.torch.ops.aten.avg_pool2d.out(x, *self.how, *self.last, out=z)

    def _to_largest(self, dz: Any, dx: Any) -> None:
        if not self.by_torch:
            super()._to_largest(dz, dx)
            return
        dz, dx, x = self._of(dz, dx, self.x)
        back = self.torch.ops.aten.max_pool2d_with_indices_backward.grad_input
        back(dz, x, *self.how, [1, 1], self.last[0], self.at, grad_input=dx)

    def _to_all(self, dz: Any, dx: Any) -> None:
        if not self.by_torch:
            super()._to_all(dz, dx)
            return
        dz, dx, x = self._of(dz, dx, self.x)
        self.torch.ops.aten.avg_pool2d_backward.grad_input(dz, x, *self.how, *self.last, grad_input=dx)


class Norm(numpy_images.Norm):
    """Batch normalization by PyTorch; without `affine`, scale and shift are constants 1 and 0."""

    def __init__(self, model: Any, spec: dict[str, Any]) -> None:
        super().__init__(model, spec)
        self.torch = torch(model.products)
        self.saved = np.zeros((2, self.channels), np.float32)
        self.plain = np.ones(self.channels, np.float32), np.zeros(self.channels, np.float32)

    def _moved(self) -> list[Any]:
        """Return scale and shift, as PyTorch tensors."""
        arrays = [self.weight(name) for name in ("scale", "shift")] if self.spec["affine"] else self.plain
        return [self.torch.from_numpy(array) for array in arrays]

    def _kept(self) -> list[Any]:
        """Return mean and variance of a frozen layer, else two Nones."""
        return [self.torch.from_numpy(x) if self.spec["frozen"] else None for x in (self.mean, self.variance)]

    def _forward(self, x: Any, z: Any) -> None:
        if self.torch is None:
            super()._forward(x, z)
            return
        trains, epsilon = not self.spec["frozen"], self.spec["epsilon"]
        self.x, out = self.torch.from_numpy(x), self.torch.from_numpy(z)
        how = self._moved() + self._kept() + [trains, 0.0, epsilon]
        mean, root = map(self.torch.from_numpy, self.saved)
        self.torch.ops.aten.native_batch_norm.out(self.x, *how, out=out, save_mean=mean, save_invstd=root)
        if trains:
            self.seen = self.saved[0], self.saved[1] ** -2.0 - np.float32(epsilon)

    def backward(self, dz: Any) -> Any:
        if self.torch is None:
            return super().backward(dz)
        return [self.do(self.row("gradient"), "normalization", self._gradients, dz)]

    def _gradients(self, dz: Any) -> Any:
        """Compute all gradients; return the input's, an array by PyTorch (a given array would need a copy)."""
        affine, asked = self.spec["affine"], self.dx[0] is not None
        how = [self.torch.from_numpy(dz), self.x, self._moved()[0], *self._kept()]
        how += [*map(self.torch.from_numpy, self.saved), not self.spec["frozen"], self.spec["epsilon"]]
        dx, *moved = self.torch.ops.aten.native_batch_norm_backward(*how, [asked, affine, affine])
        for name, gradient in zip(("scale", "shift"), moved if affine else ()):
            self.grad(name)[...] = gradient.numpy()
        return dx.numpy() if asked else None


BUILDERS = {"dense": Dense, "conv": Conv, "pool": Pool, "norm": Norm}
