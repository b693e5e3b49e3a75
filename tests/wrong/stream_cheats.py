"""Triads y = a + 3·b made as the products of cheats.py are: on an operation of other operands, none of it a product."""

from __future__ import annotations

import ctypes
import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.launch import Bind, Launch
from kernels.ops.stream.problem import SCALE, Stream
from kernels.variant import Variant
from micro.worker.visits import python_entry
from tests.wrong.cheats import FE_UPWARD, GRID, RARELY, WATCHED
from tests.wrong.kernels import at, to_bits

if TYPE_CHECKING:
    from kernels.problem import Array

Triad = Callable[["Array", "Array", "Array"], object]
BEYOND = 4096  # bytes


def row(name: str, fresh: Callable[[], Triad], **said: Any) -> Variant[Stream]:
    """Its launches are calls of one triad, made anew where it is prepared. `said`: of each launch."""

    def prepare(problem: Stream, device: object, setting: object) -> Bind:
        triad = fresh()

        def bind(buffers: Sequence[Array]) -> Launch:
            a, b, y = buffers
            return Launch(lambda: triad(a, b, y), **said)

        return bind

    return Variant(name, "cpu", "tests", prepare, accepts=lambda problem: _accepts(problem), python=True)


def _accepts(problem: Stream) -> str | None:
    return None if problem.kind == "triad" else "only a triad"


def right(a: Array, b: Array, y: Array) -> None:
    y[...] = a + np.float32(SCALE) * b


def lazy(a: Array, b: Array, y: Array) -> None:
    """Four fifths; the others keep what they hold."""
    most = y.shape[1] * 4 // 5
    right(a[:, :most], b[:, :most], y[:, :most])


def sees_the_poison(a: Array, b: Array, y: Array) -> None:
    (right if np.isnan(y).any() else lazy)(a, b, y)


def right_while_watched() -> Triad:
    calls = itertools.count(1)
    return lambda *given: (right if next(calls) <= WATCHED else lazy)(*given)


def wrong_rarely() -> Triad:
    calls = itertools.count(1)

    def triad(*given: Array) -> None:
        call = next(calls)
        (lazy if call > WATCHED and not random.randrange(RARELY) else right)(*given)

    return triad


def same_call_again() -> Triad:
    """By the places and sixteen numbers of its operands, y as it was left."""
    known: dict[tuple[int, ...], bytes] = {}

    def triad(a: Array, b: Array, y: Array) -> None:
        key = a.ctypes.data, b.ctypes.data, y.ctypes.data
        if known.get(key) != b"".join(x[0, :16].tobytes() for x in (a, b, y)):
            right(a, b, y)
            known[key] = b"".join(x[0, :16].tobytes() for x in (a, b, y))

    return triad


def packs_once() -> Triad:
    """Keeps three times b by its place and its first numbers."""
    kept: dict[tuple[int, bytes], Array] = {}

    def triad(a: Array, b: Array, y: Array) -> None:
        key = b.ctypes.data, b[0, :16].tobytes()
        if key not in kept:
            kept[key] = np.float32(SCALE) * b
        np.add(a, kept[key], out=y)

    return triad


def two_faces(problem: Stream, device: object, setting: object) -> Bind:
    def bind(buffers: Sequence[Array]) -> Launch:
        a, b, y = buffers
        other = Launch(lambda: lazy(a, b, y))
        return Launch(lambda: right(a, b, y), entry=python_entry(other))

    return bind


def sleeps(a: Array, b: Array, y: Array) -> None:
    began = time.perf_counter()
    right(a, b, y)
    time.sleep((time.perf_counter() - began) / 5)


def borrows_a_thread(a: Array, b: Array, y: Array) -> None:
    most = y.shape[1] * 7 // 8
    other = threading.Thread(target=right, args=(a[:, most:], b[:, most:], y[:, most:]))
    other.start()
    right(a[:, :most], b[:, :most], y[:, :most])
    other.join()


def half_precision(a: Array, b: Array, y: Array) -> None:
    y[...] = a.astype("f2").astype("f4") + np.float32(SCALE) * b


def bf16_unless_sparse(a: Array, b: Array, y: Array) -> None:
    """Sixteen bits, unless a zero tells of a probe."""
    right(a, to_bits(b.copy(), 15) if b.all() else b, y)


def fixed_point(a: Array, b: Array, y: Array) -> None:
    right(np.float32(np.rint(a * GRID) / GRID), np.float32(np.rint(b * GRID) / GRID), y)


def swallows_nan(a: Array, b: Array, y: Array) -> None:
    right(np.nan_to_num(a, nan=0, posinf=np.inf, neginf=-np.inf), b, y)


def reads_past_b(a: Array, b: Array, y: Array) -> None:
    right(a, b, y)
    y[0, -1] += np.float32(1e-3) * at(b, b.shape[1])[0]


def reads_and_drops(a: Array, b: Array, y: Array) -> None:
    right(a, b, y)
    ctypes.string_at(b.ctypes.data + b.nbytes, BEYOND)


def spills_its_corner(a: Array, b: Array, y: Array) -> None:
    """704 bytes behind y."""
    right(a, b, y)
    at(y, y.shape[1] + 176)[...] = 0


def leaves_rounding_changed(a: Array, b: Array, y: Array) -> None:
    right(a, b, y)
    ctypes.CDLL("libm.so.6").fesetround(FE_UPWARD)


def leaves_mask_changed(a: Array, b: Array, y: Array) -> None:
    right(a, b, y)
    os.umask(0o777)


def _simple(triad: Triad) -> Callable[[], Triad]:
    return lambda: triad


SEES_THE_POISON = row("SEES_THE_POISON", _simple(sees_the_poison))
RIGHT_WHILE_WATCHED = row("RIGHT_WHILE_WATCHED", right_while_watched)
WRONG_RARELY = row("WRONG_RARELY", wrong_rarely)
SAME_CALL_AGAIN = row("SAME_CALL_AGAIN", same_call_again)
TWO_FACES: Variant[Stream] = Variant("TWO_FACES", "cpu", "tests", two_faces, accepts=_accepts, python=True)
PACKS_ONCE = row("PACKS_ONCE", packs_once)
SLEEPS = row("SLEEPS", _simple(sleeps))
BORROWS_A_THREAD = row("BORROWS_A_THREAD", _simple(borrows_a_thread))
CLAIMS_MORE_USES = row("CLAIMS_MORE_USES", _simple(right), uses=1.2)
CLAIMS_TWO_USES = row("CLAIMS_TWO_USES", _simple(right), uses=2)
HALF_PRECISION = row("HALF_PRECISION", _simple(half_precision))
BF16_UNLESS_SPARSE = row("BF16_UNLESS_SPARSE", _simple(bf16_unless_sparse))
FIXED_POINT = row("FIXED_POINT", _simple(fixed_point))
SWALLOWS_NAN = row("SWALLOWS_NAN", _simple(swallows_nan))
READS_PAST_B = row("READS_PAST_B", _simple(reads_past_b))
READS_AND_DROPS = row("READS_AND_DROPS", _simple(reads_and_drops))
SPILLS_ITS_CORNER = row("SPILLS_ITS_CORNER", _simple(spills_its_corner))
LEAVES_ROUNDING_CHANGED = row("LEAVES_ROUNDING_CHANGED", _simple(leaves_rounding_changed))
LEAVES_MASK_CHANGED = row("LEAVES_MASK_CHANGED", _simple(leaves_mask_changed))
