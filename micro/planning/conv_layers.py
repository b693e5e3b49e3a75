"""Convolutions of the networks in micro/shapes: layers of one network, distinct layers of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import Any, get_type_hints

from kernels.errors import UsageError
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import PASSES
from micro.planning.json_schema import check
from micro.planning.network import known, loaded, refuse_names

KIND = "convolutions"
PREFIX = "net"  # how the names of --net's contests begin
OF_STEP = ("n", "direction", "layout")  # axes that belong to a step, not to a layer
SIZES = tuple(axis for axis in fields(Conv) if axis.name not in OF_STEP)
BACKWARD = "backward"  # both gradients together, as benchmarks published them
KEYS: dict[str, type] = {"name": str, "count": int, "first": bool, "then": dict}


@dataclass(frozen=True)
class Convolution:
    """A convolution of a network: its forward pass at the network's batch.

    `count`: how many layers are alike; `first`: its input is data, so that dgrad is not needed; `then`: published
    milliseconds by pass and library, where pass `backward` is both gradients together."""

    name: str
    problem: Conv
    count: int = 1
    first: bool = False
    then: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    def passes(self) -> tuple[Conv, ...]:
        """Return the passes of a training step."""
        needed = (direction for direction in PASSES if not (self.first and direction == "dgrad"))
        return tuple(replace(self.problem, direction=direction) for direction in needed)

    def published(self, direction: str, measured: str) -> str:
        """Format the published times of a pass, and where they were `measured`; empty if there are none."""
        both = direction != "forward" and direction not in self.then
        times = self.then.get(BACKWARD if both else direction, {})
        shown = ", ".join(f"{library} {time:g}" for library, time in times.items())
        return shown and f"then{' (both gradients)' * both}, {measured}: {shown}"


@dataclass(frozen=True)
class Convolutions:
    """The convolutions of a network, without its other operations.

    `measured`: machine, date and unit of the published times in the layers' `then`."""

    name: str
    batch: int
    layers: tuple[Convolution, ...]
    measured: str = ""


def read(name: str) -> Convolutions:
    """Read the convolutions of a network of micro/shapes, or of a file like these. Raises UsageError."""
    return loaded(name, KIND, "alexnet-s", of_record)


def of_record(record: dict[str, Any]) -> Convolutions:
    """Return the convolutions of a network's record, as `document` returns it. Raises ValueError."""
    batch = record["batch"]
    layers = tuple(_layer(row, batch, f"convolution {i}: ") for i, row in enumerate(record[KIND], 1))
    if not layers or batch < 1:
        raise ValueError("needs a positive batch and at least one convolution")
    refuse_names(record["network"], [layer.name for layer in layers])
    return Convolutions(record["network"], batch, layers, record.get("measured", ""))


def distinct_layers(batch: int) -> list[Conv]:
    """Return the distinct convolutions of all networks of micro/shapes, forward, at this batch size."""
    every = (layer.problem for name in known(KIND) for layer in read(name).layers)
    return list(dict.fromkeys(replace(problem, n=batch) for problem in every))


def _layer(row: Any, batch: int, place: str) -> Convolution:
    """Parse a layer. Raises ValueError."""
    hints = get_type_hints(Conv)
    needed = [axis.name for axis in SIZES if axis.default is MISSING]
    check(row, {axis.name: hints[axis.name] for axis in SIZES} | KEYS, ("name", *needed), place)
    sizes = {axis.name: row[axis.name] for axis in SIZES if axis.name in row}
    values = {name: row[name] for name in KEYS if name in row}
    check(values.get("then", {}), dict.fromkeys((*PASSES, BACKWARD), dict), (), f"{place}then: ")
    for word, times in values.get("then", {}).items():
        check(times, dict.fromkeys(times, float), (), f"{place}then: {word}: ")
    try:
        layer = Convolution(problem=Conv(n=max(batch, 1), **sizes), **values)
    except UsageError as error:
        raise ValueError(f"{place}{error}") from None
    if layer.count < 1:
        raise ValueError(f"{place}count: {layer.count}, must be 1 or more")
    return layer
