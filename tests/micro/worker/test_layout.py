"""Where operands lie, which calls a check makes, what is another in each, and pages that nobody may touch."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from kernels.catalog import find
from kernels.devices import open_device
from kernels.devices.kind import ALIGNMENT
from kernels.errors import LaunchError
from kernels.launch import Launch
from kernels.ops.activation.problem import Activation
from kernels.ops.gather.problem import Gather
from kernels.ops.gemm.problem import DTYPES, Gemm
from kernels.ops.optimizer.problem import Optimizer
from kernels.ops.pages.problem import Pages
from kernels.ops.softmax.problem import Softmax
from kernels.ops.stream.problem import Stream
from kernels.problem import GRADED, SPECIAL, Problem
from kernels.setting import Setting
from kernels.variant import Variant
from micro.worker import check, guards, turns
from micro.worker.guards import Fenced
from micro.worker.placement import draw, fixed, orders, refuse_shared
from micro.worker.turns import CALLS, another, moved, swapped

ROUNDS = 400
LAYOUTS = [
    ([64], 64),
    ([64], 4096),
    ([1, 63, 64, 65, 128], 1 << 12),
    ([16384, 16384, 16384], 3 * 16384),
    ([16384, 16384, 49152], 1 << 18),
    ([4, 1 << 16, 100, 100, 1 << 12], 1 << 17),
]
IDS = [f"{len(sizes)} in {space}" for sizes, space in LAYOUTS]


@pytest.mark.parametrize("unit", [ALIGNMENT, 512])
@pytest.mark.parametrize(("sizes", "space"), LAYOUTS, ids=IDS)
def test_blocks_are_aligned_inside_and_apart(sizes: list[int], space: int, unit: int) -> None:
    space *= unit // ALIGNMENT
    offsets = draw(np.random.default_rng(1), sizes, space, ROUNDS, unit)
    assert offsets.shape == (ROUNDS, len(sizes))
    assert (offsets % unit == 0).all()  # so that no two share a line
    assert (offsets >= 0).all()
    assert (offsets + np.array(sizes) <= space).all()
    order = np.argsort(offsets, axis=1)
    starts = np.take_along_axis(offsets, order, axis=1)
    ends = starts + np.array(sizes)[order]
    assert (starts[:, 1:] >= ends[:, :-1]).all()


def test_blocks_of_one_size_have_one_distribution() -> None:
    """Neither position in the list nor neighbors of other sizes make a block's places different."""
    from scipy.stats import ks_2samp

    sizes = [4096, 1 << 15, 4096, 64, 4096]
    offsets = draw(np.random.default_rng(3), sizes, 1 << 17, 4000, 64)
    for other in (2, 4):
        assert ks_2samp(offsets[:, 0], offsets[:, other]).pvalue > 0.01
    first = [(offsets[:, i] == offsets[:, [0, 2, 4]].min(axis=1)).mean() for i in (0, 2, 4)]
    assert first == pytest.approx([1 / 3] * 3, abs=0.03)


def test_a_place_differs_from_round_to_round() -> None:
    offsets = draw(np.random.default_rng(4), [4096, 4096], 1 << 20, 100, 64)
    assert len(set(offsets[:, 0].tolist())) > 90
    assert offsets.min() < 1 << 17
    assert offsets.max() > (1 << 20) - (1 << 17)


def test_one_seed_gives_one_layout() -> None:
    one, same, other = (draw(np.random.default_rng(s), [64, 640], 1 << 14, 9, 64) for s in (5, 5, 6))
    assert (one == same).all()
    assert (one != other).any()


def test_blocks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="do not fit"):
        draw(np.random.default_rng(1), [64, 65], 128, 1, 64)


def test_places_that_share_nothing_are_taken() -> None:
    """Fixed ones stand one behind the other; blocks of one case may overlap."""
    assert fixed([64, 1, 100, 64], 2, 64).tolist() == [[0, 64, 128, 256]] * 2
    sizes = [100, 64, 1000]
    for offsets in (fixed(sizes, 3, 64), draw(np.random.default_rng(7), sizes, 1 << 11, ROUNDS, 64)):
        refuse_shared(offsets, sizes, ["a", "b", "c"])
    refuse_shared(np.array([[0, 128], [128, 0]]), [128, 128], ["one", "two"])
    refuse_shared(np.array([[0, 64]]), [128, 128], ["one", "one"])


@pytest.mark.parametrize("offsets", [[0, 0], [0, 64], [64, 0], [0, 127]])
def test_shared_memory_is_refused_by_name(offsets: list[int]) -> None:
    rows = np.array([[0, 128], offsets])
    with pytest.raises(LaunchError, match=r"(one and two|two and one) share memory"):
        refuse_shared(rows, [128, 128], ["one", "two"])


