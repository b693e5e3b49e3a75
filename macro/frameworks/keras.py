"""Keras 3 on its back ends: Dense layers, compile(), and train_on_batch() as the step, as a person writes it.

Keras has no call for the forward pass and the gradients alone that leaves out reading back and metrics: these
two phases are the back end's own, compiled where Keras compiles its step. SGD's velocity is mu*v - lr*g, added
to the weight: with a constant rate the formula of all others, times -lr.
"""

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
TUNED = {"heap": "keep"}


def configure(job):
    import os
    import sys

    os.environ["KERAS_BACKEND"] = job["knobs"]["backend"]
    os.environ["KERAS_HOME"] = os.path.join(sys.prefix, "keras")  # not a person's own floatx and formats
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


def available():
    import keras

    keras.ops.convert_to_numpy(keras.ops.matmul(keras.ops.zeros((2, 2)), keras.ops.zeros((2, 2))))
    return


def identity(job):
    import os

    import keras

    backend = keras.backend.backend()
    facts = BACKENDS[backend].identity()
    facts["flags"].update(backend=backend, floatx=keras.config.floatx(), xla=os.environ.get("XLA_FLAGS", ""))
    facts["flags"]["jit_compile"] = bool(Model.jit)
    facts["threads"] = facts["threads"] or {"xla": job["threads"]}
    facts["version"] = "%s, %s %s" % (keras.__version__, backend, facts["version"])
    return dict(facts, framework="keras")


def build(job):
    import keras

    return Model(job, BACKENDS[keras.backend.backend()]())


def trace(model, run):
    import keras_spans

    return keras_spans.spans(model, run)


def record(model, run):
    import keras_spans

    return keras_spans.record(model, run)


