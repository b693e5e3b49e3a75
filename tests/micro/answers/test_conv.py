"""One kernel's passes, layouts, groups and channels: a sentence a contest, the others times the first."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernels.ops.conv.problem import Conv
from micro.answers.conv import answer
from reports import record
from reports.record import Comparison
from tests.micro.conv_runs import result, run

LAYER = Conv(16, 64, 27, 27, 64, pad=1)
PLACE = "3×3, 64→64 channels, 27×27, batch 16"


def contest(differs: str, *problems: Conv) -> record.Contest:
    """Of one kernel; the second form takes half of the first's time, the third a third, and so on."""
    results = [result(problem, "direct", 1 / (i + 1)) for i, problem in enumerate(problems)]
    compared = [
        Comparison("c", differs, results[0].name, x.name, 1 / i, 0.9 / i, 1.1 / i, 0.95, "unresolved", None, 0.01, 0.01)
        for i, x in enumerate(results[1:], 2)
    ]
    return record.Contest("passes/c", "?", differs, tuple(results), tuple(compared))


@pytest.mark.parametrize(
    ("differs", "changed", "sentence"),
    [
        (
            "direction",
            [{"direction": "dgrad"}, {"direction": "wgrad"}],
            f"direct, {PLACE}: dgrad 0.50 [0.45, 0.55], wgrad 0.33 [0.30, 0.37] times forward.",
        ),
        ("layout", [{"layout": "nhwc"}], f"direct, forward, {PLACE}: nhwc 0.50 [0.45, 0.55] times nchw."),
        (
            "work: differs (groups)",
            [{"groups": 4}],
            f"direct, forward, {PLACE}: 4 groups 0.50 [0.45, 0.55] for 0.25 of the work times 1 group.",
        ),
        (
            "work: differs (channels)",
            [{"c": 32, "k": 32}],
            f"direct, forward, {PLACE}: 32 channels 0.50 [0.45, 0.55] for 0.25 of the work times 64 channels.",
        ),
    ],
)
def test_forms_of_one_kernel(differs: str, changed: list[dict[str, object]], sentence: str) -> None:
    forms = [LAYER, *(replace(LAYER, **fields) for fields in changed)]  # type: ignore[arg-type]
    assert answer(run(contest(differs, *forms))) == [sentence]
