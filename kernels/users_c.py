"""A user's kernel in C, or in a shared library of any compiler: `file.c:NAME`, `file.so:NAME`.

The function is called with the operands' addresses, inputs first, then the problem's integer axes, in their order,
as int64."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import Any

from kernels.errors import BuildError, Unavailable, UsageError
from kernels.launch import Bind, Launch
from kernels.problem import Array, Problem

SOURCE = ".c"
SUFFIXES = (SOURCE, ".so", ".dylib")
FLAGS = ("-Wno-error",)  # the suite's sources compile without a warning; a user's need not


def prepare_of(path: Path, name: str) -> Callable[[Any, Any, Any], Bind]:
    """Return a variant's `prepare` for a compiled function. Raises UsageError, FileNotFoundError."""
    if not path.is_file():
        raise FileNotFoundError(path)
    return partial(_prepare, _function(path, name))


def _function(path: Path, name: str) -> int:
    """Compile or load a file and return a function's address. Raises UsageError."""
    from kernels import build

    try:
        library = build.load(path, FLAGS) if path.suffix == SOURCE else ctypes.CDLL(str(path.absolute()))
        place = ctypes.cast(library[name], ctypes.c_void_p).value
    except (BuildError, Unavailable) as error:
        raise UsageError(str(error)) from None
    except AttributeError:
        raise UsageError(
            f'{path.name} exports no function {name}: it must not be static; C++ needs extern "C"'
        ) from None
    except OSError as error:
        raise UsageError(f"cannot be loaded: {error}") from None
    assert place is not None
    return place


def numbers(problem: Problem) -> tuple[int, ...]:
    """Return the values of the integer axes, the only axes that are passed to a C function."""
    values = asdict(problem)
    return tuple(values[x.name] for x in fields(problem) if x.type == "int")


def _prepare(function: int, problem: Problem, device: object, setting: object) -> Bind:
    """Bind the function through a call in C, so that a compiled loop can time it."""
    from kernels import build
    from kernels.native import launch

    operands, axes = len(problem.operands()), numbers(problem)
    call = build.address(Path(__file__).with_name("users_call.c"), "users_call", _flags(operands, len(axes)))
    structure = _structure(operands, len(axes))

    def bind(buffers: Sequence[Array]) -> Launch:
        argument = structure(function)
        for i, value in enumerate(axes):
            setattr(argument, f"number{i}", value)
        return launch(call, argument, [f"operand{i}" for i in range(operands)], buffers)

    return bind


def _flags(operands: int, axes: int) -> tuple[str, ...]:
    types = ["void *"] * operands + ["int64_t"] * axes
    arguments = [f"x->operand[{i}]" for i in range(operands)] + [f"x->number[{i}]" for i in range(axes)]
    return (
        f"-DTYPES={', '.join(types)}",
        f"-DOPERANDS={operands}",
        f"-DNUMBERS={axes}",
        f"-DARGUMENTS={', '.join(arguments)}",
    )


def _structure(operands: int, axes: int) -> type[ctypes.Structure]:
    """Return the structure `users` of users_call.c, with a named field for each array element."""
    slots: list[tuple[str, Any]] = [("function", ctypes.c_void_p)]
    slots += [(f"operand{i}", ctypes.c_void_p) for i in range(operands)]
    slots += [(f"number{i}", ctypes.c_int64) for i in range(axes)]
    return type("Users", (ctypes.Structure,), {"_fields_": slots})
