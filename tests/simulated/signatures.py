"""Our bindings of NVIDIA's C libraries and the driver against NVIDIA's declarations: calls, numbers, structures."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from kernels.libs import cublas, cublaslt, cudnn, cudnn_layers, cudnn_rnn, cufft, cusparse, pycuda, skcuda
from tests.simulated.declarations import Declarations, Function, Kind
from tests.simulated.recorded import Call, Passed

MODULES = (cublas, cublaslt, cudnn, cudnn_layers, cudnn_rnn, cufft, cusparse, pycuda, skcuda)
# NVIDIA's name of each number of ours, by where that is.
NAMES: dict[str, str] = json.loads(Path(__file__).with_name("numbers.json").read_text("utf-8"))
STRUCTS: dict[str, Any] = {
    "cublasLtMatmulHeuristicResult_t": cublaslt.Offer,
    "cublasLtMatmulAlgo_t": cublaslt.ALGO,
    **{f"cudnnConvolution{word}AlgoPerf_t": cudnn.Perf for word in ("Fwd", "BwdData", "BwdFilter")},
}
# Words of flags, which are declared as plain integers; None: the header asks for 0.
FLAGS = {
    ("cuInit", "Flags"): None,
    ("cuEventCreate", "Flags"): "CU_EVENT_DISABLE_TIMING",
    ("cuStreamWaitEvent", "Flags"): "CU_EVENT_WAIT_DEFAULT",
}
ON_DEVICE = {"devSeqLengths"}  # arrays of whole numbers that are in the device's memory, as the manual says
# Members whose numbers stand in a call, not under a name of ours.
IN_PLACE = {"PATCH_LEVEL", "CUDNN_STATUS_NOT_SUPPORTED", "CUDNN_STATUS_EXECUTION_FAILED"}


def number(place: str) -> int:
    """Return the number at a place as NAMES has them."""
    return int(eval(place, {x.__name__.rpartition(".")[2]: x for x in MODULES}))


def wrong_numbers(told: Declarations) -> list[str]:
    """Return numbers of ours that are not NVIDIA's."""
    pairs = ((place, name, told.number(name)[1]) for place, name in NAMES.items())
    return [f"{p} is {number(p)}: {name} is {value}" for p, name, value in pairs if number(p) != value]


def wrong_structs(told: Declarations) -> list[str]:
    """Structures of ours that do not lie as NVIDIA's, or whose fields are called otherwise."""
    found = []
    for name, ours in STRUCTS.items():
        theirs = told.structs[name]
        if not alike(ours, theirs):
            found.append(f"{name}: {leaves(ours)}: NVIDIA says {leaves(theirs)}")
        elif issubclass(ours, ctypes.Structure) and _fields(ours) != _fields(theirs):
            found.append(f"{name}: {_fields(ours)}: NVIDIA says {_fields(theirs)}")
    return found


def _fields(struct: Any) -> list[str]:
    return [x[0] for x in struct._fields_]


def leaves(ctype: Any, start: int = 0) -> list[tuple[int, Any]]:
    """Offset and simple type of all that a type holds."""
    if issubclass(ctype, ctypes.Structure):
        fields = ((getattr(ctype, name).offset, kind) for name, kind, *_ in ctype._fields_)
        return [x for offset, kind in fields for x in leaves(kind, start + offset)]
    if issubclass(ctype, ctypes.Array):
        size = ctypes.sizeof(ctype._type_)
        return [x for i in range(ctype._length_) for x in leaves(ctype._type_, start + i * size)]
    return [(start, ctype)]


def alike(ours: Any, theirs: Any, several: bool = False) -> bool:
    """Whether ours is one of theirs, or, where that may be, several behind each other."""
    count, rest = divmod(ctypes.sizeof(ours), ctypes.sizeof(theirs))
    return not rest and 0 < count <= (count if several else 1) and leaves(ours) == leaves(theirs * count)


def differs(ours: Passed, theirs: Kind) -> str | None:
    """What is wrong with an argument or an answer."""
    if ours.ctype is not theirs.ctype:
        return f"{_word(ours.ctype)} where NVIDIA declares {_word(theirs.ctype)}"
    if theirs.handle:
        return "the place of a handle, not the handle" if ours.to else None
    if theirs.to is None or ours.to is None:
        # What may lie in the device's memory.
        device = theirs.to in (None, ctypes.c_float, ctypes.c_double) or theirs.to.__name__ == "cuComplex"
        return f"a bare address of {_word(theirs.to)}" if ours.bare and not device else None
    if alike(ours.to, theirs.to, ours.several or theirs.several):
        return None
    return f"a place of {_word(ours.to)}: NVIDIA says {_word(theirs.to)}"


def _word(ctype: Any) -> str:
    return "nothing" if ctype is None else str(ctype.__name__)


def wrong(call: Call, theirs: Function) -> list[str]:
    """Where a call is not as declared."""
    found = [f"{theirs.symbol} answers {x}"] if (x := differs(call.returns, theirs.returns)) else []
    if len(call.arguments) != len(theirs.arguments):
        return [*found, f"{theirs.symbol}: {len(call.arguments)} arguments, NVIDIA's are {len(theirs.arguments)}"]
    for ours, (name, kind) in zip(call.arguments, theirs.arguments, strict=True):
        there = replace(kind, to=None) if name in ON_DEVICE else kind
        found += [f"{theirs.symbol}, {name}: {x}"] if (x := differs(ours, there)) else []
    return found


def wrong_calls(calls: Iterable[Call], told: Declarations) -> list[str]:
    """Calls that are not as declared, and of functions that are not."""
    found: list[str] = []
    for call in calls:
        theirs = told.functions.get(call.symbol)
        found += wrong(call, theirs) if theirs else [f"{call.symbol}: NVIDIA's has no such symbol"]
    return found


def wrong_values(calls: Iterable[Call], told: Declarations) -> list[str]:
    """Return enums and flags in calls whose number is no member that we name."""
    known: dict[str, set[int]] = {}
    for name in {*NAMES.values(), *IN_PLACE}:
        enum, value = told.number(name)
        known.setdefault(enum, set()).add(value)
    known |= {f"{s} {argument}": {told.number(x)[1] if x else 0} for (s, argument), x in FLAGS.items()}
    found = []
    for call in calls:
        theirs = told.functions[call.symbol]
        for ours, (name, kind) in zip(call.arguments, theirs.arguments, strict=True):
            is_word = ours.value is not None and (kind.enum or name.lower() == "flags")
            if is_word and ours.value not in known.get(kind.enum or f"{theirs.symbol} {name}", ()):
                found.append(f"{theirs.symbol}, {name}: {ours.value}")
    return found


def wrong_attributes(calls: Iterable[Call], told: Declarations) -> list[str]:
    """Attributes of cuBLASLt whose value is not of the type or not of the size that NVIDIA gives them."""
    found = []
    for call in calls:
        if call.symbol.endswith("SetAttribute"):
            _, which, value, size = call.arguments
            enum = told.functions[call.symbol].arguments[1][1].enum
            assert enum is not None
            members = told.enums[enum].items()
            name = next((x for x, n in members if n == which.value and x in told.attributes), None)
            if name is None:
                found.append(f"{which.value} of {enum}: of no attribute that declarations.json types")
                continue
            theirs = np.ctypeslib.as_ctypes_type(np.dtype(told.attributes[name]))
            if value.to is not theirs or size.value != ctypes.sizeof(theirs):
                found.append(f"{name}: {size.value} bytes of {_word(value.to)}: NVIDIA says {_word(theirs)}")
    return found
