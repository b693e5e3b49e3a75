"""Which folder may import which, read off the syntax trees; a docstring in every module."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ARROWS = {
    "kernels": {"kernels"},
    "reports": {"reports"},
    "micro": {"micro", "kernels", "reports"},
    "macro": {"macro", "micro", "kernels", "reports"},
}
FOLDERS = [name for name in ARROWS if (ROOT / name).is_dir()]
FILES = [path for name in FOLDERS for path in sorted((ROOT / name).rglob("*.py"))]


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and first name of every import, those by `import_module` included; relative ones stay at home."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name.partition(".")[0]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield node.lineno, (node.module or "").partition(".")[0]
        elif isinstance(node, ast.Call) and "import_module" in ast.unparse(node.func) and node.args:
            text = ast.unparse(node.args[0]).lstrip("f").strip("'\"")
            yield node.lineno, text.partition(".")[0]


def strays(text: str, folder: str) -> list[str]:
    """Imports of a file of `folder` that no arrow allows."""
    forbidden = set(ARROWS) - ARROWS[folder] | {"tests"}
    return [f"line {line}: {name}" for line, name in imported(ast.parse(text)) if name in forbidden]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_arrows(path: Path) -> None:
    assert strays(path.read_text(), path.relative_to(ROOT).parts[0]) == []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_has_a_docstring(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text())), "say in one line what this file is for"


def test_every_folder_with_modules_is_a_package() -> None:
    assert not {path.parent for path in FILES if not (path.parent / "__init__.py").exists()}


@pytest.mark.parametrize(
    ("text", "folder"),
    [
        ("import micro", "kernels"),
        ("def f():\n    from reports import units", "kernels"),
        ("from kernels.problem import Problem", "reports"),
        ("if TYPE_CHECKING:\n    import kernels.variant as v", "reports"),
        ("from macro import run", "micro"),
        ("importlib.import_module('micro.planning.contest')", "kernels"),
        ("import_module(f'kernels.ops.{op}')", "reports"),
        ("import tests.conftest", "micro"),
    ],
)
def test_a_wrong_arrow_is_found(text: str, folder: str) -> None:
    assert len(strays(text, folder)) == 1
