"""Triads y = a + 3·b and updates W −= XᵀdY / k that cheat in ways of their own; most ways of cheats.py are for both."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from kernels.launch import Bind, Launch
from kernels.ops.stream.problem import Stream
from kernels.ops.update.problem import Update
from kernels.variant import Variant
from micro.worker.visits import python_entry
from tests.wrong.cheats import first, lazy
from tests.wrong.kernels import honest, made, to_bits

if TYPE_CHECKING:
    from kernels.problem import Array


def half_precision(problem: Stream, a: Array, b: Array, y: Array) -> None:
    honest(problem, a.astype("f2").astype("f4"), b, y)


def bf16_unless_sparse(problem: Stream, a: Array, b: Array, y: Array) -> None:
    """Sixteen bits, unless a zero tells of a probe."""
    honest(problem, a, to_bits(b.copy(), 15) if b.all() else b, y)


def leaves_mask_changed(problem: Stream, a: Array, b: Array, y: Array) -> None:
    honest(problem, a, b, y)
    os.umask(0o777)


def two_faces(problem: Stream, device: object, setting: object) -> Bind:
    """What is called is right; what the compiled loop calls computes four fifths."""
    face, other = (made("", triad).prepare(problem, None, None) for triad in (honest, lazy))  # type: ignore[arg-type]
    return lambda buffers: Launch(face(buffers).call, entry=python_entry(other(buffers)))


TWO_FACES = Variant("TWO_FACES", "cpu", "tests", two_faces, python=True)
HALF_PRECISION = made("HALF_PRECISION", half_precision)
BF16_UNLESS_SPARSE = made("BF16_UNLESS_SPARSE", bf16_unless_sparse)
LEAVES_MASK_CHANGED = made("LEAVES_MASK_CHANGED", leaves_mask_changed)


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
