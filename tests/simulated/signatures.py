"""Our bindings of cuBLAS, cuBLASLt, cuFFT, cuSPARSE and the driver against NVIDIA's declarations: calls, numbers.

`python -m tests.simulated.signatures` prints the list.
"""

from __future__ import annotations

import ast
import ctypes
import inspect
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from kernels.libs import cublas, cublaslt, cuda, cufft, cusparse, driver, pycuda, skcuda
from tests.simulated import declarations, recorded
from tests.simulated.declarations import Declarations, Function, Kind
from tests.simulated.recorded import Call, Passed

MODULES = {
    "cublas": cublas,
    "cublaslt": cublaslt,
    "cuda": cuda,
    "cufft": cufft,
    "cusparse": cusparse,
    "driver": driver,
    "pycuda": pycuda,
    "skcuda": skcuda,
}
OURS = {"cublas.WORKSPACE", "cublas.KERNELS", "cublaslt.ALIGNED", "pycuda.ON_REQUEST"}  # numbers that are no enum's
OURS |= {"pycuda.TIES", "cufft.KERNELS", "cusparse.KERNELS"}  # how many
OURS |= {"cusparse.PLACEHOLDER"}  # an address
OURS |= {"cublaslt.ALGO"}  # the type of a structure
STRUCTS: dict[str, Any] = {"cublasLtMatmulHeuristicResult_t": cublaslt.Offer, "cublasLtMatmulAlgo_t": cublaslt.ALGO}
# Words of flags, which are declared as plain integers; None: the header asks for 0.
FLAGS = {
    ("cuInit", "Flags"): None,
    ("cuEventCreate", "Flags"): "CU_EVENT_DISABLE_TIMING",
    ("cuStreamWaitEvent", "Flags"): "CU_EVENT_WAIT_DEFAULT",
}
IN_PLACE = {"PATCH_LEVEL"}  # members whose numbers stand in a call, not under a name of ours


def names() -> dict[str, str]:
    """NVIDIA's name of each number of ours, by where that is."""
    pedantic = any("pedantic" in x for x in cublas.TYPES)  # then "fp32" is the plain type
    return {
        "cublas.N": "CUBLAS_OP_N",
        "cublas.T": "CUBLAS_OP_T",
        "cublas.C": "CUBLAS_OP_C",
        "cublas.DEFAULT_MATH": "CUBLAS_DEFAULT_MATH",
        "cublas.PEDANTIC_MATH": "CUBLAS_PEDANTIC_MATH",
        "cublas.TF32_MATH": "CUBLAS_TF32_TENSOR_OP_MATH",
        "cublas.DEFAULT_ALGORITHM": "CUBLAS_GEMM_DEFAULT",
        **{f"cublas.TYPES[{x!r}][0]": _data_type(x) for x in cublas.TYPES},
        **{f"cublas.TYPES[{x!r}][1]": _compute_type(x, pedantic) for x in cublas.TYPES},
        "cublaslt.SCALE": "CUDA_R_32F",
        "cublaslt.NOT_SUPPORTED": "CUBLAS_STATUS_NOT_SUPPORTED",
        "cublaslt.TRANSA": "CUBLASLT_MATMUL_DESC_TRANSA",
        "cublaslt.TRANSB": "CUBLASLT_MATMUL_DESC_TRANSB",
        "cublaslt.MAX_WORKSPACE": "CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES",
        **{
            f"cublaslt.MIN_ALIGNMENTS[{i}]": f"CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_{letter}_BYTES"
            for i, letter in enumerate("ABCD")
        },
        "cufft.R2C": "CUFFT_R2C",
        "cufft.C2R": "CUFFT_C2R",
        **{f"cufft.RESULTS[{x!r}]": x for x in cufft.RESULTS},
        "cusparse.N": "CUSPARSE_OPERATION_NON_TRANSPOSE",
        "cusparse.INDEX_32": "CUSPARSE_INDEX_32I",
        "cusparse.BASE_ZERO": "CUSPARSE_INDEX_BASE_ZERO",
        "cusparse.ROW_MAJOR": "CUSPARSE_ORDER_ROW",
        "cusparse.FP32": "CUDA_R_32F",
        "cusparse.ALGORITHMS['default']": "CUSPARSE_SPMM_ALG_DEFAULT",
        **{f"cusparse.ALGORITHMS['alg{i}']": f"CUSPARSE_SPMM_CSR_ALG{i}" for i in (1, 2, 3)},
        **{
            f"cusparse.REFUSALS[{i}]": f"CUSPARSE_STATUS_{word}"
            for i, word in enumerate(("ALLOC_FAILED", "NOT_SUPPORTED", "INSUFFICIENT_RESOURCES"))
        },
        "pycuda.NON_BLOCKING": "CU_STREAM_NON_BLOCKING",
        "pycuda.NO_TIMING": "CU_EVENT_DISABLE_TIMING",
        "skcuda.MAJOR": "MAJOR_VERSION",
        "skcuda.MINOR": "MINOR_VERSION",
    }


def _data_type(name: str) -> str:
    """Of an entry of cublas.TYPES, whose names say it."""
    return "CUDA_R_16BF" if "bf16" in name else "CUDA_R_16F" if "fp16" in name else "CUDA_R_32F"


