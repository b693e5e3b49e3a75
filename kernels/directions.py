"""What of an operation is computed: one word each, the same in every operation. docs/glossary.md explains them."""

from __future__ import annotations

from typing import Any

from kernels.problem import axis

DIRECTIONS = ("forward", "dgrad", "wgrad", "update", "step")


def direction(help: str, default: str, *names: str, others: tuple[str, ...] = ()) -> Any:  # noqa: A002  argparse's own word
    """An axis of a problem whose choices are some of the directions, and what `others` an operation has beside them."""
    assert {default, *names} <= {*DIRECTIONS, *others}, f"{default}, {names}: directions are {DIRECTIONS}"
    choices = tuple(dict.fromkeys((default, *names, *others)))
    return axis(help, default, choices=choices)
