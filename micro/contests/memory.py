"""Contests of micro/memory.py: page faults, heaps, bandwidth, latency, cold operands, vectors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kernels.devices import open_device
from kernels.ops.chase.problem import Chase
from kernels.ops.exchange.problem import THREADS, Exchange
from kernels.ops.fma.problem import Fma
from kernels.ops.pages.problem import HUGE_PAGE, SMALL_PAGE, Pages
from kernels.ops.saxpy.problem import WIDTHS, Saxpy
from kernels.ops.stream.problem import Stream
from micro.planning.benchmark import Request
from micro.planning.contest import Contest

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SIZE, COPY, HEAP = (16 * MIB, 128 * MIB, 64 * MIB)  # bytes; glibc's default heap keeps freed blocks below 32 MiB
PAUSES = (0.0, 3.0)  # seconds; a host reclaims free pages after two
BEHIND = 256 * MIB  # bytes freed and touched with it, since pages freed last are allocated first
VECTORS = (256 * KIB, MIB)
VECTOR = 8 * KIB  # of each of two vectors, in the first-level cache
PEAK_STEPS = 16 * 16384  # floats that each dependency chain multiplies, for every vector width
SETS = tuple(4 * KIB << 2 * i for i in range(10))  # 4 KiB … 1 GiB
KNEE = (2 * MIB, 8 * MIB, 12 * MIB, 24 * MIB, 32 * MIB, 48 * MIB, 128 * MIB, 512 * MIB)
FEW_SETS = tuple(x * MIB for x in (2, 4, 8, 12, 16, 24, 32, 64, 128))  # enough to find a knee
PART = 16  # a contest needs up to 8 times its largest working set, and may use half of the free memory
HANDED = {"load": 4096, "add-shared": 128, "add-global": 64}  # steps of a launch: tens of microseconds or more
GRAIN = 3072  # bytes: divisible into one, two or three arrays of whole vectors


def _page(asked: Request) -> tuple[int, ...]:
    return asked.named("page", (SMALL_PAGE, HUGE_PAGE))


def _size(asked: Request, default: int) -> int:
    """Return the requested size, or the question's default."""
    return int(asked.named("size", (default,))[0])


def _sets(asked: Request, sets: Sequence[int]) -> list[int]:
    """Return working sets up to the requested size and the device's memory."""
    most = open_device(asked.settings[0].device).limits().memory // PART
    return [size for size in sets if size <= min(most, _size(asked, most))] or [_size(asked, min(sets))]


def _contest(asked: Request, name: str, question: str, differs: str, problems: Sequence[Any]) -> Contest:
    """Return a contest of the problems, run by variant `c`, or by the device's first variant without it."""
    names = asked.rows(op=problems[0].op)
    return asked.along(name, question, differs, problems, names[0] if names and "c" not in names else "c")


def faults(asked: Request) -> list[Contest]:
    """Return contests of first touch, and of mapping with it, against touched memory; then of copies."""
    size, contests = _size(asked, SIZE), []
    for page in _page(asked):
        rows = [Pages("clear", memory, size, page) for memory in ("touched", "fresh", "mapped")]
        name, question = f"fault/page:{page}/size:{size}", f"what does the first touch of {page} bytes cost?"
        contests.append(_contest(asked, name, question, "memory", rows))
    return [*contests, new(asked)]


def new(asked: Request) -> Contest:
    """Return the contest of a copy into new memory against one into touched memory, in small pages."""
    size = _size(asked, COPY)
    rows = [Pages("copy", memory, size) for memory in ("touched", "fresh")]
    return _contest(asked, f"new/size:{size}", "what does a copy into new memory cost?", "memory", rows)


def idle(asked: Request) -> list[Contest]:
    """Return contests of first touches 0 and 3 seconds after memory was freed.

    Uses huge pages unless others are requested: which small pages the host reclaims varies tenfold from round to
    round."""
    size, question = _size(asked, SIZE), "is memory slower after idle time?"
    granted = asked.case(Pages("clear", "fresh", size, HUGE_PAGE), "c").skip is None
    contests = []
    for page in asked.named("page", (HUGE_PAGE if granted else SMALL_PAGE,)):
        pauses = asked.named("pause", PAUSES)
        rows = [Pages("clear", "fresh", size, page, pause, min(BEHIND, 16 * size)) for pause in pauses]
        contests.append(_contest(asked, f"idle/page:{page}/size:{size}", question, "pause", rows))
    return contests


def heaps(asked: Request, page: int) -> Contest:
    """Return the contest of a heap that keeps freed blocks against the default, which maps large blocks."""
    size = _size(asked, HEAP)
    rows = [Pages("clear", memory, size, page) for memory in ("default", "keep")]
    return _contest(asked, f"heap/page:{page}/size:{size}", "what does a heap that keeps memory save?", "heap", rows)


