"""Fixtures of the tests of a session: steps, and the files that a session leaves."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.gpu.session import __main__ as gpu
from tests.gpu.session import steps
from tests.gpu.session.processes import ROOT

Plan = Callable[..., None]


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """`modules(name, text)`: a module that a step can run."""
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", f"{folder}{os.pathsep}{ROOT}")
    return lambda name, text: (folder / f"{name}.py").write_text(text) and None


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Plan:
    """`plan(*steps)`: in the place of those of a part."""
    monkeypatch.setattr(steps, "GRACE", 0.5)
    return lambda *planned: monkeypatch.setattr(steps, "steps", lambda part, out, here, share: planned)


def log(out: Path) -> str:
    """Return the log of the first part."""
    return (out / "gpu-1.txt").read_text()


def fake(*words: str) -> int:
    """Run the first part on the fake device; return the exit code."""
    return gpu.main(["--fake", "--part", "1", *words])


def files(part: int, out: Path, here: bool) -> set[str]:
    """Return the names of the files that a part writes."""
    names = {f"gpu-{part}.txt"}
    for step in steps.steps(part, out, here):
        for option, value in zip(step.command, step.command[1:], strict=False):
            if option == "-o":
                assert Path(value).parent == out
                names.add(Path(value).name)
    return names
