"""GEMMs of a network's fully connected layers: forward, dgrad and wgrad of each layer.

Weights W are out×in (OI) or in×out (IO)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from kernels import suite
from kernels.errors import UsageError, choice
from kernels.ops.gemm.problem import Gemm
from micro.planning.json_schema import check, parsed

T = TypeVar("T")
SHAPES = Path(__file__).parents[1] / "shapes"
WORD = re.compile(r"[^/+]+")  # a part of a contest's name
# Keys of a file, for the products, for the convolutions (micro/planning/conv_layers.py) and, in macro, for the steps
# of a framework.
NETWORK: Mapping[str, type] = {
    "network": str,
    "source": str,
    "batch": int,
    "rate": float,
    "momentum": float,
    "measured": str,
    "convolutions": list,
    "layers": list,
}
# Steps: of a layer that runs in each step of a sequence, as rows of one product.
LAYER: Mapping[str, type] = {"name": str, "inputs": int, "outputs": int, "steps": int, "activation": str, "first": bool}


@dataclass(frozen=True)
class Product:
    """A GEMM of a training step, for W out×in (`oi`) and in×out (`io`), and the layers that run it."""

    phase: str
    layers: tuple[str, ...]
    oi: Gemm
    io: Gemm

    @property
    def name(self) -> str:
        return f"{'+'.join(self.layers)} {self.phase}"


@dataclass(frozen=True)
class Products:
    """The distinct GEMMs of a network's training step, in layer order."""

    network: str
    batch: int
    products: tuple[Product, ...]


def known(kind: str = "layers") -> list[str]:
    """Return the names of networks in micro/shapes whose file has this key: `layers`, `convolutions`."""
    return sorted(path.stem for path in SHAPES.glob("*.json") if kind in parsed(path.read_bytes()))


def document(text: bytes) -> dict[str, Any]:
    """Parse a network's file; check keys and types, except in its convolutions. Raises ValueError."""
    record: dict[str, Any] = parsed(text)
    layers = record["layers"] if isinstance(record, dict) and isinstance(record.get("layers"), list) else []
    if any(isinstance(layer, dict) and layer.keys() & {"kind", "after"} for layer in layers):
        shapes = suite.subcommand("shapes", "FILE")
        raise ValueError(f"the file is a graph: write its shapes by `{shapes} > shapes.json` for --net shapes.json")
    check(record, NETWORK, ("network", "batch"))
    for i, layer in enumerate(record.get("layers", ()), 1):
        check(layer, LAYER, ("name", "inputs", "outputs"), f"layer {i}: ")
    return record


def loaded(name: str, kind: str, like: str, build: Callable[[dict[str, Any]], T]) -> T:
    """Return `build(record)` for a network's file, given by the network's name or the file's path.

    `kind`: key that the file must have; `like`: example network for error messages. Raises UsageError."""
    path = Path(name) if name.endswith(".json") else SHAPES / f"{name.replace(':', '-')}.json"
    if not name.endswith(".json") and name.replace(":", "-") not in known(kind):
        raise UsageError(f"--net {name}: {choice(name, known(kind))}; or name a file, e.g. net.json")
    try:
        record = document(path.read_bytes())
        check(record, NETWORK, (kind,))
        return build(record)
    except OSError as error:
        raise UsageError(f"--net {name}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"--net {name}: not a network like micro/shapes/{like}.json ({error})") from None


def read(name: str, batch: int | None = None) -> Products:
    """Read the fully connected layers' products of a network by name, or from a file of the same form.

    `batch`: replaces the network's batch size. Raises UsageError."""
    return loaded(name, "layers", "fcn-s", partial(_products, batch=batch))


def _products(record: dict[str, Any], batch: int | None) -> Products:
    """Return the products of a network's file. Raises ValueError."""
    layers, default = record["layers"], record["batch"]
    sizes = (default, *(layer.get(size, 1) for layer in layers for size in ("inputs", "outputs", "steps")))
    if not layers or not all(size > 0 for size in sizes):
        raise ValueError("batch, inputs, outputs and steps of layers must be positive")
    refuse_names(record["network"], [layer["name"] for layer in layers])
    by_product: dict[tuple[str, Gemm, Gemm], list[str]] = {}
    for layer in layers:
        rows = (batch or default) * layer.get("steps", 1)
        for product in _of(rows, layer["inputs"], layer["outputs"], first=layer.get("first", False)):
            by_product.setdefault(product, []).append(layer["name"])
    each = (Product(phase, tuple(names), oi, io) for (phase, oi, io), names in by_product.items())
    return Products(record["network"], batch or default, tuple(each))


def refuse_names(network: str, layers: list[str]) -> None:
    """Raise ValueError for names that contain `/` or `+`, and for two layers of the same name."""
    if not all(WORD.fullmatch(word) for word in (network, *layers)):
        raise ValueError("names must not contain / or +")
    if len(set(layers)) < len(layers):
        raise ValueError("two layers have the same name")


def _of(batch: int, i: int, o: int, *, first: bool) -> Iterator[tuple[str, Gemm, Gemm]]:
    """Yield the row-major products of a layer of `i` inputs and `o` outputs, with W out×in and in×out.

    y = x·Wᵀ or x·W; dx = dy·W or dy·Wᵀ, which the first layer of a network does not need; dW = dyᵀ·x or xᵀ·dy."""
    yield "forward", Gemm(batch, o, i, "nt"), Gemm(batch, o, i, "nn")
    if not first:
        yield "dgrad", Gemm(batch, i, o, "nn"), Gemm(batch, i, o, "nt")
    yield "wgrad", Gemm(o, i, batch, "tn"), Gemm(i, o, batch, "tn")
