"""Layers in TensorFlow, with images N×H×W×C and filters H×W×C×K, its default layout.

A builder returns a function of the layer's variables, its state and the preceding layers' outputs; the function adds
new state to `kept`, by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import layouts  # beside this file
import recurrent_cells


class Kinds:
    """Builders of the layer kinds in KINDS, as methods of these names."""

    def __init__(self, tf: Any, layers: list[dict[str, Any]]) -> None:
        self.tf, self.layers = tf, layers

    def dense(self, spec: dict[str, Any]) -> Any:
        tf, shape = self.tf, spec["out"]

        def product(p: dict[str, Any], state: dict[str, Any], kept: dict[str, Any], x: Any) -> Any:
            rows = x if len(shape) == 1 else tf.reshape(x, (-1, spec["inputs"]))
            y = tf.nn.bias_add(tf.matmul(rows, p["weight"]), p["bias"])
            return y if len(shape) == 1 else tf.reshape(y, (-1, *shape))

        return product

    def conv(self, spec: dict[str, Any]) -> Callable[..., Any]:
        tf = self.tf
        rows, columns = (layouts.pads(spec)[i::2] for i in (0, 1))
        pads = [[0, 0], list(rows), list(columns), [0, 0]]
        if spec["groups"] > 1:
            raise NotImplementedError("TensorFlow has no gradient of grouped convolutions on a CPU")

        def convolved(p: dict[str, Any], state: dict[str, Any], kept: dict[str, Any], x: Any) -> Any:
            y = tf.nn.conv2d(x, p["weight"], spec["stride"], pads, dilations=spec["dilation"])
            return tf.nn.bias_add(y, p["bias"]) if spec["bias"] else y

        return convolved

    def pool(self, spec: dict[str, Any]) -> Any:
        tf, largest = self.tf, spec["mode"] == "max"
        if spec["window"] == 0:
            reduce = tf.reduce_max if largest else tf.reduce_mean
            return lambda p, state, kept, x: reduce(x, axis=(1, 2), keepdims=True)
        around, counts = layouts.around(spec), layouts.counts(spec)
        pads, window, stride = [[0, 0]] + [list(x) for x in around] + [[0, 0]], spec["window"], spec["stride"]
        padded, area = any(map(any, around)), float(window * window)

        def pooled(p: dict[str, Any], state: dict[str, Any], kept: dict[str, Any], x: Any) -> Any:
            if padded:
                x = tf.pad(x, pads, constant_values=x.dtype.min if largest else 0)
            if largest:
                return tf.nn.max_pool2d(x, window, stride, "VALID")
            y = tf.nn.avg_pool2d(x, window, stride, "VALID")
            return y * (area / counts[:, :, None]) if (counts < area).any() else y

        return pooled

    def norm(self, spec: dict[str, Any]) -> Callable[..., Any]:
        call, epsilon, share = self.tf.raw_ops.FusedBatchNormV3, spec["epsilon"], spec["share"]
        ones, zeros = (self.tf.fill([spec["in"][0][0]], x) for x in (1.0, 0.0))

        def normed(p: dict[str, Any], state: dict[str, Any], kept: dict[str, Any], x: Any) -> Any:
            scale, shift = (p["scale"], p["shift"]) if spec["affine"] else (ones, zeros)
            if spec["frozen"]:
                mean, variance = state["mean"], state["variance"]
                return call(
                    x=x, scale=scale, offset=shift, mean=mean, variance=variance, epsilon=epsilon, is_training=False
                ).y
            empty = self.tf.zeros([0])
            result = call(x=x, scale=scale, offset=shift, mean=empty, variance=empty, epsilon=epsilon, is_training=True)
            y, mean, variance = result.y, result.batch_mean, result.batch_variance
            for name, seen in (("mean", mean), ("variance", variance)):  # TensorFlow's variance includes n/(n - 1)
                kept[spec["name"] + "." + name] = state[name] + share * (seen - state[name])
            return y

        return normed

    def lrn(self, spec: dict[str, Any]) -> Any:
        about = {"depth_radius": spec["size"] // 2, "bias": spec["k"], "beta": spec["beta"]}
        share = spec["alpha"] / spec["size"]
        return lambda p, state, kept, x: self.tf.nn.local_response_normalization(x, alpha=share, **about)

    def dropout(self, spec: dict[str, Any]) -> Any:
        if spec.get("mask") is None:
            return lambda p, state, kept, x: self.tf.nn.dropout(x, spec["share"])
        mask = layouts.mask(spec, self.layers)
        return lambda p, state, kept, x: x * mask

    def add(self, spec: dict[str, Any]) -> Any:
        return lambda p, state, kept, a, b: a + b

    def concat(self, spec: dict[str, Any]) -> Any:
        return lambda p, state, kept, *given: self.tf.concat(given, axis=-1)

    def flatten(self, spec: dict[str, Any]) -> Any:
        """Flatten to H×W×C, the order of the next dense layer's weights too, or to C×H×W if required."""
        tf = self.tf
        if layouts.in_order(spec, self.layers):
            return lambda p, state, kept, x: tf.reshape(tf.transpose(x, (0, 3, 1, 2)), (x.shape[0], -1))
        return lambda p, state, kept, x: tf.reshape(x, (x.shape[0], -1))

    def shortcut(self, spec: dict[str, Any]) -> Any:
        stride, more = spec["stride"], spec["channels"] - spec["in"][0][0]
        pads = [[0, 0], [0, 0], [0, 0], [0, more]]
        return lambda p, state, kept, x: self.tf.pad(x[:, ::stride, ::stride], pads)

    def activation(self, spec: dict[str, Any]) -> Any:
        return lambda p, state, kept, x: x

    def embedding(self, spec: dict[str, Any]) -> Any:
        return lambda p, state, kept, ids: self.tf.nn.embedding_lookup(p["weight"], ids)

    def mean(self, spec: dict[str, Any]) -> Any:
        tf = self.tf

        def averaged(p: dict[str, Any], state: dict[str, Any], kept: dict[str, Any], x: Any, ids: Any = None) -> Any:
            if ids is None:
                return tf.reduce_mean(x, axis=1)
            real = tf.cast(ids != 0, x.dtype)[..., None]
            return tf.reduce_sum(x * real, axis=1) / tf.maximum(tf.reduce_sum(real, axis=1), 1.0)

        return averaged

    def recurrent(self, spec: dict[str, Any]) -> Any:
        """Build the steps one after another, as tf.nn.static_rnn did, their products with the inputs all at once."""
        tf, call, steps = self.tf, recurrent_cells.CELLS[spec["cell"]], spec["in"][0][0]
        joined: Callable[..., Any] = lambda arrays: tf.concat(arrays, -1)  # noqa: E731
        ops = recurrent_cells.Ops(tf.sigmoid, tf.tanh, lambda x, parts: tf.split(x, parts, -1), joined)

        def way(p: dict[str, Any], state: dict[str, Any], kept: dict[str, Any], x: Any, reverse: bool) -> Any:
            rows = tf.matmul(tf.reshape(x, (-1, spec["in"][0][1])), p["weight"])
            sums = tf.nn.bias_add(rows, recurrent_cells.bias(spec, p))
            above = tf.unstack(tf.reshape(sums, (-1, steps, sums.shape[1])), axis=1)
            zeros = tf.zeros((x.shape[0], spec["hidden"]))
            h, c = (tf.convert_to_tensor(state[name]) if name in state else zeros for name in ("h", "c"))
            states = []
            for sums in reversed(above) if reverse else above:
                h, c = call(ops, spec, p, sums, h, c)
                states.append(h)
            kept.update((f"{spec['name']}.{name}", {"h": h, "c": c}[name]) for name in spec["state"])
            return h if spec["last"] else tf.stack(states[::-1] if reverse else states, axis=1)

        def recurred(p: dict[str, Any], state: dict[str, Any], kept: dict[str, Any], x: Any) -> Any:
            ways = [way(of, state, kept, x, reverse) for of, reverse in recurrent_cells.directions(spec, p)]
            return joined(ways) if len(ways) > 1 else ways[0]

        return recurred


