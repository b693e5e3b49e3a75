"""Files that a person writes, of problems and of networks: a key that nothing reads is refused, not passed over."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernels.errors import UsageError
from micro.planning.network import NETWORK, read
from micro.planning.written import WANTED
from tests.conftest import Ran

PROBLEM = {"m": 8, "n": 8, "k": 8}
SIZES = '"m": 8, "n": 8, "k": 8'
FEW = ("--variant", "openblas", "--device", "fake", "--list")


def written(path: Path, told: Any) -> str:
    path.write_text(told if isinstance(told, str) else json.dumps(told))
    return str(path)


def refused(ran: Ran, head: str, why: str) -> None:
    """Exit code 2, one line, all of it."""
    assert (ran.code, ran.out, ran.err) == (2, "", f"micro.gemm: {head} ({why})\n")


def shapes(gemm: Callable[..., Ran], path: Path, told: Any) -> tuple[Ran, str]:
    ran = gemm("--shapes", written(path, told), *FEW)
    return ran, f"--shapes {path}: not a list of problems like micro/shapes/fc.json"


def nearest(*pairs: tuple[str, str]) -> str:
    return "; ".join(f"no key {key}, the nearest is {near}" for key, near in pairs)


ROWS: list[tuple[dict[str, Any], str]] = [
    ({"tran": "nt", "alpah": 2}, nearest(("tran", "trans"), ("alpah", "alpha"))),
    ({"M": 9}, nearest(("M", "m"))),
    ({"ld-pad": 4}, nearest(("ld-pad", "ld_pad"))),
    ({"cold": "all"}, "no key cold, there are m, n, k, trans, dtype, alpha, beta, ld_pad, name, uses, source"),
    ({"op": "gemm"}, "no key op, there are m, n, k, trans, dtype, alpha, beta, ld_pad, name, uses, source"),
    ({"trans": 5}, "trans: 5, give a text"),
    ({"alpha": "2"}, "alpha: '2', give a number"),
    ({"alpha": True}, "alpha: True, give a number"),
    ({"m": 8.0}, "m: 8.0, give a whole number"),
    ({"name": 5}, "name: 5, give a text"),
]


@pytest.mark.parametrize(("more", "why"), ROWS, ids=[",".join(more) + str(i) for i, (more, _) in enumerate(ROWS)])
def test_a_row_of_shapes_with_something_else_in_it(
    gemm: Callable[..., Ran], tmp_path: Path, more: dict[str, Any], why: str
) -> None:
    ran, head = shapes(gemm, tmp_path / "mine.json", {"problems": [PROBLEM, PROBLEM | more]})
    refused(ran, head, f"problem 2: {why}")


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"problems": [PROBLEM], "problms": [PROBLEM]}, nearest(("problms", "problems"))),
        ({"problem": [PROBLEM]}, nearest(("problem", "problems"))),
        ({"problems": PROBLEM}, "problems: {'k': 8, 'm': 8, 'n': 8}, give a list"),
        ({}, "problems missing"),
        ({"problems": [PROBLEM, {"n": 8}]}, "problem 2: m, k missing"),
        ({"problems": ["m"]}, "problem 1: 'm' is no object"),
        (f'{{"problems": [{{{SIZES}, "m": 9}}]}}', "two values for m"),
        (f'{{"problems": [{{{SIZES}}}], "problems": []}}', "two values for problems"),
    ],
)
def test_a_file_of_shapes_with_something_else_in_it(
    gemm: Callable[..., Ran], tmp_path: Path, told: Any, why: str
) -> None:
    ran, head = shapes(gemm, tmp_path / "mine.json", told)
    refused(ran, head, why)


def test_a_value_out_of_range_is_told_by_its_row(gemm: Callable[..., Ran], tmp_path: Path) -> None:
    path = written(tmp_path / "mine.json", {"problems": [PROBLEM, PROBLEM | {"k": 0}]})
    ran = gemm("--shapes", path, *FEW)
    assert (ran.code, ran.err) == (2, f"micro.gemm: --shapes {path}: problem 2: --k 0: take 1 or more\n")


def test_remarks_and_whole_numbers_for_real_ones_are_taken(gemm: Callable[..., Ran], tmp_path: Path) -> None:
    row = PROBLEM | {"trans": "nt", "alpha": 2, "name": "mine", "uses": ["here"], "source": "me"}
    ran = gemm("--shapes", written(tmp_path / "mine.json", {"source": "me", "problems": [row]}), *FEW)
    assert ran.code == 0 and ran.out.startswith("gemm/m:8/n:8/k:8/trans:nt/alpha:2 ")


GOOD: dict[str, Any] = {"network": "mine", "batch": 8, "layers": [{"name": "a", "inputs": 4, "outputs": 6}]}
LAYERS = GOOD["layers"][0]


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (GOOD | {"momentun": 0.9}, nearest(("momentun", "momentum"))),
        (GOOD | {"momentum": "0.9"}, "momentum: '0.9', give a number"),
        (GOOD | {"optimizer": "adam"}, f"no key optimizer, there are {', '.join(NETWORK)}"),
        (GOOD | {"layers": [LAYERS | {"fisrt": True}]}, f"layer 1: {nearest(('fisrt', 'first'))}"),
        (GOOD | {"layers": [LAYERS | {"first": "no"}]}, "layer 1: first: 'no', give true or false"),
        (
            GOOD | {"layers": [LAYERS, LAYERS | {"bias": False}]},
            "layer 2: no key bias, there are name, inputs, outputs, activation, first",
        ),
        (GOOD | {"layers": [LAYERS, {"name": "b"}]}, "layer 2: inputs, outputs missing"),
        ('{"network": "mine", "batch": 8, "batch": 16, "layers": []}', "two values for batch"),
    ],
)
def test_a_network_with_something_else_in_it(gemm: Callable[..., Ran], tmp_path: Path, told: Any, why: str) -> None:
    path = written(tmp_path / "net.json", told)
    refused(gemm("--net", path, *FEW), f"--net {path}: no network like micro/shapes/fcn-s.json", why)


@pytest.mark.parametrize("key", [*NETWORK])
def test_every_key_of_a_network_is_known_and_typed(tmp_path: Path, key: str) -> None:
    with pytest.raises(UsageError, match=f"{key}: None, give {WANTED[NETWORK[key]]}"):
        read(written(tmp_path / "net.json", GOOD | {key: None}))