class Model(object):
    jit = None  # what Keras chose by itself

    def __init__(self, job, backend):
        import keras
        import numpy as np

        network = job["network"]
        layers = [keras.Input((network["layers"][0]["inputs"],), batch_size=job["batch"])]
        for layer in network["layers"]:
            kind = layer["activation"]
            layers.append(
                keras.layers.Dense(
                    layer["outputs"],
                    activation=None if kind == "none" else kind,
                    name=layer["name"],
                    kernel_initializer="zeros",
                )
            )
        self.model, self.np, self.keras, self.network = keras.Sequential(layers), np, keras, network
        self.names = []
        with np.load(job["weights"]) as weights, np.load(job["data"]) as data:
            for layer, own in zip(network["layers"], self.model.layers):
                names = [layer["name"] + ".weight", layer["name"] + ".bias"]
                own.set_weights([weights[name] for name in names])
                self.names += names
            self.x = keras.ops.convert_to_tensor(data["x"])
            self.labels = keras.ops.convert_to_tensor(data["labels"].astype(np.int32))
        self.entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        optimizer = keras.optimizers.SGD(network["rate"], momentum=network["momentum"])
        self._name_updates(optimizer)
        self.model.compile(optimizer=optimizer, loss=self.entropy)
        Model.jit = self.model.jit_compile
        self.backend = backend
        backend.prepare(self.model, self.entropy)

    def _name_updates(self, optimizer):
        """A scope around each variable's update, by which traces tell its layer."""
        layers, update = self.network["layers"], optimizer.update_step

        def scoped(gradient, variable, rate):
            layer = layers[optimizer._get_variable_index(variable) // 2]["name"]
            with self.keras.name_scope(layer + ".update"):
                return update(gradient, variable, rate)

        optimizer.update_step = scoped

    def work(self):
        variables = self.model.trainable_variables
        counts = dict((name, int(self.np.prod(v.shape))) for name, v in zip(self.names, variables))
        return {
            "parameters": counts,
            "batch": int(self.labels.shape[0]),
            "dtype": self.keras.backend.standardize_dtype(self.x.dtype),
            "layout": "inputs x outputs",
        }

    def forward(self):
        return self.backend.forward(self.x)

    def gradient(self):
        return self.backend.gradient(self.x, self.labels)

    def step(self):
        self.model.train_on_batch(self.x, self.labels)
        self.backend.finish()

    def loss(self):
        return float(self.entropy(self.labels, self.backend.forward(self.x)))

    def gradients(self):
        arrays = map(self.keras.ops.convert_to_numpy, self.gradient())
        return dict((name, self.np.array(array)) for name, array in zip(self.names, arrays))

    def parameters(self):
        arrays = map(self.keras.ops.convert_to_numpy, self.model.trainable_variables)
        return dict((name, self.np.array(array)) for name, array in zip(self.names, arrays))


class TensorFlow(object):
    @staticmethod
    def identity():
        import tensorflow as tf

        threading = tf.config.threading
        return {
            "version": tf.version.VERSION,
            "build": tf.version.GIT_VERSION,
            "blas": "oneDNN and Eigen, of TensorFlow",
            "threads": {
                "intra-op": threading.get_intra_op_parallelism_threads(),
                "inter-op": threading.get_inter_op_parallelism_threads(),
            },
            "flags": {"tf32": tf.config.experimental.tensor_float_32_execution_enabled()},
        }

    def prepare(self, model, entropy):
        import tensorflow as tf

        @tf.function(jit_compile=model.jit_compile)
        def gradient(x, labels):
            with tf.GradientTape() as tape:
                loss = entropy(labels, model(x, training=True))
            return tape.gradient(loss, [v.value for v in model.trainable_variables])

        self.gradient = gradient
        self.forward = tf.function(lambda x: model(x, training=False), jit_compile=model.jit_compile)

    def finish(self):
        """A function on a CPU returns when it is done."""


class Jax(object):
    @staticmethod
    def identity():
        import jax
        import jaxlib

        return {
            "version": jax.__version__,
            "build": "jaxlib %s" % jaxlib.__version__,
            "blas": "XLA for CPU, of jaxlib %s" % jaxlib.__version__,
            "threads": {},
            "flags": {"precision": str(jax.config.jax_default_matmul_precision)},
        }

    def prepare(self, model, entropy):
        import jax

        def mean_loss(trained, others, x, labels):
            return entropy(labels, model.stateless_call(trained, others, x, training=True)[0])

        def forward(trained, others, x):
            return model.stateless_call(trained, others, x, training=False)[0]

        self.jax, self.model = jax, model
        self.call_gradient, self.call_forward = jax.jit(jax.grad(mean_loss)), jax.jit(forward)

    def state(self):
        trained = [v.value for v in self.model.trainable_variables]
        return trained, [v.value for v in self.model.non_trainable_variables]

    def forward(self, x):
        return self.call_forward(*self.state(), x).block_until_ready()

    def gradient(self, x, labels):
        return self.jax.block_until_ready(self.call_gradient(*self.state(), x, labels))

    def finish(self):
        self.jax.block_until_ready(self.state())


class Torch(object):
    @staticmethod
    def identity():
        import torch

        lines = [line.strip(" -") for line in torch.__config__.show().splitlines()]
        return {
            "version": torch.__version__,
            "build": torch.version.git_version,
            "blas": next((x for x in lines if "Math Kernel" in x), None),
            "dnn": next((x for x in lines if "DNN" in x), None),
            "dispatch": torch.backends.cpu.get_cpu_capability(),
            "threads": {"intra-op": torch.get_num_threads(), "inter-op": torch.get_num_interop_threads()},
            "flags": {"precision": torch.get_float32_matmul_precision()},
        }

    def prepare(self, model, entropy):
        self.model, self.entropy = model, entropy

    def forward(self, x):
        import torch

        with torch.no_grad():
            return self.model(x, training=False)

    def gradient(self, x, labels):
        self.model.zero_grad()
        self.entropy(labels, self.model(x, training=True)).backward()
        return [v.value.grad for v in self.model.trainable_variables]

    def finish(self):
        """Eager: each call returns when it is done."""


BACKENDS = {"tensorflow": TensorFlow, "jax": Jax, "torch": Torch}