KINDS = (
    *("dense", "conv", "pool", "norm", "lrn", "dropout", "add", "concat", "flatten", "shortcut", "activation"),
    *("embedding", "mean", "recurrent"),
)
LOSSES: dict[str, Callable[..., Any]] = {  # per sample or per output; the loss is their mean
    "softmax": lambda tf, z, labels: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=z),
    "binary": lambda tf, z, targets: tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=z),
    "squared": lambda tf, z, targets: tf.math.squared_difference(z, targets),
}


def threads(tf: Any) -> dict[str, Any]:
    """Return the sizes of TensorFlow's thread pools."""
    threading = tf.config.threading
    return {
        "intra-op": threading.get_intra_op_parallelism_threads(),
        "inter-op": threading.get_inter_op_parallelism_threads(),
    }


def network(
    tf: Any, layers: list[dict[str, Any]], p: dict[str, Any], state: dict[str, Any], scope: Any
) -> Callable[..., Any]:
    """Return a function from data to logits and new state; `p`, `state`: variables by name."""
    kinds = Kinds(tf, layers)
    calls = [(spec, getattr(kinds, spec["kind"])(spec)) for spec in layers]
    activations = {"sigmoid": tf.sigmoid, "relu": tf.nn.relu, "tanh": tf.tanh}

    def apply(x: Any) -> Any:
        values, kept = {"input": x}, dict[str, Any]()
        for spec, call in calls:
            name = spec["name"]
            parameters = {x: p[f"{name}.{x}"] for x in spec["parameters"]}
            before = {x: state[f"{name}.{x}"] for x in spec["state"]}
            with scope(name):
                if spec.get("tied"):
                    parameters["weight"] = tf.transpose(p[spec["tied"] + ".weight"])
                y = call(parameters, before, kept, *[values[x] for x in spec["after"]])
                if spec["activation"] != "none":
                    y = activations[spec["activation"]](y)
            values[name] = y
        return values[layers[-1]["name"]], kept

    return apply


