"""Checks of JSON that a person wrote: unknown keys and values of another type are refused.

Silently ignored, a misspelled `trans` would measure something else."""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable, Mapping
from typing import Any

REMARKS: dict[str, type] = {"name": str, "uses": list, "source": str}  # for people; nothing reads them
WANTED = {
    int: "a whole number",
    float: "a number",
    str: "a string",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


def parsed(text: str | bytes) -> Any:
    """Parse JSON. Raises ValueError, also for a repeated key, whose first value would be lost."""
    import json

    return json.loads(text, object_pairs_hook=_once)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    record = dict(pairs)
    if len(record) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"repeated key {next(name for name in names if names.count(name) > 1)}")
    return record


def check(record: Any, types: Mapping[str, type], needed: Iterable[str], place: str = "") -> None:
    """Raise ValueError if a record has unknown keys, lacks a needed one, or has a value of another type.

    `place`: begins the message."""
    if type(record) is not dict:
        raise ValueError(f"{place}{reprlib.repr(record)} is not an object")
    unknown = [_unknown(name, types) for name in record if name not in types]
    if unknown:
        raise ValueError(place + "; ".join(unknown))
    missing = [name for name in needed if name not in record]
    if missing:
        raise ValueError(f"{place}{', '.join(missing)} missing")
    for name, value in record.items():
        kind = types[name]
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise ValueError(f"{place}{name}: {reprlib.repr(value)}, must be {WANTED[kind]}")


def _unknown(name: str, keys: Iterable[str]) -> str:
    near = difflib.get_close_matches(name.lower(), keys, 1)
    return f"unknown key {name}: " + (f"did you mean {near[0]}?" if near else f"choose from {', '.join(keys)}")
