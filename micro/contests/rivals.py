"""Kernels that differ, on every path that a contest can take: repeated cases of the self-test.

Twins (a kernel against itself) react alike to clocks, caches and packing buffers; rivals do not, and their ratio may
change in the next run. All installations have these kernels; what a machine lacks is skipped. A kernel called by Python
has no twin: it cannot be called twice in one launch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kernels.ops.gemm import Gemm
from kernels.ops.stream import Stream
from kernels.setting import Setting
from micro.contests.selftest import NAME
from micro.planning.contest import Case, Contest
from reports.next_run import CPU, FIXED, LOCKSTEP, ONE_LOOK, PYTHON, THREADS, WALL

BASE = {WALL, CPU}  # paths that exclude all others
TWO = Setting(threads=2)


@dataclass(frozen=True)
class Rival:
    """A pair of cases, the timing path that they shall take, and the measuring time that leads to it."""

    path: str
    name: str
    cases: tuple[Case, Case]
    seconds: float
    twin: bool = False

    def contest(self, number: int) -> Contest:
        """Return the contest of the run with this number."""
        name = f"{NAME}/rival/{self.path.replace(' ', '-')}/{self.name}/{number}"
        return Contest(
            name, "does the next run give the same result?", "nothing" if self.twin else "kernel", self.cases
        )

    def took(self, path: tuple[str, ...]) -> bool:
        """Return whether `path`, the timing path that a contest took, is the rival's."""
        return path == (self.path,) if self.path in BASE else self.path in path


# Sizes and seconds are such that a core of 60 to 280 GFLOP/s takes the path; runs on another path do not count.
SECONDS = {WALL: 1.0, CPU: 3.5, ONE_LOOK: 1.0, FIXED: 3.0, PYTHON: 1.0, THREADS: 1.5, LOCKSTEP: 1.5}
QUICK = {WALL: 1, CPU: 1, ONE_LOOK: 1, FIXED: 0, PYTHON: 1, THREADS: 1, LOCKSTEP: 1}  # pairs of a path, without --full
RUNS = {False: 3, True: 20}  # of each pair: quick, --full


def rivals(cores: int, full: bool) -> list[Rival]:
    """Return a few rivals per path, or with `full` all and their twins; on one core without threads."""
    every = [x for x in _all() if cores > 1 or all(case.setting.threads == 1 for case in x.cases)]
    if full:
        return every
    chosen: list[Rival] = []
    for rival in every:
        if not rival.twin and sum(x.path == rival.path for x in chosen) < QUICK[rival.path]:
            chosen.append(rival)
    return chosen


def _all() -> Iterator[Rival]:
    yield from _small()
    yield from _products(CPU, 512, 768, 512)
    yield _pair(CPU, "memcpy/c copy 2×24 MiB", Case(Stream("copy", 24 << 20), "c"), "memcpy")
    yield from _products(ONE_LOOK, 512, 768, 1024)
    yield _pair(ONE_LOOK, "tn/nt", Case(Gemm(512, 768, 1024, "nt"), "openblas"), trans="tn")
    yield from _products(FIXED, 448, 4096, 4096)
    yield _pair(FIXED, "tn/nt", Case(Gemm(448, 4096, 4096, "nt"), "openblas"), trans="tn")
    yield from _python()
    yield from _two_threads()
    yield from _lockstep()


def _small() -> Iterator[Rival]:
    """Yield pairs with samples below a millisecond, called from C in one process."""
    yield _pair(WALL, "memcpy/c copy 2×8 KiB", Case(Stream("copy", 8 << 10), "c"), "memcpy")
    yield _pair(WALL, "blocked/openblas 64³", Case(Gemm(64, 64, 64), "openblas"), "blocked")
    yield _pair(WALL, "nt/nn 64³", Case(Gemm(64, 64, 64), "openblas"), trans="nt")
    yield _pair(WALL, "openblas-scipy/openblas 128³", Case(Gemm(128, 128, 128), "openblas"), "openblas-scipy")
    yield _pair(WALL, "memcpy/c copy 2×1 MiB", Case(Stream("copy", 1 << 20), "c"), "memcpy")
    yield _twin(WALL, "twins copy 2×8 KiB", Case(Stream("copy", 8 << 10), "c"))


