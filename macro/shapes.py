"""Print a network's shapes for micro: `macro shapes NET > FILE.json`, then `micro.gemm --net FILE.json`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields

from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import SIDES
from macro import networks
from macro.networks.base import Network
from macro.networks.layer import Node
from reports.parser import OneLineParser

OF_MACRO = ("input", "loss", "targets", "optimizer", "rho", "epsilon")  # a file of shapes lacks these
OF_STEP = ("n", "direction", "layout")  # axes of a convolution that a file of shapes lacks


def text(network: Network) -> str:
    """Return a network's file of shapes as JSON, with a line for each layer."""
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
    *steps, inputs = node.inputs[0]
    sizes = {"inputs": inputs, "outputs": node.output[-1], **({"steps": steps[0]} if steps else {})}
    return {"name": node.name, **sizes, "activation": node.activation, "first": node.first}


def _convolutions(network: Network) -> list[dict[str, object]]:
    """Return the distinct convolutions, each with its first layer's name and its number of layers."""
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


def main(argv: Sequence[str]) -> int:
    """Run the command: print the network's shapes, return 0. Raises UsageError."""
    parser = OneLineParser("python -m macro shapes", description=__doc__, allow_abbrev=False)
    parser.add_argument("network", help="fcn-s, alexnet-r, …, or a file: net.json, net.py:NAME")
    print(text(networks.find(parser.parse_args(argv).network)), end="")
    return 0
