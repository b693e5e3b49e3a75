"""Spans and recorded calls of a Keras program, taken from its back end.

Compiled back ends record no calls: a step is a single call.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import graphs  # beside this file


def spans(model: Any, run: Callable[[], object]) -> Any:
    """Run `run` on the adapter's model and return its spans."""
    backend = model.keras.backend.backend()
    if backend != "torch" and not hasattr(model.model.optimizer.update_step, "scoped"):
        _name_updates(model)
    return BACKENDS[backend](model, run)


def _name_updates(model: Any) -> None:
    """Put each variable's update in a scope with its layer's name; recompile the step and run it once."""
    optimizer, names = model.model.optimizer, [name.rpartition(".")[0] for name in model.names]
    update = optimizer.update_step

    def scoped(gradient: Any, variable: Any, rate: Any) -> Any:
        with model.keras.name_scope(names[optimizer._get_variable_index(variable)] + ".update"):
            return update(gradient, variable, rate)

    scoped.scoped = True  # type: ignore[attr-defined]
    optimizer.update_step = scoped
    model.model.make_train_function(force=True)
    model.step()


def record(model: Any, run: Callable[[], object]) -> Any:
    """Run `run` and return its calls as (rows, column, call); [] for compiled back ends."""
    if model.keras.backend.backend() != "torch":
        return []
    import torch_record

    with _scoped(model):
        return torch_record.record(run, model.model.zero_grad, _aligned(model))


def _tensorflow(model: Any, run: Callable[[], object]) -> Any:
    import tensorflow as tf
    import tf_rows

    # No XLA programs: Keras compiles none on a CPU.
    return tf_rows.spans(tf, run, (), model.network["layers"], len(model.labels))


def _jax(model: Any, run: Callable[[], object]) -> Any:
    import jax
    import jax_trace

    x, labels, keras, backend = model.x, model.labels, model.model, model.backend
    state = backend.state() + tuple(
        [v.value for v in variables] for variables in (keras.optimizer.variables, keras.metrics_variables)
    )
    programs = (
        (backend.call_forward, (*backend.state(), x)),
        (backend.call_gradient, (*backend.state(), x, labels)),
        (jax.jit(keras.train_step, donate_argnums=0), (state, (x, labels, None))),  # as Keras compiles it
    )
    return jax_trace.spans(jax, run, programs, model.network["layers"], len(labels), inside=True)


def _torch(model: Any, run: Callable[[], object]) -> Any:
    import torch
    import torch_trace

    forget = model.model.zero_grad

    def marked() -> None:
        with torch.profiler.record_function("Optimizer.zero_grad"):  # the name that PyTorch's optimizers use
            forget()

    model.model.zero_grad = marked
    try:
        with _scoped(model):
            return torch_trace.spans(run, _aligned(model))
    finally:
        del model.model.zero_grad


@contextlib.contextmanager
def _scoped(model: Any) -> Iterator[None]:
    """Run each layer in a scope of its name, for a trace; names of Keras's layers are keras_layers.Kinds.called's."""
    import torch

    layers = model.network["layers"]
    names = {} if graphs.in_order(layers) else {x["name"].replace(".", ">"): x["name"] for x in layers}
    wrapped = []

    def wrap(call: Callable[..., Any], scope: str) -> Callable[..., Any]:
        def within(*args: Any, **kwargs: Any) -> Any:
            with torch.profiler.record_function(scope):
                return call(*args, **kwargs)

        return within

    for layer in model.model.layers:
        owner = next((x for x in names if layer.name == x or layer.name.startswith(x + ">")), None)
        if owner is not None:
            scope = names[owner] + (" activation" if layer.name.endswith(">activation") else "")
            layer.call = wrap(layer.call, scope)
            wrapped.append(layer)
    try:
        yield
    finally:
        for layer in wrapped:
            del layer.call


def _aligned(model: Any) -> Any:
    """Return a function from PyTorch's events to their rows and columns."""
    import torch_rows
    import torch_scopes

    shapes = [list(v.shape) for v in model.model.trainable_variables]
    parameters = [(name.rpartition(".")[0], shape) for name, shape in zip(model.names, shapes)]
    if not graphs.in_order(model.network["layers"]):
        return lambda events: torch_scopes.align(events, model.network["layers"], parameters)
    layers = [(x["name"], x["inputs"], x["outputs"]) for x in model.network["layers"]]
    return lambda events: torch_rows.align(events, len(model.labels), layers, parameters)


BACKENDS = {"tensorflow": _tensorflow, "jax": _jax, "torch": _torch}
