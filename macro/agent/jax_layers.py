"""Layers in JAX, with images N×H×W×C and filters H×W×C×K, as in JAX's layer libraries.

A builder returns a function of the layer's parameters, its state and the preceding layers' outputs, which returns the
output and the new state.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import layouts  # beside this file
import recurrent_cells


class Kinds:
    """Builders of the layer kinds in KINDS, as methods of these names."""

    def __init__(self, jax: Any, layers: list[dict[str, Any]]) -> None:
        self.jax, self.np, self.lax, self.layers = jax, jax.numpy, jax.lax, layers

    def dense(self, spec: dict[str, Any]) -> Any:
        return lambda p, state, x: (x @ p["weight"] + p["bias"], state)

    def conv(self, spec: dict[str, Any]) -> Callable[..., Any]:
        pads = layouts.pads(spec)
        about = {
            "window_strides": (spec["stride"],) * 2,
            "padding": (pads[0::2], pads[1::2]),
            "rhs_dilation": (spec["dilation"],) * 2,
            "dimension_numbers": ("NHWC", "HWIO", "NHWC"),
            "feature_group_count": spec["groups"],
        }

        def convolved(p: dict[str, Any], state: Any, x: Any) -> Any:
            y = self.lax.conv_general_dilated(x, p["weight"], **about)
            return (y + p["bias"] if spec["bias"] else y), state

        return convolved

    def pool(self, spec: dict[str, Any]) -> Any:
        if spec["window"] == 0:
            reduce = self.np.mean if spec["mode"] == "average" else self.np.max
            return lambda p, state, x: (reduce(x, axis=(1, 2), keepdims=True), state)
        window, strides = ((1, spec[name], spec[name], 1) for name in ("window", "stride"))
        rows, columns = layouts.around(spec)
        pads = ((0, 0), rows, columns, (0, 0))
        largest, counts = spec["mode"] == "max", layouts.counts(spec)

        def pooled(p: dict[str, Any], state: Any, x: Any) -> Any:
            start, call = (-self.np.inf, self.lax.max) if largest else (0.0, self.lax.add)
            y = self.lax.reduce_window(x, start, call, window, strides, pads)
            return (y if largest else y / counts[:, :, None]), state

        return pooled

    def norm(self, spec: dict[str, Any]) -> Callable[..., Any]:
        np, epsilon, share = self.np, spec["epsilon"], spec["share"]

        def normed(p: dict[str, Any], state: Any, x: Any) -> Any:
            if spec["frozen"]:
                mean, variance = state["mean"], state["variance"]
            else:
                mean = np.mean(x, axis=(0, 1, 2))
                variance = np.mean(np.square(x - mean), axis=(0, 1, 2))
                count = x.size // x.shape[-1]
                unbiased = variance * (count / max(1.0, count - 1.0))
                kept = {"mean": mean, "variance": unbiased}
                state = {name: running + share * (kept[name] - running) for name, running in state.items()}
            y = (x - mean) * self.lax.rsqrt(variance + epsilon)
            return (y * p["scale"] + p["shift"] if spec["affine"] else y), state

        return normed

    def lrn(self, spec: dict[str, Any]) -> Callable[..., Any]:
        window, reach = (1, 1, 1, spec["size"]), spec["size"] // 2
        share, pads = spec["alpha"] / spec["size"], ((0, 0), (0, 0), (0, 0), (reach, reach))

        def normed(p: dict[str, Any], state: Any, x: Any) -> Any:
            sums = self.lax.reduce_window(x * x, 0.0, self.lax.add, window, (1, 1, 1, 1), pads)
            return x * (spec["k"] + share * sums) ** -spec["beta"], state

        return normed

    def dropout(self, spec: dict[str, Any]) -> Any:
        if spec.get("mask") is not None:
            mask = layouts.mask(spec, self.layers)
            return lambda p, state, x: (x * mask, state)
        keep, random = 1.0 - spec["share"], self.jax.random

        def dropped(p: dict[str, Any], state: Any, x: Any) -> Any:
            later, now = random.split(state["key"])
            return self.np.where(random.bernoulli(now, keep, x.shape), x / keep, 0.0), {"key": later}

        return dropped

    def add(self, spec: dict[str, Any]) -> Any:
        return lambda p, state, a, b: (a + b, state)

    def concat(self, spec: dict[str, Any]) -> Any:
        return lambda p, state, *given: (self.np.concatenate(given, axis=-1), state)

    def flatten(self, spec: dict[str, Any]) -> Any:
        """Flatten to H×W×C, the order of the next dense layer's weights too, or to C×H×W if required."""
        if layouts.in_order(spec, self.layers):
            return lambda p, state, x: (x.transpose(0, 3, 1, 2).reshape(x.shape[0], -1), state)
        return lambda p, state, x: (x.reshape(x.shape[0], -1), state)

    def shortcut(self, spec: dict[str, Any]) -> Any:
        stride, more = spec["stride"], spec["channels"] - spec["in"][0][0]
        pads = ((0, 0), (0, 0), (0, 0), (0, more))
        return lambda p, state, x: (self.np.pad(x[:, ::stride, ::stride], pads), state)

    def activation(self, spec: dict[str, Any]) -> Any:
        return lambda p, state, x: (x, state)

    def embedding(self, spec: dict[str, Any]) -> Any:
        return lambda p, state, ids: (p["weight"][ids], state)

    def mean(self, spec: dict[str, Any]) -> Any:
        def averaged(p: dict[str, Any], state: Any, x: Any, ids: Any = None) -> Any:
            if ids is None:
                return x.mean(axis=1), state
            real = (ids != 0)[..., None]
            return (x * real).sum(axis=1) / self.np.maximum(real.sum(axis=1), 1), state

        return averaged

    def recurrent(self, spec: dict[str, Any]) -> Any:
        """Build a scan over the steps, its products with the inputs outside, all steps at once."""
        np, call = self.np, recurrent_cells.CELLS[spec["cell"]]
        joined: Callable[..., Any] = lambda arrays: np.concatenate(arrays, -1)  # noqa: E731
        ops = recurrent_cells.Ops(self.jax.nn.sigmoid, np.tanh, lambda x, parts: np.split(x, parts, -1), joined)

        def way(p: dict[str, Any], state: dict[str, Any], x: Any, reverse: bool) -> Any:
            def step(carried: Any, above: Any) -> Any:
                h, c = call(ops, spec, p, above, *carried)
                return (h, c), None if spec["last"] else h

            sums = (x @ p["weight"] + recurrent_cells.bias(spec, p)).swapaxes(0, 1)
            zeros = np.zeros((x.shape[0], spec["hidden"]))
            begin = state.get("h", zeros), state.get("c", zeros)
            (h, c), states = self.lax.scan(step, begin, sums, reverse=reverse, unroll=spec["unrolled"] or 1)
            return (h if spec["last"] else states.swapaxes(0, 1)), {"h": h, "c": c}

        def recurred(p: dict[str, Any], state: dict[str, Any], x: Any) -> Any:
            ways = [way(of, state, x, reverse) for of, reverse in recurrent_cells.directions(spec, p)]
            after = {name: ways[0][1][name] for name in spec["state"]}
            return joined([y for y, _ in ways]) if len(ways) > 1 else ways[0][0], after

        return recurred


