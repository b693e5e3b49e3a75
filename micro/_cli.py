"""The command line that all benchmarks share; the options of an axis come from the problem's fields."""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn, get_type_hints

from kernels.errors import SuiteError, UsageError
from kernels.variant import Setting, find
from micro._plan import Asked, Benchmark, Budget, Contest, along, by_variant, problems, values

SHARE = {"%": 0.01}
LADDER = ("plan", "build", "run", "check", "time")


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; --help shows the options\n")


def parser(benchmark: Benchmark, name: str) -> argparse.ArgumentParser:
    """Options of the axes, the questions, and those of every command."""
    made = _Parser(
        f"python -m micro.{name}", description=benchmark.about, allow_abbrev=False,
        epilog="An axis takes a value, a comma list or a range: --m 64,128,256, --m 64:1024:*2.",
    )  # fmt: skip
    axes = made.add_argument_group("axes")
    for field in fields(benchmark.problem):
        text = field.metadata["help"]
        if field.metadata["choices"]:
            text += f" ({', '.join(field.metadata['choices'])})"
        axes.add_argument(_option(field.name), metavar="X", help=text)
    axes.add_argument("--variant", metavar="NAMES", help="which kernels, comma-separated (see --list)")
    axes.add_argument(
        "--shapes", metavar="FILE", type=Path, help="problems from a JSON file, as micro/shapes/*.json"
    )
    axes.add_argument("--vary", metavar="FIELD", help="contests along this field instead of between variants")
    questions = made.add_argument_group("questions")
    for flag, question in benchmark.questions.items():
        questions.add_argument(_option(flag), action="store_true", help=question.help)
    questions.add_argument("--full", action="store_true", help="the question at its full size")
    questions.add_argument(
        "--all", action="store_true", help="the question with everything that belongs to it"
    )
    _common(made)
    return made


def _common(made: argparse.ArgumentParser) -> None:
    how = made.add_argument_group("how")
    how.add_argument("--device", default="cpu", help="cpu, fake (default cpu)")
    how.add_argument("--threads", default="1", metavar="N", help="threads of the libraries (default 1)")
    how.add_argument(
        "--cold",
        default="",
        metavar="OPERANDS",
        help="operands out of cache, such as a,b; or all (the others are not warmed up)",
    )
    how.add_argument("--budget", metavar="TIME", help="time of measuring for the whole command, such as 20s")
    how.add_argument("--target", default="1%", metavar="SHARE", help="half-width of a ratio to stop at (1%%)")
    how.add_argument(
        "--margin", metavar="SHARE", help="smallest difference that is one (the target; DRAM 4%%)"
    )
    how.add_argument("--only", metavar="REGEX", help="only contests whose name holds this")
    how.add_argument("--not", dest="without", metavar="REGEX", help="no contests whose name holds this")
    how.add_argument("--list", action="store_true", help="print the plan and stop")
    how.add_argument("--until", choices=LADDER, default="time", help="stop after this step")
    out = made.add_argument_group("output")
    out.add_argument("-o", dest="output", metavar="FILE", type=Path, help="write the run file, JSON lines")
    for name in ("json", "csv", "markdown"):
        out.add_argument(f"--{name}", metavar="FILE", help=f"write {name} (- is stdout)")
    volume = out.add_mutually_exclusive_group()
    volume.add_argument("-q", dest="quiet", action="store_true", help="no progress, the answer alone")
    volume.add_argument("-v", dest="verbose", action="store_true", help="every case with its command")


def main(benchmark: Benchmark, name: str, argv: Sequence[str] | None = None) -> int:
    """Run a benchmark's command line; the exit code. 2 for usage, 1 for a wrong or failed case."""
    arguments = parser(benchmark, name).parse_args(argv)
    end_on_signals()
    try:
        return _main(benchmark, name, arguments)
    except SuiteError as error:
        print(f"micro.{name}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(
            f"micro.{name}: interrupted; contests that had ended are in the run file where -o named one",
            file=sys.stderr,
        )
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141


def _main(benchmark: Benchmark, name: str, arguments: argparse.Namespace) -> int:
    from kernels.devices import check_name

    check_name(arguments.device)
    asked = _asked(benchmark, arguments)
    budget = _budget(benchmark, arguments)
    contests = _chosen(_contests(benchmark, arguments, asked), arguments)
    if arguments.list:
        for contest in contests:
            print(f"{contest.name} (differs: {contest.differs})")
            for case in contest.cases:
                print(f"  {case.name}" + (f"  skipped: {case.skip}" if case.skip else ""))
        return 0
    from micro._session import run  # heavy: only now

    question = _question(benchmark, arguments)
    if question is None:
        return run(name, contests, budget, arguments)
    refine = lambda told: question.refine(asked, told)  # noqa: E731
    return run(name, contests, budget, arguments, question.answer, refine)


