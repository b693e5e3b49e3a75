"""Networks as data, a JSON or Python file each; deviating versions are variants `network:variant`."""

from __future__ import annotations

import importlib
import runpy
from functools import cache
from pathlib import Path

from kernels import suite
from kernels.errors import UsageError, choice
from macro.networks.base import Network, by_name, from_data
from micro.planning.json_schema import parsed

FOLDER = Path(__file__).parent
MACHINERY = ("base", "layer", "optimizers")


def names() -> list[str]:
    """Return the names of all networks and their variants: `fcn-s`, `fcn-s:4`."""
    return [name for stem in _stems() for name in _of_stem(stem)]


def find(name: str) -> Network:
    """Return a network by name, or from a user's file: `net.json`, `net.py:NAME`. Raises UsageError."""
    path, _, member = name.rpartition(":")
    if name.endswith(".json"):
        return _of_file(Path(name))
    if path.endswith(".py"):
        return _of_program(Path(path), member)
    if name.endswith(".py"):
        raise UsageError(
            f"network {name}: for a network in this file, {name}:NAME; for a training script, macro explain {name}"
        )
    for stem in _stems():
        if name in _of_stem(stem):
            return _of_stem(stem)[name]
    raise UsageError(f"network {name}: {choice(name, names())}; or name a file, net.json or net.py:NAME")


def _of_file(path: Path) -> Network:
    """Read a network from a JSON file. Raises UsageError."""
    try:
        return from_data(parsed(path.read_bytes()))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError) as error:
        raise UsageError(f"{path}: not a network in the format of docs/networks.md ({error})") from None


def _of_program(path: Path, name: str) -> Network:
    """Return the Network `name` (variable or network name) of a Python file. Raises UsageError."""
    try:
        variables = runpy.run_path(str(path), run_name=path.stem)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (Exception, SystemExit) as error:  # whatever a user's file raises
        raise UsageError(
            f"{path}: {type(error).__name__}: {' '.join(str(error).split())}{suite.import_hint(error)}"
        ) from None
    there = {key: x for key, x in variables.items() if isinstance(x, Network)}
    there |= {x.name: x for x in there.values()}
    if name not in there:
        raise UsageError(f"{path}:{name}: {choice(name, sorted(there)) if there else 'the file defines no Network'}")
    return there[name]


def _stems() -> list[str]:
    return sorted(x.stem for x in FOLDER.glob("[a-z]*.*") if x.suffix in (".py", ".json") and x.stem not in MACHINERY)


@cache
def _of_stem(stem: str) -> dict[str, Network]:
    """Return the networks of a file in this folder, by name.

    JSON variants change fields of the first; `layers` may be all layers, or changes by a layer's name."""
    if not (path := FOLDER / f"{stem}.json").exists():
        networks: dict[str, Network] = importlib.import_module(f"{__name__}.{stem}").NETWORKS
        return networks
    record = parsed(path.read_bytes())
    del record["about"]
    variants = [changes | {"network": f"{record['network']}:{x}"} for x, changes in record.pop("variants").items()]
    for changes in variants:
        if type(by_layer := changes.get("layers")) is dict:
            assert by_layer.keys() <= {layer["name"] for layer in record["layers"]}
            changes["layers"] = [layer | by_layer.get(layer["name"], {}) for layer in record["layers"]]
    return by_name(*(from_data(record | changes) for changes in ({}, *variants)))
