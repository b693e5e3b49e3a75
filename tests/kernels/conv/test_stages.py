"""Stages of a call and the making of plans as variants: named, checked by the whole call, timed alone, their work."""

from __future__ import annotations

import gc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels.catalog import find, is_user
from kernels.devices import open_device
from kernels.errors import UsageError
from kernels.libs import fftw
from kernels.ops.conv import fft, stages
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import PASSES
from kernels.setting import Setting
from kernels.variant import Variant
from micro.worker import check

CPU = open_device("cpu")
PROBLEM = Conv(2, 4, 14, 14, 6, 3, 3, pad=1)
needs_fftw = pytest.mark.skipif(fftw.missing() is not None, reason=fftw.missing() or "")


def staged() -> list[Any]:
    rows = [(name, stages.ROWS[name]) for name in stages.STAGED]
    return [
        pytest.param(name, id=name, marks=pytest.mark.skipif(row.missing() is not None, reason=str(row.missing())))
        for name, row in rows
    ]


def operands(problem: Conv) -> list[Any]:
    x = problem.fill(np.random.default_rng(1))
    return [x[o.name] if o.role == "in" else np.full(o.shape, np.nan, "f4") for o in problem.operands()]


def alone(row: Variant[Conv], problem: Conv) -> Any:
    ((part, uses),) = row.parts(problem)
    return part, uses


@pytest.mark.parametrize("direction", PASSES)
@pytest.mark.parametrize("name", staged())
def test_the_last_stage_alone_writes_the_result(name: str, direction: str) -> None:
    """Each of the others leaves it as it was."""
    problem = replace(PROBLEM, direction=direction)
    buffers = operands(problem)
    every = stages.names(name, problem)
    assert len(every) == 4
    for word in every:
        row = find("conv", f"stage:{name}:{word}")
        assert row.accepts(problem) is None
        part, uses = alone(row, problem)
        part.prepare(problem, CPU, Setting())(buffers).call()
        assert uses == 1 and np.isnan(buffers[2]).all() == (word != every[-1]), word
    assert np.isfinite(buffers[2]).all()


@pytest.mark.parametrize("direction", PASSES)
@pytest.mark.parametrize("name", staged())
def test_stages_work_adds_up_to_the_calls(name: str, direction: str) -> None:
    problem = replace(PROBLEM, direction=direction)
    rows = [find("conv", f"stage:{name}:{word}") for word in stages.names(name, problem)]
    whole = find("conv", name)
    assert sum(row.executed(problem).flops for row in rows) == pytest.approx(whole.executed(problem).flops)
    assert all(row.executed(problem).flops > 0 and not row.roles for row in rows)
    assert not is_user("conv", rows[0].name)


def test_what_is_checked_is_the_whole_call() -> None:
    row = find("conv", "stage:fft-scipy:products")
    check.check(CPU, PROBLEM, row, row.prepare(PROBLEM, CPU, Setting()), 1)


def test_stages_share_their_memory_while_one_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    plans = []
    plan = fft.plan

    def counting(*given: Any, **more: Any) -> Any:
        plans.append(given)
        return plan(*given, **more)

    monkeypatch.setattr(fft, "plan", counting)
    rows = [find("conv", f"stage:fft-scipy:{word}") for word in ("transform-w", "products")]
    binds = [
        prepare(PROBLEM, CPU, Setting()) for row in rows for prepare in (row.prepare, alone(row, PROBLEM)[0].prepare)
    ]
    assert len(plans) == 1
    del binds
    gc.collect()
    rows[0].prepare(PROBLEM, CPU, Setting())
    assert len(plans) == 2


def test_a_pass_without_the_stage_says_which_it_has() -> None:
    row = find("conv", "stage:fft-scipy:transform-w")
    reason = row.accepts(replace(PROBLEM, direction="wgrad"))
    assert reason is not None and "transform-x, transform-y, products, inverse-w" in reason and "--direction" in reason
    assert row.executed(replace(PROBLEM, direction="wgrad")).flops == 0
    assert "--stride 1" in str(row.accepts(replace(PROBLEM, stride=2)))


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("stage:fft-sipy:products", "did you mean fft-scipy?"),
        ("stage:fft-scipy:product", "did you mean products?"),
        ("stage:", "there are fft-scipy"),
        ("plan:fft-scipy", "did you mean"),
        ("plan:fft-pyfftw:agin", "did you mean again?"),
    ],
)
def test_a_misspelled_stage_is_told_which_there_are(name: str, remedy: str) -> None:
    with pytest.raises(UsageError) as caught:
        find("conv", name)
    assert remedy in str(caught.value) and "--variant" in str(caught.value)


# Plans


@needs_fftw
@pytest.mark.parametrize("direction", PASSES)
def test_planning_searches_for_every_transform_of_a_call(direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[tuple[tuple[int, ...], bool, str]] = []
    monkeypatch.setattr(fftw, "search", lambda frames, spectra, *how: searched.append((frames.shape[1:], *how)))
    problem = replace(PROBLEM, direction=direction)
    part, uses = alone(find("conv", "plan:fft-pyfftw"), problem)
    part.prepare(problem, CPU, Setting())(operands(problem)).call()
    assert uses == 1 and len(searched) == 3
    assert {shape for shape, _, _ in searched} == {(15, 15)} and {rigor for *_, rigor in searched} == {"measure"}
    assert [inverse for _, inverse, _ in searched].count(True) == 1


@needs_fftw
def test_a_search_takes_no_wisdom_and_leaves_none(monkeypatch: pytest.MonkeyPatch) -> None:
    import pyfftw

    frames, spectra = np.zeros((8, 12, 10), "f4"), np.zeros((8, 12, 6), "c8")
    monkeypatch.setattr(fftw.state, "write_bytes", lambda *given: pytest.fail("wisdom is kept"))
    monkeypatch.setattr(fftw, "_wisdom", lambda rigor: pytest.fail("wisdom is taken"))
    fftw.search(frames, spectra, False, "measure")
    assert b"codelet" not in pyfftw.export_wisdom()[1]


@needs_fftw
def test_plans_made_again_take_the_wisdom_that_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    part, _ = alone(find("conv", "plan:fft-pyfftw:again"), PROBLEM)
    launch = part.prepare(PROBLEM, CPU, Setting())(operands(PROBLEM))
    monkeypatch.setattr(fftw, "search", lambda *given: pytest.fail("searched again"))
    taken = []
    wisdom = fftw._wisdom
    monkeypatch.setattr(fftw, "_wisdom", lambda rigor: (taken.append(rigor), wisdom(rigor))[1])
    launch.call()
    assert taken == ["measure"] * 3


@needs_fftw
def test_frames_anywhere_have_plans_of_their_own() -> None:
    row = find("conv", "fft-pyfftw-unaligned")
    check.check(CPU, PROBLEM, row, row.prepare(PROBLEM, CPU, Setting()), 1)
    frames, spectra = np.zeros((8, 12, 10), "f4"), np.zeros((8, 12, 6), "c8")
    for aligned in (True, False):
        execute: Any = fftw.plan(frames, spectra, False, "estimate", aligned).execute
        assert (fftw.UNALIGNED in execute.__self__.flags) == (not aligned)