def _compute_type(name: str, pedantic: bool) -> str:
    """The same. `pedantic`: whether that type has an entry of its own."""
    if "tf32" in name:
        return "CUBLAS_COMPUTE_32F_FAST_TF32"
    strict = "pedantic" in name or (name == "fp32" and not pedantic)
    return "CUBLAS_COMPUTE_32F_PEDANTIC" if strict else "CUBLAS_COMPUTE_32F"


def number(place: str) -> int:
    """Ours, at a place as `names` has them."""
    return int(eval(place, dict(MODULES)))


def unnamed() -> set[str]:
    """Constants with a number in them, in the modules that bind, that are neither in `names` nor in OURS; and
    what those two list and no module has."""
    found = set()
    for module, loaded in MODULES.items():
        for node in ast.parse(inspect.getsource(loaded)).body:
            if isinstance(node, ast.Assign) and any(_is_number(x) for x in ast.walk(node.value)):
                targets = (x for t in node.targets for x in ast.walk(t) if isinstance(x, ast.Name))
                found |= {f"{module}.{x.id}" for x in targets}
    return found ^ ({x.partition("[")[0] for x in names()} | OURS)


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def wrong_numbers(told: Declarations) -> list[str]:
    """Numbers of ours that are not NVIDIA's."""
    pairs = ((place, name, told.number(name)[1]) for place, name in names().items())
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
    told = f"{call.site.file}, {call.site.function}: {theirs.symbol}"
    found = [f"{told} answers {x}"] if (x := differs(call.returns, theirs.returns)) else []
    if len(call.arguments) != len(theirs.arguments):
        return [*found, f"{told}: {len(call.arguments)} arguments, NVIDIA's are {len(theirs.arguments)}"]
    for ours, (name, kind) in zip(call.arguments, theirs.arguments, strict=True):
        found += [f"{told}, {name}: {x}"] if (x := differs(ours, kind)) else []
    return found


def wrong_calls(calls: Iterable[Call], told: Declarations) -> list[str]:
    """Calls that are not as declared, and of functions that are not."""
    found: list[str] = []
    for call in calls:
        theirs = told.functions.get(call.site.symbol)
        found += wrong(call, theirs) if theirs else [f"{call.site.symbol}: NVIDIA's has no such symbol"]
    return found


def values(calls: Iterable[Call], told: Declarations) -> Iterator[tuple[str, str, int]]:
    """Of each argument that is an enum or flags: what it is called, the enum or the member, the number passed."""
    for call in calls:
        theirs = told.functions[call.site.symbol]
        for ours, (name, kind) in zip(call.arguments, theirs.arguments, strict=True):
            if ours.value is not None and (kind.enum or name.lower() == "flags"):
                yield f"{theirs.symbol}, {name}", kind.enum or f"{theirs.symbol} {name}", ours.value


def wrong_values(calls: Sequence[Call], told: Declarations) -> list[str]:
    """Numbers in calls that are no member that we name, and members that we name and never pass."""
    known: dict[str, set[int]] = {}
    for name in {*names().values(), *IN_PLACE}:
        enum, value = told.number(name)
        known.setdefault(enum, set()).add(value)
    known |= {f"{s} {argument}": {told.number(x)[1] if x else 0} for (s, argument), x in FLAGS.items()}
    found, sent = [], dict[str, set[int]]()
    for place, kind, x in values(calls, told):
        found += [] if x in known.get(kind, ()) else [f"{place}: {x} of {kind}"]
        sent.setdefault(kind, set()).add(x)
    return found + [f"{kind}: never {known[kind] - x}" for kind, x in sent.items() if known.get(kind, x) - x]


def wrong_attributes(calls: Iterable[Call], told: Declarations) -> list[str]:
    """Attributes of cuBLASLt whose value is not of the type or not of the size that NVIDIA gives them."""
    found = []
    for call in calls:
        if call.site.symbol.endswith("SetAttribute"):
            _, which, value, size = call.arguments
            enum = told.functions[call.site.symbol].arguments[1][1].enum
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


def listing() -> list[str]:
    """Every function with how many arguments it has, every structure, every number."""
    told, sites = declarations.kept(), recorded.sites()
    calls = recorded.called()
    reached, right = {x.site for x in calls}, {x.site.symbol for x in calls if not wrong_calls([x], told)}
    lines = []
    for symbol in sorted({x.symbol for x in sites}):
        count = len(told.functions[symbol].arguments) if symbol in told.functions else "?"
        lines.append(f"{symbol}: {count} argument{'s' * (count != 1)}")
    symbols = {x.symbol for x in sites}
    lines.append(f"{len(right & symbols)} of {len(symbols)} functions")
    lines.append(f"{len(sites & reached)} of {len(sites)} places that take one")
    lines += [f"{name}: {ctypes.sizeof(x)} bytes" for name, x in sorted(STRUCTS.items())]
    lines += [f"{name} = {number(place)}: {place}" for place, name in names().items()]
    lines.append(f"{len(names()) - len(wrong_numbers(told))} of {len(names())} enum values")
    return lines


if __name__ == "__main__":
    print("\n".join(listing()))
