"""cuBLASLt's rows: what they ask for, by how many handles, and how the fastest offer is chosen, by a scripted clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernels.catalog import find
from kernels.devices.cuda import Cuda
from kernels.errors import LaunchError, Unavailable
from kernels.libs import cuda
from kernels.ops.gemm import Gemm, fastest
from kernels.setting import Setting
from kernels.steering import STEERING, variables
from tests.simulated import fake_gpu
from tests.simulated.fake_cupy import FakeCupy

PROBLEM = Gemm(4, 4, 4)
COSTS = {"slow": 9e-6, "quick": 2e-6, "other": 3e-6}


@pytest.fixture
def cp(tmp_path: Path) -> Iterator[FakeCupy]:
    made = FakeCupy()
    with pytest.MonkeyPatch.context() as patch:
        fake_gpu.install(patch, made, tmp_path)
        yield made


@pytest.fixture
def device(cp: FakeCupy) -> Cuda:
    return Cuda(0, cp)


def calls(cp: FakeCupy, costs: dict[str, float] = COSTS) -> list[Callable[[], object]]:
    return [lambda name=name, seconds=seconds: cp.launch(name, seconds) for name, seconds in costs.items()]


def visits(journal: list[str]) -> list[str]:
    """What ran between two marks, in order; each between the hold and the wait for its end."""
    found = []
    while "hold" in journal:
        i = journal.index("hold")
        hold, mark, run, end, sync, *journal = journal[i:]
        assert (hold, mark, end, sync) == ("hold", "mark", "mark", "sync")
        found.append(run)
    return found


def test_each_is_launched_once_and_then_replayed_behind_a_held_stream(cp: FakeCupy, device: Cuda) -> None:
    device.sync()
    cp.journal.clear()
    assert fastest.fastest(device, calls(cp)) == 1
    seen = visits(cp.journal)
    assert seen[:3] == list(COSTS)  # the second launch of each: how many a graph is to hold
    assert seen[3:] == ["graph of 20"] * 3 * fastest.ROUNDS
    assert cp.journal[:2] == ["slow", "sync"]  # the first one loads its kernel: not while the stream is held


def test_they_take_turns_in_another_order_each_round(
    cp: FakeCupy, device: Cuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And in the same one each time that it is asked."""
    ran: list[str] = []
    held = fastest.held

    def noted(device: Any, run: Callable[[], object]) -> float:
        before = len(ran)
        seconds = held(device, run)
        ran[before:] = ran[before:][:1]  # of a graph's launches one
        return seconds

    monkeypatch.setattr(fastest, "held", noted)
    some = [
        lambda name=name, seconds=seconds: cp.launch(name, seconds, lambda: ran.append(name))
        for name, seconds in COSTS.items()
    ]
    orders = []
    for _ in range(2):
        ran.clear()
        fastest.fastest(device, some)
        rounds = [tuple(ran[i : i + 3]) for i in range(len(ran) - 3 * fastest.ROUNDS, len(ran), 3)]
        assert all(sorted(x) == sorted(COSTS) for x in rounds)
        assert len(set(rounds)) > 1
        orders.append(rounds)
    assert orders[0] == orders[1]


def test_a_clock_that_rises_does_not_favor_who_comes_last(cp: FakeCupy, device: Cuda) -> None:
    """The first launches on a card that was idle take ten times as long."""

    def cold(name: str, seconds: float) -> Callable[[], object]:
        return lambda: cp.launch(name, seconds * (10 if cp.clock < 300e-6 else 1))

    some = [cold("best", 1e-6), cold("good", 2e-6), cold("last", 3e-6)]
    assert fastest.fastest(device, some) == 0


