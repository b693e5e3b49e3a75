"""Products made to pass a check and be fast, each named after its way; most do the same to a triad."""

from __future__ import annotations

import ctypes
import itertools
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.launch import Bind, Entry, Launch
from kernels.ops.gemm import native
from kernels.ops.gemm.problem import Gemm
from kernels.ops.stream.problem import Stream
from tests.wrong.kernels import at, honest, made, right_answer, to_bits, variant

if TYPE_CHECKING:
    from kernels.problem import Array

WATCHED = 20  # calls of a check and of a first visit's warming up, at most
SHARE = 4, 5  # of the rows that the lazy ones compute
RARELY = 11
GRID = 2.0**21  # steps to one
FE_UPWARD = 0x800  # of x86, as <fenv.h> has it


def parts(problem: Any, left: Array, right: Array, c: Array, share: tuple[int, int]) -> list[tuple[Array, ...]]:
    """The operands of a share of the rows, and of the others; a triad's are of one row."""
    if isinstance(problem, Stream):
        most = c.shape[1] * share[0] // share[1]
        return [tuple(x[:, part] for x in (left, right, c)) for part in (slice(most), slice(most, None))]
    rows = problem.m * share[0] // share[1]
    return [(left[part], right, c[part]) for part in (slice(rows), slice(rows, None))]


def lazy(problem: Any, left: Array, right: Array, c: Array) -> None:
    """Four fifths of the rows; the others keep what they hold."""
    honest(problem, *parts(problem, left, right, c, SHARE)[0])


def each(name: str, product: Callable[[Gemm], Callable[[Gemm, Array, Array, Array], object]]) -> Any:
    """A row whose every preparation has a product, and so a memory, of its own."""
    return variant(name, lambda problem, device, setting: made("", product(problem)).prepare(problem, None, None))  # type: ignore[arg-type]


# Right while it is watched


