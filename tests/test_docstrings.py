"""What one folder uses of another, and what CONTRIBUTING and the pages show, says what it is for."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests import house

PAGES = [house.ROOT / name for name in ("README.md", "CONTRIBUTING.md")] + sorted((house.ROOT / "docs").glob("*.md"))
FILLERS = {"a", "an", "and", "for", "in", "is", "it", "its", "of", "the", "this", "to"}


def uses(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Module and name of everything of the suite that a file or an example takes from another."""
    modules: dict[str, str] = {}  # by the name it has here
    for one in ast.walk(node):
        if isinstance(one, ast.Import):
            modules |= {x.asname or x.name: x.name for x in one.names}
        elif isinstance(one, ast.ImportFrom) and one.level == 0:
            for x in one.names:
                if f"{one.module}.{x.name}" in house.modules():
                    modules[x.asname or x.name] = f"{one.module}.{x.name}"
                else:
                    yield str(one.module), x.name
    for one in ast.walk(node):
        if isinstance(one, ast.Attribute) and ast.unparse(one.value) in modules:
            yield modules[ast.unparse(one.value)], one.attr


def definition(module: str, name: str) -> tuple[str, ast.ClassDef | ast.FunctionDef] | None:
    """The module and the body of a function or class, followed to where it is written; None of anything else."""
    path = house.modules().get(module)
    for node in house.tree(path).body if path else ():
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return module, node
        if isinstance(node, ast.ImportFrom) and node.module and name in {x.asname or x.name for x in node.names}:
            return definition(node.module, name)
    return None


def wants(node: ast.ClassDef | ast.FunctionDef) -> str | None:
    """What its docstring lacks."""
    text = ast.get_docstring(node)
    if not text:
        return "no docstring"
    return "its docstring repeats its name" if _words(text) <= _words(node.name) | FILLERS else None


def _words(text: str) -> set[str]:
    """In small letters, without the s of a plural: `KernelHosts` and `kernel_host` are the same two."""
    parts = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", text)
    return {part.lower().removesuffix("s") if len(part) > 3 else part.lower() for part in parts}


def public() -> Iterator[tuple[str, str]]:
    """Module and name of what is used from another room, or on a page."""
    for name, path in house.modules().items():
        for module, attribute in uses(house.tree(path)):
            if module in house.modules() and house.room(module) != house.room(name):
                yield module, attribute
    for page in PAGES:
        for block in re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.S):
            yield from uses(ast.parse(block))


def test_what_others_use_says_what_it_is_for() -> None:
    found = {definition(*one) for one in set(public())} - {None}
    lacking = sorted(f"{place[0]}.{place[1].name}: {why}" for place in found if place and (why := wants(place[1])))
    assert not lacking, "\n".join(lacking)


@pytest.mark.parametrize(
    ("text", "lacks"),
    [
        ("def f():\n    pass", "no docstring"),
        ("def read_lines():\n    '''Read the lines.'''", "its docstring repeats its name"),
        ("class KernelHost:\n    '''The host of a kernel.'''", "its docstring repeats its name"),
        ("def read_lines():\n    '''The lines of a file, without their ends.'''", None),
        ("class KernelHost:\n    '''A process in which kernels run.'''", None),
    ],
)
def test_a_docstring_that_says_nothing_is_found(text: str, lacks: str | None) -> None:
    (node,) = ast.parse(text).body
    assert isinstance(node, ast.ClassDef | ast.FunctionDef) and wants(node) == lacks


def test_every_way_to_use_a_name_is_seen() -> None:
    text = """
from reports import units
from reports.record import Run as R
import kernels.problem
def f():
    from micro import plan
    return units.seconds(1), kernels.problem.axis, R, plan
"""
    assert set(uses(ast.parse(text))) == {
        ("reports.record", "Run"),
        ("reports.units", "seconds"),
        ("kernels.problem", "axis"),
        ("micro", "plan"),
    }
    place = definition("kernels.ops.gemm", "Gemm")
    assert place is not None and place[0] == "kernels.ops.gemm.problem"
    assert definition("reports.units", "missing") is None and definition("reports.record", "FORMAT") is None
