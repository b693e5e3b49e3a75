"""Diagnosis of common mistakes in a network's re-implementation, from its answer and the reference's.

Examples are a dropped layer, a double softmax, or a sum in place of a mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.devices.cpu import cores
from kernels.errors import SuiteError
from macro.equality import mistakes
from macro.equality.answer import Answer, ask, norm, relative
from macro.frameworks import find as framework
from macro.networks import find, names
from macro.networks.base import LOSSES
from macro.networks.layers import Recurrent, Shortcut
from macro.processes import job
from macro.processes.job import Setting
from reports import units

if TYPE_CHECKING:
    from kernels.problem import Array
    from macro.networks.base import Network

ALIKE = 1e-3  # relative difference: far above rounding, far below the effect of any of these defects
NEAR = 0.02  # the same for gradients, as rounding errors grow through many layers
LEAST = 1e-6  # least norm of a gradient that is more than rounding of zero
WEIGHT = ".weight"
SHOWN = 3  # names in a sentence


def name(answer: Answer, want: Answer, network: Network, batch: int, folder: Path) -> str | None:
    """Return the defect that explains this answer, or None; `folder`: of the weights and data of both."""
    given = job.files(batch, folder)
    if wrong := _of_the_batch(answer, network, batch):
        return wrong
    if answer.built["parameters"] != want.built["parameters"] or answer.wide:
        return _of_the_structure(answer, want, network, batch)
    return (
        _of_the_loss(answer, want, network, given)
        or _of_the_update(answer, want, network, given)
        or _of_the_layers(answer, want, network, batch, folder)
    )


def _of_the_batch(answer: Answer, network: Network, batch: int) -> str | None:
    """Return what was counted in place of sequences, if that explains the answer's batch."""
    given, steps = answer.built.get("batch"), network.input[0]
    if len(network.input) > 2 or not any(isinstance(x, Recurrent) for x in network.layers) or given == batch:
        return None
    if given in (batch // steps, batch * steps):
        return "words counted for sequences"
    return "swapped axes (batch and steps)" if given == steps else None


def _of_the_structure(answer: Answer, want: Answer, network: Network, batch: int) -> str | None:
    built, wanted = answer.built["parameters"], want.built["parameters"]
    if built != wanted:
        differences = "; ".join(_of_the_parameters(built, wanted, network, batch))
        alike = [x.name for x in _siblings(network) if mistakes.counts(x) == built]
        return f"another network ({': '.join(filter(None, (alike[0], differences)))})" if alike else differences or None
    return "missing input cast (float64)" if "float64" in (answer.wide or "") else None


def _of_the_parameters(
    built: Mapping[str, int], wanted: Mapping[str, int], network: Network, batch: int
) -> Iterator[str]:
    """Yield causes of extra, missing or differently sized parameters."""
    more, gone = set(built) - set(wanted), set(wanted) - set(built)
    around = {layer.name for layer in network.layers if isinstance(layer, Shortcut)}
    if projected := {_owner(x) for x in more} & around:
        yield f"option-B shortcuts, which have parameters ({_some(projected)})"
    deep, right = (sum(_owner(x) not in around for x in of if x.endswith(WEIGHT)) for of in (built, wanted))
    if deep > right:
        stem, number = network.name.partition(":")[0], f"-{right}"
        names = f"{stem.removesuffix(number)}-{deep} for {stem}" if stem.endswith(number) else "too many"
        yield f"another depth ({deep} layers of weights, not {right}: {names})"
    elif deep < right and (layers := {_owner(x) for x in gone if x.endswith(WEIGHT)}):
        yield f"a dropped layer ({_some(layers)})"
    known = {_owner(x) for x in wanted} - around
    if biases := {x for x in more if x.endswith(".bias") and _owner(x) in known}:
        yield f"biases too many ({_some(biases)})"
    if doubled := {_owner(x) for x in more if x.endswith("state_bias")}:
        yield f"double bias ({_some(doubled)})"
    if inputs := {x for x in more if built[x] in (network.features, batch * network.features)}:
        yield f"trainable input ({_some(inputs)})"
    if not more and not gone:  # of other sizes
        yield from [defect for defect, changed in mistakes.suspects(network) if mistakes.counts(changed) == built][:1]


def _owner(parameter: str) -> str:
    return parameter.rpartition(".")[0]


def _some(names: Iterable[str]) -> str:
    return units.first(sorted(names), SHOWN)


def _siblings(network: Network) -> list[Network]:
    """Return the suite's other variants of a network."""
    stem = network.name.partition(":")[0]
    return [find(name) for name in names() if name.partition(":")[0] == stem and name != network.name]


def _of_the_layers(answer: Answer, want: Answer, network: Network, batch: int, folder: Path) -> str | None:
    """Return the defect with which NumPy's answer agrees with this answer, or None."""
    counts = mistakes.counts(network)
    alike = [(f"another network ({x.name})", x) for x in _siblings(network) if x.loss == network.loss]
    changes: list[tuple[str, Network, dict[str, Any]]] = [
        (defect, changed, {}) for defect, changed in [*mistakes.suspects(network), *alike]
    ]
    knobs = [(defect, network, dict(wrong)) for defect, wrong in mistakes.in_sequences(network).items()]
    for defect, changed, wrong in [*changes, *knobs]:
        if mistakes.counts(changed) != counts:
            continue
        try:  # gradients suffice; the given dropout masks may not fit
            setting = Setting(cores(), knobs=wrong)
            suspect = ask(framework("numpy"), changed, batch, setting, folder, counts=())
        except SuiteError:
            continue
        if _computes(suspect, answer) and not _computes(suspect, want):
            return defect
    return None


def _computes(suspect: Answer, other: Answer) -> bool:
    """Return whether two answers have the same loss and gradients."""
    return abs(suspect.losses[0] - other.losses[0]) < ALIKE * abs(suspect.losses[0]) and all(
        name in other.arrays and _alike(other.arrays[name], array, NEAR)
        for name, array in suspect.arrays.items()
        if name.startswith("gradient.") and norm(array) > LEAST
    )


def _of_the_loss(answer: Answer, want: Answer, network: Network, given: dict[str, str]) -> str | None:
    """Return the defect of the loss that explains the last bias's gradient (that of the logits, summed)."""
    import numpy as np

    got = answer.arrays.get(f"gradient.{network.layers[-1].name}.bias")
    right = want.arrays.get(f"gradient.{network.layers[-1].name}.bias")
    if got is None or right is None or network.layers[-1].activation != "none":
        return None
    if _alike(got, right):
        return None  # the loss is not where it differs
    with np.load(given["data"]) as data:
        z, labels = want.arrays["outputs"].astype(np.float64).reshape(-1, network.classes), data["labels"]
    if labels.dtype.kind == "f":
        return None  # targets that are no labels
    labels = labels.reshape(-1)
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
    """Return "unit-gain momentum" if it explains the last layer's first update, else None."""
    import numpy as np

    weight = f"{network.layers[-1].name}.weight"
    with np.load(given["weights"]) as weights:
        if weight not in weights.files:
            return None
        start = weights[weight]
    moved = answer.arrays.get(f"after1.{weight}")
    if moved is None or moved.shape != start.shape or network.rule != "momentum":
        return None
    right = want.arrays[f"after1.{weight}"] - start
    return "unit-gain momentum" if _alike(moved - start, (1 - network.momentum) * right) else None


def _softmax(z: Array) -> Array:
    import numpy as np

    powers: Array = np.exp(z - z.max(axis=1, keepdims=True))
    shares: Array = powers / powers.sum(axis=1, keepdims=True)
    return shares


def _gradient(loss: str, z: Array, labels: Array) -> Array:
    """Return the gradient of the loss with respect to the outputs z."""
    import numpy as np

    targets = np.zeros_like(z)
    targets[np.arange(len(labels)), labels] = 1
    if loss == "softmax":
        return (_softmax(z) - targets) / len(labels)
    share: Array = 2 * (z - targets) if loss == "squared" else 1 / (1 + np.exp(-z)) - targets
    return share / z.size


def _alike(got: Array, want: Array, within: float = ALIKE) -> bool:
    return got.shape == want.shape and relative(got, want) < within
