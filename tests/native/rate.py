"""The suite's rate against a plain C loop around the same entry, cblas_sgemm of NumPy's OpenBLAS.

Run as `python tests/native/rate.py [SIZE …]`: for each size pairs of fresh processes, a worker of the suite
and gemm_loop.c, share one core and take turns visit by visit. Exit 1 where the suite is slower than promised.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # also in a checkout that is not installed

from kernels.build import compiler
from kernels.errors import BuildError, LaunchError, SuiteError, Unavailable
from kernels.libs import openblas
from kernels.libs.cblas import symbol
from kernels.ops.gemm.problem import Gemm
from micro.planning.contest import Case
from micro.planning.protocol import ACROSS
from micro.worker.process import POOLS, Worker
from reports import stats

if TYPE_CHECKING:
    import numpy as np

    from kernels.problem import Array

SOURCE = Path(__file__).with_name("gemm_loop.c")
ROUNDS = {64: 200, 256: 100, 1024: 15}  # of a pair, by the edge of the square product
PAIRS = 5
PROMISED = 0.97  # of the C loop's rate
PATIENCE = 60.0  # seconds
NAMES = ("scipy_cblas_sgemm64_", "scipy_cblas_sgemm", "cblas_sgemm64_", "cblas_sgemm")


def build(folder: Path, flags: Sequence[str] = ()) -> Path:
    """gemm_loop.c compiled into `folder`. Raises BuildError, Unavailable."""
    program = folder / "gemm_loop"
    command = [compiler()[0], "-O2", *flags, str(SOURCE), "-o", str(program), "-ldl", "-lm"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    if told.returncode:
        raise BuildError(f"gemm_loop.c does not compile: {told.stderr[:500]}")
    return program


def entry() -> list[str]:
    """gemm_loop's first four arguments for NumPy's OpenBLAS. Raises Unavailable."""
    blas = openblas.load("numpy")
    found = symbol(ctypes.CDLL(str(blas.path)), NAMES)
    if found is None:
        raise Unavailable(f"{blas.path.name} exports no cblas_sgemm under a known name")
    threads = found[0].replace("cblas_sgemm", "openblas_set_num_threads")
    return [str(blas.path), found[0], "64" if blas.wide else "32", threads]


class Loop:
    """A process of gemm_loop, pinned to the core that a worker of one thread takes."""

    def __init__(self, program: Path, size: int) -> None:
        self._process = subprocess.Popen(
            [str(program), *entry(), *[str(size)] * 3, str(ACROSS)],
            env=os.environ | dict.fromkeys(POOLS, "1"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(self._process.pid, sorted(os.sched_getaffinity(0))[-1:])

    def visit(self) -> float:
        """Seconds of one call. Raises LaunchError."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write("go 1\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has said why on stderr
        told = self._process.stdout.readline()
        if not told:
            raise LaunchError(f"gemm_loop ends with exit code {self._process.wait()}")
        return float(told)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class Suite:
    """A worker with the same product as its one case; `visit` is what a contest across workers does."""

    def __init__(self, size: int, seed: int) -> None:
        self._worker, self._round = Worker("cpu", 1), 0
        case = Case(Gemm(size, size, size), "openblas")
        self._worker.call("prepare", case, patience=PATIENCE)
        calls = self._worker.call("open", (case,), (True,), seed, patience=PATIENCE)
        self._worker.call("settle", calls, ACROSS, patience=PATIENCE)

    def visit(self) -> float:
        """Seconds of one use, by the processor's clock like the loop's: a visit fills a millisecond."""
        look: Any = self._worker.call("look", self._round, 1, 0, patience=PATIENCE)
        self._round += 1
        return float(look.cpu[0, 0])

    def close(self) -> None:
        self._worker.close()


def pair(program: Path, size: int, rounds: int, rng: np.random.Generator) -> Array:
    """Logarithms of the loop's time over the suite's in each round, from two fresh processes."""
    import numpy as np

    with closing(Suite(size, int(rng.integers(1 << 31)))) as suite, closing(Loop(program, size)) as loop:
        both = (suite, loop)
        times = np.empty((rounds, 2))
        for row in times:
            for i in rng.permutation(2):
                row[i] = both[i].visit()
    logs: Array = np.log(times[:, 1] / times[:, 0])
    return logs


def report(size: int, pairs: Sequence[Array]) -> tuple[str, bool]:
    """What the logarithms of all pairs say, in two lines, and whether it is as promised."""
    import numpy as np

    rate = stats.interval(np.concatenate(pairs), 0.05)
    if rate is None:
        return f"{size}x{size}x{size}: too few rounds for an interval", False
    held = rate.high >= PROMISED
    centers = [interval.center for logs in pairs if (interval := stats.interval(logs, 0.05))]
    return (
        f"{size}x{size}x{size}: {rate.center:.3f} [{rate.low:.3f}, {rate.high:.3f}] of the rate of a C loop, "
        f"promised at least {PROMISED}: {'held' if held else 'not held'}\n"
        f"  pairs of processes: {' '.join(f'{center:.3f}' for center in sorted(centers))}"
    ), held


def main(argv: Sequence[str]) -> int:
    import numpy as np

    parser = argparse.ArgumentParser("rate.py", description="The suite's rate against a plain C loop.")
    parser.add_argument("sizes", nargs="*", type=int, metavar="SIZE", help="edges of square products")
    sizes = parser.parse_args(argv).sizes or [*ROUNDS]
    if unknown := set(sizes) - set(ROUNDS):
        parser.error(f"{sorted(unknown)}: there are {[*ROUNDS]}")
    rng, all_held = np.random.default_rng(), True
    try:
        with tempfile.TemporaryDirectory() as folder:
            program = build(Path(folder))
            for size in sizes:
                text, held = report(size, [pair(program, size, ROUNDS[size], rng) for _ in range(PAIRS)])
                print(text, flush=True)
                all_held = all_held and held
    except SuiteError as error:
        print(f"rate.py: {error}", file=sys.stderr)
        return 2
    return 0 if all_held else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
