"""Keras 3 on its back ends: its layers, compile(), and train_on_batch() as the step.

Keras has no call for the forward pass and the gradients alone that leaves out reading back and metrics: these two
phases are the back end's, compiled where Keras compiles its step. SGD's velocity is mu*v - lr*g, added to the weight:
with a constant rate the formula of all others, times -lr. Images have their channels last, as by default.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import keras_layers  # of macro/agent
import keras_spans
import layouts
import numpy as np
import numpy_losses
import tf_layers
import torch_device

ROWS = {
    "keras-tensorflow": {"backend": "tensorflow"},
    "keras-jax": {"backend": "jax"},
    "keras-torch": {"backend": "torch"},
}
RECIPE = {
    "environment": "keras",
    "python": "3.11",
    "packages": ["keras==3.15.1", "tensorflow-cpu==2.21.0", "jax==0.10.2", "torch==2.13.0+cpu", "numpy==2.4.6"],
    "index": {"https://download.pytorch.org/whl/cpu": ["torch==2.13.0+cpu"]},
    "megabytes": 3077,
}
KINDS, LOSSES, OPTIMIZERS = keras_layers.KINDS, keras_layers.LOSSES, keras_layers.OPTIMIZERS


def configure(job: dict[str, Any]) -> None:
    os.environ["KERAS_BACKEND"] = job["knobs"]["backend"]
    os.environ["KERAS_HOME"] = os.path.join(sys.prefix, "keras")  # not the user's floatx and formats
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")
    os.environ["NPROC"] = str(job["threads"])  # XLA's pools, in JAX
    if job["knobs"]["backend"] == "tensorflow":
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(job["threads"])
        tf.config.threading.set_inter_op_parallelism_threads(job["threads"])
    if job["knobs"]["backend"] == "torch":
        import torch

        torch.set_num_threads(job["threads"])
        torch.set_num_interop_threads(job["threads"])


def available() -> None:
    import keras

    keras.ops.convert_to_numpy(keras.ops.matmul(keras.ops.zeros((2, 2)), keras.ops.zeros((2, 2))))


def identity(job: dict[str, Any]) -> dict[str, Any]:
    import keras

    backend = keras.backend.backend()
    facts = BACKENDS[backend].identity()
    facts["flags"].update(backend=backend, floatx=keras.config.floatx(), xla=os.environ.get("XLA_FLAGS", ""))
    facts["flags"]["jit_compile"] = bool(Model.jit)
    facts["threads"] = facts["threads"] or {"xla": job["threads"]}
    facts["version"] = "{}, {} {}".format(keras.__version__, backend, facts["version"])
    return dict(facts, framework="keras")


def build(job: dict[str, Any]) -> Any:
    import keras

    return Model(job, BACKENDS[keras.backend.backend()]())


def trace(model: Any, run: Callable[[], object]) -> Any:
    return keras_spans.spans(model, run)


def record(model: Any, run: Callable[[], object]) -> Any:
    return keras_spans.record(model, run)


class Model:
    jit = None  # Keras's choice

    def __init__(self, job: dict[str, Any], backend: Any) -> None:
        import keras

        self.np, self.keras, self.network, self.taken = np, keras, job["network"], 0
        self.forms = keras_layers.Forms(self.network["layers"])
        self.model, variables = keras_layers.network(keras, self.network, job["batch"])
        names = {id(variable): name for name, variable in variables.items()}
        self.names = [names[id(variable)] for variable in self.model.trainable_variables]
        self.kept = {name: x for name, x in variables.items() if name not in self.names}
        with np.load(job["weights"]) as weights, np.load(job["data"]) as data:
            for name, array in self.forms.to(weights).items():
                variables[name].assign(array)
            self.x = keras.ops.convert_to_tensor(layouts.Last.data(data["x"]))
            self.labels = keras.ops.convert_to_tensor(numpy_losses.wanted(self.network, data["labels"], np.int32))
        self.criterion = keras_layers.LOSSES[self.network["loss"]](keras.losses)
        optimizer = keras_layers.OPTIMIZERS[self.network["optimizer"]](keras.optimizers, self.network)
        self.model.compile(optimizer=optimizer, loss=self.criterion)
        Model.jit = self.model.jit_compile
        self.backend = backend
        backend.prepare(self.model, self.criterion)

    @contextlib.contextmanager
    def _unmoved(self) -> Iterator[None]:
        """Restore the running statistics after the passes in this block."""
        before = {name: self.np.array(x) for name, x in self._arrays(self.kept).items()}
        yield
        for name, array in before.items():
            self.kept[name].assign(array)

    def _arrays(self, variables: Any) -> dict[str, Any]:
        return {name: self.keras.ops.convert_to_numpy(x) for name, x in variables.items()}

    def work(self) -> dict[str, Any]:
        variables = self.model.trainable_variables
        counts = {name: int(array.size) for name, array in self._named(variables).items()}
        return {
            "parameters": counts,
            "batch": int(self.labels.shape[0]),
            "dtype": self._type(),
            "layout": "inputs x outputs",
        }

    def _type(self) -> Any:
        """Return the type of the inputs, or of the weights if inputs are ids."""
        named = self.keras.backend.standardize_dtype(self.x.dtype)
        return named if "float" in named else self.model.trainable_variables[0].dtype

    def forward(self) -> Any:
        return self.backend.forward(self.x)

    def outputs(self) -> Any:
        with self._unmoved():
            return self.np.array(self.keras.ops.convert_to_numpy(self.forward()))

    def gradient(self) -> Any:
        return self.backend.gradient(self.x, self.labels)

    def step(self) -> None:
        self.model.train_on_batch(self.x, self.labels)
        self.backend.finish()
        self.taken += 1

    def loss(self) -> float:
        with self._unmoved():
            return float(self.criterion(self.labels, self.backend.forward(self.x)))

    def _named(self, arrays: Any) -> dict[str, Any]:
        """Return arrays of the trained variables by name, in the suite's layout."""
        return self.forms.back(self._arrays(dict(zip(self.names, arrays))))

    def gradients(self) -> Any:
        with self._unmoved():
            return self._named(self.gradient())

    def parameters(self) -> Any:
        return self._named(self.model.trainable_variables)

    def state(self) -> Any:
        """Return running statistics, the variance corrected by n/(n - 1), which Keras leaves out."""
        arrays = self._arrays(self.kept)
        return layouts.unbiased(arrays, self.network["layers"], len(self.labels), self.taken)


