"""A command line's words to contests: what was asked, in the terms of the plan. Opens no device."""

from __future__ import annotations

import argparse
import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

from kernels import heap, isa
from kernels.catalog import find
from kernels.devices import KERNELS, check_name, missing, runs
from kernels.dtypes import DATA
from kernels.errors import UsageError
from kernels.launch import Setting
from micro.planning.contest import SETTINGS, Asked, Benchmark, Budget, Contest, along, by_variant, problems, values

if TYPE_CHECKING:
    from reports.record import Run

SHARE = {"%": 0.01}
TIME = {"ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0}


@dataclass(frozen=True)
class Planned:
    """A command, ready to be measured. `answer` and `refine` are those of its question; `devices` are those
    to be opened, the first of them the one the run is told by; `swept` are the axes that a line which repeats a case
    names."""

    name: str
    contests: tuple[Contest, ...]
    budget: Budget
    arguments: argparse.Namespace
    devices: tuple[str, ...]
    swept: frozenset[tuple[str, str]]
    answer: Callable[[Run], list[str]] = lambda run: []
    refine: Callable[[Run], list[Contest]] = lambda run: []


def planned(benchmark: Benchmark, name: str, arguments: argparse.Namespace) -> Planned:
    """The contests that the words ask for. Raises UsageError."""
    for option in ("resume", "keep_wrong"):
        if getattr(arguments, option) and arguments.output is None:
            raise UsageError(f"{option_of(option)}: it needs a run file, -o FILE")
    asked = _asked(benchmark, arguments)
    devices = tuple(dict.fromkeys(x.device for x in asked.settings if x.device not in asked.absent))
    budget, swept = _budget(benchmark, arguments), benchmark.swept
    question = _question(benchmark, arguments)
    if arguments.why or arguments.profile is not None:
        from micro.answers import why as why_answers

        asked = why_answers.only(asked)
    contests = tuple(_chosen(_contests(benchmark, arguments, asked), arguments))
    if arguments.why:
        from micro.answers import why as why_answers

        explained = why_answers.contest(asked, list(contests))
        return Planned(
            name, (explained,), budget, arguments, devices, swept, partial(why_answers.answer, explained.name)
        )
    if question is None:
        return Planned(name, contests, budget, arguments, devices, swept)
    return Planned(
        name,
        contests,
        budget,
        arguments,
        devices,
        swept,
        question.answer,
        lambda run: [contest for one in _by_device(asked) for contest in question.refine(one, run)],
    )


def _asked(benchmark: Benchmark, arguments: argparse.Namespace) -> Asked:
    hints = get_type_hints(benchmark.problem)
    axes = dict(benchmark.sweep)
    for field in fields(benchmark.problem):
        text = getattr(arguments, field.name)
        if text is not None:
            axes[field.name] = values(text, hints[field.name], option_of(field.name))
    operands = problems(benchmark.problem, {k: v[:1] for k, v in axes.items()})[0].operands()
    devices = values(arguments.device, str, "--device")
    settings = _settings(arguments, devices, [x.name for x in operands])
    if arguments.variant:
        named = values(arguments.variant, str, "--variant")
    else:
        named = tuple(dict.fromkeys(v for device in devices for v in benchmark.rows(runs(device))))
    if not named:
        raise UsageError(f"--device {arguments.device}: nothing here is written for it yet")
    for variant in named:
        find(benchmark.problem.op, variant)
    flags = {flag for flag in (*benchmark.questions, "full", "all") if getattr(arguments, flag)}
    absent = {name: why for name in devices if (why := missing(name))} if len(devices) > 1 else {}
    if len(absent) == len(devices):
        raise UsageError(f"--device {arguments.device}: {'; '.join(absent.values())}")
    given = frozenset(_given(benchmark, arguments))
    return Asked(benchmark.problem.op, axes, named, settings, frozenset(flags), given, absent, arguments.net or "")


def _settings(arguments: argparse.Namespace, devices: Sequence[str], operands: list[str]) -> tuple[Setting, ...]:
    """Threads on each device. A GPU has none of this process's: its kernels are launched from one."""
    from kernels.devices.cpu import cores

    found = []
    cold, threads = _cold(arguments.cold, operands), values(arguments.threads, int, "--threads")
    sets, data = values(arguments.isa, str, "--isa"), values(arguments.data, str, "--data")
    heaps = values(arguments.heap, str, "--heap")
    for word in sets:
        isa.variables(word)
    for word in heaps:
        heap.variables(word)
    for word in data:
        if word not in DATA:
            raise UsageError(f"--data {word}: there are {', '.join(DATA)}")
    for device in devices:
        check_name(device)
        if runs(device) not in KERNELS:
            raise UsageError(f"--device {device}: it plays one of {', '.join(KERNELS)}")
        if runs(device) == "cuda":
            if cold and len(cold) < len(operands):
                raise UsageError(f"--cold {arguments.cold}: {device}'s cache is emptied as a whole: --cold all")
            if sets != ("default",):
                raise UsageError(f"--isa {arguments.isa}: {device} has one instruction set")
            if heaps != ("default",):
                raise UsageError(f"--heap {arguments.heap}: {device} has its memory from its own allocator")
            found += [Setting(1, cold, device, data=word) for word in data]
            continue
        for count in threads:
            if not 1 <= count <= cores():
                raise UsageError(f"--threads {count}: this process may use 1 to {cores()} cores")
            found += [Setting(count, cold, device, *more) for more in itertools.product(sets, data, heaps)]
    return tuple(found)


def _by_device(asked: Asked) -> list[Asked]:
    """What was asked, of each device by itself: a question is put to one at a time."""
    found = []
    for device in dict.fromkeys(setting.device for setting in asked.settings):
        settings = tuple(setting for setting in asked.settings if setting.device == device)
        own = tuple(v for v, setting in asked.pairs() if setting.device == device)
        found.append(replace(asked, settings=settings, variants=tuple(dict.fromkeys(own))))
    return found


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
    if arguments.net:
        if benchmark.net is None:
            raise UsageError("--net: this benchmark has no question for a network")
        chosen.append(benchmark.net)
    if len(chosen) > 1:
        flags = ", ".join(option_of(flag) for flag in benchmark.questions)
        raise UsageError(f"one question at a time: {flags}")
    return chosen[0] if chosen else None


def _contests(benchmark: Benchmark, arguments: argparse.Namespace, asked: Asked) -> list[Contest]:
    question = _question(benchmark, arguments)
    if question:
        contests: list[Contest] = []
        for one in _by_device(asked):
            taken = {contest.name for contest in contests}
            for contest in question.build(one):
                suffix = f"/device:{one.settings[0].device}" if contest.name in taken else ""
                contests.append(replace(contest, name=contest.name + suffix))
        for setting in asked.settings:
            if not contests and (reason := missing(setting.device)):
                raise UsageError(f"--device {setting.device}: {reason}")
        return contests
    found = _shapes(benchmark, arguments.shapes) if arguments.shapes else problems(benchmark.problem, asked.axes)
    if arguments.vary:
        names = [field.name for field in fields(benchmark.problem)] + list(SETTINGS)
        if arguments.vary not in names:
            raise UsageError(f"--vary {arguments.vary}: there are {', '.join(names)}")
        if arguments.shapes:
            found = _spread(benchmark, found, asked, arguments.vary)
        return along(asked, found, arguments.vary)
    return by_variant(asked, found)


def _spread(benchmark: Benchmark, found: list[Any], asked: Asked, field: str) -> list[Any]:
    """Problems of a file, each at every value asked of the varied field."""
    if field in SETTINGS:
        return found
    if field not in asked.axes:
        raise UsageError(f"--vary {field}: give its values, as {option_of(field)} X,Y")
    return [replace(problem, **{field: value}) for problem in found for value in asked.axes[field]]


def _shapes(benchmark: Benchmark, path: Path) -> list[Any]:
    try:
        text = path.read_text("utf-8", errors="replace")
        if not text.lstrip().startswith("{"):
            return _logged(benchmark, path, text)
        rows = _rows(benchmark, text)
    except OSError as error:
        raise UsageError(f"--shapes {path}: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"--shapes {path}: not a list of problems like micro/shapes/fc.json ({error})") from None
    found = []
    for i, row in enumerate(rows, 1):
        try:
            found.append(benchmark.problem(**row))
        except UsageError as error:
            raise UsageError(f"--shapes {path}: problem {i}: {error}") from None
    return found


def _rows(benchmark: Benchmark, text: str) -> list[dict[str, Any]]:
    """The fields of each problem, by name. Raises ValueError."""
    from micro.planning import written

    told = written.parsed(text)
    written.check(told, {"problems": list, "source": str}, ["problems"])
    hints = get_type_hints(benchmark.problem)
    known = {field.name: hints[field.name] for field in fields(benchmark.problem)}
    needed = [field.name for field in fields(benchmark.problem) if field.default is MISSING]
    for i, row in enumerate(told["problems"], 1):
        written.check(row, known | written.REMARKS, needed, f"problem {i}: ")
    return [{name: row[name] for name in known if name in row} for row in told["problems"]]


def _logged(benchmark: Benchmark, path: Path, text: str) -> list[Any]:
    """Problems from what a library logged."""
    from micro.planning.library_log import read

    found = [problem for problem in read(text) if isinstance(problem, benchmark.problem)]
    if not found:
        raise UsageError(
            f"--shapes {path}: neither JSON like micro/shapes/fc.json nor a log with products: run the application "
            "with MKL_VERBOSE=1, ONEDNN_VERBOSE=1 or CUBLAS_LOGINFO_DBG=1"
        )
    return list(found)


def _chosen(contests: list[Contest], arguments: argparse.Namespace) -> list[Contest]:
    try:
        if arguments.only:
            contests = [c for c in contests if re.search(arguments.only, c.name)]
        if arguments.without:
            contests = [c for c in contests if not re.search(arguments.without, c.name)]
    except re.error as error:
        raise UsageError(f"--only/--not: no regular expression: {error}") from None
    if not contests:
        raise UsageError("nothing is left to measure: widen --only, --not or the axes (--list shows the plan)")
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
