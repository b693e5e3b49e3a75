"""A C library of NVIDIA's behind its names: each call is held to NVIDIA's declaration, then answered in Python.

A library's class has a method for each function that does something, under its name without the prefix.
"""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from tests.simulated import declarations, signatures
from tests.simulated.declarations import Function
from tests.simulated.recorded import PLACE, Call, passed, returned

Enqueue = Callable[[Callable[[], None], "int | None"], None]
Reach = Callable[[int, int], None]


def at_once(step: Callable[[], None], stream: int | None) -> None:
    """Do the work of a call without a stream."""
    step()


def anywhere(start: int, nbytes: int) -> None:
    """Accept any memory."""


def array(reach: Reach, place: int, kind: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return the array at an address, which must be in the device's memory."""
    nbytes = int(np.prod(shape)) * np.dtype(kind).itemsize
    reach(place, nbytes)
    there: np.ndarray = np.ctypeslib.as_array((ctypes.c_uint8 * nbytes).from_address(place)).view(kind).reshape(shape)
    return there


class CLibrary:
    """A library whose functions take NVIDIA's arguments by name: numbers and addresses, objects behind references.

    `enqueue` gets the work of a call and the stream of its handle, `reach` the place and bytes of each operand.
    `status` is what a function answers instead of working.
    """

    prefix: ClassVar[str]

    def __init__(self, enqueue: Enqueue = at_once, reach: Reach = anywhere, **status: int) -> None:
        self.enqueue, self.reach, self.status = enqueue, reach, status
        self.handles = 0  # created so far
        self.alive: dict[int, SimpleNamespace] = {}  # handles and descriptors that are not destroyed
        self.journal: list[Any] = []
        self._numbers = itertools.count(0x1000, 64)

    def __getattr__(self, symbol: str) -> CFunction:
        function = declarations.kept().functions.get(symbol) if symbol.startswith("cu") else None
        if function is None:
            raise AttributeError(symbol)
        self.__dict__[symbol] = CFunction(self, function)
        return self.__dict__[symbol]  # type: ignore[no-any-return]

    def perform(self, symbol: str, x: Any) -> Any:
        """Answer a call. A method without an answer succeeds; objects need none to be created and destroyed."""
        name = symbol.removeprefix(self.prefix)
        if status := self.status.get(name):
            return status
        self.handles += name in ("Create", "Create_v2")
        if method := getattr(type(self), name, None):
            return method(self, x) or 0
        first = next(iter(vars(x).values()))
        if "Create" in name:
            self.create(first)
        else:
            assert "Destroy" in name, symbol
            del self.alive[first]
        return 0

    def create(self, place: Any, **fields: Any) -> None:
        """Put the number of a new object into `place`."""
        place.value = next(self._numbers)
        self.alive[place.value] = SimpleNamespace(stream=None, **fields)

    def SetStream(self, x: Any) -> None:
        handle, stream = vars(x).values()
        self.alive[handle].stream = stream

    def plain(self, symbol: str, *values: Any) -> int:
        """Call a function as Python's bindings do: with addresses as integers, factors as numbers or addresses."""
        arguments: list[Any] = []
        for (name, kind), value in zip(declarations.kept().functions[symbol].arguments, values, strict=True):
            if name in ("alpha", "beta"):
                factor = ctypes.c_float(value) if isinstance(value, float) else ctypes.c_float.from_address(value)
                arguments.append(ctypes.byref(factor))
            else:
                arguments.append(kind.ctype(value))
        return int(getattr(self, symbol)(*arguments))


class CFunction:
    """A function of a library; `restype` as ctypes has it."""

    def __init__(self, library: CLibrary, declared: Function) -> None:
        self.library, self.declared, self.restype = library, declared, ctypes.c_int

    def __call__(self, *arguments: Any) -> Any:
        symbol = self.declared.symbol
        call = Call(symbol, tuple(map(passed, arguments)), returned(self.restype))
        differences = signatures.wrong(call, self.declared)
        assert not differences, differences
        names = (name for name, _ in self.declared.arguments)
        return self.library.perform(symbol, SimpleNamespace(**dict(zip(names, map(_value, arguments), strict=True))))


def _value(argument: Any) -> Any:
    if isinstance(argument, PLACE):
        return argument._obj
    return (argument.value or 0) if isinstance(argument, ctypes._SimpleCData) else argument
