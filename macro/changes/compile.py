"""torch.compile: the framework's compiled row."""

from __future__ import annotations

from dataclasses import replace

from macro.changes.base import Asked, Before, Change, Effect, Forecast, Seen, Step
from macro.frameworks import find


def applies(step: Step, value: str) -> str | None:
    if step.knob("update") == "in wgrad":
        return "its backward moves the weights, which no compiled step does here"
    return None if step.row == "pytorch" else "torch.compile is PyTorch's"


def took(before: Before, after: Seen) -> Effect:
    there = after.flag("compile") is True
    return Effect(there, "PyTorch's own kernels are compiled" if there else "it runs eagerly")


def brings(asked: Asked) -> Forecast:
    return Forecast(why="fusion changes which kernels there are and how long what they write lives")


CHANGE = Change(
    "compile",
    "torch.compile",
    applies,
    lambda step, value: replace(step, framework=find("pytorch-compile")),
    took,
    brings,
    saves=("dispatch", "interpreter", "element-wise", "reduction", "softmax and loss", "normalization", "copy"),
    code="model = torch.compile(model)",
    costs="a start of half a minute; the last bits of results",
    looks=(),
    alone=False,
)
