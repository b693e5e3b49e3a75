"""What bounds a case: its own device, its own arithmetic, and only what nothing can beat."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernels.catalog import bounding
from kernels.devices import kind_of
from kernels.devices.base import Limits
from kernels.launch import Setting
from kernels.ops.fma import Fma
from kernels.ops.gemm.problem import Gemm
from kernels.ops.launch import Calls
from kernels.ops.pages import Pages
from kernels.ops.saxpy import Saxpy
from kernels.ops.saxpy.problem import PASSES
from kernels.ops.stream import Stream
from kernels.ops.update import Update
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


def product(device: str, dtype: str = "fp32", size: int = SIZE, variant: str = "") -> Case:
    return Case(Gemm(size, size, size, dtype=dtype), variant or PLACE[device], Setting(device=device))


def seconds(problem: Any, tensor: Mapping[str, float]) -> float:
    """Of a ceiling's launch."""
    if problem.op == "mma":
        return float(problem.flops / tensor[problem.unit])
    return float(problem.flops / FLOPS if problem.op == "fma" else problem.bytes / BYTES)


def shares(
    *cases: Case, times: tuple[float, ...], stopped: float = 1.0, tensor: Mapping[str, float] = TENSOR
) -> list[case_ceilings.Share]:
    """Of cases that take so long, in the same rounds as ceilings of FLOPS and BYTES a second, whose visits by the
    wall take `stopped` times as long."""
    ceilings = case_ceilings.cases(cases, LIMITS)
    took = [*times, *(seconds(case.problem, tensor) for case in ceilings)]
    noise = np.random.default_rng(3).normal(1, 0.001, (ROUNDS, 1))
    rounds = np.array(took) * noise
    wall = rounds * [1.0 if i < len(cases) else stopped for i in range(len(took))]
    look = SimpleNamespace(wall=wall)
    found: Any = SimpleNamespace(times=wall, undisturbed=rounds, look=look, accepted=np.ones(ROUNDS, bool))
    return [case_ceilings.share(found, [*cases, *ceilings], i, LIMITS) for i in range(len(cases))]


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
    """It is the caller's; on a CPU caller and device are one."""
    call = Calls("empty", 1)
    assert call.on_host
    assert not case_ceilings.cases([Case(call, "cuda-c", Setting(device="fake:cuda"))], LIMITS)
    assert case_ceilings.cases([Case(call, "c", Setting(device="fake"))], LIMITS)


def test_the_nearer_bound_is_the_ceiling() -> None:
    case = product("cpu")
    assert inputs(case) < arithmetic(case)
    (share,) = shares(case, times=(2 * arithmetic(case),))
    assert share.percent == pytest.approx(50, abs=0.1)
    assert share.name is not None and share.name.startswith("FMA ") and share.refusal is None


def test_another_device_s_ceiling_is_none_of_ours() -> None:
    """The CPU's multiply-adds are ten times slower here than the GPU does its product."""
    both = product("fake"), product("fake:cuda")
    found = shares(*both, times=(arithmetic(both[0]) * 2, arithmetic(both[1]) * 1.25))
    assert [x.percent for x in found] == pytest.approx([50, 80], abs=0.1)
    assert [x.name for x in found] == [f"FMA {case_ceilings.peak(kind_of(x.setting.device), SMALL).isa}" for x in both]


@pytest.mark.parametrize("dtype", ["bf16", "int8"])
def test_coarser_arithmetic_of_a_cpu_has_no_ceiling_that_is_known(dtype: str) -> None:
    """Five times as fast as multiply-adds of single precision, and no refusal."""
    case = product("cpu", dtype, variant="torch")
    fast = max(arithmetic(case) / 5, 1.2 * inputs(case))
    assert fast < arithmetic(case)
    (share,) = shares(case, times=(fast,))
    assert share == case_ceilings.Share(None, None, None)


@pytest.mark.parametrize("device", ["cpu", "fake", "fake:cuda"])
def test_what_beats_its_arithmetic_is_refused(device: str) -> None:
    case = product(device)
    (share,) = shares(case, times=(arithmetic(case) / 2,))
    assert share.refusal is not None
    assert share.refusal.startswith("2.00 times its ceiling (FMA ")
    assert share.refusal.endswith("): it cannot have done this work")


def test_a_little_faster_is_noise() -> None:
    case = product("cpu")
    assert shares(case, times=(arithmetic(case) / 1.04,))[0].refusal is None
    assert shares(case, times=(arithmetic(case) / 1.06,))[0].refusal is not None


def copied(device: str, size: int) -> Case:
    return Case(Stream("read", size), bounding("stream", kind_of(device).kernels), Setting(device=device))


@pytest.mark.parametrize(
    ("device", "size", "refused"),
    [
        ("cpu", 1 << 16, True),
        ("fake:cuda", 1 << 16, False),
        ("fake:cuda", 7 << 20, False),
        ("fake:cuda", 9 << 20, True),
    ],
)
def test_a_gpu_s_read_of_little_is_no_firm_bound(device: str, size: int, refused: bool) -> None:
    """Of a last level of 2 MiB."""
    case = copied(device, size)
    (share,) = shares(case, times=(inputs(case) / 3,))
    assert (share.refusal is not None) == refused
    assert share.percent == pytest.approx(300, abs=1)


@pytest.mark.parametrize(
    ("problem", "comes"),
    [
        (Stream("read", 4096), 4096 + 4),
        (Stream("copy", 4096), 2 * 4096),
        (Stream("triad", 4096), 3 * 4096),
        (Update(32, 32, 8, part="update"), 2 * 4096),
        (Update(32, 32, 8, part="scale"), 4096),
        (Update(32, 32, 8, part="clear"), 4096),
        (Update(32, 32, 8, "momentum", "update"), 3 * 4096),
        (Saxpy(4096, "warm"), PASSES * 2 * 4096),
        (Pages("clear", "fresh", 4096), 0),
    ],
    ids=lambda x: getattr(x, "name", str(x)),
)
def test_what_is_written_comes_to_the_cache_once(problem: Any, comes: int) -> None:
    """An input, a line that is written, one that is read and written: each once; of its own memory nothing."""
    assert case_ceilings._brought(problem) == pytest.approx(comes, rel=2e-3)


def test_a_kernel_that_reads_and_writes_is_compared_with_all_that_it_touches() -> None:
    case = Case(Update(1024, 1024, 64, part="update"), "c", Setting(device="fake"))
    assert brought(case) == 2 * inputs(case)
    (share,) = shares(case, times=(2 * brought(case),))
    assert share.percent == pytest.approx(50, abs=0.1)
    assert share.name == "read 8 MiB" and share.refusal is None


@pytest.mark.parametrize("stopped", [1.0, 10.0])
def test_a_ceiling_that_others_stopped_is_none_the_lower(stopped: float) -> None:
    """No case does ten times its ceiling because a neighbor ran while the ceiling was measured."""
    case = Case(Update(1024, 1024, 64, part="update"), "c", Setting(device="fake"))
    (share,) = shares(case, times=(brought(case) / 0.9,), stopped=stopped)
    assert share.percent == pytest.approx(90, abs=0.1) and share.refusal is None


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


def test_coarser_arithmetic_is_bounded_by_what_it_reads() -> None:
    case = product("cpu", "bf16", variant="torch")
    (share,) = shares(case, times=(inputs(case) / 3,))
    assert share.percent is None and share.refusal is not None and "(read " in share.refusal
