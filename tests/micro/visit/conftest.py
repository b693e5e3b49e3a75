"""What the tests of a visit share: steps of their own, what a visit leaves, processes that must be gone."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from micro import gpu
from micro.visit import steps as visit_steps
from micro.visit.steps import steps

ROOT = Path(__file__).parents[3]

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
    """`plan(steps)`: in the place of those of a visit."""
    monkeypatch.setattr(visit_steps, "GRACE", 0.5)
    return lambda *made: monkeypatch.setattr(visit_steps, "steps", lambda part, out, here, share: made)


def words(out: Path, name: str = "gpu-1.txt") -> str:
    return (out / name).read_text()


def made(*given: str) -> int:
    return gpu.main(["--fake", "--part", "1", *given])


def files(part: int, out: Path, here: bool) -> set[str]:
    found = {f"gpu-{part}.txt"}
    for step in steps(part, out, here):
        for option, value in zip(step.command, step.command[1:], strict=False):
            if option == "-o":
                assert Path(value).parent == out
                found.add(Path(value).name)
    return found


def whole(out: Path) -> None:
    """Every line of every file of records is one."""
    for path in out.glob("*.jsonl"):
        text = path.read_bytes()
        assert text.endswith(b"\n") or not text, path
        for line in text.splitlines():
            json.loads(line)
