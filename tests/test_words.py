"""Names and openings of docstrings that the project does not use."""

from __future__ import annotations

import ast
import re

from tests import house

NAMES = {"told", "said", "one", "own", "found", "whole", "made"}
OPENINGS = re.compile(r"(Of|By|As|What|Those|One of|That|Whether|How|Where|Which|Who)\b")


def stored(node: ast.AST) -> str:
    """Return the name that a node gives to something, without underscores around it."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return node.name.strip("_")
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return node.id.strip("_")
    return node.arg.strip("_") if isinstance(node, ast.arg) else ""


def test_names_say_what_they_are() -> None:
    modules = house.modules().values()
    nodes = [(path, node) for path in modules for node in ast.walk(house.tree(path)) if stored(node) in NAMES]
    assert [f"{path}:{getattr(node, 'lineno', 0)} {stored(node)}" for path, node in nodes] == []
    assert {path.stem for path in modules} & NAMES == set()
    assert stored(ast.parse("told_ = 1").body[0].targets[0]) == "told"  # type: ignore[attr-defined]


def test_functions_and_classes_open_with_a_verb_or_a_noun() -> None:
    kinds = (ast.FunctionDef, ast.ClassDef)
    places = [(path, node) for path in house.modules().values() for node in ast.walk(house.tree(path))]
    texts = [(path, node.name, ast.get_docstring(node) or "") for path, node in places if isinstance(node, kinds)]
    assert [f"{path} {name}: {text}" for path, name, text in texts if OPENINGS.match(text)] == []
