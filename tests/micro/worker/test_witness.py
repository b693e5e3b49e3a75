"""Launches of the measurement itself are compared with float64; what is wrong there loses its time."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from kernels.devices import open_device
from kernels.devices.fake import Fake
from kernels.errors import WrongResult
from kernels.launch import Bind, Launch
from kernels.ops.gemm import Gemm
from kernels.ops.softmax.problem import Softmax
from kernels.ops.stream import Stream
from kernels.problem import Problem
from kernels.setting import Setting
from kernels.variant import Variant
from micro.measuring.canary_history import History
from micro.measuring.checks import Checks
from micro.measuring.runner import Runner
from micro.planning.contest import VISIT, Budget, Case, Contest
from micro.worker import check as checking
from micro.worker.evidence import how_far
from micro.worker.host import Host
from micro.worker.process import Workers
from micro.worker.timed import Timed
from micro.worker.watch import EARLY, FIRST, MANY, MOST, OFTEN, SHARE, Schedule
from micro.worker.witness import prepared, taken

if TYPE_CHECKING:
    from kernels.problem import Array

HERE = __name__
WHILE_TIMED = r"^right when checked, wrong while timed: "
FEW = {"calls": 0}  # of the kernel at hand


def product(problem: Gemm, a: Array, b: Array, c: Array) -> None:
    left = a if problem.trans[0] == "n" else a.T
    right = b if problem.trans[1] == "n" else b.T
    c[...] = left @ right + (problem.beta * c if problem.beta else 0)


def row(name: str, function: Callable[..., None], constant: tuple[str, ...] = ()) -> Variant[Gemm]:
    def prepare(problem: Gemm, device: object, setting: object) -> Bind:
        return lambda buffers: Launch(partial(function, problem, *buffers))

    return Variant(name, "cpu", "tests", prepare, python=True, constant=constant)


def lazy(problem: Gemm, a: Array, b: Array, c: Array) -> None:
    """All rows but the last."""
    c[:-1] = a[:-1] @ b


def late(problem: Gemm, a: Array, b: Array, c: Array) -> None:
    FEW["calls"] += 1
    (product if FEW["calls"] < 30 else lazy)(problem, a, b, c)


def seldom(problem: Gemm, a: Array, b: Array, c: Array) -> None:
    FEW["calls"] += 1
    (lazy if FEW["calls"] > 30 and random.random() < 0.2 else product)(problem, a, b, c)


def keeper(problem: Gemm, device: object, setting: object) -> Bind:
    """Packs B at its first launch at a place."""
    packed: dict[tuple[int, bytes], Array] = {}

    def keeps(a: Array, b: Array, c: Array) -> None:
        key = b.ctypes.data, b[0].tobytes()
        c[...] = a @ packed.setdefault(key, b.copy())

    return lambda buffers: Launch(partial(keeps, *buffers))


HONEST = row("HONEST", product)
LATE = row("LATE", late)
SELDOM = row("SELDOM", seldom)
KEEPS = Variant("KEEPS", "cpu", "tests", keeper, python=True)
DECLARES = Variant("DECLARES", "cpu", "tests", keeper, python=True, constant=("b",))


@pytest.fixture(autouse=True)
def fresh() -> None:
    FEW["calls"] = 0


def looked(host: Host, names: Sequence[str], problem: Problem, rounds: int = 16, **setting: object) -> tuple[int, ...]:
    """Witnesses of each case after so many rounds of small visits."""
    cases = [Case(problem, name, Setting(**setting)) for name in names]  # type: ignore[arg-type]
    for case in cases:
        host.check(case, 1)
    host.calibrate(host.open(cases, [True] * len(cases), 1), VISIT / 10)
    return host.run_rounds(0, rounds).witnesses


def test_a_refusal_says_how_far_off_values_are() -> None:
    for error, bound, how in (
        ([3.0, 1.0], [1.0, 0.5], "have errors up to 3 times the tolerance of its precision"),
        ([3.0, 1.0], [1.0, 0.0], "differ from the exact result"),
        ([3.0, np.nan], [1.0, 1.0], "are NaN"),
    ):
        assert how_far(np.array(error), np.array(bound)) == how


@pytest.mark.parametrize("change", [False, True])
def test_outputs_are_written_whole_or_in_part_or_beside_a_change_not_at_all(host: Host, change: bool) -> None:
    """A kernel that looks at some of its output, or at all of it, is not told by it each time."""
    problem, rng = Gemm(24, 20, 40), np.random.default_rng(3)
    bench = checking.Bench(host.device, problem)
    bench.load(problem.fill(rng))
    views = dict(zip("abc", bench.views, strict=True))
    entry = Timed(problem, HONEST, HONEST.prepare(problem, host.device, Setting()), 0, 1)
    made = [prepared(host.device, rng, entry, views, (0, 0), change) for _ in range(100)]
    written = [np.zeros(problem.operands()[2].shape)[one.boxes["c"]].size for one in made]
    assert {written.count(24 * 20) > 0, any(0 < n < 24 * 20 for n in written)} == {True}
    assert (0 in written) == change


def test_honest_kernels_are_looked_at_and_stay(host: Host) -> None:
    names = ("openblas", f"{HERE}:HONEST")
    problem = Gemm(24, 20, 40, "nt", beta=0.5, ld_pad=3)
    for setting in ({"data": "uniform"}, {"cold": ("a", "b")}):
        before = looked(host, names, problem, **setting)
        assert all(count >= EARLY for count in before)
        host.close()


@pytest.mark.parametrize("name", ["LATE", "SELDOM"])
def test_right_in_the_check_and_wrong_when_timed_is_wrong(host: Host, name: str) -> None:
    with pytest.raises(WrongResult, match=WHILE_TIMED):
        looked(host, (f"{HERE}:{name}",), Gemm(24, 24, 40), 8)
        assert host.contest is not None
        host.contest.watch.timed(1e3)  # so that many more are no cost
        for first in range(8, 400, 8):
            host.run_rounds(first, 8)
    assert host.running() == 0


def test_a_copy_of_an_input_is_found_out_unless_it_is_said(host: Host) -> None:
    def open_contest(name: str) -> None:
        case = Case(Gemm(8, 24, 40), f"{HERE}:{name}")
        host.kernels.prepare(case)
        host.calibrate(host.open([case], [True], 1), VISIT)

    open_contest("DECLARES")
    for first in range(0, 64, 8):
        host.run_rounds(first, 8)
    open_contest("KEEPS")
    assert host.contest is not None
    host.contest.watch.timed(1e3)  # so that each visit is looked at: one in four changes b beyond its first row
    with pytest.raises(WrongResult, match=r"ignore a changed element of b|have errors up to"):
        for first in range(0, 256, 8):
            host.run_rounds(first, 8)


def test_each_output_of_each_launch_is_compared_at_its_place(host: Host) -> None:
    """What is written before the launch is overwritten by it, and an input that was changed is as it was."""
    rng = np.random.default_rng(5)
    entry, views = laid_out(host, Stream("triad", 1 << 18))
    inputs = {name: views[name].copy() for name in "ab"}

    def unchanged() -> bool:
        return all(np.array_equal(views[name], inputs[name]) for name in "ab")

    for change in (False, True):
        witness = prepared(host.device, rng, entry, views, (0, 0), change)
        witness.write()
        assert unchanged() == (witness.change is None)
        with pytest.raises(WrongResult, match="are unchanged"):
            witness.keep()
            witness.judge()
        witness.write()
        views["y"][...] = views["a"] + np.float32(3) * views["b"]
        witness.keep()
        witness.judge()
        assert unchanged()


def laid_out(host: Host, problem: Problem) -> tuple[object, dict[str, Array]]:
    """A contest's entry of a problem, and its operands one behind the other."""
    host.calibrate(host.open([Case(problem, "c")], [True], 1), VISIT)
    assert host.contest is not None
    block = host.device.allocate(sum(x.nbytes for x in problem.operands()) + 64)
    host.device.scatter(block, 3)
    offsets = np.cumsum([0, *(x.nbytes for x in problem.operands())])
    views = {x.name: host.device.view(block, int(at), x) for x, at in zip(problem.operands(), offsets, strict=False)}
    return host.contest.entries[0], views


