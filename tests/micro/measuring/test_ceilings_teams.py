"""Ceilings of tensor cores, of several threads in a worker of their own, and the command `python -m micro.ceiling`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernels import ceilings as kept_ceilings
from kernels.devices import kind_of, open_device
from kernels.devices.base import Limits, V
from kernels.devices.cpu import Cpu
from kernels.devices.fake import Fake
from kernels.errors import BuildError, LaunchError
from kernels.launch import Launch
from kernels.ops.gemm.problem import Gemm
from kernels.ops.mma import Mma
from kernels.setting import Setting
from micro import ceiling
from micro.measuring import ceilings
from micro.measuring.canary_history import History
from micro.measuring.checks import Checks
from micro.measuring.runner import Runner
from micro.measuring.workers import ContestWorkers
from micro.planning.contest import Budget, Case, Contest
from micro.worker.client import Local
from micro.worker.host import Host
from micro.worker.messages import Open, RunRounds
from micro.worker.process import Workers
from reports import record, store
from tests.conftest import Ran
from tests.micro.measuring.test_ceilings import FLOPS, LIMITS, SMALL, TENSOR, arithmetic, brought, product, shares
from tests.simulated.workers import Here

COARSE = pytest.mark.parametrize("dtype", ["tf32", "bf16", "fp16"])
LARGE = 512  # a product whose arithmetic takes longer than reading its operands


def test_tensor_cores_are_measured_by_every_instruction_that_is_here() -> None:
    types = "tf32", "bf16", "fp16"
    for device, units in (("fake:cuda", ["mma"]), ("cuda:0", ["mma", "wgmma"]), ("fake", [])):
        measured = [product(device, x) for x in (*(types if units else ["bf16"]), "fp32", *types[: len(units)])]
        found = [x for x in ceilings.cases(measured, LIMITS) if x.problem.op == "mma"]
        wanted = [Mma(x, unit, ceilings.TENSOR_STEPS[unit], SMALL.cores) for x in types for unit in units]
        assert [x.problem for x in found] == wanted
        assert all((x.variant, x.role, x.setting.device) == ("cuda", "ceiling", device) for x in found)
    found = ceilings.cases([product("cuda:0", "bf16")], LIMITS)
    assert {x.problem.op: ceilings.doubtful(x) for x in found} == {"fma": False, "mma": True, "stream": False}


@COARSE
def test_the_faster_instruction_is_the_bound(dtype: str) -> None:
    case = product("cuda:0", dtype, LARGE)
    (share,) = shares(case, times=(arithmetic(case) / 0.8,))
    assert share.percent == pytest.approx(80, abs=0.1)
    assert share.name == f"tensor cores {dtype}, wgmma" and share.refusal is None
    (share,) = shares(case, times=(arithmetic(case) / 0.8,), tensor={"mma": 2 * FLOPS, "wgmma": FLOPS})
    assert share.percent == pytest.approx(40, abs=0.1) and share.name == f"tensor cores {dtype}, mma"
    (share,) = shares(case, times=(arithmetic(case) / 2,))
    assert str(share.refusal).startswith(f"2.00 times its ceiling (tensor cores {dtype}, wgmma)")


@pytest.mark.parametrize(("device", "tensor"), [("fake:cuda", TENSOR), ("cuda:0", {"mma": FLOPS, "wgmma": FLOPS / 2})])
def test_what_beats_mma_sync_is_shown_and_not_refused(device: str, tensor: Mapping[str, float]) -> None:
    """Where there is no wgmma; or where it is slower, and so no peak of anything."""
    case = product(device, "bf16", LARGE)
    (share,) = shares(case, times=(arithmetic(case) / 2,), tensor=tensor)
    assert share.refusal is None and share.name == "tensor cores bf16, mma"
    assert share.percent == pytest.approx(200 * FLOPS / tensor["mma"], abs=0.5)


def test_zeros_that_run_at_a_higher_clock_are_not_refused() -> None:
    case = product("cuda:0", "bf16", LARGE)
    easy = replace(case, setting=replace(case.setting, data="zeros"))
    (share,) = shares(easy, times=(arithmetic(case) / 1.15,))
    assert share.refusal is None and share.percent == pytest.approx(115, abs=0.1)


@pytest.mark.parametrize("tensor", [TENSOR, {"mma": FLOPS / 100, "wgmma": FLOPS / 100}])
def test_single_precision_is_not_judged_by_tensor_cores(tensor: Mapping[str, float]) -> None:
    """However it is made: of one contest, a product in bfloat16 and one in single precision."""
    both = product("cuda:0", "bf16", LARGE), product("cuda:0", "fp32", LARGE)
    single = shares(*both, times=(arithmetic(both[0]) * 200, arithmetic(both[1]) / 0.9), tensor=tensor)[1]
    assert single.name == "FMA cuda" and single.refusal is None
    assert single.percent == pytest.approx(90, abs=0.1)


def test_reading_the_operands_is_the_bound_where_it_takes_longer_and_comes_from_memory() -> None:
    long = replace(product("cuda:0", "bf16"), problem=Gemm(16, 16, 1 << 20, dtype="bf16"))
    assert brought(long) > arithmetic(long)
    (share,) = shares(long, times=(2 * brought(long),))
    assert share.name is not None and share.name.startswith("read ")
    assert share.percent == pytest.approx(50, abs=0.1)
    little = product("cuda:0", "bf16", 16)  # whose read would be a launch
    (share,) = shares(little, times=(2 * brought(little),))
    assert share == ceilings.Share(None, None, None)


# In a contest


class Odd(Fake):
    """Plays a GPU whose tensor-core kernels do as `change` makes them."""

    name = "fake:cuda"

    def __init__(self, change: Callable[[Any], Any]) -> None:
        super().__init__(noise=0.001)
        self.change = change

    def adopt(self, variant: V) -> V:
        played = super().adopt(variant)

        def prepare(problem: Any, device: Any, setting: Any) -> Any:
            bind = played.prepare(problem, device, setting)
            return self.change(bind) if problem.op == "mma" else bind

        return dataclasses.replace(played, prepare=prepare)


def measured(change: Callable[[Any], Any]) -> tuple[record.Contest, list[str]]:
    """Two contests of a product in bfloat16 by one command; the last, and the ceilings of the first."""
    workers: Any = Here(Local(Host(Odd(change), 0)))
    runner = Runner(Checks(workers), {"fake:cuda": SMALL}, History("none"))
    case = Case(Gemm(64, 64, 64, dtype="bf16"), "cublas", Setting(device="fake:cuda"))
    contest = Contest("one", "?", "kernel", (case,))
    first = runner.run(contest, 0.2, Budget(0.2))
    return runner.run(contest, 0.2, Budget(0.2)), [x.op for x in first.results if x.role == "ceiling"]


def refuse(bind: Any) -> Any:
    raise BuildError("mma.cu does not compile for -arch=sm_75: no such instruction")


def nothing(bind: Any) -> Any:
    """A kernel that writes nothing."""
    return lambda buffers: Launch(lambda: None)


def test_a_contest_has_its_tensor_cores_beside_it(own_state: Any) -> None:
    told, first = measured(lambda bind: bind)
    (result,) = [x for x in told.results if x.role == "measured"]
    assert first == [x.op for x in told.results if x.role == "ceiling"] == ["fma", "mma", "stream"]
    assert result.status == "ok" and not result.warnings
    assert result.ceiling is None  # so small a product's is what the caches bring, which is not known


@pytest.mark.parametrize(
    ("change", "why"), [(refuse, "failed: mma.cu does not compile"), (nothing, "wrong: writes nothing")]
)
def test_tensor_cores_that_are_wrong_bound_nothing_and_cost_no_case(
    change: Callable[[Any], Any], why: str, own_state: Any
) -> None:
    told, first = measured(change)
    (result,) = [x for x in told.results if x.role == "measured"]
    assert first == [x.op for x in told.results if x.role == "ceiling"] == ["fma", "stream"]
    assert result.status == "ok" and result.percent_of_ceiling is None
    (warning,) = result.warnings
    assert warning.startswith(f"no ceiling by mma/dtype:bf16/unit:mma/processors:2: {why}")


ROUNDS = 6
TWO = Setting(2, device="fake")
PRODUCTS = (Case(Gemm(64, 64, 64), "openblas", TWO), Case(Gemm(64, 64, 64, "nt"), "openblas", TWO))
FAKE_LIMITS = {"fake": open_device("fake").limits()}


class Watched:
    """Workers of the fake device, one for each key, and what each was asked in order."""

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[Any, ...], Any]] = []
        self.hosts: dict[tuple[Any, ...], Host] = {}
        self.dropped: list[tuple[Any, ...]] = []
        self.raises: Any = None

    key = staticmethod(Workers.key)

    def get(self, key: tuple[Any, ...]) -> Any:
        host = self.hosts.setdefault(key, Host(open_device("fake"), 0))
        local = Local(host)

        def receive(request: Any, patience: float) -> Any:
            self.asked.append((key, request))
            if self.raises and isinstance(request, RunRounds) and self.raises[0] == key:
                raise LaunchError("no")
            return local.receive(request, patience)

        def running() -> int:
            return int(self.raises[1])

        return SimpleNamespace(send=local.send, receive=receive, running=running)

    def drop(self, key: tuple[Any, ...]) -> None:
        self.dropped.append(key)

    def looks(self) -> list[tuple[tuple[Any, ...], RunRounds]]:
        return [(key, x) for key, x in self.asked if isinstance(x, RunRounds)]


def crew(workers: Any, *measured: Case) -> ContestWorkers:
    return ContestWorkers(workers, (*measured, *ceilings.cases(measured, FAKE_LIMITS)), seed=1)


POOL = (Setting(2, device="fake"), "openblas")
TEAM = (Setting(2, device="fake"), "suite")


def test_a_team_has_a_worker_of_its_own_and_its_rounds_behind_those_of_the_cases() -> None:
    workers = Watched()
    made = crew(workers, *PRODUCTS)
    opened = made.open(1.0)
    assert not made.lockstep and len(opened.launches) == len(made.cases) == 4
    batch = made.run_rounds(0, ROUNDS, 1.0)
    assert [(key, x.rounds, x.only) for key, x in workers.looks()] == [(POOL, ROUNDS, None), (TEAM, ROUNDS, None)]
    assert [x.canary for _, x in workers.looks()] == [True, False]
    assert batch.wall.shape == (ROUNDS, 4) and (batch.wall > 0).all() and min(batch.launches) >= 1
    assert batch.canary


def test_a_worker_lays_out_what_it_visits() -> None:
    """The team's memory is not that of a contest whose cases it does not run, and each round has a place of its own."""
    workers = Watched()
    made = crew(workers, *PRODUCTS)
    made.open(1.0)
    opened = {key: x.cases for key, x in workers.asked if isinstance(x, Open)}
    assert opened == {POOL: PRODUCTS, TEAM: made.cases[2:]}
    places = made.run_rounds(0, 32, 1.0).places
    assert all(len(set(column)) > 4 for column in places.T)


