"""Kernels made to pass a check: refused with the reason where it sees them, right here where only clocks do."""

from __future__ import annotations

import dataclasses
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from kernels.catalog import find
from kernels.devices import open_device
from kernels.errors import WrongResult
from kernels.ops.gemm import problem as gemm_problem
from kernels.ops.gemm.problem import Gemm
from kernels.ops.stream.problem import Stream
from kernels.problem import Problem
from kernels.setting import Setting
from kernels.variant import Variant
from micro.measuring.checks import Checks
from micro.planning.contest import Case
from micro.worker import check as checking
from micro.worker import guards, process_state
from micro.worker.client import Died, Local, ask
from micro.worker.host import Host
from micro.worker.messages import Check, Prepare
from micro.worker.process import Worker, Workers
from tests.wrong import cheats, other_cheats
from tests.wrong.test_wrong import refused

if TYPE_CHECKING:
    from kernels.problem import Array

CPU = open_device("cpu")
SQUARE, SMALL = Gemm(192, 192, 192), Gemm(48, 48, 48)
TRIAD = Stream("triad", 65536)
ROUNDING = "^changes the rounding mode$"

REFUSED = refused("cheats")
# Seen by the witnesses among timed visits, by the clock alone, or where a launch is prepared.
LATER = {
    "SEES_THE_POISON",
    "RIGHT_WHILE_WATCHED",
    "WRONG_RARELY",
    "SAME_CALL_AGAIN",
    "TWO_FACES",
    "SLEEPS",
    "BORROWS_A_THREAD",
}
CLAIMS = {"CLAIMS_MORE_USES": "claims 1.2 uses per call", "CLAIMS_TWO_USES": "claims 2 uses per call"}
RIVALS = ("openblas", "numpy", "blocked")


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """None of these writes late. The process is as it was, whatever a test does."""
    monkeypatch.setattr(checking, "LATE", 0.0)
    before = process_state.take()
    yield
    changed = process_state.state_changes(before, process_state.take())
    process_state.restore(before)
    assert changed == []


def cheat(problem: Problem, name: str) -> Variant[Any]:
    found: Variant[Any] = vars(file(problem, name))[name]
    return found


def file(problem: Problem, name: str) -> ModuleType:
    """Return the module with the cheat for this operation."""
    return other_cheats if problem.op != "gemm" and hasattr(other_cheats, name) else cheats


def check(problem: Problem, row: Variant[Any], seed: int = 3, data: str = "normal") -> checking.Passed:
    bind = row.prepare(problem, CPU, Setting())
    return checking.check(CPU, problem, row, bind, seed, checking.Asked(data=data))[0]


@pytest.mark.parametrize(("name", "problem", "reason"), REFUSED, ids=lambda x: x.op if isinstance(x, Problem) else None)
def test_what_a_check_can_see_is_refused(name: str, problem: Problem, reason: str) -> None:
    with pytest.raises(WrongResult, match=reason):
        check(problem, cheat(problem, name))


@pytest.mark.parametrize("problem", [SQUARE, TRIAD], ids=lambda problem: problem.op)
@pytest.mark.parametrize("name", sorted(LATER))
def test_what_only_timed_visits_can_see_is_right_here(name: str, problem: Problem) -> None:
    check(problem, cheat(problem, name))


# What a launch says of itself


@pytest.mark.parametrize("problem", [SMALL, TRIAD], ids=lambda problem: problem.op)
@pytest.mark.parametrize("name", CLAIMS)
def test_uses_are_whole_and_a_users_kernel_has_one(name: str, problem: Problem) -> None:
    case = Case(problem, f"{file(problem, name).__name__}:{name}")
    with pytest.raises(WrongResult, match=f"^{CLAIMS[name]}: "):
        ask(Local(Host(CPU, 0)), Prepare(case), 60.0)


def test_a_row_of_a_table_may_have_more_uses() -> None:
    assert ask(Local(Host(CPU, 0)), Prepare(Case(Gemm(16, 16, 16, "nt"), "kept-transpose:2")), 60.0).uses == 2


# What a kernel keeps


@pytest.mark.parametrize("problem", [SQUARE, TRIAD], ids=lambda problem: problem.op)
def test_who_declares_an_input_constant_may_pack_it_once(problem: Problem) -> None:
    check(problem, dataclasses.replace(cheat(problem, "PACKS_ONCE"), constant=("b",)))


@pytest.mark.parametrize("problem", [Gemm(320, 320, 320), Stream("triad", 1 << 20)], ids=lambda problem: problem.op)
def test_a_copy_shows_where_few_calls_are_made_too(problem: Problem) -> None:
    with pytest.raises(WrongResult, match=r"^dense probe: "):
        check(problem, cheat(problem, "PACKS_ONCE"))


# Probes


def test_vectors_that_the_inputs_tell_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gemm_problem, "FREIVALDS_FLOPS", 1e3)
    with pytest.raises(WrongResult, match=r"^freivalds probe: "):
        check(SMALL, cheats.KNOWS_THE_VECTORS)


def test_no_seed_tells_the_vectors() -> None:
    assert gemm_problem._unforeseen().random() != gemm_problem._unforeseen().random()


