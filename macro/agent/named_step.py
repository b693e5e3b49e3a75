"""Steps that are calls of a user's function: `--step MODULE:FUNCTION`, or MODULE:CLASS.METHOD.

A function of the script is wrapped at its definition, so that all callers get the wrapper; a function of another
module is wrapped once the module has been imported.
"""

from __future__ import annotations

import ast
import builtins
import os
import types
from typing import Any

import boundary  # beside this file

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
WRAP = "__kernelgap_step__"


class NoSuchStep(BaseException):
    """Error for a --step function that does not exist."""


class Named:
    """The function of --step (`step`, or None); `module`: the module that defines it, if it is a function."""

    def __init__(self, step: str | None, bound: Any) -> None:
        self.step, self.boundary = step, bound
        module, _, self.function = (step or "").partition(":")
        self.module: str | None = module if self.function else None

    def is_in(self, name: str) -> bool:
        """Return whether the program defines the function; `name`: of the module that it runs."""
        return self.module in ("__main__", name)

    def code(self, main: Any) -> types.CodeType:
        """Return the program's code, with the function decorated if the program defines it. Raises NoSuchStep."""
        source = main.source()
        if source is None:
            return main.loader.get_code(main.name)  # type: ignore[no-any-return]
        tree = ast.parse(source, main.path)
        if self.is_in(main.name):
            setattr(builtins, WRAP, lambda call: boundary.wrapped(call, self.boundary, self.function))
            if not _decorate(tree.body, self.function.split(".")):
                self._missing(f"{os.path.basename(main.path)} defines")
        return compile(tree, main.path, "exec", dont_inherit=True)

    def wrap(self, module: Any) -> None:
        """Wrap the function in its imported module. Raises NoSuchStep."""
        holder, parts = module, self.function.split(".")
        try:
            for part in parts[:-1]:
                holder = getattr(holder, part)
            function = vars(holder).get(parts[-1]) or getattr(holder, parts[-1])
        except AttributeError:
            self._missing(f"{self.module} has")
        setattr(holder, parts[-1], boundary.wrapped(function, self.boundary, self.function))

    def _missing(self, who: str) -> None:
        raise NoSuchStep(f"--step {self.step}: {who} no {self.function}")


def _decorate(body: Any, parts: Any) -> bool:
    """Decorate a function, also below an `if` or a `try`; return whether it was found."""
    decorated = False
    for node in body:
        if isinstance(node, ast.ClassDef) and node.name == parts[0] and len(parts) > 1:
            decorated |= _decorate(node.body, parts[1:])
        elif isinstance(node, FUNCTIONS) and node.name == parts[0] and len(parts) == 1:
            name = ast.Name(id=WRAP, ctx=ast.Load(), lineno=node.lineno, col_offset=0)
            node.decorator_list.insert(0, ast.fix_missing_locations(ast.copy_location(name, node)))
            decorated = True
        elif not isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            for field in ("body", "orelse", "handlers", "finalbody"):
                decorated |= _decorate(getattr(node, field, ()), parts)
    return decorated