def test_a_host_never_measures_cases_that_share_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    from kernels.devices.fake import Fake
    from kernels.ops.gemm.problem import Gemm
    from micro.planning.contest import VISIT, Case
    from micro.worker import placement
    from micro.worker.host import Host

    monkeypatch.setattr("micro.worker.contest.canaries", lambda device: [])
    host = Host(Fake(lambda name, problem: 1e-5), 0)
    cases = [Case(Gemm(8, 8, 8), name) for name in ("openblas", "naive")]
    host.calibrate(host.open(cases, [True, True], 1), VISIT)
    host.run_rounds(0, 1)
    monkeypatch.setattr(placement, "draw", lambda rng, sizes, space, rounds, unit: np.zeros((rounds, len(sizes)), int))
    with pytest.raises(LaunchError, match="share memory"):
        host.run_rounds(1, 1)


def test_odd_rounds_run_their_predecessor_backwards_whatever_the_chunk() -> None:
    whole = orders(seed=3, first=0, rounds=8, count=5)
    assert (whole[1::2] == whole[::2, ::-1]).all()
    assert len({tuple(order) for order in whole[::2]}) > 1
    apart = [orders(3, number, 1, 5)[0] for number in range(8)]
    assert (whole == apart).all()


def test_every_case_is_in_every_place_equally_often() -> None:
    found = orders(seed=5, first=0, rounds=4000, count=4)
    for case in range(4):
        counts = (found == case).sum(axis=0)
        assert abs(counts - 1000).max() < 5 * 1000**0.5


CPU = open_device("cpu")
SMALL, MIDDLE, LARGE = Gemm(24, 24, 40), Gemm(320, 320, 320), Gemm(2048, 2048, 2048)
OPENBLAS: Any = find("gemm", "openblas")


def made(problem: Problem, row: Variant[Any] = OPENBLAS, data: str = "normal") -> list[turns.Turn]:
    return turns.turns(problem, row, data, True)


# Calls


@pytest.mark.parametrize("problem", [SMALL, Stream("copy", 4096), Softmax(6, 9), Optimizer("adam", 3, 7)])
def test_a_small_problem_has_eight_calls_all_judged(problem: Problem) -> None:
    calls = made(problem)
    assert len(calls) == CALLS and all(call.judged for call in calls)
    assert [call.place for call in calls[:3]] == ["guarded"] * 3 and calls[-1].place == "guarded"
    assert {call.place for call in calls} == {"guarded", "start", "end"}
    assert sum(call.changed for call in calls) >= 3


def test_a_larger_one_has_one_call_more_than_probes_and_a_huge_one_none() -> None:
    before, dense, graded = made(MIDDLE)
    assert (before.judged, before.changed, before.place) == (False, True, "guarded") == (False, True, dense.place)
    assert (dense.probe, graded.probe) == ("dense", GRADED) and dense.judged and graded.judged
    assert [call.probe for call in made(LARGE)] == ["dense", GRADED]
    assert [call.judged for call in made(Stream("copy", 1 << 20))] == [False, True, False]
    assert [call.judged for call in made(Pages("clear", "touched", 1 << 21))] == [True, True]


def test_probes_beside_the_dense_one() -> None:
    """Data that are timed; who mixes rows is asked for the sparse probe of rows alike."""
    for problem in (SMALL, MIDDLE, LARGE):
        assert {call.probe for call in made(problem, data="uniform")} >= {"dense", GRADED, "uniform"}
        assert "uniform" not in {call.probe for call in made(problem)}
    assert {call.probe for call in made(SMALL, dataclasses.replace(OPENBLAS, growth=4.0))} == {"dense", "sparse"}
    assert {call.probe for call in made(SMALL)} == {"dense", GRADED, SPECIAL}


# What changes


@pytest.mark.parametrize("dtype", DTYPES)
def test_one_element_of_each_input_changes_to_what_its_type_holds(dtype: str) -> None:
    problem, rng = Gemm(24, 24, 40, dtype=dtype, beta=0.5), np.random.default_rng(1)
    x = problem.fill(rng)
    for _ in range(20):
        changed = moved(x, another(problem, x, (), rng))
        assert [int((changed[name] != x[name]).sum()) for name in "abc"] == [1, 1, 1]
        for operand in problem.operands():
            view = np.array(changed[operand.name])
            assert np.array_equal(turns.rounded(view, operand.dtype), view)
        assert not np.array_equal(problem.reference(x)["c"], problem.reference(changed)["c"])
    held = {name: array.copy() for name, array in x.items()}
    with swapped(x, another(problem, x, (), rng)):
        assert not np.array_equal(x["a"], held["a"])
    assert all(np.array_equal(x[name], held[name]) for name in held), "a change for one call is taken back"


