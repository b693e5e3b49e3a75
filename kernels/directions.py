"""Directions of an operation, one word each, the same in all operations (docs/glossary.md)."""

from __future__ import annotations

from typing import Any

from kernels.problem import axis

DIRECTIONS = ("forward", "dgrad", "wgrad", "update", "step")


def direction(help: str, default: str, *names: str, others: tuple[str, ...] = ()) -> Any:  # noqa: A002  argparse's own word
    """Return a problem's axis with these directions as choices, and an operation's `others` beside them."""
    assert {default, *names} <= {*DIRECTIONS, *others}, f"{default}, {names}: directions are {DIRECTIONS}"
    choices = tuple(dict.fromkeys((default, *names, *others)))
    return axis(help, default, choices=choices)
