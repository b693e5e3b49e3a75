"""The command that a run file keeps: a module as `python -m` names it, a script by its file; as it was typed."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from micro.command import environment
from reports import store
from tests.processes import ROOT, python

# What a command of the suite does is replaced by what it would record as typed.
STARTED = """
import runpy, sys
from micro.command import line, environment
line.guarded = lambda name, body: print(environment.command_line()) or 0
how, sys.argv = sys.argv[1], sys.argv[1:]
if how.endswith(".py"):
    runpy.run_path(how, run_name="__main__")
else:
    runpy.run_module(how, run_name="__main__", alter_sys=True)
"""


def started(*words: str) -> str:
    ran = python("-c", STARTED, *words)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout.rstrip("\n")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["macro", "run", "fcn-s", "--batch", "64"], "python -m macro run fcn-s --batch 64"),
        (["micro", "all", "--budget", "3s"], "python -m micro all --budget 3s"),
        (["micro.gemm", "--m", "8"], "python -m micro.gemm --m 8"),
        (["micro.ab", "--", "micro.gemm"], "python -m micro.ab -- micro.gemm"),
        (["micro.stream", "--only", "a b"], "python -m micro.stream --only 'a b'"),
        (["micro/gemm.py", "--m", "8"], "python micro/gemm.py --m 8"),
        ([f"{ROOT}/micro/gemm.py", "--m", "8"], "python micro/gemm.py --m 8"),
    ],
)
def test_a_command_of_the_suite_as_it_was_started(words: list[str], told: str) -> None:
    assert started(*words) == told


def test_a_run_file_keeps_it(tmp_path: Path) -> None:
    words = ["--m", "8", "--n", "8", "--k", "8", "--variant", "openblas", "--device", "fake", "-q", "--budget", "0.2s"]
    ran = python("-m", "micro.gemm", *words, "-o", "run.jsonl", cwd=tmp_path, state=tmp_path / "state")
    assert (ran.returncode, ran.stderr) == (0, "")
    command = store.read(tmp_path / "run.jsonl").environment.command
    assert command == f"python -m micro.gemm {' '.join(words)} -o run.jsonl"


@pytest.mark.parametrize(
    ("module", "script", "told"),
    [
        ("kernels.__main__", f"{ROOT}/kernels/__main__.py", "python -m kernels --x"),
        ("macro.__main__", f"{ROOT}/macro/__main__.py", "python -m macro --x"),
        (None, "script.py", "from Python: script.py"),
        (None, f"{ROOT}/script.py", "from Python: script.py"),
        (None, f"{ROOT}/.venv/bin/jupyter", "from Python: jupyter"),
        ("ipykernel_launcher", f"{ROOT}/ipykernel_launcher.py", "from Python: ipykernel_launcher.py"),
        ("pytest.__main__", f"{ROOT}/pytest/__main__.py", "from Python: __main__.py"),
        ("__main__", f"{ROOT}/macro", "python macro --x"),
        (None, "", "from Python: interactive"),
    ],
)
def test_each_way_to_start_it(monkeypatch: pytest.MonkeyPatch, module: str | None, script: str, told: str) -> None:
    """An environment in the checkout, or the suite among other packages, makes none of these a module of the suite."""
    main = ModuleType("__main__")
    monkeypatch.setattr(main, "__spec__", SimpleNamespace(name=module) if module else None)
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(sys, "argv", [script, "--x"])
    assert environment.command_line() == told
