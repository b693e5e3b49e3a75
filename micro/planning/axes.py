"""Conversion of axis values to problems, and of problems to contests."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from kernels.errors import UsageError
from kernels.problem import Problem
from kernels.setting import ALONG, DEFAULTS, Setting
from micro.planning.benchmark import Request
from micro.planning.contest import Case, Contest


def values(text: str, kind: Callable[[str], Any], option: str) -> tuple[Any, ...]:
    """Parse the values of an axis: `5`, `1,8,64`, `64:1024:*2`, `1:9:+4`. Raises UsageError."""
    points: list[Any] = []
    for word in text.split(","):
        try:
            points += _range(word, kind) if ":" in word and kind in (int, float) else [kind(word)]
        except (ValueError, OverflowError):
            what = "a whole number" if kind is int else "a number" if kind is float else "a word"
            raise UsageError(f"{option} {text}: {word!r} is neither {what} nor a range like 64:1024:*2") from None
    if not points:
        raise UsageError(f"{option} {text}: empty range; write first:last:step with first below last")
    if len(set(points)) < len(points):
        raise UsageError(f"{option} {text}: a value is repeated")
    return tuple(points)


def _range(word: str, kind: Callable[[str], Any]) -> list[Any]:
    first, last, step = word.split(":")
    value, end, by = kind(first), kind(last), kind(step.lstrip("*+"))
    if (step[0] == "*" and (by <= 1 or value <= 0)) or (step[0] != "*" and by <= 0):
        raise ValueError(word)
    points = []
    while value <= end:
        points.append(value)
        value = value * by if step[0] == "*" else value + by
    return points


def problems(kind: type[Problem], axes: dict[str, tuple[Any, ...]]) -> list[Problem]:
    """Return a problem for each combination of the axis values."""
    names = [field.name for field in fields(kind) if field.name in axes]
    combinations = itertools.product(*(axes[name] for name in names))
    return [kind(**dict(zip(names, combination, strict=True))) for combination in combinations]


def by_variant(asked: Request, problems: Iterable[Problem]) -> list[Contest]:
    """Return a contest per problem: all variants against the first variant that supports it."""
    contests = []
    several = [name for name in ALONG if len({asdict(x)[name] for x in asked.settings}) > 1]
    differs = " and ".join(["variant", *several])
    for problem in problems:
        cases = [asked.case(problem, v, s) for v, s in asked.pairs()]
        question = f"which variant is fastest at {problem.name}?"
        contests.append(Contest(problem.name, question, differs, tuple(cases), _pairs(asked, cases)))
    return contests


def _pairs(asked: Request, cases: Sequence[Case]) -> tuple[tuple[int, int], ...]:
    """Return (baseline, contender) positions with the first runnable case as the baseline.

    Empty, for the default pairs, if that is the first case, or if the first case's device is not here."""
    first = next((i for i, case in enumerate(cases) if case.skip is None), 0)
    if not first or cases[0].setting.device in asked.absent:
        return ()
    return tuple((first, i) for i in range(len(cases)) if i != first)


def along(asked: Request, problems: Sequence[Problem], field: str) -> list[Contest]:
    """Return the contests of `--vary FIELD`, between problems or settings that differ in this field alone.

    There is a contest for each variant and each combination of the other values."""
    if field in ALONG:
        return _along_setting(asked, problems, field)
    groups: dict[tuple[Any, ...], list[Problem]] = {}
    for problem in problems:
        rest = tuple(value for name, value in asdict(problem).items() if name != field)
        groups.setdefault(rest, []).append(problem)
    contests = []
    for same in groups.values():
        unequal = len({problem.flops for problem in same}) > 1
        for variant, setting in asked.pairs():
            cases = tuple(asked.case(problem, variant, setting) for problem in same)
            name = f"{same[0].name}/vary:{field}/variant:{variant}/{cases[0].setting.name}"
            differs = f"work: differs ({field})" if unequal else field
            contests.append(Contest(name, f"what does {field} change for {variant}?", differs, cases))
    return contests


def _along_setting(asked: Request, problems: Sequence[Problem], field: str) -> list[Contest]:
    """Return a contest per problem and variant, between settings that differ in `field` alone."""
    groups: dict[tuple[str, Setting], list[Setting]] = {}
    for variant, setting in asked.pairs():
        rest = replace(setting, **{field: DEFAULTS[field]})
        groups.setdefault((variant, rest), []).append(setting)
    contests = []
    for problem in problems:
        for (variant, rest), settings in groups.items():
            plain = "" if rest == Setting() else f"/{asked.at(problem, rest).name}"
            cases = tuple(asked.case(problem, variant, setting) for setting in settings)
            question = f"what does {ALONG[field]} change for {variant} at {problem.name}?"
            name = f"{problem.name}/vary:{field}/variant:{variant}{plain}"
            contests.append(Contest(name, question, field, cases))
    return contests