KINDS = (
    *("dense", "conv", "pool", "norm", "lrn", "dropout", "add", "concat", "flatten", "shortcut", "activation"),
    *("embedding", "mean", "recurrent"),
)


def softmax(jax: Any, z: Any, labels: Any) -> Any:
    return -jax.numpy.take_along_axis(jax.nn.log_softmax(z), labels[..., None], axis=-1)


def binary(jax: Any, z: Any, targets: Any) -> Any:
    return -targets * jax.nn.log_sigmoid(z) - (1.0 - targets) * jax.nn.log_sigmoid(-z)


def squared(jax: Any, z: Any, targets: Any) -> Any:
    return jax.numpy.square(z - targets)


LOSSES = {"softmax": softmax, "binary": binary, "squared": squared}  # per sample or per output; the loss is their mean


def keys(jax: Any, layers: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the initial random keys of dropout layers that draw masks, by name, as part of the state."""
    drawing = [spec["name"] for spec in layers if spec["kind"] == "dropout" and spec.get("mask") is None]
    return {name + ".key": jax.random.key(i) for i, name in enumerate(drawing)}


def network(jax: Any, layers: list[dict[str, Any]]) -> Callable[..., Any]:
    """Return a function from parameters, state and data to logits and new state, with a scope per layer."""
    kinds = Kinds(jax, layers)
    calls = [(spec, getattr(kinds, spec["kind"])(spec)) for spec in layers]
    activations = {"sigmoid": jax.nn.sigmoid, "relu": jax.nn.relu, "tanh": jax.numpy.tanh}

    def apply(p: dict[str, Any], state: Any, x: Any) -> Any:
        values, kept = {"input": x}, dict[str, Any]()
        for spec, call in calls:
            name = spec["name"]
            parameters = {x: p[f"{name}.{x}"] for x in spec["parameters"]}
            kept_names = list(spec["state"]) + ["key"] * (name + ".key" in state)
            before = {x: state[f"{name}.{x}"] for x in kept_names}
            with jax.named_scope(name):
                if spec.get("tied"):
                    parameters["weight"] = p[spec["tied"] + ".weight"].T
                y, after = call(parameters, before, *[values[x] for x in spec["after"]])
            kept.update((f"{name}.{x}", array) for x, array in after.items())
            if spec["activation"] != "none":
                with jax.named_scope(name + " activation"):
                    y = activations[spec["activation"]](y)
            values[name] = y
        return values[layers[-1]["name"]], kept

    return apply


def _sgd(jnp: Any, plan: dict[str, Any], w: Any, g: Any, state: Any, taken: Any) -> Any:
    if state:
        g = plan["momentum"] * state["v"] + g
    return w - plan["rate"] * g, {"v": g} if state else {}


def _nesterov(jnp: Any, plan: dict[str, Any], w: Any, g: Any, state: Any, taken: Any) -> Any:
    v = plan["momentum"] * state["v"] + g
    return w - plan["rate"] * (g + plan["momentum"] * v), {"v": v}


def _adagrad(jnp: Any, plan: dict[str, Any], w: Any, g: Any, state: Any, taken: Any) -> Any:
    v = state["v"] + g * g
    return w - plan["rate"] * g / (jnp.sqrt(v) + plan["epsilon"]), {"v": v}


def _rmsprop(jnp: Any, plan: dict[str, Any], w: Any, g: Any, state: Any, taken: Any) -> Any:
    v = plan["rho"] * state["v"] + (1 - plan["rho"]) * g * g
    return w - plan["rate"] * g / (jnp.sqrt(v) + plan["epsilon"]), {"v": v}


def _adam(jnp: Any, plan: dict[str, Any], w: Any, g: Any, state: Any, taken: Any) -> Any:
    m = plan["momentum"] * state["m"] + (1 - plan["momentum"]) * g
    v = plan["rho"] * state["v"] + (1 - plan["rho"]) * g * g
    first, second = (_risen(jnp, plan[name], taken) for name in ("momentum", "rho"))
    return w - plan["rate"] / first * m / (jnp.sqrt(v / second) + plan["epsilon"]), {"m": m, "v": v}


def _risen(jnp: Any, decay: float, taken: Any) -> Any:
    """Return 1 - decay**taken without cancellation in single precision."""
    return -jnp.expm1(taken * math.log(decay)) if decay else 1.0


OPTIMIZERS = {"sgd": _sgd, "nesterov": _nesterov, "adagrad": _adagrad, "rmsprop": _rmsprop, "adam": _adam}


def begin(jnp: Any, plan: dict[str, Any], p: dict[str, Any]) -> Any:
    """Return the optimizer's state before the first step; empty for SGD without momentum."""
    names = {"sgd": ["v"] if plan["momentum"] else [], "adam": ["m", "v"]}.get(plan["optimizer"], ["v"])
    state = {x: {name: jnp.zeros_like(w) for name, w in p.items()} for x in names}
    return dict(state, taken=jnp.zeros((), jnp.float32)) if plan["optimizer"] == "adam" else state


def moved(jax: Any, plan: dict[str, Any], p: dict[str, Any], grads: dict[str, Any], state: Any) -> Any:
    """Return weights and state after an update; each weight's update has the scope `layer update`."""
    rule, arrays = OPTIMIZERS[plan["optimizer"]], [x for x in state if x != "taken"]
    after, kept = dict[str, Any](), {x: dict[str, Any]() for x in arrays}
    if "taken" in state:
        kept["taken"] = state["taken"] + 1
    for name in p:
        with jax.named_scope(name.rpartition(".")[0] + " update"):
            weight_state = {x: state[x][name] for x in arrays}
            after[name], weight_state = rule(jax.numpy, plan, p[name], grads[name], weight_state, kept.get("taken"))
        for x, array in weight_state.items():
            kept[x][name] = array
    return after, kept
