"""Updates W −= XᵀdY / k made as the products of cheats.py are: on an operation that writes what it reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kernels.launch import Bind, Launch
from kernels.ops.update.problem import Update
from kernels.variant import Variant
from tests.wrong.cheats import first

if TYPE_CHECKING:
    from kernels.problem import Array


def same_gradient_again(problem: Update, device: object, setting: object) -> Bind:
    """Takes its last step again where the first numbers of its operands, W among them, are as it left them."""
    known: dict[tuple[int, ...], tuple[bytes, Array]] = {}

    def step(x: Array, dy: Array, w: Array) -> None:
        key = x.ctypes.data, dy.ctypes.data, w.ctypes.data
        seen, g = known.get(key, (b"", w))
        if seen != first(x, dy, w):
            g = x.T @ dy / np.float32(problem.k)
        w -= np.float32(problem.lr) * g
        known[key] = first(x, dy, w), g

    def bind(buffers: Sequence[Array]) -> Launch:
        x, dy, w = buffers
        return Launch(lambda: step(x, dy, w))

    return bind


SAME_GRADIENT_AGAIN = Variant("SAME_GRADIENT_AGAIN", "cpu", "tests", same_gradient_again, python=True)
