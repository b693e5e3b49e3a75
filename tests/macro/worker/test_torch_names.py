"""Paths of PyTorch's modules, as the user would write them: found in the variables that hold them."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="no torch: pip install torch")


def named(watch: ModuleType, call: Callable[[], object]) -> list[str]:
    """The paths of the modules that are called, in order."""
    looking = watch.Spans(torch)
    looking.modules.on()
    paths: list[str] = []
    enter = looking.modules.enter
    looking.modules.enter = lambda module, path: (paths.append(path), enter(module, path))
    try:
        call()
    finally:
        looking.modules.off()
    return paths


class Holder:
    """No module, and has some."""

    def __init__(self) -> None:
        self.model, self.hidden = (
            torch.nn.Sequential(torch.nn.Linear(2, 2)),
            [torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)],
        )


def test_modules_are_called_as_variables_hold_them(watch: ModuleType) -> None:
    trainer, many, by_name = Holder(), [torch.nn.Linear(2, 2)], {"a": torch.nn.Linear(2, 2)}
    x = torch.ones(1, 2)
    assert named(watch, lambda: trainer.model(x)) == ["trainer.model", "trainer.model.0"]
    assert named(watch, lambda: trainer.model[0](x)) == ["trainer.model.0"]
    assert named(watch, lambda: [layer(x) for layer in trainer.hidden]) == ["trainer.hidden[0]", "trainer.hidden[1]"]
    assert named(watch, lambda: (many[0](x), by_name["a"](x))) == ["many[0]", "by_name['a']"]
    assert named(watch, lambda: torch.nn.Tanh()(x)) == ["Tanh"]


def test_the_outermost_frame_gives_the_name(watch: ModuleType) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.Sequential(torch.nn.Linear(2, 2)))

    def train(model: Any) -> None:
        inner = model[1]
        model(torch.ones(1, 2))
        inner[0](torch.ones(1, 2))

    def call() -> None:
        train(net)

    assert named(watch, call) == ["net", "net.0", "net.1", "net.1.0", "net.1.0"]
