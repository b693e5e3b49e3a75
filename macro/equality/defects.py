"""Name common mistakes of a re-implementation (a dropped layer, a double softmax, sum for mean …) by how a framework's
answer differs from the reference."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from kernels.devices.cpu import cores
from macro.equality.answer import Answer, ask, norm, relative
from macro.frameworks import find as framework
from macro.networks import find, names
from macro.networks.base import LOSSES
from macro.networks.layers.conv import Convolution
from macro.networks.layers.norm import BatchNorm
from macro.networks.layers.pool import Pool
from macro.processes import job
from macro.processes.job import Setting

if TYPE_CHECKING:
    from kernels.problem import Array
    from macro.networks.base import Network
    from macro.networks.layer import Layer

ALIKE = 1e-3  # relative: far above rounding, far below what any of these defects does
NEAR = 0.02  # of gradients behind many layers, in which rounding has grown
LEAST = 1e-6  # norm of a gradient that is no rounding of zero


def name(answer: Answer, want: Answer, network: Network, batch: int, folder: Path) -> str | None:
    """The defect that explains this answer; None where it is none of these. `folder`: of what both were given."""
    given = job.files(batch, folder)
    return (
        _of_the_structure(answer, want, network, batch)
        or _of_the_loss(answer, want, network, given)
        or _of_the_update(answer, want, network, given)
        or _of_the_layers(answer, want, network, batch, folder)
    )


def _of_the_structure(answer: Answer, want: Answer, network: Network, batch: int) -> str | None:
    built, wanted = answer.built["parameters"], want.built["parameters"]
    if alike := [x.name for x in _siblings(network) if counts(x) == built]:
        return f"another network ({alike[0]})"
    if more := sorted(x for x in set(built) - set(wanted) if x.endswith(".bias")):
        return f"biases too many ({', '.join(more)})"
    if gone := sorted({layer.rpartition(".")[0] for layer in set(wanted) - set(built)}):
        return f"a dropped layer ({', '.join(gone)})"
    inputs = [x for x in set(built) - set(wanted) if built[x] in (network.features, batch * network.features)]
    if inputs:
        return f"trainable input ({', '.join(inputs)})"
    if "float64" in (answer.wide or ""):
        return "missing input cast (float64)"
    return None


def counts(network: Network) -> dict[str, int]:
    """Of the numbers of each parameter."""
    return {f"{node.name}.{name}": x.count for node in network.nodes for name, x in node.parameters.items()}


def _siblings(network: Network) -> list[Network]:
    """The variants of a network that this suite knows, but for itself."""
    stem = network.name.partition(":")[0]
    return [find(name) for name in names() if name.partition(":")[0] == stem and name != network.name]


def _of_the_layers(answer: Answer, want: Answer, network: Network, batch: int, folder: Path) -> str | None:
    """By what the reference gives for a network with that defect, where that is something else: pooling that rounds up
    is the same on sizes that fit."""
    for defect, changed in _suspects(network):
        suspect = ask(framework("numpy"), changed, batch, Setting(cores()), folder)
        if abs(suspect.losses[0] - want.losses[0]) < ALIKE * abs(want.losses[0]):
            continue
        if abs(suspect.losses[0] - answer.losses[0]) < ALIKE * abs(suspect.losses[0]) and all(
            name in answer.arrays and relative(answer.arrays[name], array) < NEAR
            for name, array in suspect.arrays.items()
            if name.startswith("gradient.") and norm(array) > LEAST
        ):
            return defect
    return None


def _suspects(network: Network) -> Iterator[tuple[str, Network]]:
    """Networks with its parameters that a mistake makes of it."""
    for defect, change in (
        ("frozen batch norm", _frozen),
        ("poolings that round up", _rounds_up),
        ("padding more below and right, as SAME has it", _shifted),
    ):
        layers = tuple(change(layer) for layer in network.layers)
        with suppress(ValueError):
            if layers != network.layers and counts(changed := replace(network, layers=layers)) == counts(network):
                yield defect, changed


def _frozen(layer: Layer) -> Layer:
    return replace(layer, frozen=True) if isinstance(layer, BatchNorm) else layer


def _rounds_up(layer: Layer) -> Layer:
    return replace(layer, rounding="ceil") if isinstance(layer, Pool) and layer.window else layer


def _shifted(layer: Layer) -> Layer:
    """Of strides above one, which alone have room for it."""
    if isinstance(layer, Convolution) and layer.stride > 1 and layer.pad:
        return replace(layer, pads=(layer.pad - 1, layer.pad - 1, layer.pad, layer.pad), pad=0)
    return layer


def _of_the_loss(answer: Answer, want: Answer, network: Network, given: dict[str, str]) -> str | None:
    """By the gradient of the last bias, which is that of the logits summed over the batch."""
    import numpy as np

    got = answer.arrays.get(f"gradient.{network.layers[-1].name}.bias")
    right = want.arrays.get(f"gradient.{network.layers[-1].name}.bias")
    if got is None or right is None or network.layers[-1].activation != "none":
        return None
    if _alike(got, right):
        return None  # the loss is not where it differs
    with np.load(given["data"]) as data:
        z, labels = want.arrays["outputs"].astype(np.float64), data["labels"]
    defects = {
        "ReLU on the logits": _gradient(network.loss, np.maximum(z, 0), labels) * (z > 0),
        "mean for sum in the loss": len(labels) * _gradient(network.loss, z, labels),
        **{f"another loss ({loss})": _gradient(loss, z, labels) for loss in LOSSES if loss != network.loss},
    }
    if network.loss == "softmax":
        softmax = _softmax(z)
        outer = _gradient("softmax", softmax, labels)
        defects["double log-softmax"] = softmax * (outer - (softmax * outer).sum(axis=1, keepdims=True))
    return next((defect for defect, dz in defects.items() if _alike(got, dz.sum(axis=0))), None)


def _of_the_update(answer: Answer, want: Answer, network: Network, given: dict[str, str]) -> str | None:
    """By how far the last layer went in the first step."""
    import numpy as np

    weight = f"{network.layers[-1].name}.weight"
    with np.load(given["weights"]) as weights:
        if weight not in weights.files:
            return None
        start = weights[weight]
    moved = answer.arrays.get(f"after1.{weight}")
    if moved is None or moved.shape != start.shape or not network.momentum:
        return None
    right = want.arrays[f"after1.{weight}"] - start
    return "unit-gain momentum" if _alike(moved - start, (1 - network.momentum) * right) else None


def _softmax(z: Array) -> Array:
    import numpy as np

    powers: Array = np.exp(z - z.max(axis=1, keepdims=True))
    shares: Array = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _gradient(loss: str, z: Array, labels: Array) -> Array:
    """Of the outputs z."""
    import numpy as np

    targets = np.zeros_like(z)
    targets[np.arange(len(labels)), labels] = 1
    if loss == "softmax":
        return (_softmax(z) - targets) / len(labels)
    share: Array = 2 * (z - targets) if loss == "squared" else 1 / (1 + np.exp(-z)) - targets
    return share / z.size


def _alike(got: Array, want: Array) -> bool:
    return got.shape == want.shape and relative(got, want) < ALIKE