def test_a_column_is_what_its_own_worker_measured() -> None:
    workers = Watched()
    made = crew(workers, *PRODUCTS)
    made.open(1.0)
    batch = made.run_rounds(0, ROUNDS, 1.0)
    rates = [case.problem.flops / np.median(batch.wall[:, i]) for i, case in enumerate(made.cases)]
    device: Any = workers.hosts[POOL].device
    for i, case in enumerate(made.cases):
        scripted = device._seconds(case.variant, case.problem)
        assert np.median(batch.wall[:, i]) == pytest.approx(scripted, rel=0.02), case.name
    assert len(set(rates)) == 4


def test_one_thread_and_two_take_turns_and_each_has_its_ceilings() -> None:
    """A ceiling of one thread is visited where a case of one thread lives."""
    workers = Watched()
    one = Case(Gemm(64, 64, 64), "openblas", Setting(device="fake"))
    made = crew(workers, PRODUCTS[0], one)
    made.open(1.0)
    assert made.lockstep and len(made.cases) == 2 + 2 * 2
    batch = made.run_rounds(0, 2, 1.0)
    assert (batch.wall > 0).all() and min(batch.launches) >= 1
    visits: dict[Any, int] = {}
    for key, _ in workers.looks():
        visits[key] = visits.get(key, 0) + 1
    alone = (Setting(device="fake"), "")
    assert visits == {POOL: 2, TEAM: 2 * 2, alone: 3 * 2}
    assert sum(x.canary for _, x in workers.looks()) == 1
    assert next(key for key, x in workers.looks() if x.canary) in (POOL, alone)


