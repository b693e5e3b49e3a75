"""One file is one framework: its adapter, its knobs, and the recipe of its environment.

The driver never imports an adapter: it reads the literals ROWS, RECIPE and DEVICES off the syntax tree.
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
    """What can be said of a framework without importing it. `recipe`: python, packages, megabytes, and what
    else its environment needs; none where it runs in the suite's own. `devices`: kinds of those that it steps on."""

    name: str
    path: Path
    about: str
    recipe: dict[str, Any] = field(default_factory=dict)
    knobs: dict[str, Any] = field(default_factory=dict)
    devices: tuple[str, ...] = ("cpu",)

    @property
    def environment(self) -> str:
        """Name of the environment that its recipe makes, which rows of several files may share."""
        return str(self.recipe.get("environment", self.path.stem))

    @property
    def chooses(self) -> bool:
        """Whether it times kernels as it is built: nothing may run beside it then."""
        return bool(self.knobs.get("chooses"))


def names() -> list[str]:
    """Each as `file` or `file:row`: a file may hold several rows, such as Keras on three back ends."""
    return [row for path in _files() for row in _rows(path)]


def find(name: str) -> Framework:
    """A framework's row by name; `row~b`, its twin, to compare it with itself; or the user's own, `file.py` or
    `file.py:row`. Raises UsageError."""
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
    """Of the user's own file. Raises UsageError."""
    try:
        rows = _rows(path)
    except OSError as error:
        raise UsageError(f"framework {name}: {error.strerror}") from None
    except (SyntaxError, ValueError) as error:
        raise UsageError(f"framework {name}: no adapter with literal ROWS and RECIPE ({error})") from None
    row = row or (next(iter(rows)) if len(rows) == 1 else None)
    if row not in rows:
        raise UsageError(f"framework {name}: name a row of it, as {path}:{next(iter(rows), 'row')}")
    return replace(rows[row], name=name)


def _files() -> list[Path]:
    return sorted(path for path in HERE.glob("[a-z]*.py"))


def _rows(path: Path) -> dict[str, Framework]:
    """Read off the syntax tree: ROWS is a literal {name: knobs}; RECIPE and DEVICES are literals."""
    status = path.stat()
    return dict(_read(path, status.st_mtime_ns, status.st_size))


@cache
def _read(path: Path, changed: int, size: int) -> dict[str, Framework]:
    """As it was when it was `changed`, of so many bytes."""
    tree = ast.parse(path.read_text("utf-8"))
    literals: dict[str, Any] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name in ("ROWS", "RECIPE", "DEVICES"):
                literals[name] = _literal(name, node.value)
    about = (ast.get_docstring(tree) or "").partition("\n")[0]
    recipe, devices = literals.get("RECIPE", {}), literals.get("DEVICES", ("cpu",))
    return {
        name: Framework(name, path, about, recipe, knobs, devices)
        for name, knobs in literals.get("ROWS", {path.stem: {}}).items()
    }


def _literal(name: str, node: ast.expr) -> Any:
    """The value of one of the names. Raises ValueError where it is no dict, a row's knobs are none, or devices are no
    tuple of words."""
    value = ast.literal_eval(node)
    if name == "DEVICES":
        if not isinstance(value, tuple) or not all(type(word) is str for word in value):
            raise ValueError(f"{name} is no tuple of kinds of devices")
        return value
    rows = value.items() if name == "ROWS" and isinstance(value, dict) else ()
    if not isinstance(value, dict) or any(not (type(row) is str and type(knobs) is dict) for row, knobs in rows):
        raise ValueError(f"{name} is no dict" + (" of rows by name, a dict of knobs each" if name == "ROWS" else ""))
    return value


def home() -> Path:
    """Where environments are made: one folder each."""
    from kernels import state

    return state.folder() / "environments"


def interpreter(framework: Framework, device: str = "cpu") -> Path | None:
    """The Python in which it would run: its own environment's, else the suite's; None where it has a recipe of another
    Python, no environment yet, and is not installed beside the suite. On a GPU the suite's: recipes are of builds for
    processors."""
    if device.startswith("cuda"):
        return Path(sys.executable)
    python = home() / framework.environment / "bin/python"
    if python.exists():
        return python
    wanted = framework.recipe.get("python")
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    return Path(sys.executable) if wanted in (None, here) or _beside(framework) else None


def _beside(framework: Framework) -> bool:
    """Whether the first package of its recipe is installed where the suite is, in whatever version."""
    name = str(next(iter(framework.recipe.get("packages", ())), "")).partition("==")[0]
    try:
        return bool(importlib.metadata.version(name))
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return False


def remedy(framework: Framework, device: str = "cpu") -> str:
    """What makes the environment that a framework lacks: by its recipe, or by hand for one of the user's own file."""
    if device.startswith("cuda"):
        return f"install {framework.environment}'s build for CUDA where this suite runs"
    if framework.path.parent == HERE:
        return f"python -m macro env create {framework.environment}"
    python = framework.recipe.get("python", "3")
    return f"python{python} -m venv {home() / framework.environment}, and its packages into it"
