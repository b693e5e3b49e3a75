"""What every framework's process loads is small and runs on Python 3.6, as do the adapters of old frameworks."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from macro.equality import code
from macro.frameworks import find

CORE = {path for path in code.CORE.glob("*.py") if path.name != "__init__.py"}
OLD = {name: {find(name).path, code.AGENT / f"{name}_layers.py"} for name in ("cntk", "mxnet")}


def test_the_core_is_small() -> None:
    assert sum(len(path.read_text().splitlines()) for path in CORE) < 800


@pytest.mark.parametrize("name", OLD)
def test_old_frameworks_load_the_core_and_their_files_alone(name: str) -> None:
    assert code.files([find(name).path, code.LOOP]) == CORE | OLD[name]


@pytest.mark.parametrize("path", sorted(CORE.union(*OLD.values())), ids=lambda path: path.name)
def test_a_file_is_of_python_3_6(path: Path) -> None:
    """Its grammar, and no module that came later; NumPy is in every environment."""
    tree = ast.parse(path.read_text(), feature_version=(3, 6))
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    packages = {name.partition(".")[0] for name in imported}
    known = {"numpy", path.stem, *(x.stem for x in CORE), *(x.stem for x in OLD.get(path.stem, ()))}
    assert packages <= (sys.stdlib_module_names | known) - {"__future__", "dataclasses", "graphlib", "tomllib"}


def test_all_else_is_of_python_3_9() -> None:
    """A user's interpreter runs the observer of scripts, an environment's the adapters."""
    for path in (*code.AGENT.rglob("*.py"), *code.ADAPTERS.glob("[a-z]*.py")):
        ast.parse(path.read_text(), feature_version=(3, 9))
