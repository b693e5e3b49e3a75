"""The command `python -m micro.ceiling`, for real and short."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from kernels import ceilings
from kernels.devices import kind_of
from kernels.devices.base import Limits
from kernels.devices.cpu import Cpu
from micro import ceiling
from micro.planning.contest import Budget
from reports import store
from tests.conftest import Ran

SMALL = Limits(memory=8 << 30, cores=2, caches=(32 << 10, 1 << 20, 2 << 20))  # main memory begins at 8 MiB


@pytest.mark.slow
def test_every_ceiling_is_measured_kept_and_told(
    capsys: pytest.CaptureFixture[str],
    own_state: Path,
    in_process: Callable[..., Ran],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ceiling, "BUDGET", Budget(seconds=1.0, target=0.5))
    monkeypatch.setattr(Cpu, "limits", lambda self: SMALL)
    ran = in_process(capsys, ceiling.main, ["-q", "-o", str(tmp_path / "run.jsonl")])
    assert ran.code in (0, 1), ran.err  # 1: a rate that a moment of noise made too high is refused
    results = [x for x in store.read(tmp_path / "run.jsonl").results if x.role == "measured"]
    assert {x.op for x in results} == {"fma", "stream"}
    assert not [x.name for x in results if x.status in ("failed", "skipped")]
    kept = ceilings.load()
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
    kept = ceilings.load("fake:cuda")
    assert kept is not None and set(kept.bandwidth) == {"read", "copy", "triad"}
    assert list(kept.flops) == ["fp32", "tf32 mma", "bf16 mma", "fp16 mma"]
    assert ceilings.load() is None and ran.out.startswith("multiply-adds: fp32 ")


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
