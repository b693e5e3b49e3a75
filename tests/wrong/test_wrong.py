"""No wrong kernel is timed, each is told what is wrong with it, and no right one is refused."""

from __future__ import annotations

import ctypes
import json
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernels.catalog import find
from kernels.devices import open_device
from kernels.errors import LaunchError, UsageError, WrongResult
from kernels.ops.gemm.problem import Gemm
from kernels.setting import Setting
from kernels.variant import Variant
from micro.measuring import ceilings
from micro.planning.contest import Case, parse
from micro.worker import check as checking
from micro.worker import host as worker_host
from micro.worker import placement
from micro.worker.client import Died, ask
from micro.worker.messages import Check
from micro.worker.process import Worker
from tests.wrong import kernels

CPU = open_device("cpu")
LIMITS = {"cpu": CPU.limits()}
SQUARE = Gemm(24, 24, 40)
ALLOWS = "times the tolerance of its precision"
PAST_DENSE = f"^(dense|sparse|graded) probe: .* {ALLOWS}"


def refused(file: str) -> list[tuple[str, Any, str]]:
    """Return the kernels of a file that a check refuses: name, problem, the reason's pattern."""
    rows = json.loads(Path(__file__).with_name("refused.json").read_text("utf-8"))[file]
    return [(name, parse(f"{problem}/variant:x").problem, reason) for name, problem, reason in rows]


REFUSED = refused("kernels")
LOSSY = ("HALF_INPUTS", "HALF_OUTPUT", "TF32_INPUTS", "SPLIT_BF16")
DIES = {
    "RAISES": (LaunchError, "^raises ArithmeticError: .*no such product"),
    "SEGFAULT": (Died, "^crashes: its process was killed by SIGSEGV$"),
    "LOOPS": (Died, "^hangs: no reply within 1 s$"),
    "ENDS_PROCESS": (Died, "^ends its process with exit code 3$"),
}
WHEN_TIMED = ("SEGFAULT_WHEN_TIMED", "RAISES_WHEN_TIMED")  # see tests/faults

HONEST = ("openblas", "openblas-scipy", "numpy", "blocked", "naive", "transpose-then-nn", "kept-transpose:2")
TERMS, ELEMENTS = 3e7, 1.5e6  # of a product, and of its inputs, so that the whole takes seconds


def check(name: str, problem: Gemm, seed: int = 1) -> checking.Passed:
    found = find("gemm", name)
    return checking.check(CPU, problem, found, found.prepare(problem, CPU, Setting()), seed)[0]


def wrong(name: str) -> str:
    return f"tests.wrong.kernels:{name}"


@pytest.mark.parametrize(("name", "problem", "reason"), REFUSED)
def test_wrong_kernel_is_told_what_is_wrong(name: str, problem: Gemm, reason: str) -> None:
    with pytest.raises(WrongResult, match=reason):
        check(wrong(name), problem)


@pytest.mark.parametrize("k", [64, 1024, 26752])
@pytest.mark.parametrize("name", LOSSY)
def test_lost_precision_is_refused_at_every_k(name: str, k: int) -> None:
    for seed in range(5):
        with pytest.raises(WrongResult, match=PAST_DENSE):
            check(wrong(name), Gemm(8, 8, k), seed)


@pytest.mark.parametrize("k", [1024, 26752])
def test_split_bf16_needs_the_sparse_probe(k: int) -> None:
    """Over many terms its losses average out; over sixteen they do not."""
    with pytest.raises(WrongResult, match=f"^(sparse|graded) probe: .* {ALLOWS}"):
        check(wrong("SPLIT_BF16"), Gemm(8, 8, k))


@pytest.mark.parametrize("name", DIES)
def test_kernel_that_does_not_come_back(name: str) -> None:
    kind, reason = DIES[name]
    worker = Worker(Setting())
    try:
        with pytest.raises(kind, match=reason):
            ask(worker, Check(Case(SQUARE, wrong(name)), 1), 1.0 if "hangs" in reason else 60.0)
    finally:
        worker.close()


def test_every_wrong_kernel_is_tested() -> None:
    there = {name for name, found in vars(kernels).items() if isinstance(found, Variant)}
    assert there == {name for name, *_ in REFUSED} | {*LOSSY, *DIES, *WHEN_TIMED, "SILENT", "DECLARES"}


@pytest.mark.parametrize("place", ["tests.wrong.kernels", kernels.__file__])
def test_wrong_kernels_are_found_by_module_and_by_file(place: str) -> None:
    assert find("gemm", f"{place}:ZEROS").name == "ZEROS"
    with pytest.raises(UsageError, match="must be a function or a Variant"):
        find("gemm", f"{place}:LATE")
    with pytest.raises(UsageError, match="NO_SUCH"):
        find("gemm", f"{place}:NO_SUCH")


# Right kernels


def shape(rng: np.random.Generator) -> tuple[int, int, int]:
    """m, n to 400 and k to 26752, each as likely in every octave, none of a size that takes long."""
    while True:
        m, n, k = (int(math.exp(rng.uniform(0, math.log(top + 1)))) for top in (400, 400, 26752))
        if m * n * k <= TERMS and (m + n) * k <= ELEMENTS:
            return m, n, k


