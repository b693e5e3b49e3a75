"""Adapters of JAX, TensorFlow and PyTorch with an addition to one layer's forward pass, for `macro explain` to find.

The result is added as next to nothing: the work stays equal, and no compiler may leave it out. The file `counted` has
the number of its instructions in the compiled program; PyTorch, which is eager, runs each of them.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

FRAMEWORKS = Path(__file__).resolve().parents[2] / "macro/frameworks"
STEP = 1e-3  # by so much more each time what is computed again is multiplied: no compiler finds it twice
LITTLE = 1e-30  # of it is added: no number of a layer is changed by so little
SCOPE = "added"  # around it, in the layer's own
ENVIRONMENTS = {"jax": "jax", "tensorflow-graph": "tensorflow", "pytorch": "pytorch"}
# What is added, and the kinds of work that it may be found as.
EXPECTED = {
    "operation again": ("convolution", "pooling", "normalization", "recurrent cell"),
    "product": ("gemm", "recurrent cell"),
    "copies": ("copy", "packing", "layout reorder"),
    "element-wise": ("element-wise",),
    "sums": ("reduction",),
    "sleep": ("waiting",),
}


def exported(knobs: dict[str, Any]) -> dict[str, Any]:
    """Return what an adapter of these knobs defines."""
    name = knobs["adapter"]
    spec = importlib.util.spec_from_file_location(f"plain_{name}", FRAMEWORKS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    plain = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain)
    names = ("configure", "available", "identity", "trace", "record", "KINDS", "LOSSES", "OPTIMIZERS")
    kept = {name: getattr(plain, name) for name in names if hasattr(plain, name)}
    return kept | {"build": partial(build_eager if name == "pytorch" else build, plain)}


def build(plain: ModuleType, job: dict[str, Any]) -> Any:
    """Return the plain adapter's model, in which the builder of the layer's kind adds the injection."""
    stem = "tf" if job["knobs"].get("mode") else "jax"
    layers: Any = importlib.import_module(f"{stem}_layers")  # of macro/agent
    wrap = _in_tensorflow if stem == "tf" else _in_jax

    class Added(layers.Kinds):  # type: ignore[misc]
        def __init__(self, library: Any, layers_data: Sequence[dict[str, Any]]) -> None:
            super().__init__(library, layers_data)
            for kind in layers.KINDS:
                setattr(self, kind, self._with(library, getattr(self, kind)))

        def _with(self, library: Any, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
            def wrapped(layer: dict[str, Any]) -> Any:
                call = make(layer)
                return wrap(library, call, job["knobs"]) if layer["name"] == job["knobs"]["layer"] else call

            return wrapped

    layers.Kinds = Added
    model = plain.build(job)
    compiled = _in_graphs(model) if stem == "tf" else _in_programs(model)
    Path(job["knobs"]["counted"]).write_text(str(compiled), encoding="utf-8")
    return model


def build_eager(plain: ModuleType, job: dict[str, Any]) -> Any:
    """Return PyTorch's model, in which the layer's module adds the injection behind its forward pass."""
    model, knobs = plain.build(job), job["knobs"]
    _in_torch(model.torch, model.net.get_submodule(knobs["layer"]), knobs)
    Path(knobs["counted"]).write_text(str(knobs["amount"]), encoding="utf-8")
    return model


def _in_torch(torch: Any, module: Any, knobs: dict[str, Any]) -> None:
    """Add the injection behind each call of a module, outside of what is differentiated."""
    call, what = type(module).forward, knobs["what"]

    def added(given: Any, y: Any, i: int) -> Any:
        scaled = y * (1 + STEP * (1 + i))
        if what == "operation again":
            return call(module, given * (1 + STEP * (1 + i))).max()
        if what == "product":
            rows = given.reshape(-1, given.shape[-1]) * (1 + STEP * (1 + i))
            return (rows.T @ rows).max()
        if what == "copies":
            return scaled.transpose(0, -1).contiguous().ravel()[0]
        if what == "element-wise":
            return torch.tanh(torch.nn.functional.softplus(scaled)).ravel()[0]
        if what == "sums":
            return scaled.sum(0).ravel()[0]
        _sleep(0.0)
        return 0.0

    def behind(module: Any, given: Any, y: Any) -> Any:
        with torch.no_grad():
            little = sum(added(given[0], y, i) for i in range(knobs["amount"])) * LITTLE
        return y + little

    module.register_forward_hook(behind)


def _in_programs(model: Any) -> int:
    """Return the number of instructions of the injection in XLA's program of a step."""
    call, arguments = model.programs()[-1]
    return str(call.lower(*arguments).compile().as_text()).count(f"{SCOPE}/")


