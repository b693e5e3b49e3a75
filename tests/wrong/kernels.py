"""Products that are wrong, each named after its fault, and two right ones of fewer multiplications.

`--variant tests/wrong/kernels.py:NAME` runs one.
"""

from __future__ import annotations

import ctypes
import itertools
import os
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kernels.launch import Bind, Launch
from kernels.ops.gemm.problem import Gemm
from kernels.ops.stream.problem import SCALE, Stream
from kernels.problem import Work
from kernels.variant import Variant

if TYPE_CHECKING:
    from kernels.problem import Array

Product: TypeAlias = "Callable[[Any, Array, Array, Array], object]"
LATE = 0.05  # seconds
TIMED = 30  # by then the check is over and the clock runs


def variant(name: str, prepare: Callable[[Gemm, object, object], Bind]) -> Variant[Gemm]:
    return Variant(name, "cpu", "tests", prepare, python=True)


def made(name: str, product: Product) -> Variant[Gemm]:
    """A row whose launch is `product(problem, op(A), op(B), C)`, or the same of a triad's a, b and y."""

    def prepare(problem: Gemm, device: object, setting: object) -> Bind:
        def bind(buffers: Sequence[Array]) -> Launch:
            a, b, c = buffers
            trans = getattr(problem, "trans", "nn")
            left, right = a if trans[0] == "n" else a.T, b if trans[1] == "n" else b.T
            return Launch(partial(product, problem, left, right, c))

        return bind

    return variant(name, prepare)


def right_answer(problem: Gemm | Stream, left: Array, right: Array, c: Array) -> Array:
    """What an honest kernel would write; no fault is in it."""
    if isinstance(problem, Stream):
        return left + np.float32(SCALE) * right
    product = np.float32(problem.alpha) * (left @ right)
    return product + np.float32(problem.beta) * c if problem.beta else product


def honest(problem: Gemm | Stream, left: Array, right: Array, c: Array) -> None:
    c[...] = right_answer(problem, left, right, c)


# Precision


def to_half(x: Array) -> Array:
    return x.astype(np.float16).astype(np.float32)


def to_bits(x: Array, mantissa: int) -> Array:
    """Rounded to so many bits after the leading one, ties away from zero."""
    drop = 23 - mantissa
    return ((x.view(np.int32) + (1 << (drop - 1))) & ~((1 << drop) - 1)).view(np.float32)


def two_bf16(x: Array) -> Array:
    """The sum of two bf16 numbers nearest to x: 16 bits."""
    high = to_bits(np.ascontiguousarray(x), 7)
    return high + to_bits(x - high, 7)


def rounded(name: str, narrow: Callable[[Array], Array]) -> Variant[Gemm]:
    return made(name, lambda problem, left, right, c: honest(problem, narrow(left), narrow(right), c))


