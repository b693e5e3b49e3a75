"""Concatenation of several layers' channels, or features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from macro.networks.layer import Layer, Shape


@dataclass(frozen=True, kw_only=True)
class Concat(Layer):
    """A concatenation of two or more layers' outputs."""

    kind: ClassVar[str] = "concat"
    inputs_least: ClassVar[int] = 2
    inputs_most: ClassVar[int] = 99

    def output(self, inputs: Sequence[Shape]) -> Shape:
        if len({shape[1:] for shape in inputs}) > 1:
            raise ValueError(f"it joins {', '.join(map(str, inputs))}: rows and columns differ")
        return (sum(shape[0] for shape in inputs), *inputs[0][1:])


LAYER = Concat
