"""What a person named and a plan does not hold: refused, since passed over in silence it is a measurement of something
else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from kernels.errors import UsageError
from kernels.problem import plain
from micro.planning.benchmark import Benchmark, Request
from micro.planning.contest import SETTINGS, Contest
from micro.planning.options import Options, option_of


def refuse_beside_file(options: Options) -> None:
    """Axes beside a file of problems, but for the one that is varied. Raises UsageError."""
    for axis, text in options.axes.items():
        if options.shapes and axis != options.vary:
            option = option_of(axis)
            raise UsageError(
                f"{option} {text}: the problems of --shapes {options.shapes} have their own; leave one of the two out, "
                f"or add --vary {axis}"
            )


def refuse_in_question(benchmark: Benchmark, asked: Request, flag: str, contests: Sequence[Contest]) -> None:
    """Several settings of a device, of which a question takes the first; values of axes and variants that are in none
    of its cases. Raises UsageError."""
    for device in dict.fromkeys(setting.device for setting in asked.settings):
        own = [asdict(setting) for setting in asked.settings if setting.device == device]
        for name in SETTINGS:
            several = dict.fromkeys(str(setting[name]) for setting in own)
            if len(several) > 1:
                raise UsageError(f"--{name} {','.join(several)}: {flag} takes one of them")
    named = {axis: asked.axes[axis] for axis in asked.axes if axis in asked.given - set(benchmark.limiting)}
    problems = [asdict(case.problem) for x in contests for case in x.cases if case.problem.op == asked.op]
    for beside in ({}, named):  # alone first: where one axis is nowhere what was named, no other is to blame
        for axis, wanted in named.items():
            obeyed = [problem[axis] for problem in problems if _as_named(problem, beside, axis)]
            for value in wanted:
                if value not in obeyed:
                    text = f"{option_of(axis)} {plain(value)}"
                    raise UsageError(f"{text}: {flag} measures others; leave one of the two out")
    if "variant" in asked.given and contests:
        measured = {case.variant for contest in contests for case in contest.cases}
        if not measured & set(asked.variants):
            raise UsageError(f"--variant {','.join(asked.variants)}: {flag} compares others; leave one of the two out")


def _as_named(problem: dict[str, Any], named: dict[str, tuple[Any, ...]], but: str) -> bool:
    """Whether a problem has everywhere what was named, `but` for one axis."""
    return all(problem[axis] in wanted for axis, wanted in named.items() if axis != but)
