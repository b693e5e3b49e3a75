"""Files of a framework's job: the network as JSON, weights and one batch as .npz without pickle."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import TYPE_CHECKING, Any

from kernels.devices.cpu import memory
from kernels.errors import NoRoom, Unavailable
from kernels.ops.gather.problem import text
from kernels.ops.recurrent import lengths
from macro.frameworks import Framework
from macro.networks.layer import size
from macro.networks.layers import Dropout

if TYPE_CHECKING:
    import numpy as np

    from kernels.problem import Array
    from macro.networks.base import Network

SEED = 20160825


@dataclass(frozen=True)
class Setting:
    """Settings of a framework's process, fixed while it runs."""

    threads: int = 1
    heap: str = "default"
    knobs: dict[str, Any] = field(default_factory=dict)
    preload: str = "none"  # library to load before the framework's
    device: str = "cpu"


def files(batch: int, folder: Path) -> dict[str, str]:
    """Return the paths of the input arrays (weights, data) that all frameworks share."""
    return {"weights": str(folder / "weights.npz"), "data": str(folder / f"data-{batch}.npz")}


def write_arrays(network: Network, batch: int, folder: Path) -> dict[str, str]:
    """Write weights and data, the same for every framework, if missing; return their paths by name.

    Weights are normal, divided by the root of their fan-in; biases are small, inputs standard normal or ids of a text,
    labels uniform; dropout layers get masks. Raises Unavailable if memory or disk space is too small.
    """
    written = files(batch, folder)
    if not Path(written["data"]).exists():
        takes = f"weights and one batch of {network.name} need {_bytes(network, batch) / 1e9:.3g} GB"
        if _bytes(network, batch) > (free := memory()):
            raise NoRoom(f"{takes}, but only {free / 1e9:.1f} GB is free")
        try:
            _write(network, batch, written)
        except OSError as error:
            raise Unavailable(f"{takes}: {folder}: {error.strerror}: set TMPDIR=FOLDER to another folder") from None
        except MemoryError:
            raise Unavailable(f"{takes}, more than the free memory") from None
    return written


def _bytes(network: Network, batch: int) -> int:
    """Return the bytes of weights, inputs, labels and masks."""
    masks = sum(size(node.output) for node in network.nodes if isinstance(node.layer, Dropout))
    return 4 * (network.parameters + batch * (network.features + masks)) + 8 * batch * network.places


def _write(network: Network, batch: int, written: dict[str, str]) -> None:
    """Write weights and data to the paths `written`. Raises OSError, MemoryError."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    weights = {}
    for node in network.nodes:
        for name, parameter in node.parameters.items():
            scale = np.float32(parameter.terms**-0.5 if parameter.terms else 0.1)
            array = rng.standard_normal(parameter.shape, np.float32) * scale
            weights[f"{node.name}.{name}"] = array + np.float32(parameter.base) if parameter.base else array
    np.savez(written["weights"], **weights)  # type: ignore[arg-type]
    x = _inputs(network, batch, rng)
    labels, masks = _targets(network, batch, x, rng), {}
    for node in network.nodes:
        if isinstance(node.layer, Dropout):
            keep = 1 - node.layer.share
            kept = rng.random((batch, *node.output), np.float32) < keep
            masks[f"mask.{node.name}"] = kept * np.float32(1 / keep)
    np.savez(written["data"], x=x, labels=labels, **masks)  # type: ignore[arg-type]


def _inputs(network: Network, batch: int, rng: np.random.Generator) -> Array:
    """Return inputs as numbers, or as ids: in a padded network of sequences with lengths of real ones, then zeros."""
    import numpy as np

    if not network.ids:
        return rng.standard_normal((batch, *network.input), np.float32)
    (steps,) = network.input
    if not network.padded:
        return text(network.ids, batch * steps, rng).reshape(batch, steps)
    ids = 1 + text(network.ids - 1, batch * steps, rng).reshape(batch, steps)
    share = steps / lengths.every()[-1]
    each = np.ceil(share * rng.choice(lengths.every(), batch))
    ids[np.arange(steps) >= each[:, None]] = 0
    return ids


def _targets(network: Network, batch: int, x: Array, rng: np.random.Generator) -> Array:
    """Return labels as whole numbers, or targets as numbers of the outputs' shape."""
    import numpy as np

    shape = (batch, *network.nodes[-1].output)
    if network.targets == "input":
        return x
    if network.targets == "numbers":
        return rng.standard_normal(shape, np.float32)
    if network.classes == 1 and network.loss != "softmax":
        return rng.integers(2, size=shape).astype(np.float32)
    return rng.integers(network.classes, size=shape[:-1])


def moved(network: Network, batch: int, folder: Path, share: float, seed: int) -> Path:
    """Write weights with relative noise `share`, and the data, into a subfolder. Raises Unavailable."""
    import numpy as np

    given, target = write_arrays(network, batch, folder), folder / f"moved-{seed}"
    written = files(batch, target)
    rng = np.random.RandomState(seed)
    with np.load(given["weights"]) as weights:
        off = {
            name: weights[name] * (1 + np.float32(share) * rng.standard_normal(weights[name].shape).astype(np.float32))
            for name in sorted(weights.files)
        }
    try:
        target.mkdir(exist_ok=True)
        np.savez(written["weights"], **off)
        Path(written["data"]).unlink(missing_ok=True)
        Path(written["data"]).hardlink_to(given["data"])
    except OSError as error:
        raise Unavailable(f"second copy of the weights of {network.name}: {target}: {error.strerror}") from None
    return target


def write(
    framework: Framework, network: Network, batch: int, setting: Setting, folder: Path, masks: bool = False
) -> Path:
    """Write the job file and missing arrays; `masks`: dropout uses the given masks. Raises Unavailable."""
    job = {
        "framework": framework.name,
        "network": network.plan(),
        "batch": batch,
        "threads": setting.threads,
        "heap": setting.heap,
        "preload": setting.preload,
        "device": setting.device,
        "masks": masks,
        "knobs": {**framework.knobs, **setting.knobs},
        **write_arrays(network, batch, folder),
    }
    prefix = framework.name.replace(":", "-").replace("/", "-")
    with NamedTemporaryFile("w", prefix=f"{prefix}-", suffix=".json", dir=folder, delete=False) as file:
        json.dump(job, file)
    return Path(file.name)