@pytest.mark.parametrize("k", [33, 64, 512, 4096, 26752])
@pytest.mark.parametrize("dtype", ["tf32", "fp32"])
def test_a_tail_of_32_terms_is_missed_at_every_k(k: int, dtype: str) -> None:
    """A kernel that says that it computes in TF32, on the one type or the other."""
    for seed in range(5):
        with pytest.raises(WrongResult, match=r"probe: .* times the tolerance of its precision"):
            check(Gemm(8, 8, k, dtype=dtype), cheats.TF32_WITHOUT_ITS_TAIL, seed)


def test_every_cheat_is_tried() -> None:
    files = [path for path in Path(__file__).parents[1].rglob("*") if path.suffix in (".py", ".json")]
    text = "".join(x.read_text("utf-8") for x in files if x.name not in ("cheats.py", "other_cheats.py"))
    every = [x.name for module in (cheats, other_cheats) for x in vars(module).values() if isinstance(x, Variant)]
    assert {*every} <= set(re.findall(r"\w+", text))


# Beyond its operands


@pytest.mark.parametrize("problem", [SMALL, Gemm(400, 400, 64), TRIAD], ids=lambda problem: problem.name)
def test_a_read_of_which_nothing_is_used_is_a_crash_that_says_so(problem: Problem) -> None:
    worker = Worker(Setting())
    try:
        reason = r"^crashes: its process was killed by SIGSEGV: it reads or writes beyond its operands$"
        with pytest.raises(Died, match=reason):
            ask(worker, Check(Case(problem, f"{file(problem, 'READS_AND_DROPS').__name__}:READS_AND_DROPS"), 1), 60.0)
    finally:
        worker.close()


# What a kernel leaves behind


def test_the_rivals_of_one_that_changes_rounding_are_cleared() -> None:
    """Its process is theirs too: it is refused, and what it changed is put back."""
    client = Local(Host(CPU, 0))
    with pytest.raises(WrongResult, match=ROUNDING):
        ask(client, Check(Case(SMALL, "tests.wrong.cheats:LEAVES_ROUNDING_CHANGED"), 1), 60.0)
    for name in (rival for rival in RIVALS if not find("gemm", rival).missing()):
        assert ask(client, Check(Case(SMALL, name), 1), 60.0).bound > 0


def test_who_leaves_a_thread_at_work_leaves_its_rivals_another_process() -> None:
    cheat, rival = Case(SMALL, "tests.wrong.cheats:LEAVES_A_THREAD_AT_WORK"), Case(SMALL, "blocked")
    with Workers() as workers:
        checks = Checks(workers)
        assert checks.outcome(rival, 1).status == "ran"
        found = checks.outcome(cheat, 1)
        assert (found.status, str(found.reason).partition(":")[0]) == ("wrong", "leaves threads running after its call")
        assert not checks.holds(rival)
        assert checks.outcome(rival, 1).status == "ran"


@pytest.fixture
def two_cores() -> tuple[int, ...]:
    cores = tuple(sorted(os.sched_getaffinity(0)))
    if len(cores) < 2:
        pytest.skip("one core")
    return cores


def test_cores_that_a_call_leaves_changed_are_its_own_doing(two_cores: tuple[int, ...]) -> None:
    def pins(problem: Gemm, left: Array, right: Array, c: Array) -> None:
        c[...] = left @ right
        os.sched_setaffinity(0, two_cores[:1])

    with pytest.raises(WrongResult, match=r"^changes its process's CPU affinity$"):
        check(SMALL, cheats.made("PINS", pins))


def test_cores_that_change_between_calls_are_no_kernels_doing(
    two_cores: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    load = guards.Bench.load

    def moved(bench: guards.Bench, x: dict[str, Array]) -> None:
        load(bench, x)
        os.sched_setaffinity(0, two_cores[:1])

    monkeypatch.setattr(guards.Bench, "load", moved)
    try:
        check(SMALL, find("gemm", "openblas"))
        assert tuple(os.sched_getaffinity(0)) == two_cores[:1]  # it stays as others want it
    finally:
        os.sched_setaffinity(0, two_cores)


@pytest.mark.skipif(
    not {0} < set(process_state.take().cores), reason="the first core is not one of several that may be used"
)
@pytest.mark.parametrize(("name", "status"), [("IS_MOVED_ONCE", "ran"), ("LEAVES_CORES_CHANGED", "wrong")])
def test_cores_that_change_once_may_be_another_s_doing(name: str, status: str) -> None:
    with Workers() as workers:
        assert Checks(workers).outcome(Case(SMALL, f"tests.wrong.cheats:{name}"), 1).status == status


@pytest.mark.slow
@pytest.mark.parametrize(("name", "status"), [("FORKS", "ran"), ("INTERRUPTS", "failed")])
def test_a_worker_outlives_what_its_kernels_do_to_it(name: str, status: str) -> None:
    """A child that returns to it ends there; an interrupt of a kernel's own is no interrupt."""
    rival, cheat = Case(SMALL, "blocked"), Case(SMALL, f"tests.wrong.cheats:{name}")
    with Workers() as workers:
        checks = Checks(workers)
        assert checks.outcome(cheat, 1).status == status
        assert checks.outcome(rival, 1).status == "ran"


def test_a_thread_that_waits_is_not_at_work() -> None:
    wait = threading.Event()
    thread = threading.Thread(target=wait.wait)
    thread.start()
    assert not process_state.at_work()
    wait.set()
    thread.join()