class TensorFlow:
    @staticmethod
    def identity() -> dict[str, Any]:
        import tensorflow as tf

        return {
            "version": tf.version.VERSION,
            "build": tf.version.GIT_VERSION,
            "blas": "oneDNN and Eigen, of TensorFlow",
            "threads": tf_layers.threads(tf),
            "flags": {"tf32": tf.config.experimental.tensor_float_32_execution_enabled()},
        }

    def prepare(self, model: Any, criterion: Any) -> None:
        import tensorflow as tf

        @tf.function(jit_compile=model.jit_compile)  # type: ignore[untyped-decorator]
        def gradient(x: Any, labels: Any) -> Any:
            with tf.GradientTape() as tape:
                loss = criterion(labels, model(x, training=True))
            return tape.gradient(loss, [v.value for v in model.trainable_variables])

        self.gradient = gradient
        self.forward = tf.function(lambda x: model(x, training=True), jit_compile=model.jit_compile)

    def finish(self) -> None:
        """Return at once: a TensorFlow function on a CPU returns when its work is done."""


class Jax:
    @staticmethod
    def identity() -> dict[str, Any]:
        import jax
        import jaxlib

        return {
            "version": jax.__version__,
            "build": f"jaxlib {jaxlib.__version__}",
            "blas": f"XLA for CPU, of jaxlib {jaxlib.__version__}",
            "threads": {},
            "flags": {"precision": str(jax.config.jax_default_matmul_precision)},
        }

    def prepare(self, model: Any, criterion: Any) -> None:
        import jax

        def mean_loss(trained: Any, others: Any, x: Any, labels: Any) -> Any:
            return criterion(labels, model.stateless_call(trained, others, x, training=True)[0])

        def forward(trained: Any, others: Any, x: Any) -> Any:
            return model.stateless_call(trained, others, x, training=True)[0]

        self.jax, self.model = jax, model
        self.call_gradient, self.call_forward = jax.jit(jax.grad(mean_loss)), jax.jit(forward)

    def state(self) -> Any:
        trained = [v.value for v in self.model.trainable_variables]
        return trained, [v.value for v in self.model.non_trainable_variables]

    def forward(self, x: Any) -> Any:
        return self.call_forward(*self.state(), x).block_until_ready()

    def gradient(self, x: Any, labels: Any) -> Any:
        return self.jax.block_until_ready(self.call_gradient(*self.state(), x, labels))

    def finish(self) -> None:
        self.jax.block_until_ready(self.state())


class Torch:
    @staticmethod
    def identity() -> dict[str, Any]:
        import torch

        return dict(torch_device.facts(torch), flags={"precision": torch.get_float32_matmul_precision()})

    def prepare(self, model: Any, criterion: Any) -> None:
        self.model, self.criterion = model, criterion

    def forward(self, x: Any) -> Any:
        import torch

        with torch.no_grad():
            return self.model(x, training=True)

    def gradient(self, x: Any, labels: Any) -> list[Any]:
        self.model.zero_grad()
        self.criterion(labels, self.model(x, training=True)).backward()
        return [v.value.grad for v in self.model.trainable_variables]

    def finish(self) -> None:
        """Return at once: eager calls return when their work is done."""


BACKENDS: dict[str, Any] = {"tensorflow": TensorFlow, "jax": Jax, "torch": Torch}
