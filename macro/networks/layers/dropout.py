"""Dropout: an element is dropped with a probability, else scaled by 1/(1 − share), in training alone.

Srivastava and others, JMLR 15, 2014; scaled in training, as libraries have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from macro.networks.layer import Layer, Shape


@dataclass(frozen=True, kw_only=True)
class Dropout(Layer):
    """A dropout of a `share` of elements; masks are given to compare answers, drawn when timed."""

    kind: ClassVar[str] = "dropout"

    share: float = 0.5

    def output(self, inputs: Sequence[Shape]) -> Shape:
        if not 0 <= self.share < 1:
            raise ValueError(f"share {self.share:g}: 0 or more, and less than 1")
        return inputs[0]


LAYER = Dropout
