"""The gap of two steps: exact sums, work and rate, bars, names, and what is certain of equal and unequal steps."""

from __future__ import annotations

import math
import random
from collections import Counter
from typing import Any

import numpy as np
import pytest

from kernels.ops.gemm.problem import Gemm
from macro.explaining import certain
from macro.explaining import gap as gaps
from macro.explaining.attribute import Attribution, Key
from macro.explaining.certain import ERROR, Seconds
from macro.explaining.gap import Gap, levels, named, named_bars, split
from macro.explaining.rows import Row, groups
from macro.watching.recording import Watched
from reports.explanation import RESIDUAL, Cell
from tests.macro.watched import KNOWN, attribution, side
from tests.reports import coverage

FORWARD, WGRAD, UPDATE, OUTSIDE = ("fc1 forward",), ("fc1 wgrad",), ("fc1 update",), ("in no span",)
FUSED = ("fc1 wgrad", "fc1 update")
A: dict[Key, float] = {
    (FORWARD, "gemm"): 0.4,
    (WGRAD, "gemm"): 0.3,
    (UPDATE, "optimizer"): 0.1,
    (OUTSIDE, "OS memory"): 0.05,
    (OUTSIDE, "unknown: x.so"): 0.02,
    (("waiting",), "waiting"): 0.01,
}
B: dict[Key, float] = {(FORWARD, "gemm"): 0.2, (UPDATE, "optimizer"): 0.2, (OUTSIDE, "OS memory"): 0.01}


