"""What the element-wise kernels promise, measured: `python tests/native/elementwise.py [streams transposes softmax]`.

Each promise is a contest in the suite's own rounds: our copy and triad against the best of their rivals, our
transposition against a copy of the same bytes, our fused softmax with cross-entropy against a read of its working
set. Exit 1 where one is missed for certain.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # also in a checkout that is not installed

from kernels.devices import open_device
from kernels.errors import SuiteError
from kernels.ops.softmax import Softmax
from kernels.ops.stream import Stream
from kernels.ops.transpose import Transpose
from kernels.problem import Problem
from micro.measuring.canary_history import History
from micro.measuring.checks import Checks
from micro.measuring.runner import Runner
from micro.planning.contest import Budget, Case, Contest
from micro.worker.process import Workers
from reports import units
from reports.record import Comparison

PLAIN = f"{Path(__file__).with_name('plain_stream.py')}:ROW"  # STREAM's own loops, as the compiler takes them
SIZES = (64 << 10, 1 << 20, 64 << 20)  # bytes of an array
SQUARES = ((256, 256), (1024, 1024), (2048, 2048), (4096, 2048))
SECONDS = 4.0  # of a contest
COPIERS = ("memcpy", "numpy", "torch", PLAIN)


@dataclass(frozen=True)
class Promise:
    """`ours` does at least `share` of the rate of each rival. `bytes_of_both`: the ratio of the bytes that they move,
    where that is not one."""

    what: str
    share: float
    ours: Case
    rivals: tuple[Case, ...]
    bytes_of_both: float = 1.0


def streams() -> Iterator[Promise]:
    for size in SIZES:
        for kind, names in (("copy", COPIERS), ("triad", (PLAIN,))):
            problem = Stream(kind, size)
            what = f"{kind} of {units.binary(size)}"
            yield Promise(what, 0.95, Case(problem, "c"), tuple(Case(problem, name) for name in names))


def transposes() -> Iterator[Promise]:
    for rows, cols in SQUARES:
        copy = Case(Stream("copy", 4 * rows * cols), "c")
        yield Promise(f"transposition of {rows}×{cols}", 0.9, Case(Transpose(rows, cols), "tiled"), (copy,))


def softmax() -> Iterator[Promise]:
    """The bytes in and out against as many that are only read."""
    for want in ("step", "loss"):
        problem = Softmax(64, 26752, want=want)
        read = Stream("read", problem.footprint // 64 * 64)
        yield Promise(
            f"softmax with cross-entropy, 64×26752, {want}",
            0.8,
            Case(problem, "c"),
            (Case(read, "c"),),
            problem.bytes / read.bytes,
        )


def measured(workers: Workers, promise: Promise) -> list[tuple[str, Comparison]]:
    """Each rival's name, and its time over ours."""
    cases = (promise.ours, *promise.rivals)
    limits = {"cpu": open_device("cpu").limits()}
    contest = Contest(promise.what, "is it as promised?", "work: differs (operation)", cases)
    told = Runner(Checks(workers), limits, History("none")).run(contest, SECONDS, Budget(SECONDS))
    names = [case.variant.rpartition("/")[2] for case in promise.rivals]
    return list(zip(names, told.comparisons, strict=True))


def say(promise: Promise, found: Sequence[tuple[str, Comparison]]) -> tuple[str, bool]:
    """The rate of ours over that of the best rival, and whether it may be what was promised."""
    known = [(name, x) for name, x in found if x.ratio and x.low and x.high]
    if not known:
        return f"{promise.what}: nothing could be measured: {found[0][1].reason}", False
    name, best = min(known, key=lambda x: x[1].ratio or 0.0)
    assert best.ratio and best.low and best.high
    rate, low, high = (promise.bytes_of_both * x for x in (best.ratio, best.low, best.high))
    verdict = "held" if high >= promise.share else "not held"
    against = f"the best of {len(known)}, {name}" if len(found) > 1 else f"a {_operation(promise.rivals[0].problem)}"
    shown = units.ratio(rate, low, high)
    text = f"{promise.what}: {shown} of the rate of {against}; promised {promise.share:g}: {verdict}"
    return text, verdict == "held"


def _operation(problem: Problem) -> str:
    return f"{getattr(problem, 'kind', problem.op)} of {units.binary(problem.footprint)}"


PARTS: dict[str, Callable[[], Iterator[Promise]]] = {"streams": streams, "transposes": transposes, "softmax": softmax}


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser("elementwise.py", description="What the element-wise kernels promise.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    wanted = parser.parse_args(argv).parts or [*PARTS]
    if unknown := set(wanted) - set(PARTS):
        parser.error(f"{sorted(unknown)}: there are {', '.join(PARTS)}")
    all_held = True
    try:
        with Workers() as workers:
            for part in wanted:
                for promise in PARTS[part]():
                    text, held = say(promise, measured(workers, promise))
                    print(text, flush=True)
                    all_held = all_held and held
    except SuiteError as error:
        print(f"elementwise.py: {error}", file=sys.stderr)
        return 2
    return 0 if all_held else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
