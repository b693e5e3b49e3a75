"""A function that is named as a step: where it is found, and what is called in its place."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TEXT = """
if True:
    def go(): return 1
else:
    def go(): return 2
class T:
    @staticmethod
    def plain(): return 3
    @classmethod
    def of(cls): return cls
    def own(self): return self
async def awaited(): return 4
"""


class Bound:
    """Counts."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def begin(self, how: str) -> None:
        self.told.append("begin " + how)

    def end(self, how: str) -> None:
        self.told.append("end " + how)


@pytest.fixture
def named(beside: None) -> ModuleType:
    return importlib.import_module("named_step")


def found(named: ModuleType, folder: Path, step: str) -> tuple[dict[str, Any], Bound]:
    """What a script of this text defines."""
    bound, path, variables = Bound(), folder / "train.py", dict[str, Any]()
    path.write_text(TEXT)
    exec(named.Named(step, bound).code(importlib.import_module("as_main").script(str(path))), variables)
    return variables, bound


def test_each_kind_of_function_is_wrapped_as_what_it_is(named: ModuleType, tmp_path: Path) -> None:
    variables, bound = found(named, tmp_path, "train:go")
    assert variables["go"]() == 1 and bound.told == ["begin call of go", "end call of go"]
    variables, bound = found(named, tmp_path, "__main__:T.plain")
    assert variables["T"].plain() == variables["T"]().plain() == 3 and len(bound.told) == 4
    variables, bound = found(named, tmp_path, "train:T.of")
    assert variables["T"].of() is variables["T"] and len(bound.told) == 2
    variables, bound = found(named, tmp_path, "train:T.own")
    one = variables["T"]()
    assert one.own() is one and len(bound.told) == 2


def test_one_that_is_awaited_ends_when_it_does(named: ModuleType, tmp_path: Path) -> None:
    variables, bound = found(named, tmp_path, "train:awaited")
    waiting = variables["awaited"]()
    assert not bound.told
    with pytest.raises(StopIteration, match="4"):
        waiting.send(None)
    assert bound.told == ["begin call of awaited", "end call of awaited"]


@pytest.mark.parametrize("step", ["train:no", "train:T.no", "train:go.no", "train:T"])
def test_one_that_is_not_there_is_told(step: str, named: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(named.NoSuchStep, match=f"--step {step}: train.py defines no "):
        found(named, tmp_path, step)


def test_another_modules_is_wrapped_there(named: ModuleType, tmp_path: Path) -> None:
    lib, bound = ModuleType("lib"), Bound()
    exec(TEXT, lib.__dict__)
    for step in ("lib:go", "lib:T.plain", "lib:T.own"):
        named.Named(step, bound).wrap(lib)
    assert (lib.go(), lib.T.plain()) == (1, 3) and lib.T().own()
    assert len(bound.told) == 6
    with pytest.raises(named.NoSuchStep, match="--step lib:no: lib has no no"):
        named.Named("lib:no", bound).wrap(lib)
