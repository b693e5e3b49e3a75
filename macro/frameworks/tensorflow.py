"""TensorFlow 2: variables and a gradient tape, one function a phase; as graph, eager, and by XLA.

The update is TensorFlow's optimizer, one fused kernel a variable (v = mu*v + g, w = w - lr*v); that of Keras, written
in single operations, is in Keras's rows. Images have their channels last.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

import layouts
import numpy as np
import numpy_losses
import tf_layers  # of macro/agent
import tf_rows

ROWS = {"tensorflow-graph": {"mode": "graph"}, "tensorflow-eager": {"mode": "eager"}, "tensorflow-xla": {"mode": "xla"}}
RECIPE = {
    "environment": "tensorflow",
    "python": "3.11",
    # The build without CUDA is half the size.
    "packages": ["tensorflow-cpu==2.21.0", "numpy==2.4.6"],
    "megabytes": 1619,
}
KINDS, LOSSES, OPTIMIZERS = tf_layers.KINDS, tf_layers.LOSSES, tf_layers.OPTIMIZERS


def configure(job: dict[str, Any]) -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(job["threads"])
    tf.config.threading.set_inter_op_parallelism_threads(job["threads"])


def available() -> None:
    import tensorflow as tf

    tf.linalg.matmul(tf.zeros((2, 2)), tf.zeros((2, 2))).numpy()


def identity(job: dict[str, Any]) -> dict[str, Any]:
    import tensorflow as tf
    from tensorflow.python.util import _pywrap_util_port as port

    build = tf.sysconfig.get_build_info()
    xla, onednn = job["knobs"]["mode"] == "xla", bool(port.IsMklEnabled())
    blas = "XLA for CPU" if xla else "oneDNN and Eigen" if onednn else "Eigen"
    asked = os.environ.get("TF_ENABLE_ONEDNN_OPTS", "by default")
    return {
        "framework": "tensorflow",
        "version": tf.version.VERSION,
        "build": f"{tf.version.GIT_VERSION}; {tf.version.COMPILER_VERSION}",
        "blas": f"{blas}, of TensorFlow",
        "dnn": f"oneDNN, on: {asked}" if onednn and not xla else None,
        "isa_asked": os.environ.get("ONEDNN_MAX_CPU_ISA"),
        "threads": tf_layers.threads(tf),
        "flags": {
            "mode": job["knobs"]["mode"],
            "xla": os.environ.get("XLA_FLAGS", ""),
            "tf_xla": os.environ.get("TF_XLA_FLAGS", ""),
            "tf32": tf.config.experimental.tensor_float_32_execution_enabled(),
            "cuda_build": bool(build.get("is_cuda_build")),
        },
    }


def build(job: dict[str, Any]) -> Any:
    dilated = any(spec.get("dilation", 1) > 1 for spec in job["network"]["layers"])
    if dilated and job["knobs"]["mode"] != "xla":
        raise NotImplementedError("TensorFlow has no gradient of dilated convolutions on a CPU")
    return Model(job)


def trace(model: Any, run: Callable[[], object]) -> Any:
    return tf_rows.spans(model.tf, run, model.programs(), model.network["layers"], int(model.labels.shape[0]))


class Model:
    def __init__(self, job: dict[str, Any]) -> None:
        import tensorflow as tf

        self.tf, self.network = tf, job["network"]
        layers, self.losses_of = self.network["layers"], LOSSES[self.network["loss"]]
        self.lie = layouts.Last(layers)
        with np.load(job["weights"]) as weights, np.load(job["data"]) as data:
            given = {name: self.lie.to(name, weights[name]) for name in weights.files}
            self.p = {name: tf.Variable(array, name=name) for name, array in given.items()}
            self.x = tf.constant(self.lie.data(data["x"]))
            self.labels = tf.constant(numpy_losses.wanted(self.network, data["labels"], np.int32))
        begin = layouts.begin(layers, len(self.labels))
        self.kept = {name: tf.Variable(x, name=name, trainable=False) for name, x in begin.items()}
        self.variables = list(self.p.values())
        wrap = {
            "graph": tf.function,
            "xla": lambda call: tf.function(call, jit_compile=True),
            "eager": lambda call: call,
        }[job["knobs"]["mode"]]
        self.scope: Any = contextlib.nullcontext if job["knobs"]["mode"] == "eager" else tf.name_scope
        make = OPTIMIZERS[self.network["optimizer"]]
        self.optimizer = make(tf, self.network, self.variables, self.scope)
        self.apply = tf_layers.network(tf, layers, self.p, self.kept, self.scope)
        self.call_forward, self.call_gradient = wrap(self._logits), wrap(self._gradient)
        self.call_loss, self.call_step = wrap(self._loss), wrap(self._step)

    def _logits(self, x: Any) -> Any:
        return self.apply(x)[0]

    def _loss_and_state(self, x: Any, labels: Any) -> Any:
        logits, kept = self.apply(x)
        with self.scope("loss"):
            return self.tf.reduce_mean(self.losses_of(self.tf, logits, labels)), kept

    def _loss(self, x: Any, labels: Any) -> Any:
        return self._loss_and_state(x, labels)[0]

    def programs(self) -> Any:
        """Return (function, arguments) of each phase."""
        batch = (self.x, self.labels)
        return (self.call_forward, batch[:1]), (self.call_gradient, batch), (self.call_step, batch)

    def _taped(self, x: Any, labels: Any) -> Any:
        with self.tf.GradientTape() as tape:
            loss, kept = self._loss_and_state(x, labels)
        return loss, tape.gradient(loss, self.variables), kept  # no gradient of the input

    def _gradient(self, x: Any, labels: Any) -> Any:
        return self._taped(x, labels)[:2]

    def _step(self, x: Any, labels: Any) -> Any:
        loss, grads, kept = self._taped(x, labels)
        if self.network["momentum"] and self.network["optimizer"] != "adam":  # velocities of rows without gradient
            grads = list(map(self.tf.convert_to_tensor, grads))
        self.optimizer.apply_gradients(zip(grads, self.variables))
        for name, value in kept.items():
            self.kept[name].assign(value)
        return loss

    def work(self) -> dict[str, Any]:
        counts = {name: int(w.shape.num_elements()) for name, w in self.p.items()}
        return {
            "parameters": counts,
            "batch": int(self.labels.shape[0]),
            "dtype": (self.x if self.x.dtype.is_floating else self.variables[0]).dtype.name,
            "layout": "inputs x outputs",
        }

    def forward(self) -> Any:
        return self.call_forward(self.x).numpy()  # on a CPU a view, and a wait

    def outputs(self) -> Any:
        return self.forward().copy()

    def gradient(self) -> Any:
        loss, grads = self.call_gradient(self.x, self.labels)
        loss.numpy()
        return grads

    def step(self) -> None:
        self.call_step(self.x, self.labels).numpy()

    def loss(self) -> float:
        return float(self.call_loss(self.x, self.labels).numpy())

    def gradients(self) -> dict[str, Any]:
        grads = map(self.tf.convert_to_tensor, self.gradient())  # of the rows of a table that ids name, all rows
        return {name: self.lie.back(name, x.numpy().copy()) for name, x in zip(self.p, grads)}

    def parameters(self) -> dict[str, Any]:
        return {name: self.lie.back(name, w.numpy().copy()) for name, w in self.p.items()}

    def state(self) -> dict[str, Any]:
        return {name: x.numpy().copy() for name, x in self.kept.items()}
