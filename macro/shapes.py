"""Write a network's shapes where micro reads them: micro/shapes/NAME.json, for `python -m micro.gemm --net NAME` and
`python -m micro.conv --net NAME`. A file that has the same shapes under names of its own stays as it is."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from kernels.errors import UsageError
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import SIDES
from macro import networks
from macro.networks.base import Network
from macro.networks.layer import Node
from micro.planning import conv_layers, written
from micro.planning.network import WORD
from reports.parser import OneLineParser

FOLDER = Path(__file__).parents[1] / "micro/shapes"
OF_MACRO = ("input", "loss", "optimizer", "rho", "epsilon")  # what a file of shapes does not say of a network
OF_STEP = ("n", "direction", "layout")  # what a file does not say of a convolution


def text(network: Network) -> str:
    """Return the text of the file, a layer a line."""
    data = network.data()
    for key in OF_MACRO:
        data.pop(key, None)
    data["layers"] = [_dense(node) for node in network.nodes if node.layer.kind == "dense"]
    lists = {"convolutions": _convolutions(network), "layers": data.pop("layers")}
    parts = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in data.items()]
    for key, rows in lists.items():
        if rows:
            lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
            parts.append(f' "{key}": [\n{lines}\n ]')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def _dense(node: Node) -> dict[str, object]:
    sizes = {"inputs": node.inputs[0][0], "outputs": node.output[0]}
    return {"name": node.name, **sizes, "activation": node.activation, "first": node.first}


def _convolutions(network: Network) -> list[dict[str, object]]:
    """Return convolutions, equal ones once, by the first one's name, with their count."""
    alike: dict[tuple[Conv, bool], list[str]] = {}
    for node in network.nodes:
        for problem in node.problems(network.batch, "forward").get("forward", ()):
            if isinstance(problem, Conv):
                alike.setdefault((problem, node.first), []).append(node.name)
    return [_convolution(*key, names) for key, names in alike.items()]


def _convolution(problem: Conv, first: bool, names: Sequence[str]) -> dict[str, object]:
    sides = SIDES if problem.pad else ()
    stored = {name: value for name, value in asdict(problem).items() if name not in (*OF_STEP, *sides)}
    plain = {x.name: x.default for x in fields(problem)}
    sizes = {name: value for name, value in stored.items() if value != plain[name] or name in ("r", "s")}
    count = {"count": len(names)} if len(names) > 1 else {}
    return {"name": names[0], **count, **sizes, **({"first": True} if first else {})}


def shapes(record: dict[str, Any]) -> tuple[int, Counter[Conv], Counter[tuple[int, int]]]:
    """Return the batch and counts of shapes in a file, without names. Raises ValueError."""
    convolutions = Counter[Conv]()
    if "convolutions" in record:
        for layer in conv_layers.of_record(record).layers:
            convolutions[layer.problem] += layer.count
    dense = Counter((row["inputs"], row["outputs"]) for row in record.get("layers", ()))
    return record["batch"], convolutions, dense


def is_there(network: Network, folder: Path = FOLDER) -> bool:
    """Return whether a file has these shapes under names of its own.
    A file of dense layers alone is written as it is here."""
    try:
        record = written.parsed(path(network, folder).read_bytes())
        return "convolutions" in record and shapes(record) == shapes(written.parsed(text(network)))
    except (OSError, ValueError, KeyError):
        return False


def path(network: Network, folder: Path = FOLDER) -> Path:
    """Return the network's file; a colon in its name is a dash there."""
    return folder / f"{network.name.replace(':', '-')}.json"


def request(argv: Sequence[str]) -> list[Network]:
    """Return the networks that the words of the command name. Raises UsageError."""
    parser = OneLineParser("python -m macro shapes", description=__doc__, allow_abbrev=False)
    parser.add_argument("network", nargs="+", help="names, or all, that have a file")
    words = parser.parse_args(argv)
    every = [networks.find(name) for name in (networks.names() if words.network == ["all"] else words.network)]
    return [network for network in every if words.network != ["all"] or path(network).exists()]


def _refuse_another(network: Network) -> None:
    """Raise UsageError where the network's file is of other shapes, or it can have none."""
    if not WORD.fullmatch(network.name):
        raise UsageError(f"network {network.name}: a file is named after it; give a name without / and +")
    ours = network.name in networks.names() and networks.find(network.name) == network
    if ours or not path(network).exists() or is_there(network):
        return
    if path(network).read_text("utf-8") != text(network):
        raise UsageError(f"network {network.name}: {path(network).name} is there already; give it another name")


def main(argv: Sequence[str]) -> int:
    """Write each network's file and print its path; return 0. Raises UsageError."""
    asked, texts = request(argv), dict[Path, str]()
    for network in asked:
        _refuse_another(network)
        if texts.setdefault(path(network), text(network)) != text(network):
            raise UsageError(f"network {network.name}: two have one file; give one of them another name")
    for network in asked:
        if not is_there(network):
            path(network).write_text(text(network), "utf-8")
        print(path(network))
    return 0