def noisy(cells: dict[Key, float], seed: int, rounds: int = 12, by_round: int = 1) -> Attribution:
    """Each cell with 2 % of noise; steps of a round alike or not."""
    rng = random.Random(seed)
    count = rounds * by_round
    made = {key: [x * rng.gauss(1, 0.02) for _ in range(count)] for key, x in cells.items()}
    return attribution(made, [i // by_round for i in range(count)])


def found(
    a: dict[Key, float],
    b: dict[Key, float],
    processes: int = 1,
    faults: tuple[float, float] = (0.0, 0.0),
    counts: tuple[int, int] = (1, 1),
) -> Gap:
    """Of sides whose plain steps take a second and 0.7."""
    rng = random.Random(1)
    sides, told = [], []
    for name, cells, plain, number, of in zip("ab", (a, b), (1.0, 0.7), (0, 1), counts, strict=True):
        made = side([], [faults[number]])
        made.processes = [
            Watched({"P0": [plain * rng.gauss(1, 0.01) for _ in range(12)]}, faults=[faults[number]])
            for _ in range(processes)
        ]
        sides.append(made)
        told.append([noisy(cells, ord(name) * 100 + i, by_round=of) for i in range(processes)])
    return gaps.gap([one.processes for one in sides], told, KNOWN)


def cell(gap: Gap, row: str, column: str) -> Cell:
    (one,) = [x for x in gap.cells if (x.row, x.column) == (row, column)]
    return one


@pytest.mark.parametrize("processes", [1, 2, 5])
@pytest.mark.parametrize("counts", [(1, 1), (1, 3)])
def test_cells_and_residual_are_the_gap(processes: int, counts: tuple[int, int]) -> None:
    gap = found(A, B, processes, counts=counts)
    difference = gap.step["a"] - gap.step["b"]
    rest = gap.residual["a"] - gap.residual["b"]
    assert sum(x.a - x.b for x in gap.cells) + rest == pytest.approx(difference, abs=1e-13)
    for name in "ab":
        total = sum(getattr(x, name) for x in gap.cells) + gap.residual[name]
        assert total == pytest.approx(gap.step[name], abs=1e-13)
    assert gap.interval[0] < difference < gap.interval[1]
    assert gap.resolution == pytest.approx((gap.interval[1] - gap.interval[0]) / 2)
    assert [abs(x.gap) for x in gap.cells] == sorted((abs(x.gap) for x in gap.cells), reverse=True)
    assert all(x.low <= x.gap <= x.high for x in gap.cells)
    for x in gap.cells:
        if x.column in ("waiting", "unknown: x.so"):
            assert x.work is None and x.rate is None
        else:
            assert x.work is not None and x.rate is not None
            assert x.work + x.rate == pytest.approx(x.gap, abs=1e-15)
    forward = cell(gap, "fc1 forward", "gemm")
    assert (forward.a, forward.b) == pytest.approx((0.4, 0.2), rel=0.05)  # of one step, however many a round has


@pytest.mark.parametrize(
    ("given", "want"),
    [
        ((3.0, 1.0, 30.0, 10.0), (2.0, 0.0)),  # three times the work at one rate
        ((3.0, 1.0, 10.0, 10.0), (0.0, 2.0)),
        ((2.0, 1.0, 4.0, 1.0), (2.25, -1.25)),  # ½·(4 − 1)·(0.5 + 1)
        ((1.0, 0.0, 5.0, 0.0), (1.0, 0.0)),
        ((0.0, 1.0, 0.0, 5.0), (-1.0, 0.0)),
        ((1.0, 2.0, 0.0, 5.0), (-1.0, 0.0)),
        ((-0.1, 1.0, 5.0, 5.0), (-1.1, 0.0)),
        ((0.0, 0.0, 0.0, 0.0), (0.0, 0.0)),
    ],
)
def test_a_split_is_by_amounts(given: tuple[float, ...], want: tuple[float, float]) -> None:
    assert split(*given) == pytest.approx(want)
    a, b, of_a, of_b = given
    turned = split(b, a, of_b, of_a)
    assert turned == pytest.approx((-want[0], -want[1]))


@pytest.mark.parametrize("faults", [(500.0, 0.0), (500.0, 0.01), (0.0, 0.0)])
def test_memory_without_faults_to_speak_of_has_no_rate(faults: tuple[float, float]) -> None:
    """A hundredth of a fault does not take ten milliseconds: such time is of something else."""
    memory = cell(found(A, B, faults=faults), "in no span", "OS memory")
    assert memory.amount["b"] == 0 and memory.rate == 0 and memory.work == memory.gap


def test_a_product_called_twice_is_twice_the_work() -> None:
    told = [[noisy({(WGRAD, "gemm"): x}, 1)] for x in (0.4, 0.2)]
    told[0][0].products, told[1][0].products = {WGRAD: {"fc1 wgrad": 2.0}}, {WGRAD: {"fc1 wgrad": 1.0}}
    told[0][0].seen = {(WGRAD, "gemm"): Counter({"slow (x.so)": 2, "fast (x.so)": 9})}
    gap = gaps.gap([side([1.0] * 12).processes, side([0.8] * 12).processes], told, KNOWN)
    wgrad = cell(gap, "fc1 wgrad", "gemm")
    assert wgrad.amount["a"] == 2 * (wgrad.amount["b"] or 0) > 0
    assert wgrad.work == pytest.approx(wgrad.gap) and wgrad.rate == pytest.approx(0, abs=1e-12)
    assert wgrad.seen == {"a": "fast (x.so)", "b": None}, "the kernel that most samples were in"


def test_what_surrounds_a_convolution_is_no_more_work_than_it_is() -> None:
    """One side makes both gradients in one call, with pieces that are of its kind; the other tells no products."""
    both = ("conv1 dgrad", "conv1 wgrad")
    known = {name: Row(name, "conv1", "backward", (Gemm(8, 8, 8),), 1.0) for name in both}
    told = [[noisy({(both, "convolution"): x}, 1)] for x in (0.4, 0.2)]
    told[0][0].calls, told[0][0].products = {(both, "convolution"): 5.0}, {both: dict.fromkeys(both, 1.0)}
    gap = gaps.gap([side([1.0] * 12).processes, side([0.8] * 12).processes], told, known)
    (convolution,) = gap.cells
    assert convolution.amount["a"] == convolution.amount["b"] == 2 * Gemm(8, 8, 8).flops
    assert convolution.work == pytest.approx(0, abs=1e-15)


@pytest.mark.parametrize("traced", [None, 2.0])
def test_a_recurrent_layer_is_no_more_work_in_more_calls(traced: float | None) -> None:
    """A framework's loop makes hundreds of calls, where another's sequence is one."""
    forward, product = ("lstm forward",), Gemm(8, 8, 8)
    known = {forward[0]: Row(forward[0], "lstm", "forward", (product,), 1.0)}
    sides = [[noisy({(forward, "recurrent cell"): x}, 1)] for x in (0.4, 0.2)]
    for process, calls in ((sides[0][0], 100.0), (sides[1][0], 1.0)):
        process.calls = {(forward, "recurrent cell"): calls}
    if traced:
        sides[0][0].flops, sides[1][0].flops = ({(forward, "recurrent cell"): x} for x in (traced, 1.0))
    gap = gaps.gap([side([1.0] * 12).processes, side([0.8] * 12).processes], sides, known)
    (layer,) = gap.cells
    assert layer.amount == ({"a": traced, "b": 1.0} if traced else dict.fromkeys("ab", product.flops))
    assert layer.work == pytest.approx(0.2 if traced else 0, abs=1e-3)


@pytest.mark.parametrize(("other", "work", "rate"), [(1.0, 0.1, 0.0), (None, 0.0, 0.1)])
def test_bytes_are_the_work_of_passes_where_both_tell_them(other: float | None, work: float, rate: float) -> None:
    told = [[noisy({(UPDATE, "optimizer"): 0.2}, 1)], [noisy({(UPDATE, "optimizer"): 0.1}, 1)]]
    nominal = KNOWN["fc1 update"].bytes
    told[0][0].bytes = {(UPDATE, "optimizer"): 2 * nominal}
    told[1][0].bytes = {(UPDATE, "optimizer"): other * nominal} if other else {}
    update = cell(
        gaps.gap([side([1.0] * 12).processes, side([0.9] * 12).processes], told, KNOWN), "fc1 update", "optimizer"
    )
    assert update.amount["b"] == nominal
    assert update.work == pytest.approx(work, abs=1e-3) and update.rate == pytest.approx(rate, abs=1e-3)


def test_a_fused_operation_is_one_cell_of_both() -> None:
    assert groups([FUSED, ("fc1 update",)], KNOWN)["fc1 update"] == FUSED
    gap = found({(FUSED, "gemm"): 0.5}, {(FUSED, "gemm"): 0.3})
    (one,) = gap.cells
    assert (one.row, one.members) == ("fc1 wgrad + update", FUSED)
    assert [bar.name for bar in gap.bars["phase"]] == ["backward + update", RESIDUAL]
    assert one.amount["a"] == 2 * 16 * 5 * 6


# What is named


def test_what_differs_for_certain_is_named_largest_first() -> None:
    rows = [x.row for x in named(found(A, B))]
    assert rows[:3] == ["fc1 wgrad", "fc1 forward", "fc1 update"]


@pytest.mark.parametrize("processes", [1, 5])
def test_of_equal_steps_nothing_is_named(processes: int) -> None:
    assert named(found(A, A, processes)) == []


def test_a_difference_too_small_for_a_word_is_none() -> None:
    small = {(FORWARD, "gemm"): 0.4, (OUTSIDE, "malloc"): 0.009}
    gap = found(small, {(FORWARD, "gemm"): 0.4})
    assert not cell(gap, "in no span", "malloc").sure
    assert named(gap) == [] == named_bars(gap, "cause")


def test_a_cause_is_certain_whose_cells_are_not() -> None:
    """Ten rows that take a hundredth longer each, in noise of as much."""
    rows = [(f"x{i}",) for i in range(10)]
    gap = found({(row, "gemm"): 0.0204 for row in rows}, {(row, "gemm"): 0.02 for row in rows})
    assert [bar.name for bar in named_bars(gap, "cause")] == [] and named(gap) == []
    gap = found({(row, "gemm"): 0.0214 for row in rows}, {(row, "gemm"): 0.02 for row in rows})
    assert [bar.name for bar in named_bars(gap, "cause")] == ["gemm"]
    assert all(abs(x.gap) < 0.01 for x in gap.cells) and named(gap) == []


def test_cells_are_certain_by_themselves_in_a_cause_that_is_not() -> None:
    """Two rows change places: their product takes as long as before, each of them does not."""
    gap = found({(FORWARD, "gemm"): 0.3, (WGRAD, "gemm"): 0.2}, {(FORWARD, "gemm"): 0.2, (WGRAD, "gemm"): 0.3})
    assert {x.members for x in named(gap)} == {FORWARD, WGRAD} and named_bars(gap, "cause") == []
    assert [bar.name for bar in named_bars(gap, "phase")] in (["forward", "backward"], ["backward", "forward"])


def test_what_differs_between_processes_is_not_sure_within_them() -> None:
    """Rounds say it surely in each process; over five processes it comes and goes."""
    sides = [side([1.0] * 12) for _ in range(2)]
    for x in sides:
        x.processes = x.processes * 5
    a = [noisy({(FORWARD, "gemm"): x}, i) for i, x in enumerate((0.2, 0.6, 0.2, 0.6, 0.5))]
    b = [noisy({(FORWARD, "gemm"): x}, i + 9) for i, x in enumerate((0.3, 0.3, 0.5, 0.3, 0.3))]
    assert named(gaps.gap([one.processes for one in sides], [a, b], KNOWN)) == []


# Bars and levels


def test_a_residual_of_other_rounds_than_the_cells_has_no_interval() -> None:
    sides = [side([1.0] * 7), side([0.9] * 7)]
    gap = gaps.gap([one.processes for one in sides], [[noisy(A, 1)], [noisy(B, 2)]], KNOWN)
    assert (gap.bars["cause"][-1].low, gap.bars["cause"][-1].high) == (None, None)


def test_a_level_is_told_over_plain_steps() -> None:
    made = Watched(levels={"P0": [1.0, 3.0], "P3": [4.0], "P0'": [2.0]})
    assert levels([made]) == {"P3": 2.0, "P0'": 1.0}


def test_the_system_s_own_account_is_of_a_thread_as_cells_are() -> None:
    one, old = Watched(system=[2.0, 4.0], watched_system=[8.0]), Watched(system=[1.0])
    told = gaps.systems({"a": ([one], 2), "b": ([old], 1)})
    assert told == {"system": {"a": 1.5, "b": 1.0}, "watched_system": {"a": 4.0}}


CAUSES, EACH, ROUNDS = 8, 5, 8
CELLS = CAUSES * EACH
BETWEEN = (0.0, 1.0, 2.0, 3.0)  # what processes differ by, in standard errors of the mean of one's rounds
OWN = certain.CELLS / CELLS  # of a cell by itself
KEYS = [((f"row {i % EACH}",), f"cause {i // EACH}") for i in range(CELLS)]


def differ(x: Any, processes: int, error: float) -> Any:
    """Of many at once, [many, processes, rounds]: whether zero is outside the interval."""
    found = coverage.generations(x, 0.0) if processes > 1 else coverage.estimates(x[:, 0], 0.0)
    return np.abs(found.center) > found.half(error)


def named_at_once(processes: int, between: float, runs: int, shift: float = 0.0) -> tuple[Any, Any]:
    """Runs × causes and runs × cells: which are certain; all cells differ by `shift`, in the unit of `between`."""
    x = coverage.processes(processes, ROUNDS, between, runs * CELLS) + shift / math.sqrt(ROUNDS)
    whole = x.reshape(runs * CAUSES, EACH, *x.shape[1:]).sum(axis=1)
    causes = differ(whole, processes, ERROR["cause"] / CAUSES).reshape(runs, CAUSES)
    inside = differ(x, processes, ERROR["cause"] / CAUSES / EACH + OWN).reshape(runs, CELLS)
    alone = differ(x, processes, OWN).reshape(runs, CELLS)
    return causes, alone | (inside & np.repeat(causes, EACH, axis=1))


@pytest.mark.parametrize("processes", [1, 2, 3, 5])
def test_what_is_certain_is_as_in_many_runs_at_once(processes: int) -> None:
    """The suite's own tests, of one run."""
    x = coverage.processes(processes, ROUNDS, 1.0, CELLS) + np.linspace(0, 9, CELLS)[:, None, None]
    means = [[1.0] * CELLS] * 2
    seconds = Seconds(KEYS, means, [x[:, i].T for i in range(processes)], 0.5)
    causes = certain.bars(seconds, {}, "cause")
    whole = x.reshape(CAUSES, EACH, processes, ROUNDS).sum(axis=1)
    want = differ(whole, processes, ERROR["cause"] / CAUSES)
    assert {bar.name: bar.sure for bar in causes} == {f"cause {i}": bool(want[i]) for i in range(CAUSES)}
    errors = certain.errors(seconds, causes)
    assert errors == [OWN + (ERROR["cause"] / CAUSES / EACH if want[i // EACH] else 0.0) for i in range(CELLS)]
    inside, alone = (differ(x, processes, error) for error in (ERROR["cause"] / CAUSES / EACH + OWN, OWN))
    for i, error in enumerate(errors):
        own = certain.differs(certain.estimate([seconds.differences[p][:, i] for p in range(processes)]), error)
        assert own == (inside[i] if want[i // EACH] else alone[i])


def test_one_row_that_differs_by_much_is_certain_in_a_noisy_cause() -> None:
    """Its cause is not; of the others of it none is."""
    noise = np.random.default_rng(3).normal(size=(ROUNDS, CELLS)) * 40
    noise[:, 0] = 30 + np.random.default_rng(4).normal(size=ROUNDS) * 0.1
    seconds = Seconds(KEYS, [[1.0] * CELLS] * 2, [noise], 0.5)
    causes = certain.bars(seconds, {}, "cause")
    assert not any(bar.sure for bar in causes)
    sure = [
        certain.differs(certain.estimate([noise[:, i]]), error)
        for i, error in enumerate(certain.errors(seconds, causes))
    ]
    assert sure == [True] + [False] * (CELLS - 1)


def test_what_is_too_small_for_a_word_costs_the_others_nothing() -> None:
    rounds = np.random.default_rng(1).normal(size=(ROUNDS, CELLS))
    means = [[1.0 if cause == "cause 0" else 0.001 for _, cause in KEYS]] * 2
    seconds = Seconds(KEYS, means, [rounds + 50], 0.5)
    causes = certain.bars(seconds, {}, "cause")
    assert [bar.name for bar in causes if bar.sure] == ["cause 0"]
    each = ERROR["cause"] / EACH + certain.CELLS / EACH
    assert certain.errors(seconds, causes) == pytest.approx([each] * EACH + [0.0] * (CELLS - EACH))


def test_the_parts_of_the_error_are_one_in_twenty() -> None:
    assert sum(ERROR.values()) + certain.CELLS == pytest.approx(0.05)


@pytest.mark.parametrize("processes", [2, 3, 5])
@pytest.mark.parametrize("between", BETWEEN)
def test_of_two_equal_steps_some_cause_is_named_at_most_once_in_twenty_runs(processes: int, between: float) -> None:
    causes, cells = named_at_once(processes, between, 300)
    assert (causes.any(axis=1) | cells.any(axis=1)).mean() <= 0.05


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("shift", [10.0, 20.0, 40.0])
def test_five_processes_name_what_one_does(between: float, shift: float) -> None:
    for five, one in zip(named_at_once(5, between, 100, shift), named_at_once(1, between, 100, shift), strict=True):
        assert five.mean() >= one.mean()


def test_a_single_round_names_nothing() -> None:
    assert not certain.differs(certain.estimate([np.array([1.0])]), 0.01)
