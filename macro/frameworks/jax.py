"""JAX: jitted functions, the step's parameters donated; XLA for CPU. Images have their channels last."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any

import device_clocks
import jax_layers  # of macro/agent
import jax_trace
import layouts
import numpy as np
import numpy_losses

ROWS: dict[str, dict[str, Any]] = {"jax": {}}
RECIPE = {"environment": "jax", "python": "3.11", "packages": ["jax==0.10.2", "numpy==2.4.6"], "megabytes": 652}
DEVICES = ("cpu", "cuda", "fake")
KINDS, LOSSES, OPTIMIZERS = jax_layers.KINDS, jax_layers.LOSSES, jax_layers.OPTIMIZERS


def configure(job: dict[str, Any]) -> None:
    if not _on_cuda(job):
        os.environ["NPROC"] = str(job["threads"])  # size of XLA's pools, which else is the number of cores
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        return
    os.environ["JAX_PLATFORMS"] = "cuda"
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # other processes use the GPU in turns
    # XLA chooses convolutions by time alone; cuDNN's Winograd has twice TF32's error at 5 x 5.
    os.environ.setdefault("TF_ENABLE_WINOGRAD_NONFUSED", "0")
    import jax

    # Single precision, as everywhere in the suite: on a GPU the default is TF32.
    jax.config.update("jax_default_matmul_precision", "highest")


def _on_cuda(job: dict[str, Any]) -> Any:
    return job.get("device", "cpu").startswith("cuda")


def _device(job: dict[str, Any]) -> Any:
    """Return the job's device. Raises NotImplementedError if JAX does not see it."""
    import jax

    index = int(job["device"].partition(":")[2] or 0) if _on_cuda(job) else 0
    if index >= len(jax.devices()):
        raise NotImplementedError(f"JAX finds {len(jax.devices())} GPUs, from cuda:0 on")
    return jax.devices()[index]


def available() -> None:
    import jax
    import jax.numpy as jnp

    try:
        jnp.zeros((2, 2)).dot(jnp.zeros((2, 2))).block_until_ready()
    except RuntimeError as error:
        if jax.config.jax_platforms == "cpu":
            raise
        raise NotImplementedError(f"JAX {jax.__version__}: {error}") from None


def identity(job: dict[str, Any]) -> dict[str, Any]:
    import jax
    import jaxlib

    device = _device(job)
    client, on_cuda = device.client, _on_cuda(job)
    return {
        "framework": "jax",
        "version": jax.__version__,
        "build": "jaxlib {}; {}".format(jaxlib.__version__, " ".join(client.platform_version.split())),
        "devices": [str(x) for x in jax.devices()],
        "blas": "XLA for {}, of jaxlib {}".format("CUDA" if on_cuda else "CPU", jaxlib.__version__),
        "dispatch": device.device_kind if on_cuda else None,
        "isa_asked": os.environ.get("XLA_FLAGS", "").partition("xla_cpu_max_isa=")[2].partition(" ")[0] or None,
        "threads": {"xla": job["threads"]},
        "flags": {
            "xla": os.environ.get("XLA_FLAGS", ""),
            "precision": str(jax.config.jax_default_matmul_precision),
            "x64": bool(jax.config.jax_enable_x64),
            "donated": "step" if job["knobs"].get("donated", True) else "nothing",
        },
    }


def build(job: dict[str, Any]) -> Any:
    if _on_cuda(job):
        import jax

        jax.config.update("jax_default_device", _device(job))
    return Model(job)


def trace(model: Any, run: Callable[[], object]) -> Any:
    return jax_trace.spans(model.jax, run, model.programs(), model.network["layers"], len(model.labels))


def profile(model: Any, call: Callable[..., Any], count: int, path: str) -> Any:
    def wait() -> None:
        model.jax.block_until_ready(model.asked)

    return jax_trace.profile(model.jax, call, wait, count, path, model.card)


def _peak(device: Any) -> Any:
    """Return the peak bytes of arrays on a device; 0 if JAX does not report them."""
    return (device.memory_stats() or {}).get("peak_bytes_in_use", 0)


