"""The code that a proof holds for: adapters, and what they import of that which lies beside the worker's loop."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

WORKER = Path(__file__).parents[1] / "worker"
LOOP = WORKER / "loop.py"
KINDS = "*_kind_*.py"  # of layers, which builders find by their names


@cache
def digest(adapters: tuple[Path, ...]) -> str:
    """Of all files that run where these do. What only looks on, as at scripts, is none of them."""
    found = hashlib.sha256()
    for path in sorted(files([*adapters, LOOP, *WORKER.glob(KINDS)])):
        found.update(path.read_bytes())
    return found.hexdigest()


def files(begin: Iterable[Path]) -> set[Path]:
    """With what they import from there, and that imports, wherever in a file that stands."""
    found, left = set[Path](), list(begin)
    while left:
        path = left.pop()
        if path not in found:
            found.add(path)
            left += _imported(path)
    return found


def _imported(path: Path) -> Iterator[Path]:
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        yield from (beside for name in names if (beside := WORKER / f"{name}.py").is_file())
