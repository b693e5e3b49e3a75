"""From cases to a ratio on a device called cuda:0, and what only the whole of it shows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from kernels.catalog import find
from kernels.devices.cuda import Cuda
from kernels.errors import Unavailable
from kernels.ops.gemm import Gemm
from kernels.setting import Setting
from micro.measuring.rounds import Goal, Measurement, measure
from micro.measuring.workers import ContestWorkers
from micro.planning.contest import Case
from micro.worker import guards
from micro.worker.client import Local, ask
from micro.worker.host import Host
from micro.worker.messages import Check, Prepare
from tests.gpu.conftest import REAL, missing
from tests.simulated.workers import Here

NOISE = 0.01  # of the fake's launches


@pytest.fixture
def quick(device: Cuda, monkeypatch: pytest.MonkeyPatch) -> Cuda:
    """Give the fake launches of scripted lengths, long so that few are made, and no canaries."""
    if not REAL:
        monkeypatch.setattr("micro.worker.contest.canaries", lambda device: [])
        rng = np.random.default_rng(3)
        seconds = {"sgemm_naive": 360e-6, "library": 180e-6}
        cost = lambda name: seconds.get(name, 300e-6) * rng.lognormal(0, NOISE)  # noqa: E731
        monkeypatch.setattr(device.cp, "cost", cost)
    return device


def contest(device: Cuda, *cases: Case, seconds: float = 5.0) -> Measurement:
    """Both stages, in this process: every case checked, then all of them measured against the first."""
    for case in cases:
        if reason := missing(find(case.problem.op, case.variant)):
            pytest.skip(reason)
    workers: Any = Here(Local(Host(device, 0)))
    for case in cases:
        ask(workers.serves, Prepare(case), 60.0)
        ask(workers.serves, Check(case, 1), 60.0)
    pairs = [(0, i) for i in range(1, len(cases))]
    return measure(ContestWorkers(workers, cases, 1), pairs, Goal(seconds, 0.02, 0.02), lambda text: None)


def case(variant: str, problem: Gemm) -> Case:
    return Case(problem, variant, Setting(device="cuda:0"))


def test_a_contest_has_a_ratio_with_its_interval(quick: Cuda) -> None:
    """By the device's own clock."""
    problem = Gemm(64, 64, 64) if not REAL else Gemm(512, 512, 512)
    found = contest(quick, case("cublas", problem), case("cuda-naive", problem))
    assert (quick.name, found.clocks) == ("cuda:0", ("event", "event"))
    shown = found.judgments[0, 1].shown
    assert shown is not None and 0 < shown.low <= shown.center <= shown.high < math.inf
    if REAL:
        assert shown.low > 1
    else:
        assert shown.low <= 2.0 * (1 + NOISE) and shown.high >= 2.0 * (1 - NOISE)
    assert np.isnan(found.look.cpu).all() and not found.look.lost.any()


def test_a_flag_of_one_operand_is_a_contest(quick: Cuda) -> None:
    """OP_N against OP_T, the same work and the same kernel's name."""
    problems = [Gemm(65, 33, 17, trans) for trans in ("nn", "nt", "tn")]
    found = contest(quick, *(case("cublas", problem) for problem in problems))
    assert sorted(found.judgments) == [(0, 1), (0, 2)]
    assert len(set(found.opened.launches)) == 1
    if not REAL:  # they take the same
        ratios = [judged.shown.center for judged in found.judgments.values() if judged.shown]
        assert ratios == pytest.approx([1, 1], abs=2 * NOISE)


def test_a_contest_that_cannot_be_captured(quick: Cuda) -> None:
    found = contest(quick, case("cuda-naive", Gemm(8, 8, 8)), case("cupy", Gemm(8, 8, 8)), seconds=2.0)
    assert found.judgments[0, 1].shown is not None


@pytest.mark.parametrize("variant", ["cublas", "cublaslt", "cuda-tiled", "cuda-transpose-then-nn"])
def test_a_replayed_graph_gives_the_same_answer(device: Cuda, variant: str) -> None:
    """Bit by bit, also of several launches, which all write the same."""
    row, problem = find("gemm", variant), Gemm(70, 129, 45, "tt", ld_pad=3)
    if reason := missing(row):
        pytest.skip(reason)
    bench = guards.Bench(device, problem)
    launch = row.prepare(problem, device, Setting(device=device.name))(bench.views)
    x = problem.fill(np.random.default_rng(5))
    bench.load(x)
    launch.call()
    once = bench.answer()["c"]
    replay = device.repeat(launch, 3)
    for _ in range(2):
        bench.load(x)
        replay()
        assert np.array_equal(bench.answer()["c"], once)
    bench.refuse_strays(x)


@pytest.mark.parametrize("variant", ["cublas", "cublaslt"])
def test_coarser_types_err_more(device: Cuda, variant: str) -> None:
    """Compare with the numbers before any was rounded; TF32, which may be cut off, is no better than fp16."""
    row = find("gemm", variant)
    if reason := missing(row):
        pytest.skip(reason)
    rng = np.random.default_rng(7)
    a, b = (rng.standard_normal((256, 256), np.float32) for _ in "ab")
    want = a.astype("f8") @ b
    errors = {}
    for dtype in ("fp32", "tf32", "fp16", "bf16"):
        problem = Gemm(256, 256, 256, dtype=dtype)
        try:
            bind = row.prepare(problem, device, Setting(device=device.name))
        except Unavailable as reason:
            pytest.skip(str(reason))
        bench = guards.Bench(device, problem)
        bench.load({"a": a, "b": b})
        bind(bench.views).call()
        errors[dtype] = float(np.sqrt(np.mean((bench.answer()["c"] - want) ** 2)))
    assert errors["fp32"] < 0.1 * min(errors["tf32"], errors["fp16"])
    assert max(errors["tf32"], errors["fp16"]) < 0.5 * errors["bf16"]