def allocator(asked: Request) -> list[Contest]:
    """Return contests of heap policies, of huge pages in each policy, and of malloc against mmap."""
    size, contests = _size(asked, HEAP), [heaps(asked, page) for page in _page(asked)]
    for memory in ("default", "keep") if len(_page(asked)) > 1 else ():
        rows = [Pages("clear", memory, size, page) for page in _page(asked)]
        question = "do huge pages speed up a heap?"
        contests.append(_contest(asked, f"heap/memory:{memory}/size:{size}", question, "page", rows))
    rows = [Pages("map", memory, size) for memory in ("mapped", "default")]
    return [*contests, _contest(asked, f"heap/map/size:{size}", "what does malloc add to mmap?", "memory", rows)]


def bandwidth(asked: Request) -> list[Contest]:
    """Return a contest of read, copy and triad per working set."""
    contests = []
    for size in _sets(asked, SETS):
        rounded = max(GRAIN, size // GRAIN * GRAIN)
        rows = [Stream(kind, rounded // n) for kind, n in (("read", 1), ("copy", 2), ("triad", 3))]
        differs = "work: differs (bytes a second are compared)"
        contests.append(_contest(asked, f"bandwidth/working-set:{size}", "how fast is traffic?", differs, rows))
    return contests


def loads(asked: Request, sets: Sequence[int] = tuple(sorted({*SETS, *KNEE}))) -> list[Contest]:
    """Return a contest of dependent loads per working set: huge against small pages."""
    question, rows = "how long does a load take?", {x: [Chase(x, y) for y in _page(asked)] for x in _sets(asked, sets)}
    return [_contest(asked, f"latency/working-set:{size}", question, "page", each) for size, each in rows.items()]


def exchange(asked: Request) -> list[Contest]:
    """Return contests of word exchange between GPU threads: bank conflicts, shuffles, atomic additions."""
    rows = asked.rows(op=Exchange.op)
    if not rows:
        return []
    cores = open_device(asked.settings[0].device).limits().cores
    most = max(1, _size(asked, 4 * THREADS * max(HANDED.values())) // (4 * THREADS))  # steps of 4 bytes a thread
    steps = {how: min(many, most) for how, many in HANDED.items()}
    near = Exchange("load", 1, steps["load"], cores)
    asks = {
        "load": ("what do bank conflicts cost?", (1, 2, 4, 8, 16, 32)),
        "add-shared": ("what do atomic additions to the same words cost?", (THREADS, 32, 1)),
        "add-global": (
            "what do atomic additions of all blocks to the same words cost?",
            (THREADS * cores, THREADS, 32, 1),
        ),
    }
    contests = [
        asked.along(
            f"exchange/{how}",
            question,
            "spread",
            [Exchange(how, spread, steps[how], cores) for spread in dict.fromkeys(spreads)],
            rows[0],
        )
        for how, (question, spreads) in asks.items()
    ]
    swaps = replace(near, how="shuffle")
    question = "how long does a shuffle take, relative to a load?"
    return [
        *contests,
        Contest("exchange/shuffle", question, "how", tuple(asked.case(x, rows[0]) for x in (near, swaps))),
    ]


def cold(asked: Request, vectors: Sequence[int] = VECTORS) -> list[Contest]:
    """Return contests of operands flushed line by line, or evicted by a sweep, against cached operands."""
    question, sizes = "what do cold operands cost?", dict.fromkeys(min(x, _size(asked, x)) for x in vectors)
    rows = {size: [Saxpy(size, state) for state in ("warm", "flushed", "swept")] for size in sizes}
    return [_contest(asked, f"cold/vector:{size}", question, "state", each) for size, each in rows.items()]


def simd(asked: Request) -> list[Contest]:
    """Return contests of an update in the first-level cache, and of FMA peaks, by vector width."""
    vector = min(VECTOR, _size(asked, VECTOR))
    rows = [asked.case(Saxpy(vector, "warm"), name) for name in WIDTHS]
    pairs = (*((0, i) for i in range(1, len(rows))), (len(rows) - 2, len(rows) - 1))
    update = Contest(f"simd/vector:{vector}", "how much faster are wider vectors?", "variant", tuple(rows), pairs)
    peaks = [Fma(name, PEAK_STEPS // lanes) for name, lanes in (("avx2", 8), ("avx512", 16))]
    return [update, _contest(asked, "simd/peak", "how fast are multiply-adds?", "isa", peaks)]


def overview(asked: Request) -> list[Contest]:
    """Return a half-minute selection of the contests on faults, heaps, cold operands and latency."""
    return [*faults(asked), heaps(asked, _page(asked)[0]), *cold(asked, VECTORS[:1]), *loads(asked, FEW_SETS)]
