"""The command line that all benchmarks share; the options of an axis come from the problem's fields."""

from __future__ import annotations

import argparse
import io
import os
import signal
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import NoReturn

from kernels.errors import KernelError, SuiteError, UsageError
from micro.planning.contest import Benchmark, Contest
from micro.planning.request import option_of, planned
from reports import formats
from reports.parser import OneLineParser

LADDER = ("plan", "build", "run", "check", "time")
SWEEPING = ("variant", "vary", "shapes", "net", "why", "profile")  # with these no default question is put


class Parser(OneLineParser):
    """To a person in one line; to a caller in Python as an exception."""

    raising = False

    def error(self, message: str) -> NoReturn:
        if self.raising:
            raise UsageError(f"{message}; the options are those of {self.prog} --help")
        super().error(message)


def request(
    benchmark: Benchmark, name: str, argv: Sequence[str] | None = None, raising: bool = False
) -> tuple[Benchmark, argparse.Namespace]:
    """A command line's words, with the default question where it asks nothing else, and the benchmark they mean: one
    of `others` where an axis or a question is named that only it has. The command line, Python and `micro.ab` all
    come this way. Raises UsageError where `raising`; else usage errors end the process."""
    argv = sys.argv[1:] if argv is None else argv
    every = (benchmark, *benchmark.others)
    options = {word[2:].partition("=")[0].replace("-", "_") for word in argv if word.startswith("--")}
    named = options & frozenset().union(*(one.words for one in every))
    meant = next((one for one in every if named <= one.words), benchmark)
    meant = replace(meant, others=tuple(one for one in every if one is not meant))
    arguments = parser(meant, name, raising).parse_args(argv)
    others = (*meant.questions, *SWEEPING, *meant.sweeping)
    if meant.default and all(getattr(arguments, option) in (None, False) for option in others):
        setattr(arguments, meant.default, True)
    return meant, arguments


def parser(benchmark: Benchmark, name: str, raising: bool = False) -> argparse.ArgumentParser:
    """Options of the axes, the questions, and those of every command."""
    made = Parser(
        f"python -m micro.{name}",
        description=benchmark.about,
        allow_abbrev=False,
        epilog="An axis takes a value, a comma list or a range: --m 64,128,256, --m 64:1024:*2.",
    )
    made.raising = raising
    axes = made.add_argument_group("axes")
    for field in fields(benchmark.problem):
        text = field.metadata["help"]
        if field.metadata["choices"]:
            text += f" ({', '.join(field.metadata['choices'])})"
        axes.add_argument(option_of(field.name), metavar="X", help=text)
    axes.add_argument("--variant", metavar="NAMES", help="which kernels, comma-separated (see --list)")
    axes.add_argument(
        "--shapes",
        metavar="FILE",
        type=Path,
        help="problems from JSON, as micro/shapes/fc.json, or from a library's log (MKL, oneDNN, cuBLAS)",
    )
    axes.add_argument("--net", metavar="NAME", help="every product of a network of micro/shapes, or of a file")
    axes.add_argument("--vary", metavar="FIELD", help="contests along this field instead of between variants")
    questions = made.add_argument_group("questions")
    for flag, question in benchmark.questions.items():
        questions.add_argument(option_of(flag), action="store_true", help=question.help.replace("%", "%%"))
    questions.add_argument("--full", action="store_true", help="the question at its full size")
    questions.add_argument("--all", action="store_true", help="the question with everything that belongs to it")
    _common(made)
    made.set_defaults(data=benchmark.data)
    return made


def _common(made: argparse.ArgumentParser) -> None:
    how = made.add_argument_group("how")
    how.add_argument("--device", default="cpu", metavar="NAMES", help="cpu, cuda:0, or both: cpu,cuda:0 (default cpu)")
    how.add_argument("--threads", default="1", metavar="N", help="threads of the libraries (default 1)")
    how.add_argument(
        "--isa",
        default="default",
        metavar="SETS",
        help="instruction sets that libraries may take, such as default,avx2; or an OpenBLAS family, Haswell",
    )
    how.add_argument("--heap", default="default", metavar="POLICIES", help="of glibc's allocator, such as default,keep")
    how.add_argument(
        "--data", default="normal", metavar="KINDS", help="what is multiplied: normal, uniform, integers, zeros"
    )
    how.add_argument(
        "--cold",
        default="",
        metavar="OPERANDS",
        help="operands out of cache, such as a,b; or all (the others are not warmed up)",
    )
    how.add_argument("--budget", metavar="TIME", help="time of measuring for the whole command, such as 20s")
    how.add_argument("--target", default="1%", metavar="SHARE", help="half-width of a ratio to stop at (1%%)")
    how.add_argument("--margin", metavar="SHARE", help="smallest difference that is one (the target; DRAM 4%%)")
    how.add_argument("--only", metavar="REGEX", help="only contests whose name holds this")
    how.add_argument("--not", dest="without", metavar="REGEX", help="no contests whose name holds this")
    how.add_argument("--why", action="store_true", help="explain one case: ceiling, work, kernel, best variant")
    how.add_argument(
        "--profile",
        nargs="?",
        const="",
        metavar="FIFOS",
        help="one warmed launch of one case between two marks; prints the perf line for it",
    )
    how.add_argument("--list", action="store_true", help="print the plan and stop")
    how.add_argument("--until", choices=LADDER, default="time", help="stop after this step")
    out = made.add_argument_group("output")
    out.add_argument("-o", dest="output", metavar="FILE", type=Path, help="write the run file, JSON lines")
    out.add_argument("--resume", action="store_true", help="go on with the run in -o FILE, if there is one")
    out.add_argument(
        "--keep-wrong", action="store_true", help="keep the operands of a wrong kernel beside the run file"
    )
    for name in formats.kinds():
        if name == "text":
            continue  # what a person reads is always printed
        out.add_argument(f"--{name}", metavar="FILE", help=f"write {name} (- is stdout)")
    out.add_argument("--figures", metavar="DIR", type=Path, help="draw pictures into this folder")
    volume = out.add_mutually_exclusive_group()
    volume.add_argument("-q", dest="quiet", action="store_true", help="no progress, the answer alone")
    volume.add_argument("-v", dest="verbose", action="store_true", help="every case with its command")


def main(benchmark: Benchmark, name: str, argv: Sequence[str] | None = None) -> int:
    """Run a benchmark's command line; the exit code. 2 for usage, 1 for a wrong or failed case."""
    meant, arguments = request(benchmark, name, argv)
    return guarded(f"micro.{name}", lambda: _main(meant, name, arguments))


def listed(contests: Iterable[Contest]) -> int:
    """`--list`: each contest with its cases; the exit code."""
    for contest in contests:
        print(f"{contest.name} (differs: {contest.differs})")
        for case in contest.cases:
            print(f"  {case.name}" + (f"  skipped: {case.skip}" if case.skip else ""))
    return 0


def guarded(name: str, body: Callable[[], int]) -> int:
    """The body's exit code, or that of what ended it, told in one line. A terminated command ends like an
    interrupted one, its workers with it."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that knows no × gets a question mark
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


def _main(benchmark: Benchmark, name: str, arguments: argparse.Namespace) -> int:
    plan = planned(benchmark, name, arguments)
    if arguments.list:
        return listed(plan.contests)
    if arguments.profile is not None:
        from micro.command import environment, profile

        return profile.run(plan.contests, arguments.profile, environment.command_line())
    from micro.command.session import run  # heavy: only now

    return run(plan)
