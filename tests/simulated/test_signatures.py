"""Our bindings of cuBLAS, cuBLASLt and the driver are as NVIDIA declares them, and a difference is seen."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import pytest

from tests.simulated import declarations, recorded, signatures
from tests.simulated.declarations import Declarations
from tests.simulated.recorded import Call, Passed, Site

KINDS = (
    ctypes.c_char,
    ctypes.c_int,
    ctypes.c_uint,
    ctypes.c_int64,
    ctypes.c_uint64,
    ctypes.c_float,
    ctypes.c_double,
    ctypes.c_void_p,
)


@pytest.fixture(scope="module")
def calls() -> list[Call]:
    return recorded.called()


@pytest.fixture
def told() -> Declarations:
    return deepcopy(declarations.kept())


def test_every_place_that_takes_a_function_is_called(calls: list[Call]) -> None:
    print("", *signatures.listing(), sep="\n")
    assert {x.site for x in calls} == recorded.sites()
    assert not recorded.stale()
    assert not recorded.in_c()


def test_every_function_is_declared(told: Declarations) -> None:
    how = f"add to declarations.json, or drop from it, by {declarations.SOURCE}"
    assert set(told.functions) == {x.symbol for x in recorded.sites()}, how


def test_every_call_is_as_declared(calls: list[Call], told: Declarations) -> None:
    assert signatures.wrong_calls(calls, told) == []
    assert signatures.wrong_attributes(calls, told) == []
    assert signatures.wrong_values(calls, told) == []


def test_every_number_and_every_structure_is_nvidias(told: Declarations) -> None:
    assert signatures.wrong_numbers(told) == []
    assert signatures.wrong_structs(told) == []
    assert signatures.unnamed() == set()
    assert ctypes.sizeof(told.structs["cublasLtMatmulHeuristicResult_t"]) == 96


def test_every_argument_passed_otherwise_is_seen(calls: list[Call], told: Declarations) -> None:
    assert passed_otherwise(calls, told) == []


def passed_otherwise(calls: Sequence[Call], told: Declarations) -> list[str]:
    """At each place, not only in one of the calls of a function: changes of an argument that are not seen."""
    missed, count = [], 0
    for call in calls:
        for i, ours in enumerate(call.arguments):
            for kind in KINDS:
                if kind is ours.ctype:
                    continue
                other = replace(call, arguments=swapped(call.arguments, i, Passed(kind)))
                count += 1
                missed += [] if signatures.wrong_calls([other], told) else [f"{call.site}, {i}: {kind}"]
    print(f"\n{count - len(missed)} of {count} changes of a call")
    assert count == (len(KINDS) - 1) * sum(len(x.arguments) for x in calls) > 0
    return missed


def swapped(words: tuple[Any, ...], i: int, word: Any) -> tuple[Any, ...]:
    return (*words[:i], word, *words[i + 1 :])


@pytest.mark.parametrize("by", [-1, 1])
def test_every_number_of_ours_changed_by_one_is_seen(
    by: int, told: Declarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, seen = list(signatures.names()), 0
    for place in places:
        module, _, rest = place.partition(".")
        name, *keys = rest.replace("]", "").split("[")
        loaded = signatures.MODULES[module]
        with monkeypatch.context() as patch:
            patch.setattr(loaded, name, bumped(getattr(loaded, name), [eval(x) for x in keys], by))
            found = signatures.wrong_numbers(told)
        assert len(found) == 1 and found[0].startswith(place), found
        seen += 1
    print(f"\n{seen} of {len(places)} numbers, by {by:+d}")
    assert len(places) >= 27
    assert signatures.wrong_numbers(told) == []


def bumped(value: Any, keys: list[Any], by: int) -> Any:
    """A number within tuples and tables, changed."""
    if not keys:
        return value + by
    if isinstance(value, dict):
        return {k: bumped(x, keys[1:], by) if k == keys[0] else x for k, x in value.items()}
    return tuple(bumped(x, keys[1:], by) if i == keys[0] else x for i, x in enumerate(value))


def test_a_number_in_a_call_that_has_no_name_is_seen(calls: list[Call], told: Declarations) -> None:
    properties = ("cublasGetProperty", "cusparseGetProperty")
    asked = [x for x in calls if x.site.symbol in (*properties, "cuEventCreate", "cuInit")]
    for call in asked:
        arguments = tuple(replace(x, value=3) if x.value is not None else x for x in call.arguments)
        assert signatures.wrong_values([*calls, replace(call, arguments=arguments)], told)
    less = [x for x in calls if x not in asked]
    kept = [x for x in asked if x.site.symbol not in properties or x.arguments[0].value < 2]
    assert signatures.wrong_values(less + kept, told) == ["libraryPropertyType_t: never {2}"]


def test_every_field_of_another_kind_or_name_is_seen(told: Declarations) -> None:
    name = "cublasLtMatmulHeuristicResult_t"
    fields = told.structs[name]._fields_
    for i, (field, kind) in enumerate(fields):
        for other in (("x", kind), *((field, x) for x in KINDS if x is not kind)):
            made = type(name, (ctypes.Structure,), {"_fields_": swapped(fields, i, other)})
            assert signatures.wrong_structs(replace(told, structs={**told.structs, name: made})), other


def test_every_attribute_of_another_type_is_seen(calls: list[Call], told: Declarations) -> None:
    assert len(told.attributes) == 7
    for name, kind in told.attributes.items():
        for other in {"int32", "uint32", "int64", "uint64"} - {kind}:
            changed = replace(told, attributes={**told.attributes, name: other})
            assert [x.partition(":")[0] for x in signatures.wrong_attributes(calls, changed)][:1] == [name]


@pytest.mark.parametrize(
    ("text", "symbols"),
    [
        ("def f(library):\n    library.cublasDgemm_v2(1)", ["cublasDgemm_v2"]),
        ("def f(on):\n    return on.api.cuMemAlloc_v2", ["cuMemAlloc_v2"]),
        ("def f(library):\n    getattr(library, 'cublasDgemm_v2')(1)", ["cublasDgemm_v2"]),
        ("def f(library):\n    library['cublasDgemm_v2'](1)", ["cublasDgemm_v2"]),
        ("def f(library, x):\n    getattr(library, x)(1)", ["?x"]),
        (
            "def f(on, kind):\n    getattr(on.api, f'cublasLt{kind}Init')\nf(1, 'A')\nf(2, 'B')",
            ["cublasLtAInit", "cublasLtBInit"],
        ),
        ("def f(on, kind):\n    getattr(on.api, f'cu{kind}Init')\ndef g(x):\n    f(1, x)", ["cu?xInit"]),
        ("def f(x):\n    raise E(f'cublasCreate answers {x}')", []),
        ("def f(cublas):\n    cublas.sgemm()", []),
    ],
)
def test_a_function_that_is_added_is_found(text: str, symbols: list[str]) -> None:
    assert sorted(recorded.taken("x.py", text)) == [Site("x.py", "f", x) for x in symbols]
