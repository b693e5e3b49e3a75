"""Products of whole numbers of eight bits: exact ones pass, one wrong count is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels.catalog import find
from kernels.dtypes import UNIT_ROUNDOFF
from kernels.errors import WrongResult
from kernels.ops.gemm import problem as gemm_problem
from kernels.ops.gemm.problem import Gemm
from micro.gemm import BENCHMARK
from tests.conftest import Ran
from tests.kernels.rows import checked
from tests.wrong.kernels import made

ODD = Gemm(7, 9, 13, "nt", dtype="int8")
SQUARE = Gemm(24, 24, 40, dtype="int8")
LONG = Gemm(3, 5, 26752, "tn", dtype="int8")
PADDED = Gemm(17, 23, 33, "tt", dtype="int8", ld_pad=3)
ALL = (ODD, SQUARE, LONG, PADDED, Gemm(1, 1, 1, dtype="int8"))
Array = Any


def whole(left: Array, right: Array) -> Array:
    """Exact, in 64 bits."""
    return left.astype(np.int64) @ right.astype(np.int64)


def exact(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    c[...] = whole(left, right)


@pytest.fixture(params=[False, True], ids=["in full", "cheaper"])
def cheaper(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check, and that of large products."""
    if request.param:
        monkeypatch.setattr(gemm_problem, "FREIVALDS_FLOPS", 0.0)


@pytest.mark.parametrize("problem", ALL)
def test_an_exact_product_passes_without_an_error(problem: Gemm, cheaper: None) -> None:
    row = find("gemm", "torch")
    for exact_row in (made("EXACT", exact), *(() if row.missing() or row.accepts(problem) else (row,))):
        assert checked(problem, exact_row).error == 0 or not gemm_problem.FREIVALDS_FLOPS


# Wrong ones


def off_by_one(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    c[...] = whole(left, right)
    c[-1, -1] += 1


def term_missing(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    c[...] = whole(left[:, :-1], right[:-1])


def in_half(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    c[...] = np.clip(whole(left, right), -65504, 65504).astype(np.float16)


def last_row(problem: Gemm, left: Array, right: Array, c: Array) -> None:
    c[:-1] = whole(left[:-1], right)


WRONG = (off_by_one, term_missing, in_half)


@pytest.mark.parametrize("product", WRONG)
def test_a_wrong_count_is_refused(product: Callable[..., None]) -> None:
    with pytest.raises(WrongResult, match=r"^(dense|sparse) probe: .* times the tolerance of its precision"):
        checked(LONG, made("WRONG", product))


@pytest.mark.parametrize("problem", ALL)
def test_one_count_more_is_refused_at_any_size(problem: Gemm, cheaper: None) -> None:
    with pytest.raises(WrongResult):
        checked(problem, made("WRONG", off_by_one))


def test_each_probe_by_itself_sees_one_count_more() -> None:
    """However many terms a sum has."""
    u = UNIT_ROUNDOFF["int8"]
    for probe in LONG.probes:
        x = LONG.fill(np.random.default_rng(3), probe)
        want = LONG.reference(x)["c"]
        for more in (0, 1):
            (found,) = LONG.compare(x, {"c": want + more}, u, probe)
            assert bool((found.error <= found.bound).all()) == (not more)


def test_what_is_not_written_is_told() -> None:
    with pytest.raises(WrongResult, match=r"^leaves 24 of 576 outputs unwritten, first at \[23, 0\]$"):
        checked(SQUARE, made("LAST_ROW", last_row))


def test_torch_refuses_what_it_cannot_write() -> None:
    row = find("gemm", "torch")
    assert row.accepts(PADDED) == "torch._int_mm supports no row padding: --ld-pad 0"
    assert row.accepts(SQUARE) is row.accepts(Gemm(8, 8, 8, ld_pad=3)) is None


# The problem


def test_its_answer_takes_four_bytes_a_number() -> None:
    a, b, c = ODD.operands()
    assert [x.dtype for x in (a, b, c)] == ["int8", "int8", "int32"]
    assert [x.nbytes for x in (a, b, c)] == [7 * 13, 9 * 13, 4 * 7 * 9]
    assert ODD.bytes == 7 * 13 + 9 * 13 + 4 * 7 * 9
    assert "dtype:int8" in ODD.name and ODD.precision == "int8"


def test_inputs_are_whole_and_fill_their_range() -> None:
    x = Gemm(64, 64, 64, dtype="int8").fill(np.random.default_rng(3))
    for array in x.values():
        assert np.array_equal(array, np.rint(array)) and 80 < np.abs(array).max() <= 127


@pytest.mark.parametrize("variant", ["openblas", "numpy", "blocked", "mkl"])
def test_others_do_not_accept_it(variant: str) -> None:
    assert find("gemm", variant).accepts(ODD) == "supports only fp32: --dtype fp32"


# Through the command line

Run = Callable[..., Ran]


def test_shorter_types_are_compared(gemm: Run) -> None:
    ran = gemm("--types", "--m", "8", "--n", "8", "--k", "8", "--device", "fake", "--json", "-")
    told = [x for x in json.loads(ran.out)["results"] if x["role"] == "measured"]
    assert ran.code == 0
    assert [(x["problem"]["dtype"], x["precision"], x["status"]) for x in told] == [
        (dtype, dtype, "ok") for dtype in ("fp32", "bf16", "int8")
    ]
    assert told[2]["error"] == 0 < told[0]["error"] < told[1]["error"]
    assert "allowed" in ran.err


@pytest.mark.slow
@pytest.mark.parametrize("question", ["--types", "--sparse"])
def test_the_line_that_repeats_a_case_names_it_again(
    gemm: Run, question: str, in_process: Callable[..., Ran], capsys: pytest.CaptureFixture[str]
) -> None:
    from micro.command.line import main

    told = json.loads(gemm(question, "--device", "fake", "--until", "plan", "--json", "-").out)["results"]
    assert told
    for result in told:
        program, *words = result["repeat"].split()[2:]
        again = in_process(capsys, main, BENCHMARK, "gemm", [*words, "--list"])
        assert program == "micro.gemm"
        assert again.out.splitlines()[1].split()[0] == result["name"]
