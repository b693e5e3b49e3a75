"""What bounds a case: its own device, its own arithmetic, and only what nothing can beat."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernels.catalog import bounding
from kernels.devices import kind_of
from kernels.devices.base import Limits
from kernels.ops.exchange import Exchange
from kernels.ops.fma import Fma
from kernels.ops.gemm.problem import Gemm
from kernels.ops.launch import Calls
from kernels.ops.mma import Mma
from kernels.ops.pages import Pages
from kernels.ops.saxpy import Saxpy
from kernels.ops.saxpy.problem import PASSES
from kernels.ops.stream import Stream
from kernels.ops.transfer import Transfer
from kernels.ops.update import Update
from kernels.setting import Setting
from micro.measuring import ceilings as case_ceilings
from micro.planning.contest import Case

SMALL = Limits(memory=8 << 30, cores=2, caches=(32 << 10, 1 << 20, 2 << 20))
HOPPER = replace(SMALL, features=("wgmma",))
LIMITS = {"cpu": SMALL, "fake": SMALL, "fake:cuda": SMALL, "cuda:0": HOPPER}
ROUNDS = 40
PLACE = {"cpu": "openblas", "fake": "openblas", "fake:cuda": "cublas", "cuda:0": "cublas"}
SIZE = 64
FLOPS, BYTES = 1e12, 1e11  # a second, of the ceilings
TENSOR = {"mma": 0.62 * FLOPS, "wgmma": FLOPS}  # and of tensor cores by each instruction


LARGE = 512  # a product whose arithmetic takes longer than reading its operands


def product(device: str, dtype: str = "fp32", size: int = SIZE, variant: str = "", threads: int = 1) -> Case:
    return Case(Gemm(size, size, size, dtype=dtype), variant or PLACE[device], Setting(threads, device=device))


def peak_name(device: str) -> str:
    return f"FMA {case_ceilings.peak(kind_of(device), SMALL).isa}"


def seconds(ceiling: Case, tensor: Mapping[str, float]) -> float:
    """Of a ceiling's launch: several threads have each as much as one."""
    problem: Any = ceiling.problem
    threads = ceiling.setting.threads
    if problem.op == "mma":
        return float(problem.flops / tensor[problem.unit] / threads)
    return float(problem.flops / FLOPS if problem.op == "fma" else problem.bytes / BYTES) / threads


def shares(
    *cases: Case,
    times: tuple[float, ...],
    stopped: float = 1.0,
    tensor: Mapping[str, float] = TENSOR,
    limits: Mapping[str, Limits] = LIMITS,
    without: Callable[[Case], bool] = lambda ceiling: False,
) -> list[case_ceilings.Share]:
    """Return shares of cases timed beside ceilings, whose visits take `stopped` times as long; some `without`."""
    ceilings = [x for x in case_ceilings.cases(cases, limits) if not without(x)]
    took = [*times, *(seconds(case, tensor) for case in ceilings)]
    noise = np.random.default_rng(3).normal(1, 0.001, (ROUNDS, 1))
    rounds = np.array(took) * noise
    wall = rounds * [1.0 if i < len(cases) else stopped for i in range(len(took))]
    look = SimpleNamespace(wall=wall)
    found: Any = SimpleNamespace(times=wall, undisturbed=rounds, look=look, timed=np.ones(ROUNDS, bool))
    return [case_ceilings.share(found, [*cases, *ceilings], i, limits) for i in range(len(cases))]


def inputs(case: Case) -> float:
    return sum(x.nbytes for x in case.problem.operands() if x.role == "in") / BYTES


def brought(case: Case) -> float:
    return case_ceilings._brought(case.problem) / BYTES


def arithmetic(case: Case) -> float:
    return case.problem.flops / FLOPS


def test_each_device_has_ceilings_of_its_own() -> None:
    found = case_ceilings.cases([product("fake"), product("fake:cuda"), product("fake", size=65)], LIMITS)
    told = [(x.problem.op, x.variant, x.setting.device) for x in found]
    assert told == [
        ("fma", "c", "fake"),
        ("stream", "c", "fake"),
        ("stream", "c", "fake"),
        ("fma", "cuda", "fake:cuda"),
        ("stream", "cuda", "fake:cuda"),
    ]
    assert {x.role for x in found} == {"ceiling"}
    gpu = next(x.problem for x in found if x.variant == "cuda")
    assert gpu == Fma("cuda", case_ceilings.STEPS, processors=SMALL.cores)


