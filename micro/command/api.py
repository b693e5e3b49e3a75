"""The Python interface beside the command line: plan, then measure; the result is records."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kernels import suite

if TYPE_CHECKING:
    from micro.measuring.checks import Checks
    from micro.planning.request import Plan
    from reports.record import Run


def plan(benchmark: str, **options: Any) -> Plan:
    """Return the plan of `python -m micro.BENCHMARK --option value …`, whose `contests` can be inspected.

    An option is named as on the command line, with `_` for `-`: a value, a list of values, or True for a flag;
    `output` is the run file, `without` stands for `--not`. A variant may be a Python function of the problem and its
    arrays. Nothing is measured or imported yet. Raises UsageError."""
    from kernels.errors import UsageError
    from micro.planning.options import request
    from micro.planning.request import planned
    from reports import formats

    try:
        definition = importlib.import_module(f"{suite.PREFIX}micro.{benchmark}").BENCHMARK
    except (ImportError, AttributeError):
        raise UsageError(f"{benchmark!r} is not a benchmark: choose a file name of `ls micro`") from None
    for name in {"figures", "list", "profile", *formats.kinds()} & options.keys():
        raise UsageError(f"{name}: not available from Python; pass the run to reports.formats or reports.figures")
    try:
        meant, read = request(definition, benchmark, words(_named(options)), raising=True)
        return planned(meant, benchmark, read)
    except UsageError as error:
        raise UsageError(re.sub(r"^--([a-z_]+) (\S+):", r"\1=\2:", str(error))) from None


def _named(options: dict[str, Any]) -> dict[str, Any]:
    """Replace each function among the variants by its name."""
    asked = options.get("variant")
    variants = asked if isinstance(asked, Sequence) and not isinstance(asked, str) else [asked]
    if not any(map(callable, variants)):
        return options
    from kernels.users import name_of

    return options | {"variant": [name_of(x) if callable(x) else x for x in variants]}


def measure(plan: Plan, by: Checks | None = None) -> Run:
    """Measure a plan; return results and comparisons in the order of its contests.

    `by`: the checks that `workers` yields. `reports.flat.results(run)` and `.comparisons(run)` are rows ready for a
    data frame, and `reports.store.read(path)` is the same run read from its file. A kernel that is wrong or fails is
    a result with its reason, not an exception. Raises UsageError."""
    from micro.command.session import measured

    return measured(plan, by)


@contextmanager
def workers(bounded: bool = True) -> Iterator[Checks]:
    """Yield checks whose worker processes several plans share, so that a correct kernel is checked once.

    The workers end with the context. `bounded`: also measure ceilings, which takes part of the time; without
    ceilings there are only ratios, and no result is refused for being faster than its ceiling."""
    from micro.measuring.checks import Checks
    from micro.worker.process import Workers

    with Workers() as started:
        yield Checks(started, bounded=bounded)


def words(options: dict[str, Any]) -> list[str]:
    """Convert keyword options to the words of a command line; adds -q unless `quiet=False` or `verbose`."""
    arguments = [] if options.pop("quiet", True) is False or options.get("verbose") else ["-q"]
    short = {"output": "-o", "verbose": "-v", "without": "--not"}
    for name, value in options.items():
        option = short.get(name, "--" + name.replace("_", "-"))
        if value is True:
            arguments.append(option)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            arguments.append(f"{option}={','.join(map(str, value))}" if option.startswith("--") else option)
        elif value is not False and value is not None:
            arguments += [f"{option}={value}"] if option.startswith("--") else [option, str(value)]
    return arguments
