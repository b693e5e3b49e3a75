"""JAX's and TensorFlow's adapters with something added to the forward pass of one layer of a network, to be found by
`macro explain`. What it computes is added as next to nothing: the work stays equal, and no compiler may leave it out.
How many instructions of it there are in the program that is compiled stands in a file beside the adapter's.

`written(folder, framework, what, layer, many)` writes a file of a user's that runs it; the knobs say what is added.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

HERE = Path(__file__).resolve()
FRAMEWORKS = HERE.parents[2] / "macro/frameworks"
STEP = 1e-3  # by so much more each time what is computed again is multiplied: no compiler finds it twice
LITTLE = 1e-30  # of it is added: no number of a layer is changed by so little
SCOPE = "added"  # around it, in the layer's own
COUNTED = "added.txt"  # the file
PLUGIN = '''"""A framework of the user's."""
import importlib.util

ROWS = {knobs!r}
RECIPE = {recipe!r}
TUNED = {{}}
spec = importlib.util.spec_from_file_location("injected_graphs", {here!r})
made = importlib.util.module_from_spec(spec)
spec.loader.exec_module(made)
plain = made.adapter({framework!r})
configure, available, identity, kinds = plain.configure, plain.available, plain.identity, plain.kinds
trace = plain.trace


def build(job):
    return made.build(plain, job)
'''
Added: TypeAlias = "Callable[[Any, Any, int, Callable[[Any], Any]], Any]"
ENVIRONMENTS = {"jax": "jax", "tensorflow-graph": "tensorflow"}
# What is added, and the kinds of work that it may be found as.
EXPECTED = {
    "operation again": ("convolution", "pooling", "normalization"),
    "product": ("gemm",),
    "copies": ("copy", "packing", "layout reorder"),
    "element-wise": ("element-wise",),
    "sums": ("reduction",),
    "sleep": ("waiting",),
}


def written(folder: Path, framework: str, what: str, layer: str, many: int) -> Path:
    """An adapter that does it; its path."""
    path = folder / "plugin.py"
    own = {"mode": "graph"} if framework.startswith("tensorflow") else {}
    knobs = {"plugin": {**own, "what": what, "layer": layer, "many": many, "counted": str(folder / COUNTED)}}
    recipe = {"environment": ENVIRONMENTS[framework], "python": "3.11"}
    values = {"knobs": knobs, "recipe": recipe, "here": str(HERE), "framework": ENVIRONMENTS[framework]}
    path.write_text(PLUGIN.format(**values), encoding="utf-8")
    return path


def adapter(framework: str) -> ModuleType:
    """The suite's own."""
    spec = importlib.util.spec_from_file_location(f"plain_{framework}", FRAMEWORKS / f"{framework}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build(plain: ModuleType, job: dict[str, Any]) -> Any:
    """Its model; the builder of the layer's kind gives what has the addition behind it."""
    stem = "tf" if job["knobs"].get("mode") else "jax"
    layers: Any = importlib.import_module(f"{stem}_layers")  # beside the worker's loop
    wrap = _in_tensorflow if stem == "tf" else _in_jax

    class Added(layers.Kinds):  # type: ignore[misc]
        builders: dict[str, Any]

        def __init__(self, library: Any, told: Sequence[dict[str, Any]]) -> None:
            super().__init__(library, told)
            self.builders = {kind: self._with(library, make) for kind, make in self.builders.items()}

        def _with(self, library: Any, make: Callable[[Any], Any]) -> Callable[[Any], Any]:
            def made(told: dict[str, Any]) -> Any:
                call = make(told)
                return wrap(library, call, job["knobs"]) if told["name"] == job["knobs"]["layer"] else call

            return made

    layers.Kinds = Added
    model = plain.build(job)
    compiled = _in_graphs(model) if stem == "tf" else _in_programs(model)
    Path(job["knobs"]["counted"]).write_text(str(compiled), encoding="utf-8")
    return model


def _in_programs(model: Any) -> int:
    """Instructions of what is added in XLA's program of a step."""
    call, arguments = model.programs()[-1]
    return str(call.lower(*arguments).compile().as_text()).count(f"{SCOPE}/")


def _in_graphs(model: Any) -> int:
    """Nodes of what is added in the graphs of a gradient that TensorFlow runs, its optimizer's work done."""
    from tensorflow.python.eager import context  # type: ignore[import-untyped]

    context.enable_run_metadata()
    try:
        model.gradient()
        ran = context.export_run_metadata().function_graphs
    finally:
        context.disable_run_metadata()
    graphs = [graph for one in ran for graph in (one.post_optimization_graph, *one.partition_graphs)]
    return max((_nodes(graph) for graph in graphs), default=0)


def _nodes(graph: Any) -> int:
    every = [*graph.node, *(node for function in graph.library.function for node in function.node_def)]
    return sum(f"{SCOPE}/" in node.name for node in every)


def _in_jax(jax: Any, call: Any, knobs: dict[str, Any]) -> Any:
    """`call(p, state, x)` gives its output and new state."""
    np, still, barrier = jax.numpy, jax.lax.stop_gradient, jax.lax.optimization_barrier

    def multiplied(x: Any, i: int) -> Any:
        flat = barrier(still(x).reshape(x.shape[0], -1) * (1 + STEP * (1 + i)))
        return np.max(barrier(flat.T @ flat))

    def slept(y: Any, i: int) -> Any:
        return jax.pure_callback(_sleep, jax.ShapeDtypeStruct((), np.float32), y.ravel()[0])

    def applied(p: Any, state: Any, *given: Any) -> Any:
        y, kept = call(p, state, *given)
        with jax.named_scope(SCOPE):
            return added(p, state, y, given), kept

    def added(p: Any, state: Any, y: Any, given: Any) -> Any:
        seen = barrier(still(y))  # made once: else each of these computes again what is fused into `y`
        last: Any = 0.0  # of the last one: one behind the other, all have the same memory for their own
        for i in range(knobs["many"]):
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
                y = y + LITTLE * (multiplied(given[0], i) if knobs["what"] == "product" else slept(seen, i))
        return y + LITTLE * last if knobs["what"] == "element-wise" else y

    return applied


def _in_tensorflow(tf: Any, call: Any, knobs: dict[str, Any]) -> Any:
    """`call(p, state, kept, x)` gives its output; new state goes into `kept`."""
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
        flat = tf.reshape(still(given[0]), [y.shape[0], -1]) * (1.0 + STEP * (1 + i))
        return tf.reduce_max(tf.matmul(flat, flat, transpose_a=True))

    def curved(p: Any, state: Any, y: Any, given: Any, i: int) -> Any:
        return tf.tanh(tf.math.softplus(y * (1.0 + STEP * (1 + i))))

    def summed(p: Any, state: Any, y: Any, given: Any, i: int) -> Any:
        return tf.reduce_sum(y * (1.0 + STEP * (1 + i)), axis=0, keepdims=True)

    def slept(p: Any, state: Any, y: Any, given: Any, i: int) -> Any:
        value = tf.numpy_function(_sleep, [first(y)], tf.float32)
        return tf.ensure_shape(value, [])

    made = {
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
            for i in range(knobs["many"]):
                y = y + LITTLE * still(made(p, state, seen, given, i))
        return y

    return applied


def _sleep(value: Any) -> Any:
    """A millisecond."""
    import time

    import numpy as np

    time.sleep(1e-3)
    return np.float32(value)
