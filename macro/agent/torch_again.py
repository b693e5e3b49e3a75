"""Timing of a PyTorch operation in isolation, in the script's process, on new tensors."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

TYPES = {"float": "float32", "double": "float64", "c10::BFloat16": "bfloat16", "c10::Half": "float16"}
LEAST = 0.05  # seconds of calls that are timed together
TIMES = 3  # repetitions, whose median counts
MOST = 1024  # sets of operands at most
SHORT = 1e-4  # seconds: in shorter calls dispatch may dominate


def seconds(torch: Any, call: dict[str, Any], cache: int) -> Any:
    """Return an operation's seconds with warm cache, and with cold cache, on many sets of operands.

    `call`: name, and shapes, strides, types and values of the inputs; `cache`: bytes. Raises LookupError if a call
    cannot be repeated, or is too short or too small.
    """
    first = _operands(torch, call)
    operation = _overload(torch, call["name"], first)
    size = sum(x.numel() * x.element_size() for x in first if isinstance(x, torch.Tensor))
    count = max(2, 1 + 2 * cache // max(1, size))
    if count > MOST:
        raise LookupError(f"too small for a cold repetition: even {MOST} sets of operands fit in the cache")
    with torch.no_grad():
        warm = _timed(operation, [first])
        if warm < SHORT:
            raise LookupError(f"too short: a call takes {warm:.2g} s")
        return warm, _timed(operation, [first] + [_operands(torch, call) for _ in range(count - 1)])


def _operands(torch: Any, call: dict[str, Any]) -> list[Any]:
    return [_operand(torch, *x) for x in zip(call["shapes"], call["strides"], call["types"], call["arguments"])]


def _operand(torch: Any, shape: Any, stride: Any, kind: Any, value: Any) -> Any:
    if kind in TYPES:
        extent = 1 + sum((n - 1) * step for n, step in zip(shape, stride)) if all(shape) else 0
        generator = torch.Generator()  # leaves the script's random numbers unchanged
        return torch.rand(extent, generator=generator).to(getattr(torch, TYPES[kind])).as_strided(shape, stride)
    if shape or kind not in ("", "Scalar", "ScalarList"):
        raise LookupError(f"an input of type {kind} cannot be repeated")
    return value


def _overload(torch: Any, name: str, operands: list[Any]) -> Any:
    """Return a call of the first overload that accepts these operands. Raises LookupError."""
    space, _, word = name.partition("::")
    packet = getattr(getattr(torch.ops, space), word)
    for form in packet.overloads():
        overload = getattr(packet, form)
        wanted = overload._schema.arguments
        if len(wanted) == len(operands):
            named = [argument.name if argument.kwarg_only else None for argument in wanted]
            call = _bound(overload, named)
            try:
                call(operands)
                return call
            except (RuntimeError, TypeError):
                continue
    raise LookupError(f"no overload of {name} accepts its operands")


def _bound(overload: Any, named: list[str | None]) -> Callable[..., Any]:
    places = [i for i, name in enumerate(named) if name is None]
    words = [(i, name) for i, name in enumerate(named) if name is not None]

    def call(operands: list[Any]) -> Any:
        return overload(*[operands[i] for i in places], **{name: operands[i] for i, name in words})

    return call


def _timed(call: Callable[..., Any], sets: list[list[Any]]) -> Any:
    call(sets[-1])
    return sorted(_mean(call, sets) for _ in range(TIMES))[TIMES // 2]


def _mean(call: Callable[..., Any], sets: list[list[Any]]) -> Any:
    turns, count, begun = itertools.cycle(sets), 0, time.perf_counter()
    while True:
        call(next(turns))
        count += 1
        took = time.perf_counter() - begun
        if took >= LEAST:
            return took / count
