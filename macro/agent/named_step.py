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
    """The function of --step (`step`, or None); `module`: None if the script defines it."""

    def __init__(self, step: str | None, script: str, bound: Any) -> None:
        self.step, self.script, self.boundary = step, script, bound
        module, _, self.function = (step or "").partition(":")
        in_script = module in ("__main__", os.path.splitext(os.path.basename(script))[0])
        self.module: str | None
        self.module, self.in_script = (None, in_script) if in_script or not self.function else (module, False)

    def source(self) -> types.CodeType:
        """Return the script's code, with the function decorated if the script defines it. Raises NoSuchStep."""
        with open(self.script, "rb") as stream:
            tree = ast.parse(stream.read(), self.script)
        if self.in_script and self.function:
            setattr(builtins, WRAP, lambda call: boundary.wrapped(call, self.boundary, self.function))
            if not _decorate(tree.body, self.function.split(".")):
                self._missing(f"{os.path.basename(self.script)} defines")
        return compile(tree, self.script, "exec", dont_inherit=True)

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
