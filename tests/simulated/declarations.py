"""NVIDIA's own declarations of what our bindings call, given as ctypes: declarations.json.

They were taken out of the .pxd files of NVIDIA's wheels and of cuDNN's headers, which are no dependency (440 MB): a
function that is called anew, or an enum whose member is, is added to the file by hand.
"""

from __future__ import annotations

import ctypes
import functools
import json
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

KEPT = Path(__file__).with_suffix(".json")
SOURCE = "the .pxd files of nvmath-python 1.0.0 and cuda-bindings 13.5.0, or the headers of nvidia-cudnn-cu13"
SIMPLE = {
    "char": ctypes.c_char,
    "int": ctypes.c_int,
    "int32_t": ctypes.c_int32,
    "unsigned": ctypes.c_uint,
    "unsigned int": ctypes.c_uint,
    "uint32_t": ctypes.c_uint32,
    "int64_t": ctypes.c_int64,
    "long long int": ctypes.c_longlong,
    "unsigned long long": ctypes.c_ulonglong,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
}


@dataclass(frozen=True)
class Kind:
    """A type of C by ctypes."""

    ctype: Any
    to: Any = None  # what lies behind a pointer, where that is said
    several: bool = False  # as an array
    handle: bool = False  # a pointer under a name of its own, whose target is the library's affair
    enum: str | None = None  # its name


@dataclass(frozen=True)
class Function:
    """A function as NVIDIA declares it; `symbol` is its name in the library."""

    symbol: str
    returns: Kind
    arguments: tuple[tuple[str, Kind], ...]


@dataclass(frozen=True)
class Declarations:
    """`functions` by symbol; `enums` by type and name; `attributes`: NumPy's name of the type of each."""

    functions: dict[str, Function]
    enums: dict[str, dict[str, int]]
    structs: dict[str, Any]
    attributes: dict[str, str]

    def number(self, name: str) -> tuple[str, int]:
        """The type and the value of an enum's member."""
        found = [(kind, members[name]) for kind, members in self.enums.items() if name in members]
        assert found, f"{name}: no such member in declarations.json: add its enum from {SOURCE}"
        return found[0]


@functools.cache
def kept() -> Declarations:
    """Return what declarations.json holds, as ctypes."""
    told = json.loads(KEPT.read_text("utf-8"))
    structs: dict[str, Any] = {}
    for name in told["structs"]:
        _structure(told, name, structs)
    functions = {}
    for name, found in told["functions"].items():
        arguments = tuple(_argument(told, structs, x) for x in found["arguments"])
        made = Function(found["symbol"], kind_of(told, structs, found["returns"]), arguments)
        assert made.symbol not in functions, f"{name}: a symbol of two functions"
        functions[made.symbol] = made
    return Declarations(functions, told["enums"], structs, told["attributes"])


def _structure(told: dict[str, Any], name: str, made: dict[str, Any]) -> Any:
    """The ctypes structure of a declared one; None where nothing is said of its fields."""
    if name not in made:
        fields = []
        for text in told["structs"][name]:
            base, field, count = _words_of(r"(.+?) (\w+)(?:\[(\d+)\])?", text)
            if base in told["structs"]:
                _structure(told, base, made)
            ctype = kind_of(told, made, base).ctype
            fields.append((field, ctype * int(count) if count else ctype))
        made[name] = type(name, (ctypes.Structure,), {"_fields_": fields}) if fields else None
    return made[name]


def _argument(told: dict[str, Any], structs: dict[str, Any], text: str) -> tuple[str, Kind]:
    base, name, array = _words_of(r"(.+?)\b(\w+)((?:\[\])*)", text)
    kind = kind_of(told, structs, base + "*" * (len(array) // 2))
    return name, replace(kind, several=bool(array))


def _words_of(pattern: str, text: str) -> tuple[Any, ...]:
    found = re.fullmatch(pattern, text)
    assert found is not None, f"{text}: not understood"
    return found.groups()


def kind_of(told: dict[str, Any], structs: dict[str, Any], text: str) -> Kind:
    """The kind of a type without a name, as "const float*"."""
    base, stars = " ".join(re.sub(r"\bconst\b|\*", " ", text).split()), text.count("*")
    handle = not stars
    while base in told["types"]:
        found = told["types"][base]
        base, stars = found.rstrip("* "), stars + found.count("*")
    enum = base if base in told["enums"] else None
    target = ctypes.c_int if enum else structs.get(base) if base in told["structs"] else SIMPLE.get(base)
    assert target or base == "void" or base in told["structs"], f"{base}: a type that is not declared"
    if stars:
        return Kind(ctypes.c_void_p, target if stars == 1 else ctypes.c_void_p, handle=handle)
    return Kind(target, enum=enum)
