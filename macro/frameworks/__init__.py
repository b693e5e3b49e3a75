"""Registry of frameworks: a file is an adapter with its rows, knobs and environment recipe.

The driver never imports an adapter: it reads the literals ROWS, RECIPE and DEVICES from the syntax tree.
"""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from kernels.errors import UsageError, choice

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Framework:
    """A framework in one configuration: a row of an adapter file, read without importing the adapter."""

    name: str
    path: Path
    about: str
    recipe: dict[str, Any] = field(default_factory=dict)  # of its environment; empty: runs in the suite's
    knobs: dict[str, Any] = field(default_factory=dict)
    devices: tuple[str, ...] = ("cpu",)  # supported kinds of devices

    @property
    def environment(self) -> str:
        """Name of the environment that the recipe creates; several adapter files may share it."""
        return str(self.recipe.get("environment", self.path.stem))

    @property
    def chooses(self) -> bool:
        """True if building the model autotunes kernels, so that nothing may run beside it."""
        return bool(self.knobs.get("chooses"))


def names() -> list[str]:
    """Return the names of all frameworks; a file may hold several rows, such as Keras on three back ends."""
    return [row for path in _files() for row in _rows(path)]


def find(name: str) -> Framework:
    """Return a framework by name. Raises UsageError.

    `row~b` is a copy of `row` for a control run; `file.py` or `file.py:row` is an adapter of the user.
    """
    if twin := re.fullmatch(r"(.+)~[b-z]", name):
        return replace(find(twin[1]), name=name)
    if users := re.fullmatch(r"(.+\.py)(?::(.+))?", name):
        return _users(name, Path(users[1]), users[2])
    for path in _files():
        rows = _rows(path)
        if name in rows:
            return rows[name]
    raise UsageError(f"framework {name}: {choice(name, names())}")


def _users(name: str, path: Path, row: str | None) -> Framework:
    """Return a row of a user's adapter file. Raises UsageError."""
    try:
        rows = _rows(path)
    except OSError as error:
        raise UsageError(f"framework {name}: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"framework {name}: not an adapter with literal ROWS and RECIPE ({error})") from None
    row = row or (next(iter(rows)) if len(rows) == 1 else None)
    if row not in rows:
        raise UsageError(f"framework {name}: name one of its rows, e.g. {path}:{next(iter(rows), 'row')}")
    return replace(rows[row], name=name)


def _files() -> list[Path]:
    return sorted(path for path in HERE.glob("[a-z]*.py"))


def _rows(path: Path) -> dict[str, Framework]:
    """Return the rows of an adapter file by name, cached until the file changes."""
    status = path.stat()
    return dict(_read(path, status.st_mtime_ns, status.st_size))


@cache
def _read(path: Path, changed: int, size: int) -> dict[str, Framework]:
    """Parse the rows of a file: ROWS is a literal {name: knobs}; `changed` (mtime), `size`: cache key."""
    tree = ast.parse(path.read_text("utf-8"))
    literals: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value:
            name = ast.unparse(node.target if isinstance(node, ast.AnnAssign) else node.targets[0])
            if name in ("ROWS", "RECIPE", "DEVICES"):
                literals[name] = _literal(name, node.value)
    about = (ast.get_docstring(tree) or "").partition("\n")[0]
    recipe, devices = literals.get("RECIPE", {}), literals.get("DEVICES", ("cpu",))
    return {
        name: Framework(name, path, about, recipe, knobs, devices)
        for name, knobs in literals.get("ROWS", {path.stem: {}}).items()
    }


def _literal(name: str, node: ast.expr) -> Any:
    """Return the value of ROWS, RECIPE or DEVICES. Raises ValueError for a value of another type."""
    value = ast.literal_eval(node)
    if name == "DEVICES":
        if not isinstance(value, tuple) or not all(type(word) is str for word in value):
            raise ValueError(f"{name} is not a tuple of device kinds")
        return value
    rows = value.items() if name == "ROWS" and isinstance(value, dict) else ()
    if not isinstance(value, dict) or any(not (type(row) is str and type(knobs) is dict) for row, knobs in rows):
        raise ValueError(f"{name} is not a dict" + (" of rows by name, each a dict of knobs" if name == "ROWS" else ""))
    return value


def home() -> Path:
    """Return the folder that contains all environments."""
    from kernels import state

    return state.folder() / "environments"


def interpreter(framework: Framework, device: str = "cpu") -> Path | None:
    """Return the Python that runs a framework: its environment's if it exists, else the suite's.

    None if the recipe needs another Python and the framework is not installed in the suite's. On a GPU always the
    suite's, because recipes install CPU builds.
    """
    if device.startswith("cuda"):
        return Path(sys.executable)
    python = home() / framework.environment / "bin/python"
    if python.exists():
        return python
    wanted = framework.recipe.get("python")
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    return Path(sys.executable) if wanted in (None, here) or _beside(framework) else None


def _beside(framework: Framework) -> bool:
    """Return whether the recipe's first package is installed in the suite's Python, in any version."""
    name = str(next(iter(framework.recipe.get("packages", ())), "")).partition("==")[0]
    try:
        return bool(importlib.metadata.version(name))
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return False


def remedy(framework: Framework, device: str = "cpu") -> str:
    """Return the command that creates a missing environment, from its recipe or by hand."""
    if device.startswith("cuda"):
        return f"install {framework.environment}'s CUDA build in this suite's Python"
    if framework.path.parent == HERE:
        return f"python -m macro env create {framework.environment}"
    python = framework.recipe.get("python", "3")
    return f"python{python} -m venv {home() / framework.environment}, then install its packages there"
