"""The filter's transform as a product: its matrix, a few frequencies at a time, wrong matrices."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels.catalog import find
from kernels.devices import open_device
from kernels.errors import WrongResult
from kernels.libs import openblas
from kernels.ops.conv import dft, fft, fft_rows
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import PASSES
from kernels.setting import Setting
from micro.worker import check

CPU = open_device("cpu")
ROW = find("conv", "fft-scipy-dft")


def problem(direction: str, **fields: int) -> Conv:
    base: dict[str, Any] = {"n": 2, "c": 4, "h": 9, "w": 7, "k": 19, "r": 3, "s": 4, "pad_left": 1, "pad_bottom": 2}
    return Conv(**{**base, **fields}, direction=direction)


def checked(asked: Conv) -> None:
    """Raises WrongResult."""
    check.check(CPU, asked, ROW, ROW.prepare(asked, CPU, Setting()), zlib.crc32(asked.name.encode()))


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("across", [6, 7])  # a frame of 10 columns, of 9
def test_the_matrix_is_the_transform(dilation: int, across: int) -> None:
    asked = problem("forward", w=across + 2, dilation=dilation)
    down, columns = fft.lengths(asked)
    taps = np.random.default_rng(1).standard_normal((asked.r, asked.s))
    frame = np.zeros((down, columns))
    frame[: asked.r * dilation : dilation, : asked.s * dilation : dilation] = taps
    parts = (dft.matrix(asked).astype("f8") @ taps.ravel()).reshape(-1, 2)
    np.testing.assert_allclose(parts[:, 0] + 1j * parts[:, 1], np.fft.rfft2(frame).ravel(), atol=1e-5)


@pytest.mark.parametrize("across", [6, 7])
def test_the_gradients_matrix_is_the_inverse(across: int) -> None:
    asked = problem("wgrad", w=across + 2, dilation=2, pad_top=3)
    frame = np.random.default_rng(2).standard_normal(fft.lengths(asked))
    spectrum = np.fft.rfft2(frame).ravel()
    taps = dft.matrix(asked).astype("f8").T @ np.stack([spectrum.real, spectrum.imag], axis=1).ravel()
    rows, columns = np.arange(asked.r) * 2 - 3, np.arange(asked.s) * 2 - 1
    np.testing.assert_allclose(taps.reshape(asked.r, asked.s), frame[np.ix_(rows, columns)], atol=1e-6)


@pytest.mark.parametrize("direction", PASSES)
def test_a_few_frequencies_at_a_time(direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = problem(direction)
    monkeypatch.setattr(dft, "AT_ONCE", 0)
    assert fft.frequencies(asked) % dft.at_once(asked)
    checked(asked)


def test_work_and_workspace_are_those_of_the_formulas() -> None:
    asked = Conv(2, 3, 13, 27, 5, 3, 5, 1, 1, 2, 1, 2)  # 15 × 30
    f, images, filters = 15 * 16, 2 * 3 + 2 * 5, 5 * 3
    transforms = 2.5 * 450 * np.log2(450) * images
    assert dft.work(asked).flops == pytest.approx(8 * f * 2 * 3 * 5 + 4 * f * 15 * filters + transforms)
    bench = [np.zeros(x.shape, "f4") for x in asked.operands()]
    launch = ROW.prepare(asked, CPU, Setting())(bench)
    block, rest = 16 * (4 * 450 + 8 * f), 4 * 15 * filters + 12 * images + 8 * f * 15
    assert dft.at_once(asked) == f  # so small a filter is transformed whole
    assert launch.workspace == 8 * f * (images + filters) + block + rest


@pytest.mark.parametrize("direction", PASSES)
def test_a_call_is_its_stages(direction: str) -> None:
    asked = problem(direction)
    made = fft.plan(asked, CPU, openblas.load("numpy"), fft_rows.by_scipy, "xy")
    x = asked.fill(np.random.default_rng(3))
    (output,) = asked.outputs
    answer = np.zeros(output.shape, "f4")
    buffers = {name[-1]: array for name, array in {**x, output.name: answer}.items()}
    stages = dft.stages(made, buffers, dft.room(asked, CPU), dft.matrix(asked))
    for stage in stages:
        assert not answer.any()
        stage.run()
    assert [stage.name for stage in stages] == {
        "forward": ["transform x", "filter and products", "inverse y"],
        "dgrad": ["transform y", "filter and products", "inverse x"],
        "wgrad": ["transform x", "transform y", "filter and products"],
    }[direction]
    np.testing.assert_allclose(answer, asked.reference(x)[output.name], rtol=1e-4, atol=1e-3)


def no_conjugates(asked: Conv, matrix: Any) -> Any:
    return matrix / 2


def one_off(asked: Conv, matrix: Any) -> Any:
    return np.roll(matrix, 1, axis=1)


def missing_tap(asked: Conv, matrix: Any) -> Any:
    matrix[:, asked.s] = 0
    return matrix


@pytest.mark.parametrize("harm", [no_conjugates, one_off, missing_tap], ids=lambda harm: harm.__name__)
@pytest.mark.parametrize("direction", PASSES)
def test_a_wrong_matrix_is_refused(
    direction: str, harm: Callable[[Conv, Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    checked(problem(direction))
    matrix = dft.matrix
    monkeypatch.setattr(dft, "matrix", lambda asked: harm(asked, matrix(asked)))
    with pytest.raises(WrongResult):
        checked(problem(direction))
