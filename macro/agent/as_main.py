"""The user's script, or a module of a package, as the interpreter would run it: code and variables of `__main__`."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
from typing import Any, NamedTuple


class NoSuchModule(BaseException):
    """Error for a module of -m that does not exist."""


class Main(NamedTuple):
    """The program that becomes `__main__`: file, module name (a script's: its stem), loader, and variables."""

    path: str
    name: str
    loader: Any
    variables: dict[str, Any]

    def source(self) -> bytes | None:
        """Return the source text; None if there is only compiled code."""
        if not self.path.endswith(tuple(importlib.machinery.SOURCE_SUFFIXES)):
            return None
        return self.loader.get_data(self.path)  # type: ignore[no-any-return]


def script(path: str) -> Main:
    """Return the script at `path`."""
    loader = importlib.machinery.SourceFileLoader("__main__", path)
    name = os.path.splitext(os.path.basename(path))[0]
    return Main(path, name, loader, {"__file__": path, "__spec__": None, "__loader__": loader})


def module(name: str) -> Main:
    """Return the module, of a package its `__main__`, after importing the packages above. Raises NoSuchModule."""
    spec = _spec(name)
    if spec.submodule_search_locations is not None:
        spec = _spec(f"{name}.__main__", f"; {name} is a package and has no __main__.py")
    path = str(spec.origin)
    variables = {"__file__": path, "__spec__": spec, "__loader__": spec.loader, "__package__": spec.parent}
    return Main(path, spec.name, spec.loader, {**variables, "__cached__": spec.cached})


def _spec(name: str, why: str = "") -> importlib.machinery.ModuleSpec:
    """Return where the module is found. Raises NoSuchModule, and what the packages above raise."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # a package above imports what is missing
        spec = None
    if spec is None:
        typed = name[: -len(".__main__")] if why else name
        raise NoSuchModule(f"-m {typed}: no module named {name} in {os.getcwd()} or on the path{why}")
    return spec
