"""NVIDIA's own declarations of what our bindings call: read out of the wheels nvmath-python and cuda-bindings,
kept in declarations.json, and given as ctypes.

The wheels are no dependency: with what they ask for they are 74 MB, for a few lines of text. `read` finds those
lines in an environment that has them; `python -m tests.simulated.signatures --write` keeps them.
"""

from __future__ import annotations

import ast
import ctypes
import functools
import importlib
import json
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

KEPT = Path(__file__).with_suffix(".json")
WHEELS = ("nvmath-python", "cuda-bindings")
INSTALL = "pip install --target FOLDER nvmath-python==1.0.0 cuda-bindings==13.5.0, and PYTHONPATH=FOLDER"
TERMS = (
    "Apache-2.0. Copyright (c) 2021-2026 NVIDIA CORPORATION & AFFILIATES. All rights reserved. An excerpt, "
    "set as JSON; where a .pxd leaves a number to the header, it is the one that the compiled module answers."
)
SOURCES = (  # a later one's word on a type goes before an earlier one's
    "nvmath/bindings/_internal/common_types.pxd",
    "nvmath/bindings/cycublas.pxd",
    "nvmath/bindings/cycublasLt.pxd",
    "nvmath/bindings/cycufft.pxd",
    "nvmath/bindings/cycusparse.pxd",
    "cuda/bindings/cydriver.pxd",
    "cuda/bindings/cyruntime.pxd",
)

FUNCTION = re.compile(r"^cdef (?P<returns>.+?)(?P<name>\w+)\((?P<arguments>.*)\) except", re.MULTILINE)
TYPE = re.compile(r"^ *ctypedef (?!enum\b|struct\b|union\b)(?P<base>[\w ]+?\**) (?P<name>\w+)(?: '\w+')?$", re.M)
BLOCK = re.compile(
    r"^(?P<indent> *)(?:ctypedef|cdef) (?P<what>enum|struct) (?P<name>\w+)[^\n]*:\n(?P<body>(?:(?P=indent) +\S.*\n)+)",
    re.M,
)
MEMBER = re.compile(r'(?P<name>\w+)(?: "\w+")?(?: = (?P<value>.+))?')
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
    """A type of C by ctypes. Of a pointer: `to` is what lies there, where that is said, `several`: as an array; a
    `handle` is a pointer under a name of its own, whose target is the library's affair. `enum` is the name of one."""

    ctype: Any
    to: Any = None
    several: bool = False
    handle: bool = False
    enum: str | None = None


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
        assert found, f"{name}: no such member; {INSTALL}, then python -m tests.simulated.signatures --write"
        return found[0]


@functools.cache
def kept() -> Declarations:
    """What declarations.json holds."""
    return understood(json.loads(KEPT.read_text("utf-8")))


def understood(told: dict[str, Any]) -> Declarations:
    """Declarations as ctypes."""
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


def folder() -> Path | None:
    """Where both wheels are installed."""
    return next((Path(x) for x in sys.path if all((Path(x) / name).exists() for name in SOURCES)), None)


def versions() -> list[str]:
    """Of the wheels that are installed. Raises PackageNotFoundError."""
    return [f"{name} {metadata.version(name)}" for name in WHEELS]


def read(place: Path, symbols: Iterable[str], numbers: Iterable[str]) -> dict[str, Any]:
    """What the installed wheels declare of functions, given by symbol, and of enums that have these members."""
    texts = [(place / name).read_text("utf-8") for name in SOURCES]
    told: dict[str, Any] = {"from": versions(), "terms": TERMS}
    all_functions = {x["name"]: x for text in texts for x in FUNCTION.finditer(text)}
    named = {_symbol(place, name): name for name in all_functions}
    told["functions"] = {
        named[x]: {
            "symbol": x,
            "returns": all_functions[named[x]]["returns"].strip(),
            "arguments": re.findall(r"[^,\s][^,]*", all_functions[named[x]]["arguments"]),
        }
        for x in sorted(symbols)
    }
    told |= _types(texts, set(numbers), told["functions"])
    told["attributes"] = _attributes(set(numbers))
    return told


