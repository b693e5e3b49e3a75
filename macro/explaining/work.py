"""Work of a cell on each side, by column: FLOP of products, bytes of passes, page faults, calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from macro.explaining import kinds
from macro.explaining.attribute import Attribution, Key
from macro.explaining.rows import OUTSIDE, Row

PRODUCTS = kinds.of_unit(kinds.FLOP)
PASSES = tuple(name for name in kinds.of_unit(kinds.BYTES) if name != "packing")


def amounts(
    key: Key,
    attributions: Sequence[Sequence[Attribution]],
    by_name: Mapping[str, Row],
    seconds: Sequence[float],
    faulting: Sequence[float],
) -> list[float]:
    """Return a cell's work by side, 0 where a side has none.
    `faulting`: page faults per second of OS memory, by side. Bytes are those of the spans where both sides have them,
    else nominal: one pass over what the rows touch."""
    members, column = key
    if column == "OS memory":
        seen = [sum(process.faults.get(members, 0.0) for process in side) / len(side) for side in attributions]
        shared = [t * rate for t, rate in zip(seconds, faulting, strict=True)]
        work = seen if all(process.faults for side in attributions for process in side) else shared
    elif column in PRODUCTS:
        traced = [sum(process.flops.get(key, 0.0) for process in side) / len(side) for side in attributions]
        work = traced if any(traced) else [_flops(key[0], side, by_name) for side in attributions]
    elif column == "packing":
        work = [sum(_factors(by_name[name]) for name in members if name in by_name) or 1.0] * len(attributions)
    elif column in PASSES:
        work = _bytes(key, attributions, by_name)
    else:
        work = [max(1.0, sum(_calls((members, k[1]), side) for k in _keys(side, members))) for side in attributions]
    return [amount if t > 0 else 0.0 for amount, t in zip(work, seconds, strict=True)]


def _keys(side: Sequence[Attribution], members: tuple[str, ...]) -> set[Key]:
    return {k for process in side for k in process.calls if k[0] == members}


def _calls(key: Key, side: Sequence[Attribution]) -> float:
    return sum(process.calls.get(key, 0.0) for process in side) / len(side)


def _flops(members: tuple[str, ...], side: Sequence[Attribution], by_name: Mapping[str, Row]) -> float:
    """Return FLOP of the rows' products, each as often as the spans make it, once where they do not count.
    1 outside all rows, which is all of both steps."""
    if members == (OUTSIDE,):
        return 1.0
    rows = [by_name[name] for name in members if name in by_name]
    counts = [process.products.get(members, {}) for process in side]
    return sum(row.flops * sum(of.get(row.name, 1.0) for of in counts) for row in rows) / len(side)


def _factors(row: Row) -> float:
    """Bytes of a product's two factors, read and written."""
    p = row.product
    return 0.0 if p is None else 8.0 * (p.m * p.k + p.k * p.n)


def _bytes(key: Key, attributions: Sequence[Sequence[Attribution]], by_name: Mapping[str, Row]) -> list[float]:
    traced = [sum(process.bytes.get(key, 0.0) for process in side) / len(side) for side in attributions]
    nominal = sum(by_name[name].bytes for name in key[0] if name in by_name) or 1.0
    return traced if all(traced) else [nominal] * len(attributions)
