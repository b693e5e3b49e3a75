"""Write a network's shapes where micro reads them: micro/shapes/NAME.json, for `python -m micro.gemm --net NAME`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from macro import networks
from macro.networks.base import Network
from macro.networks.layer import Node
from reports.parser import OneLineParser

FOLDER = Path(__file__).parents[1] / "micro/shapes"


def text(network: Network) -> str:
    """The file, a layer a line."""
    data = {**network.data(), "layers": [_dense(node) for node in network.nodes if node.layer.kind == "dense"]}
    del data["input"]
    layers = ",\n".join(f"  {json.dumps(layer)}" for layer in data.pop("layers"))
    head = "".join(f" {json.dumps(key)}: {json.dumps(value)},\n" for key, value in data.items())
    return f'{{\n{head} "layers": [\n{layers}\n ]\n}}\n'


def _dense(node: Node) -> dict[str, object]:
    sizes = {"inputs": node.inputs[0][0], "outputs": node.output[0]}
    return {"name": node.name, **sizes, "activation": node.activation, "first": node.first}


def path(network: Network, folder: Path = FOLDER) -> Path:
    """The network's file; a colon in its name is a dash there."""
    return folder / f"{network.name.replace(':', '-')}.json"


def request(argv: Sequence[str]) -> list[Network]:
    """The networks that the words of the command name. Raises UsageError."""
    parser = OneLineParser("python -m macro shapes", description=__doc__, allow_abbrev=False)
    parser.add_argument("network", nargs="+", help="names, or all")
    words = parser.parse_args(argv)
    return [networks.find(name) for name in (networks.names() if words.network == ["all"] else words.network)]


def main(argv: Sequence[str]) -> int:
    """0; each network is written, and its file named."""
    for network in request(argv):
        path(network).write_text(text(network), "utf-8")
        print(path(network))
    return 0
