"""How JAX moves weights: PyTorch's formulas. Their state beside the weights is arrays by name, and of adam how many
steps were taken.

In the style of Python 3.6.
"""

import math


def _sgd(jnp, told, w, g, own, taken):
    if own:
        g = told["momentum"] * own["v"] + g
    return w - told["rate"] * g, {"v": g} if own else {}


def _nesterov(jnp, told, w, g, own, taken):
    v = told["momentum"] * own["v"] + g
    return w - told["rate"] * (g + told["momentum"] * v), {"v": v}


def _adagrad(jnp, told, w, g, own, taken):
    v = own["v"] + g * g
    return w - told["rate"] * g / (jnp.sqrt(v) + told["epsilon"]), {"v": v}


def _rmsprop(jnp, told, w, g, own, taken):
    v = told["rho"] * own["v"] + (1 - told["rho"]) * g * g
    return w - told["rate"] * g / (jnp.sqrt(v) + told["epsilon"]), {"v": v}


def _adam(jnp, told, w, g, own, taken):
    m = told["momentum"] * own["m"] + (1 - told["momentum"]) * g
    v = told["rho"] * own["v"] + (1 - told["rho"]) * g * g
    first, second = (_risen(jnp, told[name], taken) for name in ("momentum", "rho"))
    return w - told["rate"] / first * m / (jnp.sqrt(v / second) + told["epsilon"]), {"m": m, "v": v}


def _risen(jnp, decay, taken):
    """1 - decay**taken, where single precision would lose most of it."""
    return -jnp.expm1(taken * math.log(decay)) if decay else 1.0


OPTIMIZERS = {"sgd": _sgd, "nesterov": _nesterov, "adagrad": _adagrad, "rmsprop": _rmsprop, "adam": _adam}


def begin(jnp, told, p):
    """The state before the first step; none of SGD without momentum."""
    names = {"sgd": ["v"] if told["momentum"] else [], "adam": ["m", "v"]}.get(told["optimizer"], ["v"])
    state = dict((x, dict((name, jnp.zeros_like(w)) for name, w in p.items())) for x in names)
    return dict(state, taken=jnp.zeros((), jnp.float32)) if told["optimizer"] == "adam" else state


def moved(jax, told, p, grads, state):
    """Weights and state after a step; what is done for a weight is in its layer's scope."""
    rule, arrays = OPTIMIZERS[told["optimizer"]], [x for x in state if x != "taken"]
    after, kept = {}, dict((x, {}) for x in arrays)
    if "taken" in state:
        kept["taken"] = state["taken"] + 1
    for name in p:
        with jax.named_scope(name.rpartition(".")[0] + " update"):
            own = dict((x, state[x][name]) for x in arrays)
            after[name], own = rule(jax.numpy, told, p[name], grads[name], own, kept.get("taken"))
        for x, array in own.items():
            kept[x][name] = array
    return after, kept
