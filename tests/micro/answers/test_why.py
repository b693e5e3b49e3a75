"""`--why`: the sentences on a scripted run, and the command on the fake device."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernels import ceilings
from kernels.problem import Work
from micro.answers import why
from micro.gemm import BENCHMARK
from micro.planning.options import request
from micro.planning.request import planned
from reports.record import Comparison, Contest, Environment, Result, Run, Seconds
from tests import build
from tests.conftest import Ran

Gemm = Callable[..., Ran]
PROBLEM = "gemm/m:64/n:64/k:64"
SIZE = ("--m", "8", "--n", "8", "--k", "8")
WHY = ("--why", "--device", "fake", "-q")


def case(variant: str = "openblas", **more: Any) -> Result:
    """A product of 64³ at 0.1 TFLOP/s, half of its ceiling."""
    told: dict[str, Any] = {
        "seconds": Seconds(5.24288e-6, None, None, 0.95),
        "flops_per_second": 1e11,
        "percent_of_ceiling": 50.0,
        "ceiling": "FMA avx512",
        "kernel": "OpenBLAS 1.2 Haswell kernels",
        "isa_observed": "avx2",
        "blas": "NN = sgemm(N,N)",
    }
    return build.result(f"{PROBLEM}/variant:{variant}/threads:1", contest="why/x", variant=variant, **told | more)


def against(
    variant: str, ratio: float | None, verdict: str, width: float = 0.01, reason: str | None = None
) -> Comparison:
    low, high = (None, None) if ratio is None else (ratio - width, ratio + width)
    ends = {"low": low, "high": high, "verdict": verdict, "reason": reason}
    return build.comparison(case().name, f"{PROBLEM}/variant:{variant}/threads:1", ratio, contest="why/x", **ends)


def answer(first: Result, *comparisons: Comparison, isa: tuple[str, ...] = ("avx", "avx2")) -> list[str]:
    environment = Environment("0", {"device": {"isa": list(isa)}}, {}, "", "")
    contests = [Contest(name, "?", "variant", (first,), comparisons) for name in ("why/x", "why/y")]
    return why.answer("why/x", Run(environment, tuple(contests)))


def test_a_file_is_named_as_it_was_typed(own_state: Path) -> None:
    name = "gemm/m:64/n:64/k:64/variant:.%2Fown.py:f/threads:1"
    (sentence,) = answer(replace(case(), name=name, status="wrong", seconds=None, reason="returns zeros"))
    assert sentence == f"{PROBLEM}/variant:./own.py:f/threads:1 wrong: returns zeros."


def test_the_nearest_cause_comes_first(own_state: Path) -> None:
    told = answer(case(faults=3, error=1e-7, error_bound=1e-6, warnings=("contended: slow host",)))
    assert [line.split()[0] for line in told] == [
        PROBLEM + "/variant:openblas/threads:1",
        "It",
        "What",
        "No",
        "3",
        "Its",
        "Note:",
    ]


def test_without_a_ceiling_it_says_of_what_none_is_known(own_state: Path) -> None:
    unknown: dict[str, Any] = {"ceiling": None, "percent_of_ceiling": None, "precision": "fp16"}
    assert answer(case(**unknown))[0].endswith("no ceiling is known for fp16 arithmetic.")
    there = case(**unknown, bytes_per_second=1e9)
    on_gpu = replace(there, device="fake:cuda", flops_per_second=None)
    assert answer(on_gpu)[0].endswith("no ceiling is known for the bandwidth of a GPU's caches.")
    assert answer(replace(on_gpu, bytes_per_second=None))[0].endswith("it does no work that a ceiling could bound.")


@pytest.mark.parametrize(
    ("percent", "told"),
    [
        (50.0, "50 % of its ceiling (FMA avx512); a factor of 2 remains."),
        (89.9, "90 % of its ceiling (FMA avx512); a factor of 1.1 remains."),
        (103.0, "103 % of its ceiling (FMA avx512); there is little left to gain."),
    ],
)
def test_how_near_it_is_to_its_ceiling(own_state: Path, percent: float, told: str) -> None:
    line = answer(case(percent_of_ceiling=percent))[0]
    assert line == f"{case().name} takes 5.24 µs: 100 GFLOP/s, {told}"


def test_what_is_executed_beyond_the_nominal(own_state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answer(case())[1] == ("It executes 524 kFLOP, and moves 48 KiB: 10.7 FLOP per byte; NN = sgemm(N,N).")
    assert "no library call is known" in answer(case("naive", blas=None))[1]
    for bytes_, words in ((3, "moves 144 KiB, 3 times the least traffic: 7.11 FLOP per byte; "), (0, ": no traffic; ")):
        row = SimpleNamespace(executed=lambda problem, n=bytes_: Work(2 * problem.flops, n * problem.bytes))
        monkeypatch.setattr(why, "find", lambda op, name, row=row: row)
        assert (
            answer(case())[1].startswith("It executes 1.05 MFLOP, 2 times the nominal work, and moves ") or not bytes_
        )
        assert words in answer(case())[1]


@pytest.mark.parametrize("variant", ["transpose-then-nn", "kept-transpose:8"])
def test_a_copy_is_traffic(own_state: Path, variant: str) -> None:
    result = case(variant)
    layout = replace(result, name=result.name.replace("k:64/", "k:64/trans:nt/"))
    assert "times the least" in answer(layout)[1]


def test_what_ran(own_state: Path) -> None:
    assert answer(case())[2] == "What ran: OpenBLAS 1.2 Haswell kernels (avx2)."
    told = answer(case(kernel=None, isa_observed=None))[2]
    assert told == "What ran: an unidentified kernel (instruction set not known)."


def test_instructions_below_those_of_the_processor(own_state: Path) -> None:
    wide = ("avx", "avx2", "avx512")
    assert "It uses avx2, this processor supports avx512." in answer(case(), isa=wide)
    ceilings.save(ceilings.Ceilings("now", "0", {"avx2": 2e11, "avx512": 4e11}, {}))
    assert answer(case(), isa=wide)[3] == (
        "It uses avx2, this processor supports avx512; it reaches 50% of this machine's 200 GFLOP/s with avx2."
    )
    for isa, seen in ((("avx", "avx2"), "avx2"), (wide, None), ((), "avx2")):
        assert not any("this processor supports" in line for line in answer(case(isa_observed=seen), isa=isa))


def test_the_fastest_rival(own_state: Path) -> None:
    told = answer(
        case(),
        against("naive", 9.0, "slower"),
        against("numpy", 0.9, "faster"),
        against("mkl", 0.5, "faster"),
        against("torch", None, "not comparable", reason="torch wrong: returns zeros"),
    )[3]
    assert told == (
        "Best variant: mkl, 0.500 [0.490, 0.510] times its time (2 of 3 others are faster, chosen from 2 in the "
        "same rounds)."
    )


def test_no_rival_is_faster(own_state: Path) -> None:
    told = answer(case(), against("naive", 9.0, "slower"), against("numpy", 1.0, "same"))[3]
    assert told == (
        "None of 2 other variants is certainly faster; the nearest, numpy, takes 1.000 [0.990, 1.010] times its "
        "time, chosen from 2 in the same rounds."
    )
    assert answer(case())[3] == "No other variant supports this problem."
    failed = answer(case(), against("numpy", None, "not comparable", reason="numpy failed: raises"))
    assert "No other variant supports this problem." not in failed
    told = answer(case(), against("numpy", 0.9, "faster"), against("mkl", 0.8, "unresolved", 0.4))[3]
    assert told.startswith("Best variant: numpy"), "one that is faster for certain"


def test_without_intervals_the_medians_are_told(own_state: Path) -> None:
    """They were measured: in too few rounds for an interval."""
    others = [
        case(name, seconds=Seconds(t, None, None, 0.95), samples=(t,) * 5, rejected=(2,))
        for name, t in (("naive", 0.2), ("numpy", 4e-6))
    ]
    few = [against(name, None, "unresolved", reason="4 accepted rounds") for name in ("naive", "numpy", "mkl")]
    contest = Contest("why/x", "?", "variant", (case(), *others), tuple(few))
    told = why.answer("why/x", Run(Environment("0", {"device": {"isa": []}}, {}, "", ""), (contest,)))[3]
    assert told == (
        "Of 2 other variants, numpy has the least median, 0.76 times its time; not certain: 4 undisturbed "
        "rounds give no interval; use a longer --budget."
    )
    assert answer(case(), *few)[3] == "None of 3 other variants could be measured."


@pytest.mark.parametrize("status", ["failed", "wrong"])
def test_a_case_without_a_time_is_told_and_nothing_else(own_state: Path, status: str) -> None:
    told = answer(case(status=status, seconds=None, reason="returns zeros"), against("numpy", None, "x"))
    assert told == [f"{case().name} {status}: returns zeros."]


# The command


def test_one_case_against_every_variant(gemm: Gemm) -> None:
    ran = gemm(*SIZE, *WHY, "--variant", "naive", "--json", "-")
    told = json.loads(ran.out)
    assert ran.code == 0
    variants = [one["variant"] for one in told["results"] if one["role"] == "measured"]
    assert variants[0] == "naive" and {"openblas", "numpy", "blocked"} < set(variants)
    assert len(told["comparisons"]) == len(variants) - 1
    assert all("/variant:naive/" in one["baseline"] for one in told["comparisons"])
    assert "/variant:naive/device:fake/threads:1 takes " in ran.err and "It executes 1.02 kFLOP" in ran.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("--m 8,16 --n 8 --k 8", "explains a single case, but 2 are selected"),
        ("--m 8 --n 8 --k 8 --vary trans --trans nn,nt", "explains a single case, but 2 are selected"),
        ("--m 8 --n 8 --k 8 --alpha 2 --variant numpy", "cannot be measured: does not support alpha and beta"),
        ("--m 1024 --n 1024 --k 1024 --variant naive", "cannot be measured: the textbook loops are slow"),
    ],
)
def test_what_cannot_be_explained_is_refused_with_one_line(gemm: Gemm, words: str, told: str) -> None:
    ran = gemm(*words.split(), *WHY)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1)
    assert ran.err.startswith("micro.gemm: --why: ") and told in ran.err


def test_a_second_case_is_of_another_run_file(gemm: Gemm, tmp_path: Path) -> None:
    for m, code in (("8", 0), ("8", 0), ("16", 2)):
        ran = gemm("--m", m, *SIZE[2:], *WHY, "-o", str(tmp_path / "run.jsonl"), "--resume")
        assert ran.code == code
        assert (f"m:{m}/n:8/k:8/variant:openblas/device:fake/threads:1 takes" in ran.out) == (code == 0)


def test_a_case_that_was_not_timed_is_told_without_a_reason(gemm: Gemm) -> None:
    ran = gemm(*SIZE, *WHY, "--until", "plan")
    assert ran.out.splitlines()[0] == "gemm/m:8/n:8/k:8/variant:openblas/device:fake/threads:1 planned."
    assert "None" not in ran.out
    meant, options = request(BENCHMARK, "gemm", [*SIZE, "--why", "--device", "fake"], raising=True)
    (contest,) = planned(meant, "gemm", options).contests
    assert contest.sparing, "it leaves out what would eat the budget"


@pytest.mark.parametrize("text", ["", "[]", '{"measured": 1}', '{"measured": "", "environment": "", "flops": []}'])
def test_damaged_ceilings_are_none(own_state: Path, text: str) -> None:
    (own_state / "ceilings.json").write_text(text)
    assert ceilings.load() is None
