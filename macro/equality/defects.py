"""Name common mistakes of a re-implementation (a dropped layer, a double softmax, sum for mean …) by how a framework's
answer differs from the reference."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from macro.equality.answer import Answer, relative
from macro.processes import job

if TYPE_CHECKING:
    from kernels.problem import Array
    from macro.networks.base import Network

ALIKE = 1e-3  # relative: far above rounding, far below what any of these defects does


def name(answer: Answer, want: Answer, network: Network, batch: int, folder: Path) -> str | None:
    """The defect that explains this answer; None where it is none of these. `folder`: of what both were given."""
    given = job.files(batch, folder)
    return (
        _of_the_structure(answer, want, network, batch)
        or _of_the_loss(answer, network, given)
        or _of_the_update(answer, want, network, given)
    )


def _of_the_structure(answer: Answer, want: Answer, network: Network, batch: int) -> str | None:
    built, wanted = answer.built["parameters"], want.built["parameters"]
    if gone := sorted({layer.partition(".")[0] for layer in set(wanted) - set(built)}):
        return f"a dropped layer ({', '.join(gone)})"
    inputs = [x for x in set(built) - set(wanted) if built[x] in (network.features, batch * network.features)]
    if inputs:
        return f"trainable input ({', '.join(inputs)})"
    if "float64" in (answer.wide or ""):
        return "missing input cast (float64)"
    return None


def _of_the_loss(answer: Answer, network: Network, given: dict[str, str]) -> str | None:
    """By the gradient of the last bias, which is that of the logits summed over the batch."""
    import numpy as np

    got = answer.arrays.get(f"gradient.{network.layers[-1].name}.bias")
    if got is None:
        return None
    z, labels = _forward(network, given)
    softmax = _softmax(z)
    outer = _entropy(softmax, labels)
    defects = {
        "ReLU on the logits": _entropy(np.maximum(z, 0), labels) * (z > 0),
        "double log-softmax": softmax * (outer - (softmax * outer).sum(axis=1, keepdims=True)),
        "mean for sum in the loss": len(labels) * _entropy(z, labels),
    }
    return next((defect for defect, dz in defects.items() if _alike(got, dz.sum(axis=0))), None)


def _of_the_update(answer: Answer, want: Answer, network: Network, given: dict[str, str]) -> str | None:
    """By how far the last layer went in the first step."""
    import numpy as np

    weight = f"{network.layers[-1].name}.weight"
    with np.load(given["weights"]) as weights:
        start = weights[weight]
    moved = answer.arrays.get(f"after1.{weight}")
    if moved is None or moved.shape != start.shape or not network.momentum:
        return None
    right = want.arrays[f"after1.{weight}"] - start
    return "unit-gain momentum" if _alike(moved - start, (1 - network.momentum) * right) else None


def _forward(network: Network, given: dict[str, str]) -> tuple[Array, Array]:
    """Logits and labels."""
    import numpy as np

    with np.load(given["weights"]) as weights, np.load(given["data"]) as data:
        x, labels = data["x"], data["labels"]
        for layer in network.layers:
            x = x @ weights[f"{layer.name}.weight"] + weights[f"{layer.name}.bias"]
            if layer.activation == "sigmoid":
                x = 1 / (1 + np.exp(-x))
            elif layer.activation == "relu":
                x = np.maximum(x, 0)
    return x.astype(np.float64), labels


def _softmax(z: Array) -> Array:
    import numpy as np

    powers: Array = np.exp(z - z.max(axis=1, keepdims=True))
    shares: Array = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _entropy(z: Array, labels: Array) -> Array:
    """The gradient of the mean cross-entropy of softmax(z)."""
    import numpy as np

    dz = _softmax(z)
    dz[np.arange(len(labels)), labels] -= 1
    return dz / len(labels)


def _alike(got: Array, want: Array) -> bool:
    return got.shape == want.shape and relative(got, want) < ALIKE
