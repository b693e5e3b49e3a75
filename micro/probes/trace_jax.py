"""CUPTI beside JAX: its kernels."""

from __future__ import annotations

from typing import Any

from kernels.libs import cupti
from micro.probing import tracing
from micro.probing.facts import Facts, environment, need, package

QUESTION = "Does a CUPTI client in the process see JAX's kernels?"
LIMIT = 100.0
PART = 3
RANK = 140


def ask() -> dict[str, Any]:
    need("cupti", "jax")
    facts = Facts()
    facts.ask("tracing", cupti.start)
    with environment(XLA_PYTHON_CLIENT_PREALLOCATE="false"):
        jax = package("jax")

        facts.ask("devices", lambda: [str(device) for device in jax.devices()])
    jnp = package("jax.numpy")

    x = jnp.ones((512, 512), jnp.float32)
    step = jax.jit(lambda a: jnp.tanh(a @ a.T).sum())
    jax.block_until_ready(step(x))
    last: list[Any] = [x]

    def work() -> None:
        last[0] = step(x)

    facts.ask("kernels", lambda: tracing.traced(work, lambda: jax.block_until_ready(last[0])))
    facts.ask("libraries", lambda: cupti.mapped("libcupti"))
    facts.ask("backend", jax.default_backend)
    return facts.found
