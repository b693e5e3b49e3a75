"""Help and plans import nothing heavy, and no module imports anything heavy before a function asks for it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import ROOT, python

HEAVY = {"numpy", "scipy", "torch", "numba", "rich", "msgspec", "matplotlib", "psutil", "threadpoolctl"}
BESIDE = (
    "numpy_layers",
    "numpy_losses",
    "numpy_optimizers",
    "suite_layers",
    "numpy_images",
    "numpy_mistaken",
    "numpy_sequences",
    "suite_sequences",
    "keras_layers",
    "cntk_layers",
    "layouts",
)  # an adapter, which is run by path and never imported
FILES = [
    path
    for name in ("kernels", "micro", "reports", "macro")
    if (ROOT / name).is_dir()
    for path in sorted((ROOT / name).rglob("*.py"))
    if (path.parent.name != "frameworks" or path.stem == "__init__")
    and path.stem not in BESIDE
    and not path.stem.startswith("numpy_kind_")  # of a kind of layer, one of those
]
SLOW = {"shutil", "subprocess", "tempfile", "random", "statistics", "json"}  # a tenth of a benchmark's start
COMMANDS = (
    ("micro.gemm", "--help"),
    ("micro.gemm", "--list"),
    ("micro.gemm", "--transpose", "--list"),
    ("reports", "--help"),
    ("macro", "run", "--help"),
    ("macro", "equal", "--help"),
)


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_and_list_import_nothing_heavy(command: tuple[str, ...]) -> None:
    ran = python("-X", "importtime", "-m", *command)
    assert ran.returncode == 0, ran.stderr[-500:]
    assert ran.stdout
    modules = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines() if "import time:" in line}
    assert "argparse" in modules, "the trace was not understood"
    assert not {name for name in modules if name.partition(".")[0] in HEAVY}
    assert command[0] == "macro" or not modules & SLOW


def at_module_level(body: list[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """Imports that run when the module is imported: not in functions, not for the type checker alone."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from at_module_level(node.orelse)
        else:
            for name in ("body", "orelse", "finalbody"):
                yield from at_module_level(getattr(node, name, []))
            for handler in getattr(node, "handlers", []):
                yield from at_module_level(handler.body)


def heavy(text: str) -> list[str]:
    """The heavy packages that a module imports at once."""
    found = []
    for node in at_module_level(ast.parse(text).body):
        names = [x.name for x in node.names] if isinstance(node, ast.Import) else [node.module or ""]
        found += [name for name in names if name.partition(".")[0] in HEAVY]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_heavy_packages_are_imported_in_functions(path: Path) -> None:
    assert heavy(path.read_text()) == []


@pytest.mark.parametrize(
    "text",
    [
        "import numpy as np",
        "from scipy.special import ndtri",
        "try:\n    import torch\nexcept ImportError:\n    torch = None",
        "class X:\n    import rich",
        "if TYPE_CHECKING:\n    import os\nelse:\n    import numpy",
    ],
)
def test_a_heavy_import_is_found(text: str) -> None:
    assert len(heavy(text)) == 1


def test_imports_for_types_and_in_functions_are_allowed() -> None:
    assert not heavy("if TYPE_CHECKING:\n    import numpy\ndef f():\n    import scipy\n")
