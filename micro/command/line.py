"""A command from its arguments to its exit code: list, profile or measure; errors are one line."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence

from kernels import suite
from kernels.errors import KernelError, SuiteError
from micro.planning.benchmark import Benchmark
from micro.planning.contest import Contest
from micro.planning.options import Options, request


def main(benchmark: Benchmark, name: str, argv: Sequence[str] | None = None) -> int:
    """Run a benchmark's command line; return the exit code: 2 for usage, 1 for a wrong or failed case."""
    meant, options = request(benchmark, name, argv)
    return guarded(f"micro.{name}", lambda: _main(meant, name, options))


def listed(contests: Iterable[Contest]) -> int:
    """Print each contest with its cases, as `--list` does; return the exit code."""
    for contest in contests:
        print(f"{contest.name} (differs: {contest.differs})")
        for case in contest.cases:
            print(f"  {case.name}" + (f"  skipped: {case.skip}" if case.skip else ""))
    return 0


def guarded(name: str, body: Callable[[], int]) -> int:
    """Run `body`; turn exceptions and signals into one-line messages and exit codes.

    SIGTERM ends the command like an interrupt, and its workers with it."""
    name = suite.typed(name.replace(" ", ".")) if suite.PREFIX else name

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal whose encoding has no × gets a question mark
            stream.reconfigure(errors="replace")
    try:
        return body()
    except SuiteError as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1 if isinstance(error, KernelError) else 2
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:
        from reports.store import Unwritable  # here: records take five milliseconds to import

        if not isinstance(error, Unwritable):
            raise
        print(f"{name}: {error}", file=sys.stderr)
        return 1


def _main(benchmark: Benchmark, name: str, options: Options) -> int:
    from micro.planning.request import planned

    plan = planned(benchmark, name, options)
    if options.listing:
        print(*plan.log, sep="\n", end="\n" * bool(plan.log))
        return listed(plan.contests)
    if options.profile is not None:
        from micro.command import environment, profile

        return profile.run(plan.contests, options.profile, environment.command_line())
    from micro.command.session import run

    return run(plan)
