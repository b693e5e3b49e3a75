"""Optimizers in JAX by PyTorch's formulas; the state is arrays by name, and for adam the step count.

In the style of Python 3.6.
"""

import math


def _sgd(jnp, plan, w, g, state, taken):
    if state:
        g = plan["momentum"] * state["v"] + g
    return w - plan["rate"] * g, {"v": g} if state else {}


def _nesterov(jnp, plan, w, g, state, taken):
    v = plan["momentum"] * state["v"] + g
    return w - plan["rate"] * (g + plan["momentum"] * v), {"v": v}


def _adagrad(jnp, plan, w, g, state, taken):
    v = state["v"] + g * g
    return w - plan["rate"] * g / (jnp.sqrt(v) + plan["epsilon"]), {"v": v}


def _rmsprop(jnp, plan, w, g, state, taken):
    v = plan["rho"] * state["v"] + (1 - plan["rho"]) * g * g
    return w - plan["rate"] * g / (jnp.sqrt(v) + plan["epsilon"]), {"v": v}


def _adam(jnp, plan, w, g, state, taken):
    m = plan["momentum"] * state["m"] + (1 - plan["momentum"]) * g
    v = plan["rho"] * state["v"] + (1 - plan["rho"]) * g * g
    first, second = (_risen(jnp, plan[name], taken) for name in ("momentum", "rho"))
    return w - plan["rate"] / first * m / (jnp.sqrt(v / second) + plan["epsilon"]), {"m": m, "v": v}


def _risen(jnp, decay, taken):
    """Return 1 - decay**taken, which single precision would cancel."""
    return -jnp.expm1(taken * math.log(decay)) if decay else 1.0


OPTIMIZERS = {"sgd": _sgd, "nesterov": _nesterov, "adagrad": _adagrad, "rmsprop": _rmsprop, "adam": _adam}


def begin(jnp, plan, p):
    """Return the state before the first step; empty for SGD without momentum."""
    names = {"sgd": ["v"] if plan["momentum"] else [], "adam": ["m", "v"]}.get(plan["optimizer"], ["v"])
    state = dict((x, dict((name, jnp.zeros_like(w)) for name, w in p.items())) for x in names)
    return dict(state, taken=jnp.zeros((), jnp.float32)) if plan["optimizer"] == "adam" else state


def moved(jax, plan, p, grads, state):
    """Return weights and state after a step; each weight's update is in its layer's scope."""
    rule, arrays = OPTIMIZERS[plan["optimizer"]], [x for x in state if x != "taken"]
    after, kept = {}, dict((x, {}) for x in arrays)
    if "taken" in state:
        kept["taken"] = state["taken"] + 1
    for name in p:
        with jax.named_scope(name.rpartition(".")[0] + " update"):
            weight_state = dict((x, state[x][name]) for x in arrays)
            after[name], weight_state = rule(jax.numpy, plan, p[name], grads[name], weight_state, kept.get("taken"))
        for x, array in weight_state.items():
            kept[x][name] = array
    return after, kept
