"""A session on a GPU in simulated time: what fits into it, in which order, and what a fault costs."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from kernels.errors import BuildError, Unavailable
from kernels.launch import Launch
from kernels.ops.optimizer.problem import Optimizer
from kernels.ops.softmax import Softmax
from kernels.setting import Setting
from micro.measuring.canary_history import History
from micro.measuring.ceilings import STEPS
from micro.measuring.checks import Checks
from micro.measuring.runner import Runner
from micro.planning.contest import Budget, Case
from micro.planning.contest import Contest as PlannedContest
from micro.worker.process import Workers
from reports import store
from reports.record import Contest, Run
from tests.gpu.session import rows as lines
from tests.gpu.session import steps
from tests.simulated.timed import Costs, Simulated, Timed, TimedHost, rounds, script


@pytest.mark.parametrize("part", [1, *(pytest.param(part, marks=pytest.mark.slow) for part in (2, 4))])
def test_a_part_fits_into_its_step_with_an_interval_for_every_comparison(
    part: int, tmp_path: Path, own_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [step] = [x for x in steps.steps(part, tmp_path, True) if x.name == steps.CONTENT[part]]
    machine = Simulated()
    machine.install(monkeypatch)
    began = machine.now
    assert lines.main([*step.command[1:], "-q"]) == 0
    took = machine.now - began
    run = store.read(steps.run_file(tmp_path, part))
    print(f"{took:.0f} simulated seconds, {len(run.contests)} contests")
    assert took <= step.seconds
    compared = [x for x in run.comparisons if x.verdict != "not comparable"]
    assert compared
    assert [(x.contest, x.reason) for x in compared if x.low is None] == []
    if part == 1:
        _the_front_door_is_first(run)


def _the_front_door_is_first(run: Run) -> None:
    front = run.contests[:6]
    assert [x.contest.partition("/")[0] for x in front] == ["strategy", "nn-nt-tn-tt", *["nn-nt"] * 4]
    for contest in front:
        assert min(rounds(x) for x in contest.results if x.role == "measured") >= 6, contest.contest
        assert all(x.low is not None and x.high is not None for x in contest.comparisons)


def contest(machine: Simulated, *cases: Case, seconds: float = 5.0) -> Contest:
    """Both stages of one contest, in simulated time."""
    with Workers() as workers:
        limits = {"cuda:0": machine.workers[0].limits()}
        runner = Runner(Checks(workers), limits, History("none"))
        return runner.run(PlannedContest("some", "which?", "variant", cases), seconds, Budget(seconds))


def optimizer(variant: str, tensors: int = 160) -> Case:
    return Case(Optimizer("adam", tensors, 16384), variant, Setting(device="cuda:0", data="uniform"))


@pytest.fixture
def launched() -> dict[str, int]:
    """Kernels of one launch, by variant."""
    return {"cuda-each": 160, "torch-loop-cuda": 1120, "torch-fused-cuda": 4}


@pytest.mark.parametrize(
    ("rivals", "told"),
    [
        (("cuda", "cuda-each"), ""),
        (("cuda", "cuda-each", "torch-fused-cuda"), ""),
        (("cuda", "torch-loop-cuda"), "more kernels than a held stream can queue"),
    ],
)
def test_a_launch_of_many_kernels_takes_what_its_kernels_take(
    rivals: tuple[str, ...], told: str, launched: dict[str, int], own_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What no stream can hold is told; 27,200 launches are a graph, or as many as are held."""
    machine = Simulated(kernels=lambda row, problem: launched.get(row.name, 1))
    machine.install(monkeypatch)
    done = contest(machine, *map(optimizer, rivals))
    for result in (x for x in done.results if x.role == "measured"):
        assert result.seconds is not None and rounds(result) >= 6
        assert any(told in x for x in result.warnings) == (bool(told) and result.variant == rivals[-1])
        if not told or result.variant != rivals[-1]:
            real = script(result.variant, optimizer(result.variant).problem)
            assert result.seconds.median == pytest.approx(real, rel=0.05)


