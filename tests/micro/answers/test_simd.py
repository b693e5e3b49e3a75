"""What is said of the width of vectors, on runs made by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from kernels.ops.fma import Fma
from kernels.ops.saxpy import Saxpy
from micro import memory
from micro.answers.simd import simd_answer
from micro.planning.contest import Case
from reports.record import Comparison, Contest, Environment, Result, Run, Seconds

UPDATE = Saxpy(8192, "warm")
AMD = {"scalar": 1.0, "sse": 1 / 3.4, "avx2": 1 / 7.6, "avx512": 1 / 7.0}
INTEL = {"scalar": 1.0, "sse": 1 / 3.9, "avx2": 1 / 7.4, "avx512": 1 / 15}


def result(case: Case, seconds: float | None) -> Result:
    found = Result(
        case.name,
        "x",
        "measured",
        case.problem.op,
        {},
        case.variant,
        "cpu",
        1,
        "skipped",
        "this processor has no avx512",
    )
    if seconds is None:
        return found
    timed = Seconds(seconds, None, None, 0.95)
    return replace(found, status="ok", reason=None, samples=(seconds,) * 8, seconds=timed)


def compared(contest: str, first: Result, second: Result) -> Comparison:
    ratio = second.seconds.median / first.seconds.median if first.seconds and second.seconds else None
    low, high = (None, None) if ratio is None else (0.99 * ratio, 1.01 * ratio)
    return Comparison(contest, "variant", first.name, second.name, ratio, low, high, 0.95, "faster", None, 0.01, 0.01)


def run(seconds: Mapping[str, float | None], peak: float) -> Run:
    """An update that takes so long by width; AVX-512 does `peak` times the multiply-adds of AVX2."""
    rows = [result(Case(UPDATE, name), took) for name, took in seconds.items()]
    pairs = [compared("simd/vector:8192", rows[a], rows[b]) for a, b in ((0, 1), (0, 2), (0, 3), (2, 3))]
    fma = [result(Case(Fma(isa), "c"), took) for isa, took in (("avx2", 1.0), ("avx512", 1 / peak))]
    contests = (
        Contest("simd/vector:8192", "?", "variant", tuple(rows), tuple(pairs), {}),
        Contest("simd/peak", "?", "isa", tuple(fma), (compared("simd/peak", *fma),), {}),
    )
    return Run(Environment("digest", {}, {}, "", "2026-01-02"), contests)


@pytest.mark.parametrize(
    ("seconds", "peak", "gain", "over"), [(AMD, 1.0, "0.92", "0.92"), (INTEL, 2.0, "2.027", "1.01")]
)
def test_what_was_seen_on_both_vendors_is_held(
    seconds: Mapping[str, float | None], peak: float, gain: str, over: str
) -> None:
    told, sse, avx2, widest, band = simd_answer(run(seconds, peak))
    assert told.startswith("y = y/2 + x in the first-level cache (vectors of 8 KiB), times as fast as scalar code:")
    assert "SSE 3." in told and "AVX2 7." in told and "[" in told
    assert sse.startswith("SSE against scalar code: 3.") and sse.endswith(": as expected.")
    assert avx2.startswith("AVX2 against scalar code: 7.") and avx2.endswith(": as expected.")
    assert widest.startswith(f"AVX-512 is {gain}") and "times as fast as AVX2" in widest
    assert f"registers: {over}; expected on Intel and AMD 0.7 to 1.3, usually 0.7 to 1: as expected." in band


def test_ratios_are_turned_over_with_their_ends() -> None:
    assert "SSE 4.00 [3.96, 4.04]" in simd_answer(run(AMD | {"sse": 0.25}, 1.0))[0]


def test_a_gain_that_the_peaks_do_not_explain_is_told() -> None:
    assert simd_answer(run(AMD, 2.0))[-1].endswith(
        "0.46; expected on Intel and AMD 0.7 to 1.3, usually 0.7 to 1: NOT as expected."
    )


def test_a_width_that_is_not_here_is_told_with_its_reason() -> None:
    said = simd_answer(run(AMD | {"avx512": None}, 1.0))
    assert said[1] == "No figure for avx512: this processor has no avx512."
    assert not any("AVX-512 is" in x for x in said)
    nothing = simd_answer(run(dict.fromkeys(AMD, None), 1.0))
    assert len(nothing) == 4 and all(x.startswith("No figure for") for x in nothing)


def test_the_question_has_the_answer() -> None:
    assert memory.answer(run(AMD, 1.0)) == simd_answer(run(AMD, 1.0))
