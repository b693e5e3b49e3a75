"""C files compiled behind maths.c, the suite's vector mathematics, and launches of their functions."""

from __future__ import annotations

import ctypes
import functools
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from kernels import build, openmp
from kernels.errors import Unavailable
from kernels.launch import Bind, Launch
from kernels.problem import Array
from kernels.setting import Setting

MATHS = Path(__file__).with_name("maths.c")
POINTER, INT64, FLOAT = ctypes.c_void_p, ctypes.c_int64, ctypes.c_float
ALONE = openmp.Axis("", 1, {})  # one thread divides nothing


@functools.cache
def flags() -> tuple[str, ...]:
    """Return the compiler flags that include maths.c; its digest is a flag, so that a change recompiles."""
    return ("-include", str(MATHS), f"-DMATHS={zlib.crc32(MATHS.read_bytes())}")


def address(source: Path, symbol: str) -> int:
    """Return the address of a function of a C file that uses maths.c. Raises BuildError, Unavailable."""
    return build.address(source, symbol, flags())


def alone(setting: Setting) -> None:
    """Raise Unavailable if more than one thread is requested."""
    if setting.threads != 1:
        raise Unavailable("single-threaded kernel: --threads 1")


def prepared(
    source: Path,
    symbol: Callable[[Any], str],
    argument: type[ctypes.Structure] | Callable[[Any], tuple[ctypes.Structure, tuple[object, ...]]],
    scratch: Callable[[Any], int] = lambda problem: 0,
    axis: Callable[[Any], openmp.Axis] | None = None,
    registers: bool = True,
) -> Callable[[Any, Any, Any], Bind]:
    """Return a variant's `prepare` for the function `symbol(problem)` of a C file.

    `argument(problem)` returns a fresh structure with a field per operand, and the objects to keep alive with it; or
    `argument` is a structure class, whose int64 fields are set from the problem's. The field `scratch` points to
    `scratch(problem)` bytes. Threads divide `axis(problem)`; without an axis, only one thread may be requested.
    `registers`: report the widest registers in the file's code as this function's."""

    def prepare(problem: Any, device: Any, setting: Setting) -> Bind:
        outer = axis(problem) if axis else None
        if outer is None:
            alone(setting)
            outer = ALONE
        compiler_flags = (*flags(), *openmp.flags(setting))
        function = build.address(source, symbol(problem), compiler_flags)
        kernel = openmp.compiled(source, compiler_flags, setting) if registers else None
        names = [operand.name for operand in problem.operands()]
        size = scratch(problem)
        block = device.allocate(size) if size else None

        def bind(buffers: Sequence[Array]) -> Launch:
            structure, kept = _filled(argument, problem) if isinstance(argument, type) else argument(problem)
            if block is not None:
                structure.scratch = block.ctypes.data
            more = {"workspace": size, "kernel": kernel}
            return openmp.launched(function, structure, names, buffers, setting, outer, (block, *kept), **more)

        return bind

    return prepare


def _filled(kind: type[ctypes.Structure], problem: Any) -> tuple[ctypes.Structure, tuple[object, ...]]:
    integers = (name for name, field, *_ in kind._fields_ if field is INT64)
    return kind(**{name: getattr(problem, name) for name in integers}), ()
