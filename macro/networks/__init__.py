"""Networks as data, one a file; what deviates in a text or a script is a variant by name."""

from __future__ import annotations

import importlib
import runpy
from pathlib import Path
from typing import Any

from kernels import suite
from kernels.errors import UsageError, choice
from macro.networks.base import Network, from_data
from micro.planning.written import parsed

MACHINERY = ("base", "layer", "optimizers")


def names() -> list[str]:
    """Return the names of all networks and their variants: `fcn-s`, `fcn-s:4`."""
    return [name for stem in _stems() for name in _module(stem).NETWORKS]


def find(name: str) -> Network:
    """Return a network by name, or a user's: `net.json` or `net.py:NAME`. Raises UsageError."""
    path, _, member = name.rpartition(":")
    if name.endswith(".json"):
        return _of_file(Path(name))
    if path.endswith(".py"):
        return _of_program(Path(path), member)
    if name.endswith(".py"):
        raise UsageError(f"network {name}: {name}:NAME is a network of it; macro explain {name} takes a script")
    for stem in _stems():
        network: Network | None = _module(stem).NETWORKS.get(name)
        if network is not None:
            return network
    raise UsageError(f"network {name}: {choice(name, names())}; or name a file, net.json or net.py:NAME")


def _of_file(path: Path) -> Network:
    """Read a network from a JSON file. Raises UsageError."""
    try:
        return from_data(parsed(path.read_bytes()))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError) as error:
        raise UsageError(f"{path}: no network as docs/networks.md has them ({error})") from None


def _of_program(path: Path, name: str) -> Network:
    """Return a `Network` that a Python file defines. Raises UsageError."""
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
        raise UsageError(f"{path}:{name}: {choice(name, sorted(there)) if there else 'it makes no Network'}")
    return there[name]


def _stems() -> list[str]:
    return sorted(x.stem for x in Path(__file__).parent.glob("[a-z]*.py") if x.stem not in MACHINERY)


def _module(stem: str) -> Any:
    return importlib.import_module(f"{__name__}.{stem}")