def test_the_card_is_warm_before_any_is_timed(cp: FakeCupy, device: Cuda, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the clock of the caller, which here is the device's."""
    begun: list[float] = []
    hold = device.hold

    def noted() -> None:
        begun.append(cp.clock)
        hold()

    monkeypatch.setattr(device, "hold", noted)
    monkeypatch.setattr(fastest, "WARM", 0.01)
    monkeypatch.setattr(fastest, "time", SimpleNamespace(perf_counter=lambda: cp.clock))
    fastest.fastest(device, calls(cp))
    assert begun[2] < 100e-6 and 0.01 <= begun[3] < 0.011


def test_one_slow_visit_does_not_decide(cp: FakeCupy, device: Cuda) -> None:
    """The median of the rounds does."""
    spikes = {"quick": iter([2e-6] * 22 + [50e-6] * 20)}

    def launch(name: str, seconds: float) -> Callable[[], object]:
        def step() -> None:
            cp.clock += next(spikes.get(name, iter(())), seconds)

        return lambda: cp.enqueue(step)

    assert fastest.fastest(device, [launch(name, seconds) for name, seconds in COSTS.items()]) == 1


@pytest.mark.parametrize(("seconds", "launches"), [(50e-6, 20), (300e-6, 6), (0.1, 1)])
def test_long_launches_make_a_short_graph(cp: FakeCupy, device: Cuda, seconds: float, launches: int) -> None:
    cp.journal.clear()
    fastest.fastest(device, calls(cp, {"a": seconds, "b": 2 * seconds}))
    graphs = {f"graph of {launches}"} if launches > 1 else set()  # one launch is itself
    assert {x for x in cp.journal if x.startswith("graph")} == graphs


def refuses() -> None:
    raise LaunchError("cublasLtMatmul returned 15: CUBLAS_STATUS_15")


def test_who_refuses_to_be_launched_is_left_out(cp: FakeCupy, device: Cuda) -> None:
    """And where all do, that is what is told; a stream is held for nobody."""
    assert fastest.fastest(device, [refuses, *calls(cp)]) == 2
    with pytest.raises(LaunchError, match="returned 15"):
        fastest.fastest(device, [refuses, refuses])
    assert cp.open


def test_a_failure_under_the_hold_opens_the_stream(cp: FakeCupy, device: Cuda) -> None:
    def fails() -> None:
        if not cp.open:
            raise RuntimeError("an illegal memory access")

    with pytest.raises(RuntimeError, match="illegal"):
        fastest.fastest(device, [fails, *calls(cp)])
    assert cp.open


def test_one_alone_is_not_launched(cp: FakeCupy, device: Cuda) -> None:
    cp.journal.clear()
    assert fastest.fastest(device, [refuses]) == 0 and not cp.journal


def launched(device: Cuda, name: str, problem: Gemm = PROBLEM) -> None:
    """A row, prepared, bound and called; its operands live until it is done."""
    views = [device.view(device.allocate(x.nbytes), 0, x) for x in problem.operands()]
    find("gemm", name).prepare(problem, device, Setting(device=device.name))(views).call()
    device.sync()


def test_the_row_takes_the_fastest_offer(cp: FakeCupy, device: Cuda) -> None:
    """Neither the first, nor the one that the library cannot launch, nor whom a cold clock spared."""
    library: Any = cuda.load("cublasLt")
    costs = {21: 2e-6, 7: 1e-6, 66: 1.5e-6}
    cp.cost = lambda name: costs[library.algorithm] * (10 if cp.clock < 200e-6 else 1)
    launched(device, "cublaslt-best")
    assert library.algorithm == 7
    launched(device, "cublaslt")
    assert library.algorithm == 21


def test_each_row_asks_for_the_arithmetic_that_its_name_says(device: Cuda) -> None:
    """68: CUBLAS_COMPUTE_32F, 69: the same, pedantic, 77: TF32."""
    classic: Any = cuda.load("cublas")
    light: Any = cuda.load("cublasLt")
    for row in ("cublaslt", "cublaslt-best", "cublaslt-pedantic"):
        launched(device, row)
        assert set(light.computes) == {69 if row.endswith("pedantic") else 68}
        light.computes.clear()
    launched(device, "cublaslt", Gemm(4, 4, 4, dtype="tf32"))
    launched(device, "cublaslt", Gemm(4, 4, 4, dtype="bf16"))
    assert light.computes == [77, 68]
    launched(device, "cublas-pedantic")
    launched(device, "cublas", Gemm(4, 4, 4, dtype="tf32"))
    assert classic.computes == [69, 77]
    assert find("gemm", "cublaslt-pedantic").accepts(Gemm(4, 4, 4, dtype="tf32"))


def test_what_would_change_that_arithmetic_from_outside_is_told() -> None:
    said = {
        "CUBLAS_EMULATE_SINGLE_PRECISION": "1",
        "CUBLAS_EMULATION_STRATEGY": "eager",
        "CUPY_TF32": "1",
        "NVIDIA_TF32_OVERRIDE": "0",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1",
        "CUBLASLT_LOG_LEVEL": "5",
    }
    others = {"CUDA_VISIBLE_DEVICES": "0", "CUPY_CACHE_DIR": "/tmp", "CUDA_HOME": "/usr/local/cuda"}
    assert variables(STEERING, said | others) == said


def test_a_device_has_one_handle_of_each_library(cp: FakeCupy, device: Cuda) -> None:
    """However many problems are prepared: none is ever destroyed."""
    for m in (4, 8):
        for row in ("cublas", "cublaslt", "cublaslt-best", "skcuda"):
            launched(device, row, Gemm(m, 4, 4))
    libraries: list[Any] = [cuda.load("cublas"), cuda.load("cublasLt"), fake_gpu.skcuda.load().blas]
    assert [x.handles for x in libraries] == [1, 1, 1]


def test_another_device_has_its_own(cp: FakeCupy, device: Cuda) -> None:
    """Its workspace is another."""
    other = Cuda(0, cp)
    for one in (device, other):
        launched(one, "cublaslt")
    library: Any = cuda.load("cublasLt")
    assert library.handles == 2
    workspaces = [x[1] for x in library.journal if isinstance(x, tuple)]
    assert workspaces == [one.blas().workspace for one in (device, other)]


@pytest.mark.parametrize("dtype", ["bf16", "fp16"])
@pytest.mark.parametrize("row", ["cublaslt", "cublaslt-best"])
def test_where_it_offers_nothing_the_row_is_skipped(device: Cuda, row: str, dtype: str) -> None:
    with pytest.raises(Unavailable, match=r"^cuBLASLt 13.1.1 offers no algorithm for gemm/m:3/"):
        launched(device, row, Gemm(3, 5, 7, dtype=dtype))
    launched(device, row, Gemm(3, 5, 7))
    launched(device, row, Gemm(2, 4, 6, dtype=dtype))
