"""What a check before the timing cannot see, witnesses among the timed visits do."""

from __future__ import annotations

import ctypes
import itertools
import os
import platform

import pytest

from kernels.catalog import variants
from kernels.devices import open_device
from kernels.errors import WrongResult
from kernels.ops.activation.problem import Activation
from kernels.ops.gather.problem import Gather
from kernels.ops.gemm.problem import Gemm
from kernels.ops.optimizer.problem import NAMES, Optimizer
from kernels.ops.saxpy.problem import Saxpy
from kernels.ops.stream.problem import Stream
from kernels.ops.update.problem import RULES, Update
from kernels.problem import Problem
from kernels.setting import Setting
from micro.planning.contest import VISIT, Case
from micro.worker import process_state
from micro.worker.host import Host

SMALL, TRIAD = Gemm(48, 40, 32), Stream("triad", 65536)
WHILE_TIMED = "^right when checked, wrong while timed: "
RARE = 200  # witnesses: who is wrong in one call of eleven passes them once in 10^8


@pytest.fixture
def host() -> Host:
    return Host(open_device("cpu"), ctypes.addressof(ctypes.c_int32(-1)))


def opened(host: Host, problem: Problem, name: str, at_once: bool = True) -> None:
    """A contest of one case, which is checked before; all witnesses that it may have `at_once`, whatever they cost."""
    file = "other_cheats" if problem.op == "update" else "cheats"
    opened_with(host, Case(problem, f"tests.wrong.{file}:{name}"), at_once)


def opened_with(host: Host, case: Case, at_once: bool = True) -> None:
    host.check(case, 1)
    host.calibrate(host.open([case], [True], 1), VISIT)
    assert host.contest is not None
    if at_once:
        host.contest.watch.timed(1e3)


CHEATS: list[tuple[Problem, str]] = [
    *itertools.product((SMALL, TRIAD), ("SEES_THE_POISON", "RIGHT_WHILE_WATCHED", "WRONG_RARELY", "SAME_CALL_AGAIN")),
    (SMALL, "WHOLE_ANSWER_AGAIN"),  # it compares all of its output: it is asked what an input's change makes of it
    (Gemm(48, 40, 32, beta=0.5), "SAME_PRODUCT_AGAIN"),  # what is read too is left as it was beside other inputs
    (Update(40, 32, 48), "SAME_GRADIENT_AGAIN"),
]


@pytest.mark.parametrize(("problem", "name"), CHEATS, ids=[f"{problem.op}-{name}" for problem, name in CHEATS])
def test_it_is_wrong_while_it_is_timed(host: Host, name: str, problem: Problem) -> None:
    opened(host, problem, name)
    with pytest.raises(WrongResult, match=WHILE_TIMED):
        for first in range(0, RARE, 8):
            host.run_rounds(first, 8)


@pytest.mark.slow
@pytest.mark.parametrize(
    "problem",
    [
        *(Update(24, 20, 40, rule) for rule in RULES),
        *(Optimizer(rule, 3, 500) for rule in NAMES),
        *(Gemm(24, 20, 40, "tn", beta=beta) for beta in (0.5, 1.0, 3.0)),
        *(Activation(3000, kind, "dgrad", "in") for kind in ("relu", "sigmoid", "tanh", "exp")),
        Gather(300, 20, 100, "step"),
        Saxpy(6400, "warm"),
    ],
    ids=lambda problem: problem.name.replace("/", " "),
)
def test_honest_kernels_that_write_what_they_read_stay(host: Host, problem: Problem) -> None:
    """Whatever launch after launch makes of it."""
    row = next(x for x in variants(problem.op) if x.device == "cpu" and not x.missing() and not x.accepts(problem))
    data = "uniform" if problem.op == "optimizer" else "normal"  # as rules with squares ask for
    opened_with(host, Case(problem, row.name, Setting(data=data)))
    for first in range(0, 64, 8):
        found = host.run_rounds(first, 8)
    assert found.witnesses[0] > 32


def test_an_entry_other_than_the_checked_one_is_found_out(host: Host) -> None:
    opened(host, SMALL, "TWO_FACES")
    with pytest.raises(WrongResult, match=WHILE_TIMED):
        host.run_rounds(0, 8)


LEAVES = {
    "LEAVES_ROUNDING_CHANGED_LATER": "changes the rounding mode while timed",
    "LEAVES_DIRECTORY_CHANGED_LATER": "changes the current directory while timed",
    "WRITES_TO_ITS_INPUTS_LATER": "changes its inputs while timed",
}


@pytest.mark.parametrize("name", LEAVES)
def test_who_changes_what_is_shared_while_it_is_timed_is_named_and_not_its_rivals(host: Host, name: str) -> None:
    if "ROUNDING" in name and platform.machine() != "x86_64":
        pytest.skip("its number for rounding upward is that of x86")
    rival, cheat = Case(SMALL, "blocked"), Case(SMALL, f"tests.wrong.cheats:{name}")
    for case in (rival, cheat):
        host.check(case, 1)
    before = process_state.floating(), os.getcwd()
    with pytest.raises(WrongResult, match=f"^{LEAVES[name]}$"):
        host.calibrate(host.open([rival, cheat], [True, True], 1), VISIT)
        host.run_rounds(0, 32)
    assert host.running() == 1 and (process_state.floating(), os.getcwd()) == before
    host.calibrate(host.open([rival], [True], 1), VISIT)
    host.run_rounds(0, 32)


def test_inputs_that_an_earlier_case_overwrote_are_no_fault_of_an_honest_one(host: Host) -> None:
    host.check(Case(SMALL, "blocked"), 1)
    host.calibrate(host.open([Case(SMALL, "blocked")], [True], 1), VISIT)
    for where, block in host.bench.arenas._blocks.items():
        if where[0] == "in":
            block[:] = 255  # NaN
    host.run_rounds(0, 8)
    assert host.run_rounds(8, 8).witnesses[0]


def test_few_witnesses_find_one_call_of_two(host: Host) -> None:
    """Those that every contest has before its first verdict."""
    opened(host, SMALL, "SEES_THE_POISON", at_once=False)
    with pytest.raises(WrongResult, match=WHILE_TIMED):
        host.run_rounds(0, 6)
