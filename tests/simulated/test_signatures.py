"""Our bindings of NVIDIA's C libraries and of the driver are as NVIDIA declares them, and a difference is seen."""

from __future__ import annotations

import ast
import ctypes
import inspect
import re
from dataclasses import replace

import pytest

from kernels.libs import cublas
from tests.simulated import declarations, recorded, signatures
from tests.simulated.recorded import Call, Passed

KINDS = (
    *(ctypes.c_char, ctypes.c_int, ctypes.c_uint, ctypes.c_int64),
    *(ctypes.c_uint64, ctypes.c_float, ctypes.c_double, ctypes.c_void_p),
)
TOLD = declarations.kept()
OURS = {
    *("cublas.KERNELS", "cublas.WORKSPACE", "cublaslt.ALGO", "cublaslt.ALIGNED", "cudnn.MOST", "cudnn.NOT_SUPPORTED"),
    *("cudnn_layers.KERNELS", "cudnn_layers.MOST", "cufft.KERNELS", "cusparse.KERNELS", "cusparse.PLACEHOLDER"),
    *("pycuda.ON_REQUEST", "pycuda.TIES"),
}  # constants of the bindings whose numbers are no enum's


@pytest.fixture(scope="module")
def calls() -> list[Call]:
    return recorded.called()


def test_every_function_is_called_and_declared(calls: list[Call]) -> None:
    how = f"add to declarations.json, or drop from it, by {declarations.SOURCE}; add to recorded.py"
    assert recorded.named() <= {x.symbol for x in calls} == set(TOLD.functions), how


def test_every_call_is_as_declared(calls: list[Call]) -> None:
    assert signatures.wrong_calls(calls, TOLD) == []
    assert signatures.wrong_attributes(calls, TOLD) == []
    assert signatures.wrong_values(calls, TOLD) == []


def test_every_number_and_every_structure_is_nvidias() -> None:
    assert signatures.wrong_numbers(TOLD) == []
    assert signatures.wrong_structs(TOLD) == []
    assert len(cublas.TYPES) == len({x for x in signatures.NAMES if x.startswith("cublas.TYPES") and x.endswith("[0]")})


def test_every_number_of_a_constant_is_compared() -> None:
    """But for ours: counts, sizes, an address, a range of statuses."""
    places = [set(re.findall(r"\w+\.\w+", place)) for place in signatures.NAMES]
    more = set()
    for module in signatures.MODULES:
        for node in ast.parse(inspect.getsource(module)).body:
            if isinstance(node, ast.Assign):
                names = {x.id for target in node.targets for x in ast.walk(target) if isinstance(x, ast.Name)}
                targets = {f"{module.__name__.rpartition('.')[2]}.{x}" for x in names}
                numbers = [x for x in ast.walk(node) if isinstance(x, ast.Constant) and type(x.value) is int]
                if len(numbers) > sum(not targets.isdisjoint(place) for place in places):
                    more |= targets
    assert more == OURS


def test_every_argument_passed_otherwise_is_seen(calls: list[Call]) -> None:
    """At each place, not only in one of the calls of a function."""
    for call in calls:
        for i, ours in enumerate(call.arguments):
            for kind in (x for x in KINDS if x is not ours.ctype):
                changed = (*call.arguments[:i], Passed(kind), *call.arguments[i + 1 :])
                assert signatures.wrong_calls([replace(call, arguments=changed)], TOLD), (call.symbol, i, kind)


def test_other_numbers_structures_and_attributes_are_seen(calls: list[Call], monkeypatch: pytest.MonkeyPatch) -> None:
    other = {name: {"int32": "int64"}.get(kind, "int32") for name, kind in TOLD.attributes.items()}
    assert len(signatures.wrong_attributes(calls, replace(TOLD, attributes=other))) >= len(other) == 7
    (init,) = (x for x in calls if x.symbol == "cuInit")
    assert signatures.wrong_values([replace(init, arguments=(Passed(ctypes.c_uint, value=3),))], TOLD)
    monkeypatch.setattr(cublas, "T", cublas.T + 1)
    assert signatures.wrong_numbers(TOLD) == ["cublas.T is 2: CUBLAS_OP_T is 1"]
    monkeypatch.setitem(signatures.STRUCTS, "cublasLtMatmulAlgo_t", ctypes.c_uint64 * 7)
    assert len(signatures.wrong_structs(TOLD)) == 1