def test_the_time_of_a_call_on_a_gpu_has_no_ceiling() -> None:
    """It is the caller's; on a CPU caller and device are one. Nor have words that stay within a multiprocessor."""
    call, load = Calls("empty", 1), Case(Exchange("load"), "cuda", Setting(device="cuda:0"))
    assert call.on_host
    assert not case_ceilings.cases([Case(call, "cuda-c", Setting(device="fake:cuda")), load], LIMITS)
    assert case_ceilings.cases([Case(call, "c", Setting(device="fake"))], LIMITS)
    assert shares(load, product("cuda:0"), times=(1e-9, 1.0))[0] == case_ceilings.Share(None, None, None)


def test_what_crosses_the_link_to_the_host_is_a_share_of_its_clock() -> None:
    """And of nothing, where that is not known; both ways at once it moves as much each way."""
    cases = [Case(Transfer(1 << 27), f"{way}-pinned", Setting(device="cuda:0")) for way in ("h2d", "both")]
    assert not case_ceilings.cases(cases, LIMITS)
    clock = LIMITS | {"cuda:0": replace(HOPPER, link=63e9)}
    found = shares(*cases, times=(2 * (1 << 27) / 63e9, 4 * (1 << 27) / 63e9), limits=clock)
    assert [share.percent for share in found] == [pytest.approx(50, rel=0.01), pytest.approx(25, rel=0.01)]
    assert {(share.name, share.refusal) for share in found} == {("link 63.0 GB/s", None)}
    assert shares(*cases, times=(1.0, 1.0)) == [case_ceilings.Share(None, None, None)] * 2


def test_several_threads_are_bounded_by_as_many_at_once() -> None:
    """Each number of threads has its own; two reach twice the rate of one here, in slices of their own."""
    one, two = product("cpu", size=LARGE), product("cpu", size=LARGE, threads=2)
    found = case_ceilings.cases([two, one, two], LIMITS)
    assert [(x.problem.op, x.setting.threads) for x in found] == [("fma", 2), ("stream", 2), ("fma", 1), ("stream", 1)]
    fma: Any = found[0].problem
    longer = case_ceilings.TEAM_STEPS / case_ceilings.STEPS
    assert (fma.processors, fma.flops) == (2, 2 * longer * found[2].problem.flops)
    first, second = shares(two, one, times=(arithmetic(two) / 2 / 0.5, arithmetic(one) / 0.9))
    assert (first.name, second.name) == (f"{peak_name('cpu')}, 2 threads", peak_name("cpu"))
    assert (first.percent, second.percent) == pytest.approx((50, 90), abs=0.5)


def test_what_beats_one_thread_twice_is_refused_where_two_reach_less() -> None:
    """Two threads that share what they read reach no more than one."""
    case = Case(Stream("read", 1 << 20), "c", Setting(2))
    (share,) = shares(case, times=(inputs(case) / 2 / 1.5,))
    assert share.refusal == "1.50 times its ceiling (read 1 MiB, 2 threads): the kernel cannot have done this work"


def test_more_threads_than_cores_are_told_as_so_many_times_one() -> None:
    case = product("cpu", size=LARGE, threads=3)
    assert {x.setting.threads for x in case_ceilings.cases([case], LIMITS)} == {1}
    (share,) = shares(case, times=(arithmetic(case) / 3 / 0.5,))
    assert share.name == f"{peak_name('cpu')}, 3 × 1 thread" and share.percent == pytest.approx(50, abs=0.5)


