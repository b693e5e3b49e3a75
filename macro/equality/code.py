"""Code that a proof holds for: adapters, and their imports among the files beside the worker's loop."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

WORKER, ADAPTERS = (Path(__file__).parents[1] / name for name in ("worker", "frameworks"))
KERNELS = Path(__file__).parents[2] / "kernels"
LOOP = WORKER / "loop.py"
BY_PATH = "spec_from_file_location"  # what a file that has this loads is not read in it: it may be any of ours
KINDS = "*_kind_*.py"  # of layers, which builders find by their names


@cache
def digest(adapters: tuple[Path, ...]) -> str:
    """Return the hash of all files that run with these adapters, without those of mere observers."""
    hashed = hashlib.sha256()
    for path in sorted(files([*adapters, LOOP, *WORKER.glob(KINDS)])):
        hashed.update(path.read_bytes())
    return hashed.hexdigest()


def files(begin: Iterable[Path]) -> set[Path]:
    """Return these files and all that they import; if one imports this suite's kernels, all of those."""
    seen, left = set[Path](), list(begin)
    while left:
        path = left.pop()
        if path not in seen:
            seen.add(path)
            left += _imported(path)
    return seen


def _imported(path: Path) -> Iterator[Path]:
    if KERNELS in path.parents:
        return
    text = path.read_text("utf-8")
    if BY_PATH in text and path != LOOP:
        yield from (*WORKER.glob("*.py"), *ADAPTERS.glob("*.py"))
    for node in ast.walk(ast.parse(text)):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) and node.module else []
        if any(name.partition(".")[0] == KERNELS.name for name in names):
            yield from (file for file in KERNELS.rglob("*.[pc]*") if file.suffix in (".py", ".c", ".cu"))
        yield from (beside for name in names if (beside := WORKER / f"{name}.py").is_file())