def _types(texts: list[str], numbers: set[str], functions: dict[str, Any]) -> dict[str, Any]:
    """Named types, enums and structures: those of the functions, those of the numbers, and what these need."""
    names = {x["name"]: x["base"].replace(" *", "*") for text in texts for x in TYPE.finditer(text)}
    blocks = {x["name"]: x for text in texts for x in BLOCK.finditer(text)}
    members = {name: _members(x["body"]) for name, x in blocks.items() if x["what"] == "enum"}
    names |= {x: f"{x}_t" for x, base in names.items() if base == "int" and f"{x}_t" in members}
    wanted = [name for name, found in members.items() if numbers & set(found)]
    wanted += [w for f in functions.values() for x in (f["returns"], *f["arguments"]) for w in _words(x)]
    types, enums, structs = {}, {}, {}
    while wanted:
        name = wanted.pop()
        if name in types or name in enums or name in structs:
            continue
        if name in members:
            enums[name] = {x: _value(x, v) for x, v in members[name].items() if numbers & set(members[name])}
        elif name in names:
            types[name] = names[name]
            wanted += _words(names[name])
        elif name in blocks:
            structs[name] = [x.strip() for x in blocks[name]["body"].splitlines() if x.strip() != "pass"]
            wanted += [word for field in structs[name] for word in _words(field)]
    return {"types": _sorted(types), "enums": _sorted(enums), "structs": _sorted(structs)}


def _sorted(found: dict[str, Any]) -> dict[str, Any]:
    return {name: found[name] for name in sorted(found)}


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text)


def _members(body: str) -> dict[str, str | None]:
    """Of an enum, without the name that Cython's layer adds to one for itself."""
    found = [MEMBER.fullmatch(line.strip()) for line in body.splitlines()]
    return {x["name"]: x["value"] for x in found if x and not x["name"].startswith("_")}


def _value(name: str, told: str | None) -> int:
    """A member's number: the .pxd's, or what the compiled modules answer."""
    if told is not None:
        return int(ast.literal_eval(told))
    modules = (importlib.import_module(f"cuda.bindings.{x}") for x in ("driver", "runtime"))
    enums = (x for module in modules for x in vars(module).values() if hasattr(x, "__members__"))
    return int(next(x.__members__[name] for x in enums if name in x.__members__).value)


@functools.cache
def _named_in(place: Path) -> str:
    """What the layers under those of SOURCES call by name in the libraries."""
    compiled = (x.read_bytes() for x in (place / "nvmath/bindings/_internal").glob("cublas*.so"))
    looked_up = {x.decode() for raw in compiled for x in re.findall(rb"\0(cublas\w+)(?=\0)", raw)}
    driver = (place / "cuda/bindings/_internal/driver.pxd").read_text("utf-8")
    return " ".join(sorted(looked_up | set(re.findall(r" _(cu\w+)\(", driver))))


def _symbol(place: Path, name: str) -> str:
    """A function's name in the library: what a header renames has a number behind it."""
    found = re.findall(rf"(?<!\w){name}(?:_v\d+)?(?!\w)", _named_in(place))
    return max(found, key=len, default=name)


def _attributes(names: set[str]) -> dict[str, str]:
    """The types of cuBLASLt's attributes, as its Python layer tells them: of those that we set, as it tells an
    int32 also of what it does not know."""
    module: Any = importlib.import_module("nvmath.bindings.cublasLt")
    found: dict[str, str] = {}
    for prefix, enum, ask in (
        ("DESC", module.MatmulDescAttribute, module.get_matmul_desc_attribute_dtype),
        ("PREF", module.MatmulPreferenceAttribute, module.get_matmul_preference_attribute_dtype),
    ):
        members = {f"CUBLASLT_MATMUL_{prefix}_{name}": x for name, x in enum.__members__.items()}
        found |= {name: ask(members[name]).__name__ for name in sorted(names) if name in members}
    return found
