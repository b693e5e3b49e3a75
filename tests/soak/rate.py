"""The suite's rate against a plain C loop around the same entry, cblas_sgemm of NumPy's OpenBLAS.

For each size pairs of fresh processes, a worker of the suite and gemm_loop.c, share one core and take turns visit by
visit."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.build import compiler
from kernels.errors import BuildError, LaunchError, Unavailable
from kernels.libs import openblas
from kernels.libs.cblas import symbol
from kernels.ops.gemm.problem import Gemm
from kernels.setting import Setting
from micro.command.figure import Figure
from micro.planning.contest import ACROSS, Case
from micro.worker.client import ask
from micro.worker.messages import Look, Open, Prepare, Settle
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
    """Compile gemm_loop.c into `folder`. Raises BuildError, Unavailable."""
    program = folder / "gemm_loop"
    command = [compiler()[0], "-O2", *flags, str(SOURCE), "-o", str(program), "-ldl", "-lm"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise BuildError(f"gemm_loop.c does not compile: {ran.stderr[:500]}")
    return program


def entry() -> list[str]:
    """Return gemm_loop's first four arguments for NumPy's OpenBLAS. Raises Unavailable."""
    blas = openblas.load("numpy")
    sgemm = symbol(ctypes.CDLL(str(blas.path)), NAMES)
    if sgemm is None:
        raise Unavailable(f"{blas.path.name} exports no cblas_sgemm under a known name")
    threads = sgemm[0].replace("cblas_sgemm", "openblas_set_num_threads")
    return [str(blas.path), sgemm[0], "64" if blas.wide else "32", threads]


def figures() -> Iterator[Figure]:
    """Yield the rate of each size. Raises BuildError, LaunchError, Unavailable."""
    import numpy as np

    rng = np.random.default_rng()
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        for size, rounds in ROUNDS.items():
            yield judged(size, [pair(program, size, rounds, rng) for _ in range(PAIRS)])


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
        """Return the seconds of a call. Raises LaunchError."""
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write("\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # it has said why on stderr
        reply = self._process.stdout.readline()
        if not reply:
            raise LaunchError(f"gemm_loop ends with exit code {self._process.wait()}")
        return float(reply)

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class Suite:
    """A worker with the same product as its one case; `visit` is what a contest across workers does."""

    def __init__(self, size: int, seed: int) -> None:
        self._worker, self._round = Worker(Setting()), 0
        case = Case(Gemm(size, size, size), "openblas")
        ask(self._worker, Prepare(case), PATIENCE)
        calls = ask(self._worker, Open((case,), (True,), seed), PATIENCE)
        ask(self._worker, Settle(calls, ACROSS), PATIENCE)

    def visit(self) -> float:
        """Return the seconds of a use, by the processor's clock like the loop's: a visit fills a millisecond."""
        look: Any = ask(self._worker, Look(self._round, 1, only=0), PATIENCE)
        self._round += 1
        return float(look.cpu[0, 0])

    def close(self) -> None:
        self._worker.close()


def pair(program: Path, size: int, rounds: int, rng: np.random.Generator) -> Array:
    """Return the logarithms of the loop's time over the suite's in each round, from two fresh processes."""
    import numpy as np

    with closing(Suite(size, int(rng.integers(1 << 31)))) as suite, closing(Loop(program, size)) as loop:
        both = (suite, loop)
        times = np.empty((rounds, 2))
        for row in times:
            for i in rng.permutation(2):
                row[i] = both[i].visit()
    logs: Array = np.log(times[:, 1] / times[:, 0])
    return logs


def judged(size: int, pairs: Sequence[Array]) -> Figure:
    """Return what all pairs say together, and the center of each pair of processes."""
    import numpy as np

    name, promised = f"rate of {size}x{size}x{size} against a C loop", f"at least {PROMISED}"
    rate = stats.interval(np.concatenate(pairs), 0.05)
    if rate is None:
        return Figure(name, "too few rounds for an interval", promised, False)
    centers = sorted(interval.center for logs in pairs if (interval := stats.interval(logs, 0.05)))
    each = " ".join(f"{center:.3f}" for center in centers)
    text = f"{rate.center:.3f} [{rate.low:.3f}, {rate.high:.3f}], pairs of processes {each}"
    return Figure(name, text, promised, rate.high >= PROMISED)