class Model:
    """A network whose phases are one XLA executable each; the loss takes logits."""

    def __init__(self, job: dict[str, Any]) -> None:
        import jax
        import jax.numpy as jnp

        self.jax, self.np, self.network = jax, np, job["network"]
        layers, self.losses_of = self.network["layers"], LOSSES[self.network["loss"]]
        self.lie, self._apply = layouts.Last(layers), jax_layers.network(jax, layers)
        with np.load(job["weights"]) as weights, np.load(job["data"]) as data:
            # jnp.array copies: the step donates these arrays.
            self.p = {name: jnp.array(self.lie.to(name, weights[name])) for name in weights.files}
            self.x = jnp.array(self.lie.data(data["x"]))
            self.labels = jnp.array(numpy_losses.wanted(self.network, data["labels"], np.int32))
        self.moved, self.v = jax_layers.moved, jax_layers.begin(jnp, self.network, self.p)
        self.kept = {name: jnp.array(x) for name, x in layouts.begin(layers, len(self.labels)).items()}
        self.kept.update(jax_layers.keys(jax, layers))
        self._logits, self._loss = jax.jit(self._forward), jax.jit(self._value)
        self._grad = jax.jit(self._gradient)
        donated = (0, 1, 2) if job["knobs"].get("donated", True) else ()
        self._step = jax.jit(self._update, donate_argnums=donated)
        self.asked, self.clock, self.card = None, None, _device(job).device_kind if _on_cuda(job) else None
        if job.get("device", "cpu") != "cpu":
            self.clock = device_clocks.Waits(lambda: jax.block_until_ready(self.asked), partial(_peak, _device(job)))

    def _forward(self, p: Any, state: dict[str, Any], x: Any) -> Any:
        return self._apply(p, state, x)[0]

    def _loss_and_state(self, p: Any, state: dict[str, Any], x: Any, labels: Any) -> Any:
        logits, kept = self._apply(p, state, x)
        with self.jax.named_scope("loss"):
            return self.losses_of(self.jax, logits, labels).mean(), kept

    def _value(self, p: Any, state: dict[str, Any], x: Any, labels: Any) -> Any:
        return self._loss_and_state(p, state, x, labels)[0]

    def _gradient(self, p: Any, state: dict[str, Any], x: Any, labels: Any) -> Any:
        return self.jax.grad(self._value)(p, state, x, labels)

    def _update(self, p: Any, v: Any, state: dict[str, Any], x: Any, labels: Any) -> Any:
        grads, kept = self.jax.grad(self._loss_and_state, has_aux=True)(p, state, x, labels)
        return (*self.moved(self.jax, self.network, p, grads, v), kept)

    def programs(self) -> Any:
        """Return (jitted function, arguments) of each phase."""
        batch = (self.x, self.labels)
        return (
            (self._logits, (self.p, self.kept, self.x)),
            (self._grad, (self.p, self.kept, *batch)),
            (self._step, (self.p, self.v, self.kept, *batch)),
        )

    def work(self) -> dict[str, Any]:
        counts = {name: int(w.size) for name, w in self.p.items()}
        numbers = self.x if "float" in str(self.x.dtype) else next(iter(self.p.values()))  # ids are none
        return {
            "parameters": counts,
            "batch": len(self.labels),
            "dtype": str(numbers.dtype),
            "layout": "inputs x outputs",
        }

    def _done(self, answer: Any) -> Any:
        """Wait for `answer` on a CPU; on a device store it, so that the clock can wait for it."""
        if self.clock is None:
            return self.jax.block_until_ready(answer)
        self.asked = answer
        return answer

    def forward(self) -> Any:
        return self._done(self._logits(self.p, self.kept, self.x))

    def outputs(self) -> Any:
        return self.np.asarray(self.forward())

    def gradient(self) -> Any:
        return self._done(self._grad(self.p, self.kept, self.x, self.labels))

    def step(self) -> None:
        given = self.p, self.v, self.kept, self.x, self.labels
        self.p, self.v, self.kept = self._done(self._step(*given))

    def loss(self) -> float:
        return float(self._loss(self.p, self.kept, self.x, self.labels))

    def gradients(self) -> dict[str, Any]:
        return {name: self.lie.back(name, self.np.asarray(g)) for name, g in self.gradient().items()}

    def parameters(self) -> dict[str, Any]:
        return {name: self.lie.back(name, self.np.array(w)) for name, w in self.p.items()}

    def state(self) -> dict[str, Any]:
        return {name: self.np.array(x) for name, x in self.kept.items() if not name.endswith(".key")}
