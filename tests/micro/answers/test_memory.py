"""What is said of a run of micro/memory.py, on runs made by hand."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kernels.ops.chase.problem import Chase
from kernels.ops.pages.accounting import Account, Profile
from kernels.ops.pages.problem import HUGE_PAGE, Pages
from kernels.ops.saxpy.problem import Saxpy
from micro import memory
from micro.answers import memory as answers
from micro.planning.contest import Case
from reports.record import Contest, Environment, Result, Run
from tests.build import over, timed

KIB, MIB = 1 << 10, 1 << 20
CACHES = (48 * KIB, MIB, 32 * MIB)
ENVIRONMENT = Environment("digest", {"device": {"caches": CACHES}}, {}, "", "2026-01-02")


def result(problem: Any, samples: Sequence[float], **more: Any) -> Result:
    median = sorted(samples)[len(samples) // 2]
    rounds = {"samples": tuple(samples), "rounds": tuple(range(len(samples)))}
    return timed(Case(problem, "c"), median, **({"launches": 1, "device": "made"} | rounds | more))


def contest(name: str, *results: Result) -> Contest:
    """A contest of them, each against the first."""
    return Contest(name, "?", "x", results, tuple(over(results[0], x, 0.1) for x in results[1:]))


def run(*contests: Contest) -> Run:
    return Run(ENVIRONMENT, contests)


def touches(page: int = 4096, each: float = 1e-6, **more: Any) -> Contest:
    """16 MiB: 1 ms touched, `each` more a page when fresh, a tenth of that for its mapping; drifting together."""
    random.seed(1)
    rows: dict[str, list[float]] = {"touched": [], "fresh": [], "mapped": []}
    pages = 16 * MIB // page
    for i in range(40):
        drift = 1 + i / 40
        for memory_of, add in (("touched", 0.0), ("fresh", each), ("mapped", 1.1 * each)):
            rows[memory_of].append(drift * 1e-3 + pages * add * random.gauss(1, 0.001))
    results = [result(Pages("clear", name, 16 * MIB, page), x, **more) for name, x in rows.items()]
    return contest(f"fault/page:{page}/size:{16 * MIB}", *results)


# The cost of a fault


def test_a_fault_costs_what_fresh_memory_takes_more() -> None:
    found = answers.faults(run(touches(), touches(HUGE_PAGE, 50e-6)))
    assert found is not None
    assert found.fault[4096].seconds == pytest.approx(1e-6, rel=2e-3)
    assert found.unmap[4096].seconds == pytest.approx(1e-7, rel=2e-2)
    assert found.fault[HUGE_PAGE].seconds == pytest.approx(50e-6, rel=2e-3)
    for cost in (found.fault[4096], found.fault[HUGE_PAGE]):
        assert cost.low is not None and cost.high is not None
        assert 0.99 * cost.seconds < cost.low < cost.seconds < cost.high < 1.01 * cost.seconds


def test_rejected_rounds_do_not_count() -> None:
    touched, fresh = [1e-3] * 12, [2e-3] * 12
    fresh[3:7] = [1.0] * 4
    first = result(Pages("clear", "touched", MIB), touched)
    for rejected, most in (((3, 4, 5, 6), 1.01e-3), ((), 1.01e-3)):
        cost = answers.difference(first, result(Pages("clear", "fresh", MIB), fresh, rejected=rejected))
        assert cost is not None and cost.high is not None and (cost.high <= most) == bool(rejected)
    assert answers.difference(*(result(Pages("clear", x, MIB), [1e-3] * 5) for x in ("touched", "fresh"))) is None


@pytest.mark.parametrize("harm", [{"launches": 3}, {"seconds": None}])
def test_visits_that_were_not_made_ready_for_are_not_told(harm: dict[str, Any]) -> None:
    whole = touches()
    if "seconds" in harm:  # so long that a visit goes without
        rows = [result(Pages("clear", x, 16 * MIB), [0.06] * 8) for x in ("touched", "fresh")]
        whole = contest(whole.contest, *rows)
    else:
        whole = touches(**harm)
    assert answers.faults(run(whole)) is None
    assert answers.faults_answer(run(whole)) == []


def test_the_answer_has_the_cost_of_both_pages_and_the_band() -> None:
    small, huge, band = answers.faults_answer(run(touches(), touches(HUGE_PAGE, 50e-6)))
    assert small.startswith("The first touch of a page of 4 KiB costs 1.00 µs [") and "unmapping it 99." in small
    assert huge.startswith("The first touch of a page of 2 MiB costs 50.0 µs [")
    band_of_faults = "First touch of a page of 4 KiB, in µs: 1.00 µs [1, 1]; expected on Intel and AMD 0.1 to 3"
    assert band == f"{band_of_faults}: as expected."
    assert answers.faults_answer(run(touches(each=5e-6)))[-1].endswith("0.1 to 3: NOT as expected.")


def account(each: float) -> Account:
    return Account((each * 4096,) * 10, (4096e-7,) * 10, (4096.0,) * 10)


@pytest.mark.parametrize(("system", "agrees"), [(1.05e-6, True), (0.95e-6, True), (1.2e-6, False), (0.7e-6, False)])
def test_system_time_agrees_or_it_is_said_why_not(system: float, agrees: bool) -> None:
    said = answers.faults_answer(run(touches()), account(system), "perf is not installed")
    assert ("(agrees within 10 %)" in said[1]) == agrees
    assert ("does NOT agree within 10 %" in said[1]) == (not agrees)
    assert said[2] == "No cross-check by a profiler: perf is not installed."


def test_samples_are_set_against_the_process_they_were_taken_of() -> None:
    said = answers.faults_answer(run(touches()), account(1e-6), Profile(1.75e-6, 1.7e-6))[1]
    assert "perf samples within faults 1.75 µs, 1.03 times the sampled process's system time (agrees" in said


@pytest.mark.parametrize("device", ["cpu", "fake"])
def test_only_this_machine_s_processor_has_other_accounts(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    monkeypatch.setattr(memory, "_accounted", lambda: (account(1e-6), ""))
    said = "\n".join(memory.answer(run(touches(device=device))))
    assert ("Cross-checks" in said) == (device == "cpu")


# The knee

SIZES = tuple(x * MIB for x in (2, 4, 8, 12, 16, 24, 32, 64, 128, 256, 1024))


def curve(usable: int, noise: float = 0.0, plateau: float = 15.0, memory_takes: float = 150.0) -> dict[int, float]:
    """Seconds a load: caches up to a usable size, then what of the set is not in them; drawn with noise."""
    random.seed(usable)
    found = {32 * KIB: 1e-9, 512 * KIB: 4e-9}
    for size in SIZES:
        hit = min(1.0, usable / size) ** 3
        found[size] = 1e-9 * (hit * plateau + (1 - hit) * memory_takes) * random.lognormvariate(0, noise)
    return found


@pytest.mark.parametrize("noise", [0.0, 0.15])
@pytest.mark.parametrize("usable", [8, 12, 16, 24, 32])
def test_the_knee_is_where_the_cache_ends(usable: int, noise: float) -> None:
    found = answers.knee(curve(usable * MIB, noise), MIB)
    assert found is not None
    assert usable * MIB / 1.5 <= found.at <= 1.6 * usable * MIB
    assert found.low <= found.at <= found.high
    assert found.low in SIZES and SIZES.index(found.high) == SIZES.index(found.low) + 1


@pytest.mark.parametrize("stray", [8 * MIB, 12 * MIB, 128 * MIB])
def test_one_stray_point_does_not_move_it(stray: int) -> None:
    quiet = curve(24 * MIB)
    usual = answers.knee(quiet, MIB)
    other = quiet | {stray: 15e-9 if stray > 64 * MIB else 150e-9}
    found = answers.knee(other, MIB)
    assert usual is not None and found is not None and (found.low, found.high) == (usual.low, usual.high)


def test_a_curve_without_a_knee_has_none() -> None:
    assert answers.knee(curve(2048 * MIB), MIB) is None, "everything fits"
    assert answers.knee(curve(16 * MIB, memory_takes=20.0), MIB) is None, "main memory is as fast"
    assert answers.knee({}, MIB) is None
    assert answers.knee({2 * MIB: 15e-9}, MIB) is None
    assert answers.knee({64 * MIB: 150e-9, 128 * MIB: 150e-9}, MIB) is None


def chased(page: int, seconds: dict[int, float]) -> list[Contest]:
    return [contest(f"latency/working-set:{n}", result(Chase(n, page), [t] * 8)) for n, t in seconds.items()]


def test_the_usable_cache_is_told_beside_the_reported_one() -> None:
    contests = [*chased(4096, curve(8 * MIB)), *chased(HUGE_PAGE, curve(16 * MIB))]
    small, huge, usable = answers.latency_answer(run(*contests))
    assert small.startswith("Latency of a dependent load, pages of 4 KiB, in ns: 32 KiB 1, 512 KiB 4, 2 MiB 15")
    assert "pages of 2 MiB" in huge
    assert "(16 MiB fits, 24 MiB does not; from " in usable
    assert usable.endswith("the system reports 32 MiB.")
    said = answers.latency_answer(run(*chased(4096, curve(2048 * MIB))))[-1]
    assert said == "No knee between the second-level cache and main memory was measured; the system reports 32 MiB."


SAXPY = [Saxpy(256 * KIB, state=state) for state in ("warm", "flushed")]
IDLE = [Pages("clear", "fresh", 16 * MIB, pause=pause) for pause in (0.0, 3.0)]


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (contest("cold/x", result(SAXPY[0], [1e-4], launches=9), result(SAXPY[1], [3e-4])), None),
        (contest("cold/x", result(SAXPY[0], [1e-4]), result(SAXPY[1], [3e-4], launches=9)), "first launch of each"),
        (replace(contest("idle/x", *(result(x, [1e-3]) for x in IDLE)), seconds={"measuring": 3.5}), None),
        (
            replace(contest("idle/x", *(result(x, [1e-3]) for x in IDLE)), seconds={"measuring": 2.5}),
            "for each separately",
        ),
        (touches(), None),
        (touches(launches=2), "for each separately"),
    ],
)
def test_launches_that_were_not_made_ready_have_a_reason_in_place_of_ratios(made: Contest, reason: str | None) -> None:
    sentences = memory.answer(run(made))
    assert [(reason or "") in x for x in sentences if "no figure" in x] == [True] * bool(reason)
    assert any("relative to" in x for x in sentences) != bool(reason)