def test_what_is_constant_does_not_change_and_indices_stay_indices() -> None:
    x, rng = SMALL.fill(np.random.default_rng(2)), np.random.default_rng(3)
    assert another(SMALL, x, ("b",), rng).keys() == {"a"}
    scores = Softmax(6, 9)
    x = scores.fill(rng)
    labels = {int(another(scores, x, (), rng)["labels"][1]) for _ in range(99)}
    assert labels == set(range(9))
    hot = Softmax(6, 9, "one-hot")
    rows = hot.fill(rng)["t"]
    changed = another(hot, {"x": rows, "t": rows}, (), rng)
    assert moved({"t": rows}, {"t": changed["t"]})["t"].sum() == 6
    table = Gather(9, 5, 6)
    ids = table.fill(rng)
    assert np.array_equal(moved(ids, another(table, ids, (), rng))["ids"], ids["ids"])


def test_a_sum_of_squares_stays_one_and_a_rectifier_sees_a_change() -> None:
    adam, rng = Optimizer("adam", 3, 7), np.random.default_rng(4)
    x = adam.fill(rng)
    assert all(moved(x, another(adam, x, (), rng))["v"].min() >= 0 for _ in range(20))
    relu = Activation(40, "relu")
    x = relu.fill(rng)
    for _ in range(20):
        changed = moved(x, another(relu, x, (), rng))
        assert not np.array_equal(relu.reference(x)["y"], relu.reference(changed)["y"])


def test_a_long_sum_shows_its_changed_term() -> None:
    read, rng = Stream("read", 1 << 26), np.random.default_rng(5)
    x = read.fill(rng)
    want = read.reference(x)
    changed = read.reference(moved(x, another(read, x, (), rng)))
    assert abs(changed["y"] - want["y"])[0, 0] > 0.5 * read.bound(x, want, 2.0**-24)["y"][0, 0]


def test_a_constant_input_is_the_same_in_every_probe() -> None:
    kept, fresh = turns.Drawn(SMALL, 1, ("b",)), turns.Drawn(SMALL, 1)
    assert np.array_equal(kept("dense")["b"], kept("sparse")["b"]) and kept("dense") is kept("dense")
    assert not np.array_equal(kept("dense")["a"], kept("sparse")["a"])
    assert not np.array_equal(fresh("dense")["b"], fresh("sparse")["b"])
    assert np.array_equal(kept("dense")["b"], fresh("dense")["b"])


# Fences


@pytest.mark.parametrize("problem", [SMALL, Gemm(7, 9, 13, "nt", ld_pad=3), Stream("copy", 6400)])
@pytest.mark.parametrize("behind", [True, False])
def test_operands_lie_against_a_page_as_near_as_they_may(problem: Problem, behind: bool) -> None:
    stretches = [guards.Stretch(x.nbytes) for x in problem.operands()]
    bench = Fenced(CPU, problem, stretches, behind)
    for stretch, view, x in zip(stretches, bench.views, problem.operands(), strict=True):
        address = view.ctypes.data
        assert address % CPU.kind.alignment == 0
        first, last = stretch.inner.ctypes.data, stretch.inner.ctypes.data + stretch.inner.size
        gap = last - (address + x.nbytes) if behind else address - first
        assert 0 <= gap < CPU.kind.alignment and (not behind or gap == -x.nbytes % CPU.kind.alignment)
    x = problem.fill(np.random.default_rng(8))
    bench.load(x)
    bench.refuse_strays(x)
    bench.guards[0].view[(0,) * bench.guards[0].view.ndim] ^= 1
    with pytest.raises(check.WrongResult, match="outside"):
        bench.refuse_strays(x)


def test_large_operands_and_scripted_devices_have_no_fences() -> None:
    assert guards.fits(CPU, SMALL) and not guards.fits(CPU, Stream("copy", guards.MOST))
    assert not guards.fits(open_device("fake"), SMALL)


def test_a_kernel_is_called_at_every_place_and_its_seconds_are_of_operands_side_by_side() -> None:
    seen: list[int] = []

    def prepare(problem: Problem, device: object, setting: object) -> Any:
        bind = OPENBLAS.prepare(problem, device, setting)

        def bound(views: Any) -> Launch:
            launch = bind(views)
            return Launch(lambda: (seen.append(views[0].ctypes.data), launch.call()))

        return bound

    row: Variant[Any] = Variant("seen", "cpu", "tests", prepare)
    _, took = check.check(CPU, SMALL, row, prepare(SMALL, CPU, Setting()), 1)
    assert len(seen) == CALLS and len(set(seen)) == 3 and took > 0