def _asked(benchmark: Benchmark, arguments: argparse.Namespace) -> Asked:
    hints = get_type_hints(benchmark.problem)
    axes = dict(benchmark.sweep)
    for field in fields(benchmark.problem):
        text = getattr(arguments, field.name)
        if text is not None:
            axes[field.name] = values(text, hints[field.name], _option(field.name))
    operands = problems(benchmark.problem, {k: v[:1] for k, v in axes.items()})[0].operands()
    settings = tuple(
        Setting(threads, _cold(arguments.cold, [x.name for x in operands]))
        for threads in values(arguments.threads, int, "--threads")
    )
    from kernels.devices.cpu import cores

    for setting in settings:
        if not 1 <= setting.threads <= cores():
            raise UsageError(f"--threads {setting.threads}: this process may use 1 to {cores()} cores")
    named = values(arguments.variant, str, "--variant") if arguments.variant else benchmark.variants
    for variant in named:
        find(benchmark.problem.op, variant)
    flags = {flag for flag in (*benchmark.questions, "full", "all") if getattr(arguments, flag)}
    return Asked(axes, named, settings, frozenset(flags), frozenset(_given(benchmark, arguments)))


def _given(benchmark: Benchmark, arguments: argparse.Namespace) -> list[str]:
    """The axes a person named, `variant` among them."""
    names = [field.name for field in fields(benchmark.problem)] + ["variant"]
    return [name for name in names if getattr(arguments, name) is not None]


def _cold(text: str, operands: list[str]) -> tuple[str, ...]:
    if text == "all":
        return tuple(operands)
    names = tuple(filter(None, text.split(",")))
    for name in names:
        if name not in operands:
            raise UsageError(f"--cold {name}: the operands are {', '.join(operands)}; or all")
    return names


def _question(benchmark: Benchmark, arguments: argparse.Namespace) -> Any:
    chosen = [q for flag, q in benchmark.questions.items() if getattr(arguments, flag)]
    if len(chosen) > 1:
        flags = ", ".join(_option(flag) for flag in benchmark.questions)
        raise UsageError(f"one question at a time: {flags}")
    return chosen[0] if chosen else None


def _contests(benchmark: Benchmark, arguments: argparse.Namespace, asked: Asked) -> list[Contest]:
    question = _question(benchmark, arguments)
    if question:
        contests: list[Contest] = question.build(asked)
        return contests
    found = (
        _shapes(benchmark, arguments.shapes) if arguments.shapes else problems(benchmark.problem, asked.axes)
    )
    if arguments.vary:
        names = [field.name for field in fields(benchmark.problem)] + ["threads"]
        if arguments.vary not in names:
            raise UsageError(f"--vary {arguments.vary}: there are {', '.join(names)}")
        if arguments.shapes:
            found = _spread(benchmark, found, asked, arguments.vary)
        return along(asked, found, arguments.vary)
    return by_variant(asked, found)


def _spread(benchmark: Benchmark, found: list[Any], asked: Asked, field: str) -> list[Any]:
    """Problems of a file, each at every value asked of the varied field."""
    from dataclasses import replace

    if field == "threads":
        return found
    if field not in asked.axes:
        raise UsageError(f"--vary {field}: give its values, as {_option(field)} X,Y")
    return [replace(problem, **{field: value}) for problem in found for value in asked.axes[field]]


def _shapes(benchmark: Benchmark, path: Path) -> list[Any]:
    import json

    try:
        rows = json.loads(path.read_text())["problems"]
        hints = get_type_hints(benchmark.problem)
        names = [field.name for field in fields(benchmark.problem)]
        known = [{name: row[name] for name in names if name in row} for row in rows]
        for row in known:
            for name, value in row.items():
                if type(value) is not hints[name] and not (hints[name] is float and type(value) is int):
                    raise TypeError(f"{name}: {value!r}")
        return [benchmark.problem(**row) for row in known]
    except OSError as error:
        raise UsageError(f"--shapes {path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(
            f"--shapes {path}: not a list of problems like micro/shapes/fc.json ({error})"
        ) from None


def _chosen(contests: list[Contest], arguments: argparse.Namespace) -> list[Contest]:
    try:
        if arguments.only:
            contests = [c for c in contests if re.search(arguments.only, c.name)]
        if arguments.without:
            contests = [c for c in contests if not re.search(arguments.without, c.name)]
    except re.error as error:
        raise UsageError(f"--only/--not: no regular expression: {error}") from None
    if not contests:
        raise UsageError(
            "nothing is left to measure: widen --only, --not or the axes (--list shows the plan)"
        )
    return contests


def _budget(benchmark: Benchmark, arguments: argparse.Namespace) -> Budget:
    question = _question(benchmark, arguments)
    seconds = question.seconds if question else 30.0
    if question and (arguments.full or arguments.all):
        seconds = 240.0
    if arguments.budget is not None:
        seconds = _number(
            arguments.budget, {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0}, "--budget", "20s or 3m"
        )
    margin = _number(arguments.margin, SHARE, "--margin", "1%") if arguments.margin else None
    return Budget(seconds, _number(arguments.target, SHARE, "--target", "1%"), margin)


def _number(text: str, units: dict[str, float], option: str, example: str) -> float:
    match = re.fullmatch(r"([0-9.]+(?:e-?[0-9]+)?)([a-z%]*)", text)
    try:
        value = float(match[1]) * (units[match[2]] if match[2] else 1.0) if match else 0.0
    except (ValueError, KeyError):
        value = 0.0
    if not 0 < value < float("inf") or (units == SHARE and value >= 1):
        raise UsageError(f"{option} {text}: give a positive number such as {example}")
    return value


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def end_on_signals() -> None:
    """A terminated command ends like an interrupted one, its workers with it, and says 143."""

    def end(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)