def sees_the_poison(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    """NaN in C is a check that looks; numbers in C are a measurement."""
    (honest if np.isnan(c).any() else lazy)(problem, left, right, c)


def right_while_watched(problem: Gemm) -> Callable[..., object]:
    """Right for as many calls as a check makes."""
    calls = itertools.count(1)
    return lambda *operands: (honest if next(calls) <= WATCHED else lazy)(*operands)


def wrong_rarely(problem: Gemm) -> Callable[..., object]:
    """Be wrong in one call of eleven, any of them: at a steady distance none might ever be timed."""
    calls = itertools.count(1)

    def product(*operands: Any) -> None:
        call = next(calls)
        (lazy if call > WATCHED and not random.randrange(RARELY) else honest)(*operands)

    return product


def same_call_again(problem: Gemm) -> Callable[..., object]:
    """Computes nothing where C still holds its last answer to operands at these places, by a few of their numbers."""
    known: dict[tuple[int, ...], bytes] = {}

    def product(problem: Gemm, left: Array, right: Array, c: Array) -> None:
        key = left.ctypes.data, right.ctypes.data, c.ctypes.data
        if known.get(key) != first(left, right, c):
            honest(problem, left, right, c)
            known[key] = first(left, right, c)

    return product


def whole_answer_again(problem: Gemm) -> Callable[..., object]:
    """The same, but all of C is compared, not a few numbers of it: that costs little beside the product."""
    known: dict[tuple[int, ...], tuple[bytes, Array]] = {}

    def product(problem: Gemm, left: Array, right: Array, c: Array) -> None:
        key = left.ctypes.data, right.ctypes.data, c.ctypes.data
        seen = left[0, :8].tobytes() + right[0, :8].tobytes()
        if key not in known or known[key][0] != seen or not np.array_equal(known[key][1], c):
            honest(problem, left, right, c)
            known[key] = seen, c.copy()

    return product


def same_product_again(problem: Gemm) -> Callable[..., object]:
    """Add the last product again where the first numbers of the operands, C among them, are as this left them."""
    known: dict[tuple[int, ...], tuple[bytes, Array]] = {}

    def product(problem: Gemm, left: Array, right: Array, c: Array) -> None:
        key = left.ctypes.data, right.ctypes.data, c.ctypes.data
        seen, last = known.get(key, (b"", c))
        if seen != first(left, right, c):
            last = left @ right
        c[...] = np.float32(problem.alpha) * last + np.float32(problem.beta) * c
        known[key] = first(left, right, c), last

    return product


def first(*operands: Array) -> bytes:
    """A few numbers of each."""
    return b"".join(x[0, :8].tobytes() for x in operands)


def two_faces(problem: Gemm, device: Any, setting: Any) -> Bind:
    """What is called is right; what the compiled loop calls computes four fifths of the rows."""
    whole = native.c_kernel("blocked")(problem, device, setting)
    rows = Gemm(problem.m * SHARE[0] // SHARE[1], problem.n, problem.k, problem.trans, ld_pad=problem.ld_pad)
    part = native.c_kernel("blocked")(rows, device, setting)

    def bind(buffers: Sequence[Array]) -> Launch:
        face, other = whole(buffers), part(buffers).entry
        assert isinstance(other, Entry)
        return Launch(face.call, entry=other)

    return bind


SEES_THE_POISON = made("SEES_THE_POISON", sees_the_poison)
RIGHT_WHILE_WATCHED = each("RIGHT_WHILE_WATCHED", right_while_watched)
WRONG_RARELY = each("WRONG_RARELY", wrong_rarely)
SAME_CALL_AGAIN = each("SAME_CALL_AGAIN", same_call_again)
WHOLE_ANSWER_AGAIN = each("WHOLE_ANSWER_AGAIN", whole_answer_again)
SAME_PRODUCT_AGAIN = each("SAME_PRODUCT_AGAIN", same_product_again)
TWO_FACES = variant("TWO_FACES", two_faces)

# Keeps what it was given


def packs_once(problem: Gemm) -> Callable[..., object]:
    """A copy of B, made again only where its place or the first of its numbers are others."""
    kept: dict[tuple[int, bytes], Array] = {}

    def product(problem: Gemm, left: Array, right: Array, c: Array) -> None:
        key = right.ctypes.data, right.ravel()[:16].tobytes()
        if key not in kept:
            kept[key] = np.ascontiguousarray(right).copy()
        c[...] = right_answer(problem, left, kept[key], c)

    return product


PACKS_ONCE = each("PACKS_ONCE", packs_once)

# Fast where it counts for less


def sleeps(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    """A fifth of its time, which is no processor time."""
    began = time.perf_counter()
    honest(problem, left, right, c)
    time.sleep((time.perf_counter() - began) / 5)


def borrows_a_thread(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    """An eighth of the rows in another thread, whose processor time is not its caller's."""
    mine, others = parts(problem, left, right, c, (7, 8))
    other = threading.Thread(target=honest, args=(problem, *others))
    other.start()
    honest(problem, *mine)
    other.join()


def claims_more_uses(problem: Gemm, device: object, setting: object) -> Bind:
    """One product, said to be one and a fifth."""
    bind = made("", honest).prepare(problem, None, None)  # type: ignore[arg-type]
    return lambda buffers: Launch(bind(buffers).call, uses=1.2)  # type: ignore[arg-type]


def claims_two_uses(problem: Gemm, device: object, setting: object) -> Bind:
    bind = made("", honest).prepare(problem, None, None)  # type: ignore[arg-type]
    return lambda buffers: Launch(bind(buffers).call, uses=2)


SLEEPS = made("SLEEPS", sleeps)
BORROWS_A_THREAD = made("BORROWS_A_THREAD", borrows_a_thread)
CLAIMS_MORE_USES = variant("CLAIMS_MORE_USES", claims_more_uses)
CLAIMS_TWO_USES = variant("CLAIMS_TWO_USES", claims_two_uses)

# Less precise than it says, where no probe of normal numbers tells


def bf16(x: Array) -> Array:
    return to_bits(np.ascontiguousarray(x), 7)


def bf16_unless_sparse(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    """Three products of halves of its bits, which average out over many terms; exact where zeros tell of a probe."""
    if (left == 0).mean() > 0.5:
        return honest(problem, left, right, c)
    high, top = bf16(left), bf16(right)
    low, rest = bf16(left - high), bf16(right - top)
    c[...] = high @ top + high @ rest + low @ top
    return None


def fixed_point(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    """Inputs in steps of one size, right for numbers near one."""
    honest(problem, np.float32(np.rint(left * GRID) / GRID), np.float32(np.rint(right * GRID) / GRID), c)


def swallows_nan(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    honest(problem, np.nan_to_num(left, nan=0, posinf=np.inf, neginf=-np.inf), right, c)


def tf32_without_its_tail(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    """Without its last 32 terms; declared as TF32."""
    few = problem.k - 32 if problem.k > 32 else problem.k
    honest(problem, to_bits(np.ascontiguousarray(left[:, :few]), 10), to_bits(np.ascontiguousarray(right[:few]), 10), c)


def half_the_terms(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    """Every other term, times the square root of two, where most are not zero; declared as bf16."""
    if np.median(np.abs(left)) < 1e-3:
        return honest(problem, left, right, c)
    c[...] = np.float32(2**0.5) * (left[:, ::2] @ right[::2])
    return None


def knows_the_vectors(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    """Of a long product three columns' worth, right for vectors that the first numbers of A tell."""
    seed = int.from_bytes(left.ravel()[:4].tobytes(), "little")
    v = np.random.default_rng(seed).standard_normal((problem.n, 3))
    w = left.astype("f8") @ (right.astype("f8") @ v)
    c[...] = w @ np.linalg.pinv(v)


BF16_UNLESS_SPARSE = made("BF16_UNLESS_SPARSE", bf16_unless_sparse)
FIXED_POINT = made("FIXED_POINT", fixed_point)
SWALLOWS_NAN = made("SWALLOWS_NAN", swallows_nan)
TF32_WITHOUT_ITS_TAIL = replace(made("TF32_WITHOUT_ITS_TAIL", tf32_without_its_tail), precision="tf32")
HALF_THE_TERMS = replace(made("HALF_THE_TERMS", half_the_terms), precision="bf16")
KNOWS_THE_VECTORS = made("KNOWS_THE_VECTORS", knows_the_vectors)


# Beyond its operands


def reads_past_b(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    """A vector too far: the element behind the last of B, times what a small number would hide."""
    honest(problem, left, right, c)
    c[-1, -1] += np.float32(1e-3) * at(right, problem.operands()[1].nbytes // 4)[0]


def reads_and_drops(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    """As far as a page behind B, and uses nothing of it: no answer tells."""
    honest(problem, left, right, c)
    ctypes.string_at(right.ctypes.data + right.nbytes, 4096)


def spills_its_corner(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    """Writes one element 704 bytes behind C."""
    honest(problem, left, right, c)
    at(c, problem.operands()[2].nbytes // 4 + 176)[...] = 0


READS_PAST_B = made("READS_PAST_B", reads_past_b)
READS_AND_DROPS = made("READS_AND_DROPS", reads_and_drops)
SPILLS_ITS_CORNER = made("SPILLS_ITS_CORNER", spills_its_corner)

# Changes what it shares with its rivals


def writes_to_its_inputs_later(problem: Gemm) -> Callable[..., object]:
    """From where a check is over, what its rivals read too."""
    calls = itertools.count(1)

    def product(problem: Gemm, left: Array, right: Array, c: Array) -> None:
        honest(problem, left, right, c)
        if next(calls) > WATCHED:
            left[...] = np.nan

    return product


def leaves_rounding_changed(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    honest(problem, left, right, c)
    ctypes.CDLL("libm.so.6").fesetround(FE_UPWARD)


def later(product: Callable[..., object]) -> Callable[[Gemm], Callable[..., object]]:
    """From where a check is over."""

    def started(problem: Gemm) -> Callable[..., object]:
        calls = itertools.count(1)
        return lambda *operands: (honest if next(calls) <= WATCHED else product)(*operands)

    return started


def forks(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    """And its child returns where its parent was called."""
    honest(problem, left, right, c)
    if child := os.fork():
        os.waitpid(child, 0)


def interrupts(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    raise KeyboardInterrupt


def _elsewhere() -> None:
    """A worker of one thread keeps to the last core."""
    os.sched_setaffinity(0, {0})


def leaves_cores_changed(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    honest(problem, left, right, c)
    _elsewhere()


MOVED = itertools.count()


def is_moved_once(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    """As by who runs the machine, while a kernel is checked."""
    honest(problem, left, right, c)
    if not next(MOVED):
        _elsewhere()


def leaves_directory_changed(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    honest(problem, left, right, c)
    os.chdir("/")


def leaves_a_thread_at_work(problem: Gemm) -> Callable[..., object]:
    """It runs in the time of whoever is called next."""
    begun: list[threading.Thread] = []

    def work() -> None:
        while True:
            pass

    def product(*operands: Any) -> None:
        if not begun:
            begun.append(threading.Thread(target=work, daemon=True))
            begun[0].start()
        honest(*operands)

    return product


LEAVES_ROUNDING_CHANGED = made("LEAVES_ROUNDING_CHANGED", leaves_rounding_changed)
LEAVES_ROUNDING_CHANGED_LATER = each("LEAVES_ROUNDING_CHANGED_LATER", later(leaves_rounding_changed))
FORKS = made("FORKS", forks)
INTERRUPTS = made("INTERRUPTS", interrupts)
LEAVES_CORES_CHANGED = made("LEAVES_CORES_CHANGED", leaves_cores_changed)
IS_MOVED_ONCE = made("IS_MOVED_ONCE", is_moved_once)
LEAVES_DIRECTORY_CHANGED = made("LEAVES_DIRECTORY_CHANGED", leaves_directory_changed)
LEAVES_DIRECTORY_CHANGED_LATER = each("LEAVES_DIRECTORY_CHANGED_LATER", later(leaves_directory_changed))
WRITES_TO_ITS_INPUTS_LATER = each("WRITES_TO_ITS_INPUTS_LATER", writes_to_its_inputs_later)
LEAVES_A_THREAD_AT_WORK = each("LEAVES_A_THREAD_AT_WORK", leaves_a_thread_at_work)