def problem(rng: np.random.Generator) -> Gemm:
    return Gemm(
        *shape(rng),
        trans=str(rng.choice(["nn", "nt", "tn", "tt"])),
        alpha=float(rng.choice([1, 1, -0.7, 2.5])),
        beta=float(rng.choice([0, 0, 1, -0.3])),
        ld_pad=int(rng.choice([0, 0, 1, 5, 16])),
    )


@pytest.mark.parametrize("checks", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_no_honest_product_is_refused(checks: int) -> None:
    """Random shapes and layouts."""
    rng = np.random.default_rng(20240607)
    here = [name for name in HONEST if not find("gemm", name).missing()]
    refused, checked = [], dict.fromkeys(here, 0)
    while sum(checked.values()) < checks:
        one, name = problem(rng), str(rng.choice(here))
        if find("gemm", name).accepts(one):
            continue
        checked[name] += 1
        try:
            check(name, one, seed=sum(checked.values()))
        except WrongResult as error:
            refused.append(f"{one.name}/variant:{name}: {error}")
    assert refused == []
    assert min(checked.values()) > checks // 40, checked


@pytest.mark.parametrize("alpha", [1.0, 0.0])
@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_no_honest_product_is_refused_where_little_is_to_do(alpha: float, beta: float) -> None:
    for one in (Gemm(1, 1, 1, alpha=alpha, beta=beta), Gemm(3, 1, 17, "tt", alpha=alpha, beta=beta)):
        for name in ("openblas", "naive", "blocked"):
            check(name, one)


# Right kernels that execute less than the nominal work


def measured(variant: str, rate: float) -> tuple[SimpleNamespace, list[Case]]:
    """A case at `rate` times its ceiling by nominal work in 32 rounds with a little noise, and its ceilings."""
    one = Case(Gemm(256, 256, 256), variant)
    cases = [one, *ceilings.cases([one], LIMITS)]
    rng = np.random.default_rng(5)
    times = rng.lognormal(0, 0.01, (32, len(cases)))
    flop_rate, byte_rate = 100e9, 1e15  # arithmetic is the nearer bound
    times[:, 0] *= one.problem.flops / flop_rate / rate
    times[:, 1] *= cases[1].problem.flops / flop_rate
    times[:, 2:] *= cases[2].problem.bytes / byte_rate
    return SimpleNamespace(times=times, undisturbed=times, timed=np.ones(32, bool)), cases


@pytest.mark.parametrize(
    ("variant", "rate", "refused"),
    [("SILENT", 1.3, True), ("SILENT", 1.03, False), ("DECLARES", 1.3, False), ("DECLARES", 2.2, True)],
)
def test_faster_than_its_ceiling_by_declared_work_is_refused(variant: str, rate: float, refused: bool) -> None:
    told = ceilings.share(*measured(wrong(variant), rate), 0, LIMITS)
    assert told.percent == pytest.approx(100 * rate, rel=0.02)  # by nominal work, all the same
    assert (told.refusal is not None) == refused
    if (variant, rate) == ("SILENT", 1.3):
        assert str(told.refusal).startswith("1.30 times its ceiling (FMA ")
        assert str(told.refusal).endswith("the kernel cannot have done this work")


def test_product_of_fewer_multiplications_passes_its_check() -> None:
    check(wrong("DECLARES"), Gemm(64, 96, 32, "tt"))


# Two cases on one buffer


def test_cases_that_share_a_buffer_are_refused() -> None:
    addresses = np.array([[0, 128, 256], [0, 356, 229]])  # by one byte, in the second round
    with pytest.raises(LaunchError, match=r"^left and right share memory in a round"):
        placement.refuse_shared(addresses, [128, 128, 128], ["right", "right", "left"])


def test_block_within_another_s_second_block_is_refused() -> None:
    addresses = np.array([[0, 10, 30]])
    with pytest.raises(LaunchError, match="share memory"):
        placement.refuse_shared(addresses, [1000, 10, 10], ["left", "left", "right"])


def test_cases_side_by_side_are_not_refused() -> None:
    placement.refuse_shared(np.array([[0, 128], [128, 0]]), [128, 128], ["left", "right"])


def test_look_with_overlapping_places_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("micro.worker.contest.canaries", lambda device: [])
    cell = ctypes.c_int32(-1)
    host = worker_host.Host(CPU, ctypes.addressof(cell))
    cases = [Case(SQUARE, "openblas"), Case(SQUARE, "naive")]
    host.calibrate(host.open(cases, [True, True], 1), 60e-6)
    assert host.run_rounds(0, 2).wall.shape == (2, 2)
    monkeypatch.setattr(placement, "draw", lambda rng, sizes, space, rounds, unit: np.zeros((rounds, len(sizes)), int))
    with pytest.raises(LaunchError, match="share memory") as told:
        host.run_rounds(2, 2)
    for case in cases:
        assert f"{case.problem.name}/variant:{case.variant}" in str(told.value)
