"""One file is one network as data; what deviates from it in a text or a script is a variant by name."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from kernels.errors import UsageError, choice
from macro.networks.base import Network, from_data
from micro.planning.network import LAYER, NETWORK, document
from micro.planning.written import check


def names() -> list[str]:
    """The networks there are, variants included: `fcn-s`, `fcn-s:4`."""
    return [name for stem in _stems() for name in _module(stem).NETWORKS]


def find(name: str) -> Network:
    """A network by name, or from a file of the user's, `net.json`. Raises UsageError."""
    if name.endswith(".json"):
        try:
            return from_data(_whole(document(Path(name).read_bytes())))
        except OSError as error:
            raise UsageError(f"{name}: {error.strerror}") from None
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{name}: no network of dense layers like micro/shapes/fcn-r.json ({error})") from None
    if name.endswith(".py"):
        raise UsageError(
            f"network {name}: a program of your own cannot be explained yet, nor a network with convolutions or "
            f"recurrence; today: dense layers in JSON, like micro/shapes/fcn-r.json, or the products of any program: "
            f"MKL_VERBOSE=1 ONEDNN_VERBOSE=1 python {name} >log; python -m micro.gemm --shapes log"
        )
    for stem in _stems():
        network: Network | None = _module(stem).NETWORKS.get(name)
        if network is not None:
            return network
    raise UsageError(f"network {name}: {choice(name, names())}; or name a file, net.json")


def _whole(data: dict[str, Any]) -> dict[str, Any]:
    """A network's file, with what only a step needs. Raises ValueError where it lacks that."""
    if "convolutions" in data:
        raise ValueError("it has convolutions")
    check(data, NETWORK, ("rate", "layers"))
    for i, layer in enumerate(data["layers"], 1):
        check(layer, LAYER, ("activation",), f"layer {i}: ")
    return data


def _stems() -> list[str]:
    return sorted(x.stem for x in Path(__file__).parent.glob("[a-z]*.py") if x.stem != "base")


def _module(stem: str) -> Any:
    return importlib.import_module(f"macro.networks.{stem}")
