"""Convolution by whole-image transforms: one length for three passes, spectra kept or not, plans and their wisdom."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels import state
from kernels.catalog import find
from kernels.errors import WrongResult
from kernels.libs import fftw, openblas
from kernels.ops.conv import fft
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import PASSES
from kernels.ops.conv.taps import Line
from kernels.setting import Setting
from kernels.variant import Variant
from tests.kernels.rows import CPU, checked

SIDES = {"pad_top": 0, "pad_left": 1, "pad_bottom": 2, "pad_right": 3}
SCIPY, KEPT = find("conv", "fft-scipy"), find("conv", "fft-scipy-kept")


def problem(form: str, direction: str) -> Conv:
    return Conv(2, 4, 9, 7, 6, direction=direction, **(SIDES if form == "sides" else {}))


@pytest.mark.parametrize(
    ("fields", "option"),
    [
        ({"stride": 2}, "--stride 1"),
        ({"groups": 2}, "--groups 1"),
        ({"layout": "nhwc"}, "--layout nchw"),
        ({"n": 4096, "c": 256, "h": 100, "w": 100}, "a smaller --n"),
    ],
)
def test_what_is_refused_names_the_remedy(fields: dict[str, Any], option: str) -> None:
    asked = Conv(**{"n": 2, "c": 4, "h": 9, "w": 7, "k": 6, **fields})
    assert all(option in (row.accepts(asked) or "") for row in fft.ROWS)


def test_lengths_have_small_factors_and_room_for_one_side() -> None:
    assert [fft.smooth(n) for n in (1, 7, 11, 13, 14, 29, 31, 57, 61, 121)] == [1, 8, 12, 15, 15, 30, 32, 60, 64, 125]
    for size, taps, before, after, dilation in itertools.product((1, 4, 9), (1, 2, 5), (0, 1, 4), (0, 3), (1, 2)):
        line = Line(size, taps, 1, before, after, dilation)
        if line.outputs < 1:
            continue
        length = fft.length(line)
        assert length >= size + max(before, after) and length >= line.outputs
        assert length >= (taps - 1) * dilation + 1
    assert fft.lengths(Conv(16, 96, 27, 27, 256, 5, 5, 1, 2, 2, 2, 2)) == (30, 30)


def test_work_and_workspace_are_those_of_the_formulas() -> None:
    asked = Conv(2, 3, 13, 27, 5, 3, 5, 1, 1, 2, 1, 2)  # 15 × 30
    f, planes = 15 * 16, 2 * 3 + 5 * 3 + 2 * 5
    transforms = 2.5 * 450 * np.log2(450)
    assert fft.work(asked).flops == pytest.approx(8 * f * 2 * 3 * 5 + planes * transforms)
    assert fft.work(asked, kept=True).flops == pytest.approx(8 * f * 2 * 3 * 5 + (planes - 15) * transforms)
    assert fft.work(asked).bytes == asked.bytes + 8 * f * planes
    bench = [np.zeros(x.shape, "f4") for x in asked.operands()]
    launch = SCIPY.prepare(asked, CPU, Setting())(bench)
    assert launch.workspace == 8 * f * planes + 16 * (4 * 450 + 8 * f)  # a block of 16 planes holds any of the three


def test_a_call_is_its_stages() -> None:
    asked = problem("sides", "forward")
    made = fft.plan(asked, CPU, openblas.load("numpy"), fft.by_scipy)
    x = asked.fill(np.random.default_rng(1))
    y = np.zeros(asked.outputs[0].shape, "f4")
    stages = fft.stages(made, {"x": x["x"], "w": x["w"], "y": y})
    assert list(stages) == ["transform x", "transform w", "products", "inverse y"]
    for run in stages.values():
        assert not y.any()
        run()
    np.testing.assert_allclose(y, asked.reference(x)["y"], rtol=1e-4, atol=1e-4)


# Wrong twins


def refused(row: Variant[Conv], asked: Conv) -> str:
    with pytest.raises(WrongResult) as caught:
        checked(asked, row, zlib.crc32(asked.name.encode()))
    return str(caught.value)


@pytest.mark.parametrize("direction", PASSES)
def test_an_answer_that_begins_one_off_is_refused(direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    start = fft._start
    monkeypatch.setattr(fft, "_start", lambda *of: (start(*of) + 1) % of[2])
    refused(SCIPY, problem("sides", direction))


@pytest.mark.parametrize("direction", PASSES)
def test_a_frame_without_room_for_the_padding_is_refused(direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Conv(2, 4, 8, 8, 6, 3, 3, 1, 1, 1, 1, 1, direction=direction)
    checked(asked, SCIPY)
    monkeypatch.setattr(fft, "length", lambda line: line.size)
    refused(SCIPY, asked)


def missing_tap(frames: Any, spectra: Any, inverse: bool) -> Callable[[], Any]:
    transform = fft.by_scipy(frames, spectra, inverse)

    def run() -> Any:
        if not inverse:
            frames[:, 0, 0] = 0
        return transform()

    return run


@pytest.mark.parametrize("direction", PASSES)
def test_a_missing_tap_is_refused(direction: str) -> None:
    def prepare(asked: Conv, device: Any, setting: Any) -> Any:
        return fft.prepare(asked, device, setting, library=missing_tap)

    refused(replace(SCIPY, prepare=prepare), problem("sides", direction))


def test_a_kept_filter_is_transformed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = problem("plain", "dgrad")
    calls = []
    stages = fft.stages

    def counting(*given: Any) -> Any:
        def counted(name: str, run: Any) -> Any:
            return lambda: (calls.append(name), run())

        return {name: counted(name, run) for name, run in stages(*given).items()}

    monkeypatch.setattr(fft, "stages", counting)
    x = asked.fill(np.random.default_rng(3))
    launch = KEPT.prepare(asked, CPU, Setting())([*x.values(), np.zeros(asked.outputs[0].shape, "f4")])
    for _ in range(3):
        launch.call()
    assert calls.count("transform w") == 1
    assert calls.count("transform y") == 3


# Plans

needs_fftw = pytest.mark.skipif(fftw.missing() is not None, reason=fftw.missing() or "")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(state, "folder", lambda: tmp_path)
    return tmp_path


@needs_fftw
def test_wisdom_is_kept_by_rigor(folder: Path) -> None:
    frames, spectra = np.zeros((8, 12, 10), "f4"), np.zeros((8, 12, 6), "c8")
    fftw.plan(frames, spectra, False, "estimate")
    assert not list(folder.rglob("*"))
    fftw.plan(frames, spectra, False, "patient")
    (patient,) = folder.glob("fftw/*")
    assert patient.name.startswith("patient-")
    fftw.plan(frames, spectra, False, "measure")
    measure = next(folder.glob("fftw/measure-*"))
    first = measure.read_bytes()
    assert b"fftwf" in first
    fftw.plan(frames, spectra, False, "measure")
    assert measure.read_bytes() == first
    fftw.plan(frames, spectra, True, "measure")
    assert len(measure.read_bytes()) > len(first)


@needs_fftw
@pytest.mark.parametrize("content", [b"", b"no wisdom", b"(fftw-0 fftwf_wisdom"])
def test_damaged_wisdom_is_made_again(folder: Path, content: bytes) -> None:
    frames, spectra = np.zeros((8, 12, 10), "f4"), np.zeros((8, 12, 6), "c8")
    fftw.plan(frames, spectra, False, "measure")
    (file,) = folder.glob("fftw/*")
    file.write_bytes(content)
    execute = fftw.plan(frames, spectra, False, "measure").execute
    assert b"codelet" in file.read_bytes()
    frames[...] = np.random.default_rng(4).standard_normal(frames.shape)
    execute()
    np.testing.assert_allclose(spectra, np.fft.rfft2(frames), atol=1e-3)


@needs_fftw
def test_fftw_names_itself() -> None:
    name, isa = fftw.kernel()
    assert name is not None and name.startswith("pyfftw ") and "FFTW 3" in name
    assert isa is None
