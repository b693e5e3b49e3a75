"""What every framework's process loads is small and runs on Python 3.6, as do the adapters of old frameworks."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

from macro.equality import code
from macro.frameworks import find

LOOP = code.AGENT / "core/loop.py"
CORE = {path for path in LOOP.parent.glob("*.py") if path.name != "__init__.py"}
OLD = {name: {find(name).path, code.AGENT / f"{name}_layers.py"} for name in ("cntk", "mxnet")}


def loaded(*begin: Path) -> set[Path]:
    """Return these files and all files of the agent that they import, directly or not, wherever in a file."""
    seen, left = set[Path](), list(begin)
    while left:
        if (path := left.pop()) not in seen:
            seen.add(path)
            nodes = list(ast.walk(ast.parse(path.read_text())))
            names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
            names |= {str(node.module) for node in nodes if isinstance(node, ast.ImportFrom)}
            left += [file for file in code.AGENT.rglob("*.py") if file.stem in names]
    return seen


def test_the_core_is_small() -> None:
    assert sum(len(path.read_text().splitlines()) for path in CORE) < 800


@pytest.mark.parametrize("name", OLD)
def test_old_frameworks_load_the_core_and_their_files_alone(name: str) -> None:
    assert loaded(find(name).path, LOOP) == CORE | OLD[name]


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
