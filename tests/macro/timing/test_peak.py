"""The peak beside whole steps: bursts as long as a product, their median; on as many threads as the steps have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kernels.ops.fma import Fma
from kernels.ops.fma.fastest import peak_of
from macro.networks.base import chain
from macro.timing import groups, peak, results, turns
from macro.timing.peak import FEWEST, LONGEST, MOST, SHORTEST, STEPS, TOGETHER, UNIT, Peak

RATE = 100e9  # FLOP/s of a thread
SLOW = 3.0  # times as long as the others one of three bursts is, of several threads two
NETWORK = chain("small", "", 32, (8, 8, 8), 0.1)


class Cores:
    """Multiply-adds that take their time by a clock of this test."""

    def __init__(self, most: int) -> None:
        self.most, self.bursts, self.now = most, [], 0.0  # type: int, list[float], float

    def prepared(self, problem: Fma) -> Callable[[], object] | None:
        if problem.processors > self.most:
            return None

        def call() -> None:
            disturbed = problem.steps > STEPS and (len(self.bursts) % 3 == 0) == (problem.processors == 1)
            self.now += (SLOW if disturbed else 1.0) * problem.flops / problem.processors / RATE
            if problem.steps > STEPS:
                self.bursts.append(problem.flops / problem.processors / RATE)

        return call

    def seconds(self, call: Callable[[], object], clock: object) -> float:
        began = self.now
        call()
        return self.now - began


@pytest.fixture
def cores(monkeypatch: pytest.MonkeyPatch) -> Cores:
    made = Cores(2)
    monkeypatch.setattr(peak, "fastest", lambda sets: "avx2")
    monkeypatch.setattr(peak, "prepared", made.prepared)
    monkeypatch.setattr(peak, "seconds", made.seconds)
    return made


@pytest.mark.parametrize(("product", "wanted"), [(1e-6, SHORTEST), (0.02, 0.02), (7.0, LONGEST)])
def test_a_burst_is_as_long_as_a_product(cores: Cores, product: float, wanted: float) -> None:
    assert Peak().look(product) == pytest.approx(UNIT / RATE)
    assert cores.bursts == pytest.approx([wanted] * len(cores.bursts), rel=0.3)
    assert FEWEST <= len(cores.bursts) <= MOST


def test_of_several_threads_the_fastest_burst_counts_and_none_is_long(cores: Cores) -> None:
    looked = Peak(2)
    assert looked.threads == 2
    assert looked.look(0.05) == pytest.approx(UNIT / RATE)
    assert max(cores.bursts) <= TOGETHER * 1.3


def test_where_there_are_too_few_cores_it_is_one_thread_s(cores: Cores) -> None:
    looked = Peak(3)
    assert looked.threads == 1 and looked.look(0.01) == pytest.approx(UNIT / RATE)


def test_where_nothing_compiles_there_is_no_peak(cores: Cores) -> None:
    cores.most = 0
    assert Peak().look(0.01) is None


def entry(threads: int, **block: Any) -> Any:
    setting: Any = type("Setting", (), {"threads": threads})()
    made = turns.Entry(None, setting)  # type: ignore[arg-type]
    made.blocks.append((0, 0, {"wall": 0.04, "cpu": 0.04, "blocked": 0.0, **block}))
    return made


@pytest.mark.parametrize(
    ("threads", "block", "name"),
    [
        (1, {"fma_threads": 1}, "FMA peak"),
        (2, {"fma_threads": 2}, "FMA peak, 2 threads"),
        (2, {"fma_threads": 1}, "FMA peak, 2 × 1 thread"),
        (2, {}, "FMA peak, 2 × 1 thread"),
    ],
    ids=["one", "together", "too few cores", "an older file"],
)
def test_its_name_says_how_many_threads_there_were(threads: int, block: dict[str, int], name: str) -> None:
    assert results._peak(entry(threads, **block)) == name


def test_a_product_has_its_share_of_the_fastest_step() -> None:
    """Two layers, of which the first needs no gradient of its input: five products in a step."""
    plan = turns.Plan(NETWORK, 32, "step", 1.0, 1)
    slower = entry(1)
    slower.blocks[0][2]["wall"] = 1.0
    assert turns._product(plan, [entry(1), slower]) == pytest.approx(0.04 / 5)
    fresh = turns.Entry(None, None, count=4)  # type: ignore[arg-type]
    assert turns._product(plan, [fresh]) == pytest.approx(groups.BLOCK / 4 / 5)
    assert turns._product(plan, []) == 0.0


def test_a_median_is_of_bursts_and_no_best_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    took = iter([1.0, 1.0, *[2.0, 4.0, 3.0] * MOST])
    monkeypatch.setattr(peak, "fastest", lambda sets: "avx2")
    monkeypatch.setattr(peak, "prepared", lambda problem: lambda: None)
    monkeypatch.setattr(peak, "seconds", lambda call, clock: next(took))
    assert Peak().look(1.0) == pytest.approx(3.0 * UNIT / peak_of("avx2", STEPS).flops, rel=0.5)
