"""Recurrent cells as users of JAX and TensorFlow write them; `ops` holds the library's functions.

`above` is a step's product of the inputs, with the bias; weights are as in macro/networks/layers/sequences.py. A cell
returns the state, and the memory, which only an lstm has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Ops:
    """Functions of a library: `split(x, parts)` cuts the last axis, `joined(arrays)` is its inverse."""

    sigmoid: Any
    tanh: Any
    split: Any
    joined: Any


def lstm(ops: Ops, spec: dict[str, Any], p: dict[str, Any], above: Any, h: Any, c: Any) -> tuple[Any, Any]:
    i, f, g, o = ops.split(above + h @ p["recurrent"], 4)
    c = ops.sigmoid(f + spec["forget"] if spec["forget"] else f) * c + ops.sigmoid(i) * ops.tanh(g)
    return ops.sigmoid(o) * ops.tanh(c), c


def gru(ops: Ops, spec: dict[str, Any], p: dict[str, Any], above: Any, h: Any, c: Any) -> tuple[Any, Any]:
    gates = [ops.split(x, 3) for x in (above, h @ p["recurrent"] + p["state_bias"])]
    r, z = (ops.sigmoid(gates[0][at] + gates[1][at]) for at in (0, 1))
    n = ops.tanh(gates[0][2] + r * gates[1][2])
    return (1 - z) * n + z * h, c


def gru_before(ops: Ops, spec: dict[str, Any], p: dict[str, Any], above: Any, h: Any, c: Any) -> tuple[Any, Any]:
    weights, (r, z, n) = ops.split(p["recurrent"], 3), ops.split(above, 3)
    r, z = ops.split(ops.sigmoid(ops.joined([r, z]) + h @ ops.joined(weights[:2])), 2)
    n = ops.tanh(n + (r * h) @ weights[2])
    return (1 - z) * n + z * h, c


def rnn(ops: Ops, spec: dict[str, Any], p: dict[str, Any], above: Any, h: Any, c: Any) -> tuple[Any, Any]:
    return ops.tanh(above + h @ p["recurrent"]), c


CELLS = {"lstm": lstm, "gru": gru, "gru-before": gru_before, "rnn": rnn}


def bias(spec: dict[str, Any], p: dict[str, Any]) -> Any:
    """Return the bias of the product with the inputs, to which a second one belongs unless it is inside a reset."""
    return p["bias"] + p["state_bias"] if spec["biases"] == 2 and spec["cell"] != "gru" else p["bias"]


def directions(spec: dict[str, Any], p: dict[str, Any]) -> list[tuple[dict[str, Any], bool]]:
    """Return the parameters of each direction, by their names in the first, and whether it is the reverse one."""
    begin = "reverse_"
    ways = [({name: x for name, x in p.items() if not name.startswith(begin)}, False)]
    if spec["bidirectional"]:
        ways.append(({name[len(begin) :]: x for name, x in p.items() if name.startswith(begin)}, True))
    return ways
