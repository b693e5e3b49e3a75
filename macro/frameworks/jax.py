"""JAX: jitted functions, the step's parameters donated; XLA for CPU."""

ROWS = {"jax": {}}
RECIPE = {"environment": "jax", "python": "3.11", "packages": ["jax==0.10.2", "numpy==2.4.6"], "megabytes": 652}
TUNED = {"heap": "keep"}


def configure(job):
    import os

    os.environ["NPROC"] = str(job["threads"])  # what XLA for CPU sizes its pools by, before it counts cores
    os.environ.setdefault("JAX_PLATFORMS", "cpu")


def available():
    import jax.numpy as jnp

    jnp.zeros((2, 2)).dot(jnp.zeros((2, 2))).block_until_ready()
    return


def identity(job):
    import os

    import jax
    import jaxlib

    client = jax.devices()[0].client
    return {
        "framework": "jax",
        "version": jax.__version__,
        "build": "jaxlib %s; %s" % (jaxlib.__version__, " ".join(client.platform_version.split())),
        "devices": [str(x) for x in jax.devices()],
        "blas": "XLA for CPU, of jaxlib %s" % jaxlib.__version__,
        "isa_asked": os.environ.get("XLA_FLAGS", "").partition("xla_cpu_max_isa=")[2].partition(" ")[0] or None,
        "threads": {"xla": job["threads"]},
        "flags": {
            "xla": os.environ.get("XLA_FLAGS", ""),
            "precision": str(jax.config.jax_default_matmul_precision),
            "x64": bool(jax.config.jax_enable_x64),
            "donated": "step",
        },
    }


def build(job):
    return Model(job)


def trace(model, run):
    import jax_trace

    return jax_trace.spans(model.jax, run, model.programs(), model.network["layers"], len(model.labels))


class Model(object):
    """Each call is one XLA executable; the activations follow the network, the loss takes logits."""

    def __init__(self, job):
        import jax
        import jax.numpy as jnp
        import numpy as np

        self.jax, self.np, self.network = jax, np, job["network"]
        with np.load(job["weights"]) as weights, np.load(job["data"]) as data:
            # jnp.array copies: the step is given these to destroy.
            self.p = dict((name, jnp.array(weights[name])) for name in weights.files)
            self.x, self.labels = jnp.array(data["x"]), jnp.array(data["labels"].astype(np.int32))
        momentum = self.network["momentum"]
        self.v = dict((name, jnp.zeros_like(w)) for name, w in self.p.items()) if momentum else {}
        self._logits, self._loss = jax.jit(self._apply), jax.jit(self._entropy)
        self._grad = jax.jit(jax.grad(self._entropy))
        self._step = jax.jit(self._update, donate_argnums=(0, 1))

    def _apply(self, p, x):
        kinds = {"sigmoid": self.jax.nn.sigmoid, "relu": self.jax.nn.relu, "none": lambda y: y}
        for layer in self.network["layers"]:
            name = layer["name"]
            with self.jax.named_scope(name):
                x = x @ p[name + ".weight"] + p[name + ".bias"]
            with self.jax.named_scope(name + " activation"):
                x = kinds[layer["activation"]](x)
        return x

    def _entropy(self, p, x, labels):
        logits = self._apply(p, x)
        with self.jax.named_scope("loss"):
            log_softmax = self.jax.nn.log_softmax(logits)
            return -self.jax.numpy.take_along_axis(log_softmax, labels[:, None], axis=1).mean()

    def _update(self, p, v, x, labels):
        grads = self.jax.grad(self._entropy)(p, x, labels)
        moved, speed = {}, {}
        for name in p:
            with self.jax.named_scope(name.split(".")[0] + " update"):
                change = grads[name]
                if v:
                    change = speed[name] = self.network["momentum"] * v[name] + change
                moved[name] = p[name] - self.network["rate"] * change
        return moved, speed

    def programs(self):
        """What the phases run, and on what."""
        return (
            (self._logits, (self.p, self.x)),
            (self._grad, (self.p, self.x, self.labels)),
            (self._step, (self.p, self.v, self.x, self.labels)),
        )

    def work(self):
        counts = dict((name, int(w.size)) for name, w in self.p.items())
        return {
            "parameters": counts,
            "batch": len(self.labels),
            "dtype": str(self.x.dtype),
            "layout": "inputs x outputs",
        }

    def forward(self):
        self._logits(self.p, self.x).block_until_ready()

    def gradient(self):
        return self.jax.block_until_ready(self._grad(self.p, self.x, self.labels))

    def step(self):
        self.p, self.v = self.jax.block_until_ready(self._step(self.p, self.v, self.x, self.labels))

    def loss(self):
        return float(self._loss(self.p, self.x, self.labels))

    def gradients(self):
        return dict((name, self.np.asarray(g)) for name, g in self.gradient().items())

    def parameters(self):
        return dict((name, self.np.array(w)) for name, w in self.p.items())