@pytest.mark.parametrize(("key", "running", "culprit"), [(POOL, 1, 1), (TEAM, 0, 2), (TEAM, 1, 3), (TEAM, -1, -1)])
def test_who_was_under_way_is_told_by_the_contest_s_own_numbers(key: Any, running: int, culprit: int) -> None:
    workers = Watched()
    made = crew(workers, *PRODUCTS)
    made.open(1.0)
    workers.raises = (key, running)
    with pytest.raises(LaunchError):
        made.run_rounds(0, ROUNDS, 1.0)
    assert made.culprit == culprit


def test_one_thread_has_one_worker() -> None:
    workers = Watched()
    made = crew(workers, Case(Gemm(64, 64, 64), "openblas", Setting(device="fake")))
    made.open(1.0)
    made.run_rounds(0, ROUNDS, 1.0)
    assert len(workers.hosts) == 1 and len(workers.looks()) == 1


FROM_8_MIB = Limits(memory=8 << 30, cores=2, caches=(32 << 10, 1 << 20, 2 << 20))  # main memory begins at 8 MiB


@pytest.mark.slow
def test_every_ceiling_is_measured_kept_and_told(
    capsys: pytest.CaptureFixture[str],
    own_state: Path,
    in_process: Callable[..., Ran],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ceiling, "BUDGET", Budget(seconds=1.0, target=0.5))
    monkeypatch.setattr(Cpu, "limits", lambda self: FROM_8_MIB)
    ran = in_process(capsys, ceiling.main, ["-q", "-o", str(tmp_path / "run.jsonl")])
    assert ran.code in (0, 1), ran.err  # 1: a rate that a moment of noise made too high is refused
    results = [x for x in store.read(tmp_path / "run.jsonl").results if x.role == "measured"]
    assert {x.op for x in results} == {"fma", "stream"}
    assert not [x.name for x in results if x.status in ("failed", "skipped")]
    kept = kept_ceilings.load()
    assert kept is not None and "sse" in kept.flops and set(kept.bandwidth) == {"read", "copy", "triad"}
    assert ran.out.startswith("multiply-adds: sse ") and "\nread: " in ran.out