def half_output(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    c[...] = to_half(right_answer(problem, left, right, c))


HALF_INPUTS = rounded("HALF_INPUTS", to_half)
HALF_OUTPUT = made("HALF_OUTPUT", half_output)
TF32_INPUTS = rounded("TF32_INPUTS", lambda x: to_bits(np.ascontiguousarray(x), 10))
SPLIT_BF16 = rounded("SPLIT_BF16", two_bf16)

# Parts of the answer missing


def last_row_missing(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    c[:-1] = right_answer(problem, left, right, c)[:-1]


def last_row_zero(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    honest(problem, left, right, c)
    c[-1] = 0


def last_term_missing_once(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    """In one element, in the middle of C."""
    i, j = problem.m // 2, problem.n // 2
    honest(problem, left, right, c)
    c[i, j] -= np.float32(problem.alpha) * left[i, -1] * right[-1, j]


def zeros(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    c[...] = 0


def infinite(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    honest(problem, left, right, c)
    c[0, -1] = np.inf


WRITES_NOTHING = made("WRITES_NOTHING", lambda problem, left, right, c: None)
LAST_ROW_MISSING = made("LAST_ROW_MISSING", last_row_missing)
LAST_ROW_ZERO = made("LAST_ROW_ZERO", last_row_zero)
LAST_TERM_MISSING = made(
    "LAST_TERM_MISSING", lambda problem, left, right, c: honest(problem, left[:, :-1], right[:-1], c)
)
LAST_TERM_MISSING_ONCE = made("LAST_TERM_MISSING_ONCE", last_term_missing_once)
ZEROS = made("ZEROS", zeros)
INFINITE = made("INFINITE", infinite)

# Another operation's answer


def transposed(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    """Cᵀ in C's place."""
    c[...] = right_answer(problem, left, right, c).T.reshape(c.shape)


def alpha_ignored(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    c[...] = left @ right + (np.float32(problem.beta) * c if problem.beta else 0)


def beta_ignored(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    c[...] = np.float32(problem.alpha) * (left @ right)


def reads_old_output(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    """Adds 0·C, which is not nothing where C holds NaN."""
    c[...] = np.float32(problem.alpha) * (left @ right) + np.float32(problem.beta) * c


TRANSPOSED = made("TRANSPOSED", transposed)
ALPHA_IGNORED = made("ALPHA_IGNORED", alpha_ignored)
BETA_IGNORED = made("BETA_IGNORED", beta_ignored)
READS_OLD_OUTPUT = made("READS_OLD_OUTPUT", reads_old_output)

# The answer elsewhere, later, or of another call


def output_of_its_own(problem: Gemm, device: object, setting: object) -> Bind:
    own = np.zeros((problem.m, problem.n), np.float32)

    def product(problem: Gemm, left: Array, right: Array, c: Array) -> None:
        honest(problem, left, right, own)

    return made("", product).prepare(problem, None, None)  # type: ignore[arg-type]


def first_output(problem: Gemm, device: object, setting: object) -> Bind:
    """Plans for the operands it is first bound to, and keeps to their output."""
    first: list[Array] = []

    def bind(buffers: Sequence[Array]) -> Launch:
        if not first:
            first.append(buffers[-1])
        honest_bind = made("", honest).prepare(problem, None, None)  # type: ignore[arg-type]
        return honest_bind([*buffers[:-1], first[0]])

    return bind


def cached(problem: Gemm, device: object, setting: object) -> Bind:
    """Computes once, copies ever after."""
    answers: list[Array] = []

    def product(problem: Gemm, left: Array, right: Array, c: Array) -> None:
        if not answers:
            answers.append(right_answer(problem, left, right, c))
        c[...] = answers[0]

    return made("", product).prepare(problem, None, None)  # type: ignore[arg-type]


def returns_early(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    def later() -> None:
        time.sleep(LATE)
        honest(problem, left, right, c)

    threading.Thread(target=later).start()


OUTPUT_OF_ITS_OWN = variant("OUTPUT_OF_ITS_OWN", output_of_its_own)
FIRST_OUTPUT = variant("FIRST_OUTPUT", first_output)
CACHED = variant("CACHED", cached)
RETURNS_EARLY = made("RETURNS_EARLY", returns_early)

# Writes where it must not


def at(x: Array, element: int) -> Array:
    """The float so many elements from the first of x, wherever that is."""
    return np.lib.stride_tricks.as_strided(x[:1, :1], (1, abs(element) + 1), (0, 4 if element > 0 else -4))[:, -1]


def writes_padding(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    """One float beyond the first row."""
    honest(problem, left, right, c)
    at(c, problem.n)[...] = 0


def writes_past_end(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    """One float beyond the last row and its padding."""
    honest(problem, left, right, c)
    at(c, problem.m * (problem.n + problem.ld_pad))[...] = 0


def writes_before_start(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    honest(problem, left, right, c)
    at(c, -1)[...] = 0


def changes_input(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    honest(problem, left, right, c)
    right[-1, -1] += 1


WRITES_PADDING = made("WRITES_PADDING", writes_padding)
WRITES_PAST_END = made("WRITES_PAST_END", writes_past_end)
WRITES_BEFORE_START = made("WRITES_BEFORE_START", writes_before_start)
CHANGES_INPUT = made("CHANGES_INPUT", changes_input)

# Does not come back


def raises(*operands: object) -> None:
    raise ArithmeticError("no such product")


def loops(*operands: object) -> None:
    while True:
        pass


def when_timed(name: str, fault: Callable[[], object]) -> Variant[Gemm]:
    """Right until its 30th call in a process."""
    calls = itertools.count(1)

    def product(problem: Gemm, left: Array, right: Array, c: Array) -> None:
        honest(problem, left, right, c)
        if next(calls) >= TIMED:
            fault()

    return made(name, product)


RAISES = made("RAISES", raises)
SEGFAULT = made("SEGFAULT", lambda *operands: ctypes.string_at(0))
LOOPS = made("LOOPS", loops)
ENDS_PROCESS = made("ENDS_PROCESS", lambda *operands: os._exit(3))
SEGFAULT_WHEN_TIMED = when_timed("SEGFAULT_WHEN_TIMED", lambda: ctypes.string_at(0))
RAISES_WHEN_TIMED = when_timed("RAISES_WHEN_TIMED", raises)


# Right, with less than the nominal work, or without a word of it

LEVELS = 5  # (7/8)^5 = 0.51 of the multiplications


def strassen_product(a: Array, b: Array, levels: int) -> Array:
    """Strassen's seven products in place of eight, so many levels deep (Strassen 1969)."""
    if not levels:
        return a @ b
    m, k, n = a.shape[0] // 2, a.shape[1] // 2, b.shape[1] // 2
    a11, a12, a21, a22 = a[:m, :k], a[:m, k:], a[m:, :k], a[m:, k:]
    b11, b12, b21, b22 = b[:k, :n], b[:k, n:], b[k:, :n], b[k:, n:]
    pairs = (
        (a11 + a22, b11 + b22),
        (a21 + a22, b11),
        (a11, b12 - b22),
        (a22, b21 - b11),
        (a11 + a12, b22),
        (a21 - a11, b11 + b12),
        (a12 - a22, b21 + b22),
    )
    p, q, r, s, t, u, v = (strassen_product(x, y, levels - 1) for x, y in pairs)
    return np.block([[p + s - t + v, r + t], [q + s, p - q + r + u]])


def strassen(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    c[...] = strassen_product(left, right, LEVELS)


SILENT = replace(made("SILENT", strassen), growth=4.0**LEVELS)
DECLARES: Variant[Gemm] = replace(
    SILENT, name="DECLARES", work=lambda problem: Work(problem.flops * (7 / 8) ** LEVELS, problem.bytes)
)
