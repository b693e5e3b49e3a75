"""Kernels broken on purpose, each by one change of its text, are refused: by a wrong answer or by the shim."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kernels.problem import Problem
from micro.planning.contest import parse
from tests.simulated import cases, launcher
from tests.simulated.cases import HOW, changed
from tests.slow import some

pytestmark = pytest.mark.skipif(launcher.missing() is not None, reason=launcher.missing() or "")
# A kernel, a problem or "" for those of its row, what is changed into what: which occurrence, or None for all.
BROKEN = json.loads(Path(__file__).with_name("broken.json").read_text("utf-8"))


def alone(kernel: cases.Kernel) -> str:
    """Return the source, of tensor cores without its other kernels: it compiles in a third of the time."""
    text = kernel.source.read_text()
    if kernel.problems[0].op != "mma":
        return text
    head, *kernels = text.split('extern "C"')
    return head + next('extern "C"' + text for text in kernels if f" {kernel.name}(" in text)


@pytest.mark.parametrize(
    ("name", "shown", "old", "new", "nth"), some(BROKEN, [f"{name}: {old}, {nth}" for name, _, old, _, nth in BROKEN])
)
def test_a_broken_kernel_is_refused(name: str, shown: str, old: str, new: str, nth: int | None) -> None:
    kernel = cases.find(name)
    text = changed(alone(kernel), name, old, new, nth)

    def passes(problem: Problem, probe: str, how: dict[str, Any]) -> bool:
        try:
            return cases.run(kernel, problem, text, probe, **how).allowed
        except launcher.LaunchFailed:
            return False

    problems = [parse(f"{shown}/variant:cuda").problem] if shown else kernel.problems
    probes = ("whole", "bits") if problems[0].op == "mma" else ("dense",)
    assert not all(passes(x, probe, how) for x in reversed(problems) for probe in probes for how in HOW)


@pytest.mark.parametrize(("name", "shown"), sorted({(n, s) for n, s, *_ in BROKEN if s}))
def test_the_right_kernel_passes_there(name: str, shown: str) -> None:
    problem = parse(f"{shown}/variant:cuda").problem
    assert all(cases.run(cases.find(name), problem, **how).allowed for how in HOW)


def test_every_kernel_of_convolutions_is_broken_here() -> None:
    modules = (cases.implicit, cases.columns, cases.frames, cases.winograd_cuda)
    assert {x for module in modules for x in module.KERNELS} <= {name for name, *_ in BROKEN}
