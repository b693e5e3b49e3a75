"""Refusal of options that a plan would not use, since silently ignoring them would mislead."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import Field, asdict, dataclass, fields, replace
from typing import Any

from kernels.errors import UsageError
from kernels.problem import plain
from kernels.setting import ALONG
from micro.planning.benchmark import Benchmark, NothingWritten, Request, default_rows
from micro.planning.contest import Contest
from micro.planning.options import Options, option_of


@dataclass(frozen=True, eq=False)
class AskedQuestion:
    """A question with its request and its contests.

    `build`: returns the contests of any request; `several`: settings that may have several values."""

    benchmark: Benchmark
    asked: Request
    flag: str
    contests: Sequence[Contest]
    build: Callable[[Request], Sequence[Contest]]
    several: tuple[str, ...] = ()

    def same(self, asked: Request) -> bool:
        """Return whether another request builds the same contests; False if it is refused."""
        try:
            return list(self.build(asked)) == list(self.contests)
        except UsageError:
            return False


def refuse_in_question(put: AskedQuestion) -> None:
    """Raise UsageError for options that the contests of a question do not use.

    These are several values of a setting of which a question uses the first; values of axes and variants that no case
    has; and axes and variants that change no contest."""
    for device in dict.fromkeys(setting.device for setting in put.asked.settings):
        settings = [asdict(setting) for setting in put.asked.settings if setting.device == device]
        for name in ALONG:
            several = dict.fromkeys(str(setting[name]) for setting in settings)
            if len(several) > 1 and name not in put.several:
                raise UsageError(f"--{name} {','.join(several)}: {put.flag} allows only one value")
    _refuse_absent(put)
    for axis in fields(put.benchmark.problem):
        if axis.name in put.asked.given:
            _refuse_unused(put, axis)
    if "variant" in put.asked.given:
        _refuse_variants(put)


def refuse_nothing(
    benchmark: Benchmark, asked: Request, flag: str, build: Callable[[Request], Sequence[Contest]]
) -> None:
    """Raise NothingWritten if a question has contests, but none with the named axes and variants."""
    if not asked.given & {"variant", *asked.axes} or not build(replace(asked, given=frozenset())):
        return
    named = {option_of(name): asked.axes[name] for name in asked.axes if name in asked.given}
    if "variant" in asked.given:
        named["--variant"] = asked.variants
    text = " ".join(f"{option} {','.join(map(plain, values))}" for option, values in named.items())
    put = AskedQuestion(benchmark, asked, flag, build(replace(asked, given=frozenset())), build)
    raise NothingWritten(f"{text}: not measured by {flag}; leave one of the two out{_taken(put, *named)}")


def _refuse_absent(put: AskedQuestion) -> None:
    """Raise UsageError for values of axes that no case has.

    If the question measures another operation, only axes of that operation are checked."""
    asked = put.asked
    named = {axis: asked.axes[axis] for axis in asked.axes if axis in asked.given - set(put.benchmark.limiting)}
    every = [case.problem for contest in put.contests for case in contest.cases]
    problems = [asdict(problem) for problem in every if problem.op == asked.op]
    problems = problems or [problem for problem in map(asdict, every) if named.keys() & problem.keys()]
    for beside in ({}, named):  # each axis alone first, so that the error names the one to blame
        for axis, wanted in named.items():
            obeyed = [problem.get(axis) for problem in problems if _as_named(problem, beside, axis)]
            for value in wanted:
                if value not in obeyed:
                    text = f"{option_of(axis)} {plain(value)}"
                    takes = _taken(put, option_of(axis))
                    raise UsageError(f"{text}: not measured by {put.flag}; leave one of the two out{takes}")


def _taken(put: AskedQuestion, *refused: str) -> str:
    """Format the axes that the question obeys; empty if a refused option is among them."""
    taken = [option_of(axis.name) for axis in fields(put.benchmark.problem) if _takes(put, axis)]
    if not taken or set(taken) & set(refused):
        return ""
    return f" ({put.flag} accepts {', '.join(taken)})"


def _takes(put: AskedQuestion, axis: Field[Any]) -> bool:
    """Return whether all contests of the question obey the axis if only this axis is named."""
    asked = replace(put.asked, axes=put.asked.axes | put.benchmark.sweep, given=put.asked.given & {"variant"})
    usual = _values(put.contests, axis.name)
    several = usual if len(usual) > 1 else ()
    for value in (*_others(axis, usual), *several) if usual else ():
        try:
            contests = put.build(
                replace(asked, axes=asked.axes | {axis.name: (value,)}, given=asked.given | {axis.name})
            )
        except UsageError:
            continue
        if _values(contests, axis.name) == (value,):
            return True
    return False


def _values(contests: Sequence[Contest], axis: str) -> tuple[Any, ...]:
    """Return the values of an axis in the cases that have it."""
    problems = (asdict(case.problem) for contest in contests for case in contest.cases)
    return tuple(dict.fromkeys(problem[axis] for problem in problems if axis in problem))


def _as_named(problem: dict[str, Any], named: dict[str, tuple[Any, ...]], but: str) -> bool:
    """Return whether a problem has the values that were named, in every axis but `but`."""
    return all(problem.get(axis) in wanted for axis, wanted in named.items() if axis != but)


def _refuse_unused(put: AskedQuestion, axis: Field[Any]) -> None:
    """Raise UsageError for an axis that changes no contest, if cases have values that were not named."""
    asked, named = put.asked, put.asked.axes[axis.name]
    default = {name: values for name, values in put.benchmark.sweep.items() if name == axis.name}
    rest = {name: values for name, values in asked.axes.items() if name != axis.name}
    if not put.same(replace(asked, axes=rest | default, given=asked.given - {axis.name})):
        return
    text = f"{option_of(axis.name)} {','.join(map(plain, named))}"
    if axis.name in put.benchmark.limiting:
        raise UsageError(f"{text}: {put.flag} has no larger case; leave one of the two out")
    measured = _values(put.contests, axis.name)
    # The default's value changes nothing either: the axis is unused only if no other value changes anything.
    others = ((value,) for value in _others(axis, named))
    if set(measured) <= set(named) or not all(put.same(replace(asked, axes=rest | {axis.name: x})) for x in others):
        return
    raise UsageError(f"{text}: {put.flag} always measures {', '.join(map(plain, measured))}; leave one of the two out")


def _others(axis: Field[Any], named: tuple[Any, ...]) -> list[Any]:
    """Return values that an axis could have instead."""
    if choices := axis.metadata["choices"]:
        return [value for value in choices if value not in named]
    largest = max(named)
    smaller = largest / 2 if isinstance(largest, float) else largest // 2
    return [value for value in (2 * largest + 1, smaller) if value not in named]


def _refuse_variants(put: AskedQuestion) -> None:
    """Raise UsageError for variants that no case has, or that do not change what a question measures."""
    asked = put.asked
    ops = {benchmark.problem.op for benchmark in (put.benchmark, *put.benchmark.others)}  # not the peaks beside them
    cases = (case for contest in put.contests for case in contest.cases)
    measured = dict.fromkeys(case.variant for case in cases if case.problem.op in ops)
    if absent := [name for name in asked.variants if name not in measured]:
        raise UsageError(f"--variant {','.join(absent)}: not compared by {put.flag}; leave one of the two out")
    devices = dict.fromkeys(setting.device for setting in asked.settings)
    default = dict.fromkeys(name for device in devices for name in default_rows(put.benchmark, device))
    alone = replace(asked, variants=tuple(default), given=asked.given - {"variant"})
    if set(measured) <= set(asked.variants) or not put.same(alone):
        return
    if all(put.same(replace(asked, variants=(name,))) for name in measured if name not in asked.variants):
        text = ",".join(asked.variants)
        raise UsageError(f"--variant {text}: no effect on {put.flag}; leave it out")


def refuse_untimed(options: Options) -> None:
    """Raise UsageError for options on timing or files that are combined with --until or --profile."""
    timing = {
        "--replicate": options.replicate if options.replicate != "1" else None,
        "--budget": options.budget,
        "--target": options.target if options.target != "1%" else None,
        "--margin": options.margin,
        "--gate": options.gate,
    }
    for option, given in (("--until", options.until != "time"), ("--profile", options.profile is not None)):
        for name, text in timing.items():
            if given and text is not None:
                raise UsageError(f"{name} {text}: {option} times nothing; leave one of the two out")
    if options.profile is None:
        return
    outputs = options.outputs
    files = {"-o": outputs.output, "--figures": outputs.figures}
    for name, path in (*files.items(), *((f"--{kind}", path) for kind, path in outputs.documents.items())):
        if path is not None:
            raise UsageError(f"{name} {path}: --profile writes no run file; leave one of the two out")
    if options.until != "time":
        raise UsageError(f"--until {options.until}: --profile stops after one launch; leave one of the two out")
