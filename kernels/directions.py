"""What of an operation is computed: one word each, the same in every operation. docs/glossary.md explains them."""

from __future__ import annotations

from typing import Any

from kernels.problem import axis

DIRECTIONS = ("forward", "dgrad", "wgrad", "update", "step")
# As run files before 2026-12 have them.
OLD = {"backward": "dgrad", "gradient": "wgrad", "apply": "update", "loss": "forward"}


def direction(help: str, default: str, *names: str, others: tuple[str, ...] = ()) -> Any:  # noqa: A002  argparse's own word
    """An axis of a problem whose choices are some of the directions, and what `others` an operation has beside them."""
    assert {default, *names} <= {*DIRECTIONS, *others}, f"{default}, {names}: directions are {DIRECTIONS}"
    choices = tuple(dict.fromkeys((default, *names, *others)))
    old = {word: now for word, now in OLD.items() if now in choices and word not in choices}
    return axis(help, default, choices=choices, old=old)
