"""A kernel of the user's own in C, or in a library that any compiler made: `file.c:NAME`, `file.so:NAME`. It is called
with the operands' addresses, inputs first, then the problem's axes of whole numbers, in their order, as int64."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.errors import BuildError, Unavailable, UsageError

if TYPE_CHECKING:
    from kernels.launch import Bind, Launch
    from kernels.problem import Array, Problem

SOURCE = ".c"
SUFFIXES = (SOURCE, ".so", ".dylib")
FLAGS = ("-Wno-error",)  # the house's own sources compile without a warning; a user's need not


def prepare_of(path: Path, name: str) -> Callable[[Any, Any, Any], Bind]:
    """How the function is bound to a problem. It is compiled and looked up here. Raises UsageError."""
    if not path.is_file():
        raise FileNotFoundError(path)
    return partial(_prepare, _function(path, name))


def _function(path: Path, name: str) -> int:
    """Its address."""
    from kernels import build

    try:
        library = build.load(path, FLAGS) if path.suffix == SOURCE else ctypes.CDLL(str(path.absolute()))
        place = ctypes.cast(library[name], ctypes.c_void_p).value
    except (BuildError, Unavailable) as error:
        raise UsageError(str(error)) from None
    except AttributeError:
        raise UsageError(
            f'{path.name} exports no function {name}: it must not be static, and in C++ be extern "C"'
        ) from None
    except OSError as error:
        raise UsageError(f"it cannot be loaded: {error}") from None
    assert place is not None
    return place


def numbers(problem: Problem) -> tuple[int, ...]:
    """The axes that a C function gets; of the others, words and fractions, it knows nothing."""
    values = asdict(problem)
    return tuple(values[x.name] for x in fields(problem) if x.type == "int")


def _prepare(function: int, problem: Problem, device: object, setting: object) -> Bind:
    """Through a call in C, so that a compiled loop can time it."""
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
    """`users` of users_call.c, a name for each element."""
    slots: list[tuple[str, Any]] = [("function", ctypes.c_void_p)]
    slots += [(f"operand{i}", ctypes.c_void_p) for i in range(operands)]
    slots += [(f"number{i}", ctypes.c_int64) for i in range(axes)]
    return type("Users", (ctypes.Structure,), {"_fields_": slots})