def test_a_ceiling_of_several_threads_is_the_fastest_visit_around() -> None:
    """What stops one of them stops all: three of four visits here. A clock that changes is followed."""
    cases = [product("cpu", threads=2), *case_ceilings.cases([product("cpu", threads=2)], LIMITS)]
    wall = np.ones((ROUNDS, len(cases)))
    wall[ROUNDS // 2 :] = 2.0
    wall[np.arange(ROUNDS) % 4 > 0] *= 10
    look = SimpleNamespace(wall=wall)
    measured: Any = SimpleNamespace(look=look, undisturbed=wall, timed=np.ones(ROUNDS, bool))
    least = case_ceilings.took(measured, cases, 1)
    assert (least[: ROUNDS // 2] == 1).all() and (least[ROUNDS // 2 + case_ceilings.AROUND :] == 2).all()


def test_another_device_s_ceiling_is_none_of_ours() -> None:
    """The CPU's multiply-adds are ten times slower here than the GPU does its product."""
    both = product("fake"), product("fake:cuda")
    found = shares(*both, times=(arithmetic(both[0]) * 2, arithmetic(both[1]) * 1.25))
    assert [x.percent for x in found] == pytest.approx([50, 80], abs=0.1)
    assert [x.name for x in found] == [peak_name(x.setting.device) for x in both]


def test_a_type_without_an_instruction_is_a_share_of_single_precision_and_not_refused() -> None:
    """Four times as fast: fixed point could be; of bytes none is known."""
    coarse, small = (product("cpu", dtype, variant="torch", size=LARGE) for dtype in ("bf16", "int8"))
    (share,) = shares(coarse, times=(arithmetic(coarse) / 4,))
    assert share.name == f"{peak_name('cpu')} in place of bf16" and share.refusal is None
    assert share.percent == pytest.approx(400, abs=1)
    assert shares(small, times=(arithmetic(small) / 5,)) == [case_ceilings.Share(None, None, None)]


CORES = replace(SMALL, features=("avx512bf16", "avx512vnni"))


@pytest.mark.parametrize(("dtype", "unit"), [("bf16", "avx512bf16"), ("int8", "avx512vnni")])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_type_with_an_instruction_has_its_own_ceiling(dtype: str, unit: str, threads: int) -> None:
    case = product("cpu", dtype, variant="torch", size=LARGE, threads=threads)
    limits = LIMITS | {"cpu": CORES}
    found = [x.problem for x in case_ceilings.cases([case], limits) if x.problem.op == "mma"]
    assert found == [Mma(dtype, unit, case_ceilings.CORE_STEPS, threads)]
    name = f"{dtype}, {unit}" + (", 2 threads" if threads == 2 else "")
    (share,) = shares(case, times=(arithmetic(case) / threads / 0.8,), tensor={unit: FLOPS}, limits=limits)
    assert share.percent == pytest.approx(80, abs=0.5) and (share.name, share.refusal) == (name, None)
    (share,) = shares(case, times=(arithmetic(case) / threads / 2,), tensor={unit: FLOPS}, limits=limits)
    assert share.refusal == f"2.00 times its ceiling ({name}): the kernel cannot have done this work"


@pytest.mark.parametrize(("left_out", "name"), [("", "bf16, amxbf16"), ("amxbf16", "bf16, avx512bf16")])
def test_where_one_instruction_could_not_be_measured_none_refuses(left_out: str, name: str) -> None:
    """Tiles are told, and their kernel did not run: a library's may."""
    limits = LIMITS | {"cpu": replace(CORES, features=("avx512bf16", "amxbf16"))}
    case = product("cpu", "bf16", variant="torch", size=LARGE)
    both = {"avx512bf16": FLOPS, "amxbf16": 4 * FLOPS}
    (share,) = shares(
        case,
        times=(arithmetic(case) / 8,),
        tensor=both,
        limits=limits,
        without=lambda x: vars(x.problem).get("unit") == left_out,
    )
    assert (share.name, share.refusal is None) == (name, bool(left_out))


@pytest.mark.parametrize("device", ["cpu", "fake", "fake:cuda"])
def test_what_beats_its_arithmetic_is_refused(device: str) -> None:
    case = product(device)
    assert inputs(case) < arithmetic(case)
    (share,) = shares(case, times=(2 * arithmetic(case),))
    assert share.percent == pytest.approx(50, abs=0.1)
    assert share.name is not None and share.name.startswith("FMA ") and share.refusal is None
    (share,) = shares(case, times=(arithmetic(case) / 2,))
    assert share.refusal == f"2.00 times its ceiling ({share.name}): the kernel cannot have done this work"
    for times, is_refused in ((1.04, False), (1.06, True)):  # a little faster is noise
        assert bool(shares(case, times=(arithmetic(case) / times,))[0].refusal) == is_refused


def test_a_gpu_s_read_of_little_is_no_bound() -> None:
    """Of a last level of 2 MiB."""
    for device, mib, refused in (
        ("cpu", 1, True),
        ("fake:cuda", 1, False),
        ("fake:cuda", 7, False),
        ("fake:cuda", 9, True),
    ):
        variant = bounding("stream", kind_of(device).kernels)
        case = Case(Stream("read", mib << 20), variant, Setting(device=device))
        (share,) = shares(case, times=(inputs(case) / 3,))
        assert (share.refusal is not None) == refused
        assert share.percent == (pytest.approx(300, abs=1) if refused else None)


def test_what_is_written_comes_to_the_cache_once() -> None:
    """An input, a line that is written, one that is read and written: each once; of its own memory nothing."""
    comes: dict[Any, int] = {
        Stream("read", 4096): 4096 + 4,
        Stream("copy", 4096): 2 * 4096,
        Stream("triad", 4096): 3 * 4096,
        Update(32, 32, 8, part="update"): 2 * 4096,
        Update(32, 32, 8, part="scale"): 4096,
        Update(32, 32, 8, part="clear"): 4096,
        Update(32, 32, 8, "momentum", "update"): 3 * 4096,
        Saxpy(4096, "warm"): PASSES * 2 * 4096,
        Pages("clear", "fresh", 4096): 0,
    }
    for problem, nbytes in comes.items():
        assert case_ceilings._brought(problem) == pytest.approx(nbytes, rel=2e-3), problem.name


@pytest.mark.parametrize("stopped", [1.0, 10.0])
def test_a_ceiling_that_others_stopped_is_none_the_lower(stopped: float) -> None:
    """Compared with all that it touches; a neighbor that ran while the ceiling was measured makes it no faster."""
    case = Case(Update(1024, 1024, 64, part="update"), "c", Setting(device="fake"))
    assert brought(case) == 2 * inputs(case)
    (share,) = shares(case, times=(brought(case) / 0.9,), stopped=stopped)
    assert share.percent == pytest.approx(90, abs=0.1) and (share.name, share.refusal) == ("read 8 MiB", None)


def test_a_write_that_fetches_no_line_is_not_refused() -> None:
    """A copy by such writes brings half of what others bring, and no more is required of it."""
    case = Case(Stream("copy", 1 << 20), "c", Setting(device="fake"))
    (share,) = shares(case, times=(brought(case) / 2,))
    assert share.refusal is None
    assert share.percent == pytest.approx(200, abs=1)


def test_a_refusal_names_the_bound_that_was_beaten() -> None:
    """All that an update touches takes longer than its arithmetic, of which alone it did too much."""
    case = Case(Update(256, 256, 1, part="scale"), "c", Setting(device="fake"))
    assert arithmetic(case) < brought(case)
    (share,) = shares(case, times=(arithmetic(case) / 2,))
    assert share.refusal is not None and "(FMA " in share.refusal


def test_reads_are_bounded_by_the_fastest_of_the_sets_that_are_asked_for() -> None:
    """In a cache of Zen 5 a core reads 13 % faster by AVX than by AVX-512."""
    sets = [isa for isa in ("avx", "avx2") if isa in kind_of("cpu").isas()]
    reads = [Case(Stream("read", 1 << 20), "c", Setting(isa=isa)) for isa in ("default", *sets, "haswell")]
    ceilings = case_ceilings.cases(reads, LIMITS)
    assert [x.setting.isa for x in ceilings if x.problem.op == "stream"] == ["default", *sets]
    only, *_ = shares(*reads, times=(inputs(reads[0]),) * len(reads))
    assert only.percent == pytest.approx(100, rel=0.01) and only.refusal is None
    if sets:
        names = [case_ceilings.title(x) for x in ceilings if x.problem.op == "stream"]
        assert names == ["read 1 MiB", *(f"read 1 MiB, {isa}" for isa in sets)]


def test_coarser_arithmetic_is_bounded_by_what_it_reads() -> None:
    case = product("cpu", "bf16", variant="torch")
    (share,) = shares(case, times=(inputs(case) / 3,))
    assert share.refusal is not None and "(read " in share.refusal
