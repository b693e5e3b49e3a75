"""`--why`: the contest that explains one case, against every variant that can do its problem."""

from __future__ import annotations

from dataclasses import replace

from kernels.catalog import variants
from micro.planning.benchmark import Request
from micro.planning.contest import Contest, one_case


def only(asked: Request) -> Request:
    """Return the request with one variant, the first by default, unless some were named."""
    return asked if "variant" in asked.given else replace(asked, variants=asked.variants[:1])


def contest(asked: Request, contests: list[Contest]) -> Contest:
    """Return the contest of the requested case against every variant that can do its problem. Raises UsageError."""
    case = one_case(contests, "--why", "explains", "be measured")
    rivals = [asked.case(case.problem, row.name, case.setting) for row in variants(case.problem.op)]
    others = [rival for rival in rivals if not rival.skip and rival.name != case.name]
    return Contest(f"why/{case.name}", "why does it take this time?", "variant", (case, *others), sparing=True)