def _products(path: str, m: int, n: int, k: int) -> Iterator[Rival]:
    """Yield pairs of GEMMs of one size that differ in library or in layout."""
    plain = Case(Gemm(m, n, k), "openblas")
    yield _pair(path, "openblas-scipy/openblas", plain, "openblas-scipy")
    yield _pair(path, "nt/nn", plain, trans="nt")
    yield _pair(path, "tn/nn", plain, trans="tn")
    yield _pair(path, "transpose-then-nn/nt", Case(Gemm(m, n, k, "nt"), "openblas"), "transpose-then-nn")
    yield _twin(path, "twins", plain)


def _python() -> Iterator[Rival]:
    yield _pair(PYTHON, "numpy/openblas 64³", Case(Gemm(64, 64, 64), "openblas"), "numpy")
    yield _pair(PYTHON, "numpy/memcpy copy 2×64 KiB", Case(Stream("copy", 64 << 10), "memcpy"), "numpy")
    yield _pair(PYTHON, "numpy nt/nn 96³", Case(Gemm(96, 96, 96), "numpy"), trans="nt")
    yield _pair(PYTHON, "numpy/openblas 8×512×512", Case(Gemm(8, 512, 512), "openblas"), "numpy")
    yield _pair(PYTHON, "numpy/c copy 2×1 MiB", Case(Stream("copy", 1 << 20), "c"), "numpy")


def _two_threads() -> Iterator[Rival]:
    """Yield pairs that share one thread pool; two pools would need two workers."""
    for m, layouts in ((256, "nt nn"), (384, "tn nn"), (320, "tt nt"), (512, "nt nn")):
        contender, baseline = layouts.split()
        plain = Case(Gemm(m, m, m, baseline), "openblas", TWO)
        yield _pair(THREADS, f"{contender}/{baseline} {m}³", plain, trans=contender)
    yield _pair(
        THREADS, "transpose-then-nn/nt 384³", Case(Gemm(384, 384, 384, "nt"), "openblas", TWO), "transpose-then-nn"
    )
    yield _twin(THREADS, "twins 256³", Case(Gemm(256, 256, 256), "openblas", TWO))


def _lockstep() -> Iterator[Rival]:
    """Yield pairs with different process state, so that each case has a separate worker."""
    keep, avx2 = Setting(heap="keep"), Setting(isa="avx2")
    yield _pair(LOCKSTEP, "isa avx2/default 256³", Case(Gemm(256, 256, 256), "openblas"), setting=avx2)
    yield _pair(LOCKSTEP, "isa avx2/default 64³", Case(Gemm(64, 64, 64), "openblas"), setting=avx2)
    yield _pair(LOCKSTEP, "heap keep/default numpy 128³", Case(Gemm(128, 128, 128), "numpy"), setting=keep)
    yield _pair(LOCKSTEP, "blocked keep/openblas 128³", Case(Gemm(128, 128, 128), "openblas"), "blocked", setting=keep)
    yield _pair(LOCKSTEP, "memcpy keep/c copy 2×1 MiB", Case(Stream("copy", 1 << 20), "c"), "memcpy", setting=keep)
    yield _pair(
        LOCKSTEP, "twins heap keep/default 128³", Case(Gemm(128, 128, 128), "openblas"), setting=keep, twin=True
    )


def _pair(
    path: str,
    name: str,
    first: Case,
    variant: str = "",
    *,
    trans: str = "",
    setting: Setting | None = None,
    twin: bool = False,
) -> Rival:
    """Return the pair of a case and the same case with another variant, layout or setting."""
    problem = first.problem
    if trans:
        assert isinstance(problem, Gemm)
        problem = Gemm(problem.m, problem.n, problem.k, trans)
    second = Case(problem, variant or first.variant, setting or first.setting)
    return Rival(path, name, (first, second), SECONDS[path], twin)


def _twin(path: str, name: str, case: Case) -> Rival:
    cases = tuple(Case(case.problem, f"{case.variant}*1{letter}", case.setting) for letter in ("", "~b"))
    return Rival(path, name, (cases[0], cases[1]), SECONDS[path], True)