def test_many_pieces_are_gathered_as_few_are() -> None:
    rng = np.random.default_rng(1)
    view, device = rng.standard_normal((64, 48), np.float32), open_device("cpu")
    for count in (1, 3, 40):
        places = tuple(np.sort(rng.permutation(extent)[:count]) for extent in view.shape)
        for taker in (device, Fake()):
            assert np.array_equal(taken(taker, view, places), view[np.ix_(*places)])
            assert not np.shares_memory(taken(taker, view, places), view)


@pytest.mark.parametrize("first_look", [8, 32])
def test_every_look_has_witnesses_and_more_where_they_cost_little(first_look: int) -> None:
    later = [look for look in (8, 16, 32, 64, 128) if look >= first_look]
    for seed in range(50):
        schedule = Schedule(np.random.default_rng(seed))
        schedule.looks(first_look)
        taken_rounds = {case: set() for case in (0, 1)}  # type: dict[int, set[int]]
        for first in range(256):  # round by round, as workers that take turns do
            for case, chosen in schedule.visits([0, 1], first, 1).items():
                taken_rounds[case] |= chosen
        for rounds in taken_rounds.values():
            assert len(rounds & set(range(FIRST))) >= EARLY
            for look in later:
                assert rounds & set(range(look, 2 * look))
            often = min(MOST, first_look // OFTEN) if first_look >= MANY else 0
            assert len(rounds & set(range(first_look))) == EARLY + often
            assert len([number for number in rounds if number >= max(first_look, FIRST)]) == len(later)
    schedule.count, schedule.spent, schedule.timed = 10, 1e-3, 1.0  # 1e-4 each
    more = schedule.visits([0], 256, 256)[0]
    assert len(more) >= int((SHARE - 1e-3) / 1e-4)


def test_of_short_visits_every_launch_is_looked_at() -> None:
    schedule = Schedule(np.random.default_rng(1))
    assert schedule.launches(3) == [0, 1, 2]
    drawn = {tuple(schedule.launches(50)) for _ in range(400)}
    assert {len(one) for one in drawn} == {1} and len(drawn) > 25


def test_a_run_says_wrong_with_evidence_and_goes_on_without_it(tmp_path: Path, own_state: Path) -> None:
    cases = tuple(Case(Gemm(24, 24, 40), name) for name in ("openblas", f"{HERE}:LATE"))
    contest = Contest("late", "?", "variant", cases)
    with Workers() as workers:
        runner = Runner(Checks(workers, evidence=tmp_path), {"cpu": open_device("cpu").limits()}, History("none"))
        done = runner.run(contest, 0.3, Budget(seconds=0.3))
        workers.end()  # what was right is checked again in the next worker
        assert [runner.checks.outcome(case, 1).status for case in cases] == ["ran", "wrong"]
    honest, wrong = (result for result in done.results if result.role == "measured")
    assert honest.status in ("ok", "contended") and honest.witnesses >= EARLY
    assert wrong.status == "wrong" and wrong.seconds is None and not wrong.samples
    assert wrong.evidence and json.loads(Path(wrong.evidence).read_text())["probe"] == "timed"
    assert done.comparisons[0].verdict == "not comparable"
    assert done.seconds["witnessing"] > 0


def test_what_an_operation_alone_can_draw_is_not_changed(host: Host) -> None:
    """A row with two ones is no label: an honest kernel may look for the one."""
    rng = np.random.default_rng(3)
    entry, views = laid_out(host, Softmax(64, 4, "one-hot"))
    witnesses = [prepared(host.device, rng, entry, views, (0, 0), True) for _ in range(40)]
    assert {one.change.operand for one in witnesses if one.change} == {"x"}
