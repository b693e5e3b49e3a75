"""A command line's words to contests: what was asked, in the terms of the plan. Opens no device."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, get_type_hints

from kernels.errors import UsageError
from kernels.variant import Setting, find
from micro import _why
from micro._plan import Asked, Benchmark, Budget, Contest, along, by_variant, problems, values
from reports.record import Run

SHARE = {"%": 0.01}
TIME = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0}


@dataclass(frozen=True)
class Planned:
    """A command, ready to be measured. `answer` and `refine` are those of its question."""

    name: str
    contests: tuple[Contest, ...]
    budget: Budget
    arguments: argparse.Namespace
    answer: Callable[[Run], list[str]] = lambda run: []
    refine: Callable[[Run], list[Contest]] = lambda run: []


def planned(benchmark: Benchmark, name: str, arguments: argparse.Namespace) -> Planned:
    """The contests that the words ask for. Raises UsageError."""
    from kernels.devices import check_name

    check_name(arguments.device)
    for option in ("resume", "keep_wrong"):
        if getattr(arguments, option) and arguments.output is None:
            raise UsageError(f"{option_of(option)}: it needs a run file, -o FILE")
    asked = _asked(benchmark, arguments)
    budget = _budget(benchmark, arguments)
    question = _question(benchmark, arguments)
    if arguments.why or arguments.profile is not None:
        asked = _why.only(asked)
    contests = tuple(_chosen(_contests(benchmark, arguments, asked), arguments))
    if arguments.why:
        explained = _why.contest(asked, list(contests))
        return Planned(name, (explained,), budget, arguments, partial(_why.answer, explained.name))
    if question is None:
        return Planned(name, contests, budget, arguments)
    return Planned(
        name, contests, budget, arguments, question.answer, lambda run: question.refine(asked, run)
    )


def _asked(benchmark: Benchmark, arguments: argparse.Namespace) -> Asked:
    hints = get_type_hints(benchmark.problem)
    axes = dict(benchmark.sweep)
    for field in fields(benchmark.problem):
        text = getattr(arguments, field.name)
        if text is not None:
            axes[field.name] = values(text, hints[field.name], option_of(field.name))
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
        flags = ", ".join(option_of(flag) for flag in benchmark.questions)
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
        raise UsageError(f"--vary {field}: give its values, as {option_of(field)} X,Y")
    return [replace(problem, **{field: value}) for problem in found for value in asked.axes[field]]


def _shapes(benchmark: Benchmark, path: Path) -> list[Any]:
    import json

    try:
        rows = json.loads(path.read_bytes())["problems"]
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
        seconds = number(arguments.budget, TIME, "--budget", "20s or 3m")
    margin = number(arguments.margin, SHARE, "--margin", "1%") if arguments.margin else None
    return Budget(seconds, number(arguments.target, SHARE, "--target", "1%"), margin)


def number(text: str, units: dict[str, float], option: str, example: str) -> float:
    """`20s`, `1%`: a positive number in base units; a share is below one. Raises UsageError."""
    match = re.fullmatch(r"([0-9.]+(?:e-?[0-9]+)?)([a-z%]*)", text)
    try:
        value = float(match[1]) * (units[match[2]] if match[2] else 1.0) if match else 0.0
    except (ValueError, KeyError):
        value = 0.0
    if not 0 < value < float("inf") or (units == SHARE and value >= 1):
        raise UsageError(f"{option} {text}: give a positive number such as {example}")
    return value


def option_of(name: str) -> str:
    return "--" + name.replace("_", "-")
