"""What a curve of micro.transfer says: lines by level of the memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernels.ops.transfer import Transfer
from kernels.problem import Problem
from kernels.setting import Setting
from micro.answers import transfer_curve as curves
from micro.planning.contest import Case
from reports.record import Contest, Result, Run
from tests import build

KIB, MIB = 1 << 10, 1 << 20
CACHES = (48 * KIB, 2 * MIB, 300 * MIB)
LEVELS = ((16 * KIB, 2e-9, 2e11), (MIB, 20e-9, 5e10), (16 * MIB, 1e-6, 2e10), (1 << 40, 1e-4, 1e10))


def exact(size: int) -> float:
    """Seconds, by the level that holds a copy of so many bytes; the last cache is smaller than the system says."""
    latency, rate = next((latency, rate) for end, latency, rate in LEVELS if size <= end)
    return latency + size / rate


def test_a_line_is_found_with_its_interval_and_what_it_leaves() -> None:
    line = curves.fit({size: 1e-6 + size / 1e10 for size in (1 << 10, 1 << 14, 1 << 18, 1 << 22)})
    assert line is not None
    assert line.latency == pytest.approx((1e-6,) * 3, rel=1e-6) and line.rate == pytest.approx((1e10,) * 3, rel=1e-6)
    assert (line.first, line.last) == (1 << 10, 1 << 22)
    bent = curves.fit({1 << 10: 1e-6, 1 << 14: 2e-6, 1 << 18: 2e-5, 1 << 22: 8e-4})
    assert bent is not None and bent.latency[1] < bent.latency[0] < bent.latency[2] and bent.worst > 0.1
    assert bent.rate[1] < bent.rate[0] and (bent.rate[2] is None or bent.rate[2] > bent.rate[0])
    assert curves.fit({1: 1.0, 2: 2.0}) is None


def test_each_level_has_its_own_line_and_the_last_cache_ends_where_the_times_say() -> None:
    times = {KIB << i: exact(KIB << i) for i in range(21)}
    found = curves.lines(times, CACHES)
    spans = [(line.first, line.last) for line in found]
    # 32 KiB and 1 MiB fill a cache with both operands: they are in no line.
    assert spans == [(KIB, 16 * KIB), (64 * KIB, 512 * KIB), (2 * MIB, 16 * MIB), (32 * MIB, 1 << 30)]
    for line, (_, latency, rate) in zip(found, LEVELS, strict=True):
        assert line.latency[0] == pytest.approx(latency, rel=1e-3) and line.rate[0] == pytest.approx(rate, rel=1e-3)
        assert line.worst < 1e-6


def test_chance_cuts_no_level() -> None:
    """Memory without a bend is one level, and too few sizes are none."""
    for noise in (0.0, 0.03):
        times = {MIB << i: (1e-6 + (MIB << i) / 1e10) * (1 + noise * (-1) ** (i // 2)) for i in range(1, 9)}
        assert [(line.first, line.last) for line in curves.lines(times, CACHES)] == [(2 * MIB, 256 * MIB)]
    assert curves.lines({KIB: 1e-9, 2 * KIB: 2e-9}, CACHES) == curves.lines({}, ()) == []


def test_a_library_that_copies_otherwise_what_is_large_has_a_line_of_its_own_there() -> None:
    rates = {MIB << i: 2e10 if i < 4 else 7e9 if i < 7 else 1.3e10 for i in range(1, 11)}
    found = curves.lines({size: size / rate for size, rate in rates.items()}, CACHES)
    spans = [(line.first // MIB, line.last // MIB) for line in found]
    assert spans == [(2, 8), (16, 64), (128, 1024)]


def result(problem: Problem, variant: str, threads: int, seconds: float) -> Result:
    case = Case(problem, variant, Setting(threads))
    timed = replace(build.case(1).seconds, median=seconds)  # type: ignore[type-var]
    return replace(build.case(1), name=case.name, variant=variant, threads=threads, op=problem.op, seconds=timed)


def contest(name: str, *rows: tuple[Problem, str, int, float], verdict: str = "faster") -> Contest:
    """Each against the first, seconds as ratios."""
    results = [replace(result(*row), contest=name) for row in rows]
    pairs = [
        build.compared(x, results[0], row[3] / rows[0][3], verdict=verdict)
        for x, row in zip(results[1:], rows[1:], strict=True)
    ]
    return Contest(name, "?", "?", tuple(results), tuple(pairs))


def run(*contests: Contest) -> Run:
    whole = build.run(*contests)
    return replace(whole, environment=replace(whole.environment, facts={"device": {"caches": list(CACHES)}}))


def test_the_curve_says_each_level_of_each_way() -> None:
    sizes = [KIB << i for i in range(21)]
    every = [contest(f"curve/{Transfer(size).name}", (Transfer(size), "memcpy", 1, exact(size))) for size in sizes]
    head, told = curves.curve(run(*every))
    assert head.startswith("What a call costs") and told.startswith("memcpy: 1 KiB to 16 KiB 2.00 ns [2, 2] + 200 GB/s")
    assert "; 32 MiB to 1 GiB 100 µs [100, 100] + 10.0 GB/s [10, 10], 0 %." in told
    (few,) = curves.curve(run(*every[:2]))
    assert few == "memcpy: 1 KiB in 7.12 ns, 2 KiB at 167 GB/s."