def _in_graphs(model: Any) -> int:
    """Return the number of nodes of the injection in the optimized graphs that TensorFlow runs for a gradient."""
    from tensorflow.python.eager import context

    context.enable_run_metadata()
    try:
        model.gradient()
        ran = context.export_run_metadata().function_graphs
    finally:
        context.disable_run_metadata()
    graphs = [graph for function in ran for graph in (function.post_optimization_graph, *function.partition_graphs)]
    return max((_nodes(graph) for graph in graphs), default=0)


def _nodes(graph: Any) -> int:
    every = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    return sum(f"{SCOPE}/" in node.name for node in every)


def _in_jax(jax: Any, call: Any, knobs: dict[str, Any]) -> Any:
    """Wrap `call(p, state, x)`, which returns its output and new state."""
    np, still, barrier = jax.numpy, jax.lax.stop_gradient, jax.lax.optimization_barrier

    def multiplied(x: Any, i: int) -> Any:
        rows = still(x).reshape(-1, x.shape[-1]) if x.ndim == 3 else still(x).reshape(x.shape[0], -1)
        flat = barrier(rows * (1 + STEP * (1 + i)))
        return np.max(barrier(flat.T @ flat))

    def applied(p: Any, state: Any, *given: Any) -> Any:
        y, kept = call(p, state, *given)
        with jax.named_scope(SCOPE):
            return added(p, state, y, given), kept

    def added(p: Any, state: Any, y: Any, given: Any) -> Any:
        seen = barrier(still(y))  # made once: else each of these computes again what is fused into `y`
        last: Any = 0.0  # of the last addition: in a chain all use the same memory
        for i in range(knobs["amount"]):
            if knobs["what"] == "operation again":
                frozen = {name: still(array) for name, array in p.items()}
                again = call(frozen, state, *(barrier(still(x) * (1 + STEP * (1 + i)) + last) for x in given))[0]
                last = LITTLE * still(barrier(again)).ravel()[0]
                y = y + LITTLE * still(barrier(again))
            elif knobs["what"] == "element-wise":
                last = barrier(np.tanh(np.log1p(np.exp(-np.abs(seen * (1 + STEP * (1 + i)) + last)))))
            elif knobs["what"] == "sums":
                total = np.sum(barrier(seen * (1 + STEP * (1 + i)) + last), axis=0, keepdims=True)
                y, last = y + LITTLE * total, LITTLE * total.ravel()[0]
            else:
                y = y + LITTLE * multiplied(given[0], i)
        return y + LITTLE * last if knobs["what"] == "element-wise" else y

    return applied


def _in_tensorflow(tf: Any, call: Any, knobs: dict[str, Any]) -> Any:
    """Wrap `call(p, state, kept, x)`, which returns its output and puts new state into `kept`."""
    still = tf.stop_gradient

    def first(y: Any) -> Any:
        return tf.reshape(y, [-1])[0]

    def again(p: Any, state: Any, y: Any, given: Any, i: int) -> Any:
        return call(
            {name: still(x) for name, x in p.items()}, state, {}, *(still(x) * (1 + STEP * (1 + i)) for x in given)
        )

    def copied(p: Any, state: Any, y: Any, given: Any, i: int) -> Any:
        return tf.reduce_max(tf.transpose(y * (1.0 + STEP * (1 + i)), list(range(len(y.shape)))[::-1]))

    def multiplied(p: Any, state: Any, y: Any, given: Any, i: int) -> Any:
        x = still(given[0])
        rows = tf.reshape(x, [-1, x.shape[-1]] if len(x.shape) == 3 else [y.shape[0], -1])
        flat = rows * (1.0 + STEP * (1 + i))
        return tf.reduce_max(tf.matmul(flat, flat, transpose_a=True))

    def curved(p: Any, state: Any, y: Any, given: Any, i: int) -> Any:
        return tf.tanh(tf.math.softplus(y * (1.0 + STEP * (1 + i))))

    def summed(p: Any, state: Any, y: Any, given: Any, i: int) -> Any:
        return tf.reduce_sum(y * (1.0 + STEP * (1 + i)), axis=0, keepdims=True)

    def slept(p: Any, state: Any, y: Any, given: Any, i: int) -> Any:
        value = tf.numpy_function(_sleep, [first(y)], tf.float32)
        return tf.ensure_shape(value, [])

    add = {
        "operation again": again,
        "copies": copied,
        "product": multiplied,
        "element-wise": curved,
        "sums": summed,
        "sleep": slept,
    }[knobs["what"]]

    def applied(p: Any, state: Any, kept: Any, *given: Any) -> Any:
        y = call(p, state, kept, *given)
        seen = still(y)
        with tf.name_scope(SCOPE):
            for i in range(knobs["amount"]):
                y = y + LITTLE * still(add(p, state, seen, given, i))
        return y

    return applied


def _sleep(value: Any) -> Any:
    """Sleep for a millisecond."""
    import time

    import numpy as np

    time.sleep(1e-3)
    return np.float32(value)
