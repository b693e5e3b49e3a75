"""Which steps of a turn count, the peak beside them, and what is said where rounds take longer than the budget."""

from __future__ import annotations

import random
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from kernels.ops.fma import Fma
from kernels.ops.fma.fastest import peak_of
from macro.frameworks import find
from macro.networks.base import chain
from macro.processes.job import Setting
from macro.timing import groups, peak, results, turns
from macro.timing.entry import LONG, TWIN, Entry, Plan, is_reported
from macro.timing.peak import FEWEST, LONGEST, MOST, SHORTEST, STEPS, TOGETHER, UNIT, Peak
from macro.timing.turns import over_budget

PLAN = Plan(chain("small", "a test", 8, (12, 4), rate=0.1), 8, "step", 0.0, 1)


class Stepping:
    """A process whose steps take `seconds`; `asked`: how many steps each time."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.asked = seconds, list[int]()

    def ask(self, patience: float, kind: str, count: int, **request: Any) -> dict[str, Any]:
        self.asked.append(count)
        each = dict.fromkeys(("cpu_ns", "blocked_ns", "system_ns", "faults", "voluntary", "involuntary"), [0] * count)
        wall = [int(self.seconds * 1e9)] * count
        return {**each, "wall_ns": wall, "foreign": 0.0, "canary": 0.0, "peak_bytes": 1}


class NoPeak:
    threads = 1

    def look(self, seconds: float) -> None:
        return None


@pytest.mark.parametrize(("seconds", "asked"), [(0.01, [1, 20]), (0.5, [1, 1]), (LONG, [1]), (4.0, [1])])
def test_the_first_step_of_a_turn_counts_only_where_steps_are_long(
    seconds: float, asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, process = Entry(find("numpy"), Setting()), Stepping(seconds)
    monkeypatch.setattr(groups, "begin", lambda *of: process)
    assert groups._begin(PLAN, entry, *(None,) * 2) and groups._warm(PLAN, entry)  # type: ignore[arg-type]
    groups.alike([entry], PLAN.counted)
    entry.process, process.asked = process, []  # type: ignore[assignment]
    turns._round(PLAN, random.Random(1), [entry], {1: NoPeak()})  # type: ignore[arg-type]
    assert process.asked == asked


def test_of_a_gpu_steps_go_before_until_its_clock_is_up() -> None:
    entry = Entry(find("pytorch"), Setting(device="cuda:0"))
    for entry.warm, steps in ((1e-3, 300), (0.1, 3), (2.0, 1)):
        assert turns._before(entry) == steps
    assert turns._before(Entry(find("numpy"), Setting(), warm=1e-3)) == 1


@pytest.mark.parametrize(
    ("steps", "whole"),
    [
        ((0.9, 1.1), ()),  # alike: both are timed warm
        ((1.1, 1.9), (1.1, 1.9)),
        ((0.9, 2.0), (2.0,)),
        ((5.0, 0.9), (5.0,)),
        ((1.6, 3.0, 0.9), ()),  # each as the one before it
        ((1.6, 4.0, 0.9), (4.0,)),
    ],
)
def test_steps_that_are_about_as_long_are_timed_alike(steps: tuple[float, ...], whole: tuple[float, ...]) -> None:
    entries = [Entry(find("numpy"), Setting(), warm=x) for x in steps]
    groups.alike(entries, PLAN.counted)
    assert tuple(x.warm for x in sorted(entries, key=lambda x: x.warm) if x.long) == whole


@pytest.mark.parametrize(("counted", "whole"), [(0.5, False), (0.2, True)])
def test_changed_steps_are_timed_as_the_unchanged_one_is(counted: float, whole: bool) -> None:
    twin, changed = (Entry(find("numpy"), Setting(), warm=x, change=word) for x, word in ((0.3, TWIN), (2.0, "a")))
    groups.alike([changed, twin], counted)
    assert (twin.long, changed.long) == (whole, whole)


def test_each_has_the_peak_of_as_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two threads on one core's two hyperthreads have less each than one of them alone."""
    looks = {
        threads: type("Look", (), {"threads": threads, "look": lambda self, x: float(self.threads)})()
        for threads in (1, 2)
    }
    one, two = (Entry(find("numpy"), Setting(threads=threads)) for threads in looks)
    for entry in (one, two):
        entry.process = Stepping(0.5)  # type: ignore[assignment]
    blocks = {id(entry): block for entry, block in turns._round(PLAN, random.Random(1), [one, two], looks)}
    assert [(blocks[id(x)]["fma"], blocks[id(x)]["fma_threads"]) for x in (one, two)] == [(1.0, 1), (2.0, 2)]


def test_the_first_block_of_a_long_step_may_take_as_long_as_it_does() -> None:
    entry, patience = Entry(find("numpy"), Setting(), warm=90.0, long=True), list[float]()
    process = Stepping(90.0)
    ask = process.ask
    entry.process = type(
        "Watched", (), {"ask": lambda self, most, *of, **how: patience.append(most) or ask(most, *of, **how)}
    )()
    turns._round(PLAN, random.Random(1), [entry], {1: NoPeak()})  # type: ignore[dict-item]
    assert min(patience) > 90.0


NAMED: Any = SimpleNamespace(name="small")


@pytest.mark.parametrize(
    ("batch", "runs", "end"),
    [(64, 3, "; --runs 1 or a smaller --batch takes less"), (64, 1, "; a smaller --batch takes less"), (1, 1, " more")],
)
def test_a_first_round_that_is_too_long_says_the_whole_and_what_makes_it_less(batch: int, runs: int, end: str) -> None:
    plan = Plan(NAMED, batch, "step", 60.0, runs)
    (text,) = over_budget(plan, 0, 20.0, 10.0)
    whole = 5 * 20 + (runs - 1) * (10 + 6 * 20)
    assert text.startswith(
        f"the required 6 rounds take about 120 s, longer than their share of the budget: about {whole} s more"
    )
    assert text.endswith(end)


def test_the_last_generation_has_none_after_it() -> None:
    (text,) = over_budget(Plan(NAMED, 64, "step", 60.0, 2, first=3), 4, 20.0, 10.0)
    assert "about 100 s more" in text


def test_rounds_within_the_budget_are_not_spoken_of() -> None:
    assert not list(over_budget(Plan(NAMED, 64, "step", 60.0, 3), 0, 3.3, 10.0))


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


def test_progress_is_reported_ever_more_seldom() -> None:
    assert [number for number in range(1, 62) if is_reported(number)] == [1, 2, 4, 8, 16, 32]
