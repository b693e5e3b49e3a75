"""What a run of frameworks says of each over the suite's own kernels, and of what lies below them."""

from __future__ import annotations

import shlex
from dataclasses import replace

from macro.explain import request
from macro.networks.base import chain
from macro.timing.answer import sentences
from macro.timing.entry import Plan
from reports.record import Contest, Result, Run, Seconds
from tests.reports.made import case, run

NET = chain("small", "a test", 8, (12, 10, 9, 4), rate=0.1, momentum=0.5)
PLAN = Plan(NET, 8, "step", 30.0, 1, asked="fcn-r")
PROBLEM = {"network": "small", "batch": 8, "phase": "step", "division": "default"}
ROUNDS = 8
COMMAND = "explain fcn-r kernels-only pytorch --batch 8 --phase step --threads 1 --heap default"


def step(variant: str, seconds: float, wobble: float = 0.0, rounds: int = ROUNDS) -> Result:
    samples = tuple(seconds * (1 + wobble * (-1) ** i * (1 + 0.1 * i)) for i in range(rounds))
    made = case(
        1, "nn", variant, op="step", problem=PROBLEM, seconds=Seconds(seconds, None, None, 0.95), heap="default"
    )
    made = replace(made, rounds=tuple(range(rounds)), processes=(0,) * rounds, samples=samples)
    return replace(made, name=f"step/variant:{variant}", clock="cpu", step={})


def said(*results: Result) -> list[str]:
    told: Run = run(Contest("step/division:default", "?", "framework", results, ()))
    return sentences(PLAN, told)


def test_each_has_its_ratio_to_kernels_only_with_an_interval() -> None:
    _, first, second = said(step("kernels-only", 0.10), step("numpy", 0.12, 0.01))
    assert "kernels-only;" not in first and " times " not in first
    assert "1.20 [1.1" in second or "1.199 [1.1" in second
    assert second.split(" times kernels-only")[0].endswith("]")


def test_what_is_below_is_said_and_whether_for_certain() -> None:
    *_, below = said(step("kernels-only", 0.10), step("numpy", 0.12), step("pytorch", 0.08, 0.01))
    assert below.startswith("pytorch (heap default) is below kernels-only, 0.80") and "chance" not in below
    assert below.endswith(f"python -m macro {COMMAND}")
    *_, doubtful = said(step("kernels-only", 0.10), step("pytorch", 0.099, 0.2))
    assert "is below kernels-only, 0.9" in doubtful and "may be chance" in doubtful


def test_of_few_rounds_there_is_no_interval() -> None:
    _, pytorch, _, below = said(step("kernels-only", 0.10, rounds=3), step("pytorch", 0.08, rounds=3))
    assert pytorch.endswith(", 0.80 times kernels-only, no interval.")
    assert "0.80 times kernels-only, no interval, which may be chance: " in below


def test_the_line_that_explains_it_is_one_of_the_suite() -> None:
    assert request(shlex.split(COMMAND)[1:]).plan.batch == 8