def test_a_visit_of_thirty_thousand_kernels(own_state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which its row does not tell of: the hold breaks, is seen, and the launches are halved until it holds."""
    machine = Simulated(kernels=lambda row, problem: 100, told=False, seconds=lambda name, problem: 3.3e-6)
    machine.install(monkeypatch)
    done = contest(machine, optimizer("torch-fused-cuda"), optimizer("torch-foreach-cuda"))
    for result in (x for x in done.results if x.role == "measured"):
        assert result.seconds is not None and result.launches is not None
        assert result.launches * 100 < 1022
        assert result.seconds.median == pytest.approx(3.3e-6, rel=0.05)
        assert rounds(result) >= 6


def test_an_error_that_stays_costs_one_case(own_state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its worker is dropped, and the others have times: of this contest, and of the next."""
    machine = Simulated()
    machine.install(monkeypatch)
    machine.faulty |= {"cuda-each"}
    for rivals in (("cuda", "cuda-each", "torch-fused-cuda"), ("cuda", "torch-foreach-cuda")):
        found = {x.variant: x for x in contest(machine, *map(optimizer, rivals)).results if x.role == "measured"}
        for name, result in found.items():
            assert result.status == ("failed" if name == "cuda-each" else "ok"), (name, result.reason)
            if name == "cuda-each":
                assert "cudaErrorIllegalAddress" in (result.reason or "") and result.seconds is None


def test_a_first_call_that_compiles_is_no_launch(own_state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The check's only launch took a second; its visits have as many launches as a kernel of its length takes."""
    machine = Simulated(Costs(first=1.0))
    machine.install(monkeypatch)
    for result in contest(machine, optimizer("torch-foreach-cuda"), optimizer("torch-fused-cuda")).results:
        if result.role == "measured":
            assert result.seconds is not None and result.launches is not None
            assert result.launches * result.seconds.median > 0.5e-3
            assert rounds(result) >= 6


def test_what_compiles_in_a_fresh_worker_breaks_no_hold(own_state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last of the cases fails, and its worker goes; the others are timed in another, where nothing was checked."""
    machine = Simulated(Costs(first=1.0))
    machine.install(monkeypatch)
    machine.faulty |= {"cuda-each"}
    done = contest(machine, *map(optimizer, ("torch-foreach-cuda", "torch-fused-cuda", "cuda-each")))
    for result in (x for x in done.results if x.role == "measured" and x.variant != "cuda-each"):
        assert result.seconds is not None and not result.warnings
        real = script(result.variant, optimizer(result.variant).problem)
        assert result.seconds.median == pytest.approx(real, rel=0.05)


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (None, "cudaErrorIllegalAddress"),
        (BuildError("fma.cu does not compile"), "does not compile"),
        (Unavailable("no nvcc"), "no nvcc"),
    ],
)
def test_a_ceiling_that_fails_costs_no_contest(
    fault: Exception | None, told: str, own_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told, leaves the contest, and is not asked again."""
    machine = Simulated()
    machine.install(monkeypatch)
    ran, adopt = [], Timed.adopt

    def adopted(device: Timed, row: Any) -> Any:
        made = adopt(device, row)

        def prepare(problem: Any, *others: Any) -> Any:
            if problem.op == "fma" and problem.steps == STEPS:
                ran.append(problem)
                if fault:
                    raise fault
                return lambda buffers: Launch(lambda: device.cp.launch("bad", 1e-6))
            return made.prepare(problem, *others)

        return dataclasses.replace(made, prepare=prepare)

    monkeypatch.setattr(Timed, "adopt", adopted)
    machine.faulty |= {"bad"}
    with Workers() as workers:
        runner = Runner(Checks(workers), {"cuda:0": machine.workers[0].limits()}, History("none"))
        for case in (optimizer("torch-foreach-cuda"), optimizer("torch-fused-cuda")):
            done = runner.run(PlannedContest("some", "which?", "variant", (case,)), 2.0, Budget(2.0))
            assert [(x.op, x.status) for x in done.results] == [("optimizer", "ok"), ("stream", "ok")]
            assert told in done.results[0].warnings[0]
    assert len(ran) == 1


def test_who_has_not_answered_in_this_process_or_to_this_has_a_minute(
    own_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PyTorch's first call of each operation takes twelve seconds, in each process."""
    machine = Simulated(Costs(first=12.0))
    machine.install(monkeypatch)
    softmax = Case(Softmax(64, 10), "torch-cuda", Setting(device="cuda:0"))
    machine.faulty |= {"cuda-each"}
    for rivals in ((softmax, optimizer("torch-foreach-cuda")), (softmax, optimizer("cuda-each"))):
        with Workers() as workers:
            runner = Runner(Checks(workers), {"cuda:0": machine.workers[0].limits()}, History("none"))
            alone = [PlannedContest(x.name, "which?", "variant", (x,)) for x in rivals]
            found = [runner.run(one, 1.0, Budget(1.0)).results[0] for one in alone]
            assert [x.status for x in found] == ["failed" if x.variant == "cuda-each" else "ok" for x in found]
            runner.checks.outcomes.clear()
            again = runner.run(alone[0], 1.0, Budget(1.0)).results[0]
            assert again.status == "ok", again.reason


def test_temperature_and_power_are_told_of_when_they_were_asked(
    own_state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once in a worker, in its first contest; the clock after each look."""
    machine = Simulated()
    machine.install(monkeypatch)
    with Workers() as workers:
        runner = Runner(Checks(workers), {"cuda:0": machine.workers[0].limits()}, History("none"))
        one = PlannedContest("one", "which?", "variant", (optimizer("torch-fused-cuda"),))
        found = [runner.run(one, 1.0, Budget(1.0)).system for _ in range(2)]
    assert ["watts" in x for x in found] == [True, False]
    assert all(x["sm_megahertz"] == 1980.0 for x in found)


def test_a_gpu_that_is_gone_costs_what_was_to_be_timed_on_it(own_state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails while a contest is timed, and no worker finds it any more: the command goes on to its end."""
    machine = Simulated()
    machine.install(monkeypatch)
    look = TimedHost.run_rounds

    def falls_off(host: Any, **arguments: Any) -> Any:
        machine.faulty |= {"torch-fused-cuda"}
        return look(host, **arguments)

    monkeypatch.setattr(TimedHost, "run_rounds", falls_off)
    made = machine._get

    def worker(workers: Any, key: Any) -> Any:
        if key not in workers._alive and machine.faulty:
            raise Unavailable("no NVIDIA driver")
        return made(workers, key)

    monkeypatch.setattr(machine, "_get", worker)
    done = contest(machine, optimizer("torch-fused-cuda"), optimizer("torch-foreach-cuda"))
    assert [x.status for x in done.results if x.role == "measured"] == ["failed", "failed"]
    assert "no NVIDIA driver" in (done.results[1].reason or "")
