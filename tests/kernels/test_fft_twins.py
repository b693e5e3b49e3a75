"""Transforms of images that are wrong in one way each, refused: whole ones, and ours without one of its lines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels import maths
from kernels.catalog import find
from kernels.errors import WrongResult
from kernels.launch import Launch
from kernels.ops.fft import Fft
from kernels.ops.fft import variants as native
from kernels.variant import Variant
from tests.kernels.rows import checked

DIRECTIONS = ("r2c", "c2r")
Array = Any


def refusal(row: Variant[Any], problem: Fft) -> str | None:
    try:
        checked(problem, row)
    except WrongResult as error:
        return str(error)
    return None


def twin(change: Callable[[Fft, Array, Callable[[Array], Array]], Array]) -> Variant[Any]:
    """Right in float64, but for the change: it is given the operand and the transform."""

    def prepare(problem: Fft, device: object, setting: object) -> Any:
        def bind(buffers: Any) -> Launch:
            x, y = buffers

            def call() -> None:
                y[...] = change(problem, x.astype("f8"), lambda given: problem.reference({"x": given})["y"])

            return Launch(call)

        return bind

    return Variant("wrong", "cpu", "tests", prepare)


def rounded_input(problem: Fft, x: Array, transform: Callable[[Array], Array]) -> Array:
    return transform(x.astype("f2").astype("f8"))


def rounded_output(problem: Fft, x: Array, transform: Callable[[Array], Array]) -> Array:
    return transform(x).astype("f2")


def without_a_place(problem: Fft, x: Array, transform: Callable[[Array], Array]) -> Array:
    x[:, -1, 0] = 0
    return transform(x)


def the_other_way_round(problem: Fft, x: Array, transform: Callable[[Array], Array]) -> Array:
    return transform(x[:, -np.arange(problem.h)])


def by_another_scale(problem: Fft, x: Array, transform: Callable[[Array], Array]) -> Array:
    return transform(x) * (problem.count if problem.direction == "c2r" else 1 / problem.count)


def images_exchanged(problem: Fft, x: Array, transform: Callable[[Array], Array]) -> Array:
    return transform(x[::-1])


TWINS = (rounded_input, rounded_output, without_a_place, the_other_way_round, by_another_scale, images_exchanged)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_the_right_twin_passes(direction: str) -> None:
    assert refusal(twin(lambda problem, x, transform: transform(x)), Fft(2, 32, 64, direction)) is None


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("change", TWINS, ids=lambda change: change.__name__)
def test_a_wrong_twin_is_refused(change: Any, direction: str) -> None:
    reason = refusal(twin(change), Fft(2, 32, 64, direction))
    assert reason is not None
    assert ("wrong by the factor" in reason) == (change is by_another_scale)


LINES = {
    "a missing twiddle": ("times(minus(even, odd), second)", "minus(even, odd)"),
    "a turn to the other side": ("turned(minus(b, d), back)", "turned(minus(b, d), !back)"),
    "no conjugate": ("z[n - k] = conjugate(minus(even, odd))", "z[n - k] = minus(even, odd)"),
    "no columns unpacked": ("if (k == 0) unpack(z, y, p->h, r->half);", ""),
    "no columns packed": ("if (k == 0) pack(x, r->one, p->h, r->half);", ""),
    "not scaled": ("all(1.0f / (p->h * p->w))", "all(1)"),
    "the first image alone": ("image < p->batch", "image < 1"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", LINES)
def test_a_kernel_without_a_line_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch, own_state: Path, tmp_path: Path
) -> None:
    before, after = LINES[name]
    source = tmp_path / "fft.c"
    text = native.SOURCE.read_text("utf-8")
    assert before in text
    source.write_text(text.replace(before, after), "utf-8")
    monkeypatch.setattr(native, "SOURCE", source)
    monkeypatch.setattr(native, "flags", lambda: (*maths.flags(), "-Wno-error"))  # of what nobody calls then
    one_way = {"no columns unpacked": "r2c", "no columns packed": "c2r", "not scaled": "c2r"}
    for direction in DIRECTIONS if name not in one_way else (one_way[name],):
        assert refusal(find("fft", "c"), Fft(2, 32, 64, direction)) is not None


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_coarse_twiddles_are_refused(direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    waves = native.waves
    monkeypatch.setattr(native, "waves", lambda problem: waves(problem).view("f4").astype("f2").astype("f4").view("c8"))
    assert "times the tolerance of its precision" in str(refusal(find("fft", "c"), Fft(2, 32, 64, direction)))