def test_a_gpu_s_are_measured_beside_the_cpu_s(
    capsys: pytest.CaptureFixture[str],
    own_state: Path,
    light_fake: None,
    in_process: Callable[..., Ran],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ceiling, "BUDGET", Budget(seconds=0.5, target=0.5))
    words = ["-q", "--device", "fake:cuda", "-o", str(tmp_path / "run.jsonl")]
    ran = in_process(capsys, ceiling.main, words)
    assert ran.code == 0, ran.err
    results = [x for x in store.read(tmp_path / "run.jsonl").results if x.role == "measured"]
    assert {(x.variant, x.device, x.status) for x in results} == {("cuda", "fake:cuda", "ok")}
    assert {x.repeat for x in results} == {"python -m micro.ceiling --device fake:cuda"}
    kept = kept_ceilings.load("fake:cuda")
    assert kept is not None and set(kept.bandwidth) == {"read", "copy", "triad"}
    assert list(kept.flops) == ["fp32", "tf32 mma", "bf16 mma", "fp16 mma"]
    assert kept_ceilings.load() is None and ran.out.startswith("multiply-adds: fp32 ")


def test_a_device_that_is_not_here_is_one_line(
    capsys: pytest.CaptureFixture[str], own_state: Path, in_process: Callable[..., Ran]
) -> None:
    ran = in_process(capsys, ceiling.main, ["--device", "banana"])
    assert ran.code == 2 and ran.err.startswith("micro.ceiling: --device banana: no device kind")


def test_hopper_is_asked_by_both_instructions() -> None:
    hopper = Limits(1 << 36, 132, (50 << 20,), features=("wgmma",))
    peak, *traffic = ceiling.contests("cuda:0", hopper)
    problems = [case.problem.name for case in peak.cases]
    assert problems[:3] == [
        "fma/isa:cuda/processors:132",
        "mma/dtype:tf32/unit:mma/processors:132",
        "mma/dtype:tf32/unit:wgmma/steps:4096/processors:132",
    ]
    assert len(problems) == 1 + 2 * 3 and {case.setting.device for case in peak.cases} == {"cuda:0"}
    assert [contest.name for contest in traffic] == [f"bandwidth/{25 << 20}", f"bandwidth/{200 << 20}"]


@pytest.mark.parametrize("whole", [True, False])
def test_what_bounds_a_device_alone_is_measured(monkeypatch: pytest.MonkeyPatch, whole: bool) -> None:
    known, bandwidth = kind_of("cuda:0"), "bandwidth/134217728"
    for bounded, names in (("stream", [bandwidth]), ("fma", ["peak"]), ("fma mma stream", ["peak", bandwidth])):
        isas = known.isas if "fma" in bounded else tuple
        card = replace(known, ceilings=tuple(bounded.split()), isas=isas, undivided=whole)
        monkeypatch.setattr(ceiling, "kind_of", lambda name, card=card: card)
        found = ceiling.contests("cuda:0", Limits(1 << 30, 4, (), features=()))
        assert [contest.name for contest in found] == names
        here = {case.problem.op for contest in found for case in contest.cases}
        assert here == set(bounded.split()) - (set() if whole else {"mma"})
