"""Which file imports which, and the rooms that the files stand in: for tests of the house.

A room is a folder of one of the four packages, or a few files that stand directly in it. CONTRIBUTING.md lists those of
each package from the top down: a room imports the rooms after it and none before.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
_TABLE = re.findall(r"^\| `(\w+)/` \| (.*) \|$", (ROOT / "CONTRIBUTING.md").read_text("utf-8"), re.M)
ROOMS = {package: tuple(rooms.split(", ")) for package, rooms in _TABLE}
# Files that stand directly in a package: by name, else as "*" says.
FILES = {
    "macro": {"command": "command", "*": "commands"},
    "micro": {"__init__": "api", "*": "commands"},
    "kernels": dict.fromkeys(("variant", "catalog", "maths", "openmp", "repeated", "setting", "users"), "variants")
    | {"__main__": "commands", "*": "nouns"},
    "reports": {"__main__": "commands", "*": "records"},
}


@dataclass(frozen=True)
class Import:
    """One file needs another: names of modules, and the line that says so."""

    importer: str
    imported: str
    line: int


@functools.cache
def modules() -> dict[str, Path]:
    """Every module of the four packages, by its full name."""
    paths = [path for package in ROOMS for path in sorted((ROOT / package).rglob("*.py"))]
    return {".".join(x.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): x for x in paths}


@functools.cache
def tree(path: Path) -> ast.Module:
    """A file's syntax tree, read once."""
    return ast.parse(path.read_text("utf-8"))


def written(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield line and full name of everything that is imported; of an f-string what stands before its first brace."""
    for one in ast.walk(node):
        if isinstance(one, ast.Import):
            yield from ((one.lineno, alias.name) for alias in one.names)
        elif isinstance(one, ast.ImportFrom) and one.level == 0:
            yield from ((one.lineno, f"{one.module}.{alias.name}") for alias in one.names)
        elif isinstance(one, ast.Call) and "import_module" in ast.unparse(one.func) and one.args:
            yield one.lineno, ast.unparse(one.args[0]).lstrip("f").strip("'\"").partition("{")[0]


def needs(name: str, node: ast.AST, known: Mapping[str, object]) -> Iterator[Import]:
    """Yield the known modules that a module imports; a folder that is looked into by name is needed by nobody."""
    for line, text in written(node):
        module = text if text in known else text.rpartition(".")[0]
        if module in known and module != name and not text.endswith("."):
            yield Import(name, module, line)


@functools.cache
def imports() -> tuple[Import, ...]:
    """Every import of one file of the suite by another."""
    known = modules()
    return tuple(found for name, path in known.items() for found in needs(name, tree(path), known))


def room(name: str) -> tuple[str, str]:
    """The package and the room of a module."""
    package, *rest = modules()[name].relative_to(ROOT).with_suffix("").parts
    files = FILES[package]
    return package, rest[0] if len(rest) > 1 else files.get(rest[0], files["*"])