def _momentum(nesterov: bool) -> Callable[..., Any]:
    def make(tf: Any, plan: dict[str, Any], variables: Any, scope: Any) -> Any:
        return tf.compat.v1.train.MomentumOptimizer(plan["rate"], plan["momentum"], use_nesterov=nesterov)

    return make


def _sgd(tf: Any, plan: dict[str, Any], variables: Any, scope: Any) -> Any:
    if plan["momentum"]:
        return _momentum(nesterov=False)(tf, plan, variables, scope)
    return tf.compat.v1.train.GradientDescentOptimizer(plan["rate"])


def _adam(tf: Any, plan: dict[str, Any], variables: Any, scope: Any) -> Any:
    return tf.compat.v1.train.AdamOptimizer(plan["rate"], plan["momentum"], plan["rho"], plan["epsilon"])


class Adagrad:
    """Adagrad by ResourceApplyAdagradV2, which adds epsilon to the root, as PyTorch does."""

    def __init__(self, tf: Any, plan: dict[str, Any], variables: Any, scope: Any) -> None:
        self.tf, self.plan, self.scope = tf, plan, scope
        self.v = [tf.Variable(tf.zeros_like(w), trainable=False) for w in variables]

    def apply_gradients(self, pairs: Any) -> None:
        for i, (g, w) in enumerate(pairs):
            with self.scope(w.name.rpartition(".")[0] + ".update"):
                self.move(i, w.handle, g)

    def move(self, i: int, w: Any, g: Any) -> None:
        rate, epsilon = self.plan["rate"], self.plan["epsilon"]
        self.tf.raw_ops.ResourceApplyAdagradV2(var=w, accum=self.v[i].handle, lr=rate, epsilon=epsilon, grad=g)


class Rmsprop(Adagrad):
    """RMSprop by ResourceApplyRMSProp, which adds epsilon below the root and also stores a velocity."""

    def __init__(self, tf: Any, plan: dict[str, Any], variables: Any, scope: Any) -> None:
        super().__init__(tf, plan, variables, scope)
        self.kept = [tf.Variable(tf.zeros_like(w), trainable=False) for w in variables]

    def move(self, i: int, w: Any, g: Any) -> None:
        plan, state = self.plan, {"ms": self.v[i].handle, "mom": self.kept[i].handle}
        how = {"lr": plan["rate"], "rho": plan["rho"], "momentum": 0.0, "epsilon": plan["epsilon"] ** 2}
        self.tf.raw_ops.ResourceApplyRMSProp(var=w, grad=g, **dict(state, **how))


OPTIMIZERS = {"sgd": _sgd, "nesterov": _momentum(nesterov=True), "adagrad": Adagrad, "rmsprop": Rmsprop, "adam": _adam}
