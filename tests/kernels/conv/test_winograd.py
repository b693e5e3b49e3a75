"""Our Winograd convolutions: matrices exact, room as said, kept transforms never others'."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from kernels.catalog import find
from kernels.ops.conv import winograd
from kernels.ops.conv.cook_toom import TAPS, cook_toom, points
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import PASSES
from kernels.ops.conv.winograd import ALGORITHMS, ROWS, Tiling
from kernels.setting import Setting
from tests.kernels.rows import CPU

SAME = {"pad_top": 1, "pad_left": 1, "pad_bottom": 1, "pad_right": 1}
ALGORITHM = {name: algorithm for name, algorithm, *_ in ALGORITHMS}
NAMES = list(ALGORITHM)
OURS = pytest.mark.parametrize("name", NAMES)
POINTS = pytest.mark.parametrize("sizes", [algorithm.sizes for _, algorithm, *_ in ALGORITHMS], ids=str)


def answered(name: str, problem: Conv, x: dict[str, Any]) -> Any:
    """What a row makes of these inputs."""
    buffers = operands(problem, x)
    find("conv", name).prepare(problem, CPU, Setting())(buffers).call()
    return buffers[2]


def operands(problem: Conv, x: dict[str, Any]) -> list[Any]:
    return [x[o.name].copy() if o.role == "in" else np.full(o.shape, np.nan, np.float32) for o in problem.operands()]


def share(name: str, problem: Conv, x: dict[str, Any], got: Any) -> float:
    """The largest error of an answer, in shares of what the row's bound allows."""
    row = find("conv", name)
    output = problem.outputs[0].name
    [evidence] = row.judged(problem).compare(x, {output: got}, row.u(problem), "dense")
    shares = np.zeros(evidence.error.shape)
    return float(np.max(np.divide(evidence.error, evidence.bound, where=evidence.error != 0, out=shares)))


# Matrices


@POINTS
def test_the_sums_of_three_taps_are_exact(sizes: tuple[str, ...]) -> None:
    matrices, rng = cook_toom(points(*sizes)), np.random.default_rng(0)
    m = 2 * len(sizes)
    for _ in range(5):
        d, g = ([Fraction(int(i)) for i in rng.integers(-99, 100, size)] for size in (m + 2, TAPS))
        u = [sum(x * y for x, y in zip(row, g, strict=True)) for row in matrices.g]
        v = [sum(x * y for x, y in zip(row, d, strict=True)) for row in matrices.bt]
        y = [sum(matrices.a[i][j] * u[i] * v[i] for i in range(m + 2)) for j in range(m)]
        assert y == [sum(g[k] * d[j + k] for k in range(TAPS)) for j in range(m)]


@POINTS
def test_neighboring_rows_of_a_pair_differ_in_every_second_sign_alone(sizes: tuple[str, ...]) -> None:
    matrices = cook_toom(points(*sizes))
    for matrix in (matrices.a, matrices.g, matrices.bt):
        for i in range(1, len(matrix) - 1, 2):
            signs = {Fraction(x, y) for x, y in zip(matrix[i], matrix[i + 1], strict=True) if y}
            assert signs == {1, -1}
            assert {abs(x) for x in matrix[i]} == {abs(x) for x in matrix[i + 1]}


@POINTS
def test_single_precision_holds_the_matrices_of_image_and_output(sizes: tuple[str, ...]) -> None:
    matrices = cook_toom(points(*sizes))
    assert all(Fraction(float(np.float32(x))) == x for matrix in (matrices.a, matrices.bt) for x in sum(matrix, ()))


# Answers


@pytest.mark.parametrize("direction", PASSES)
@OURS
def test_blocks_make_the_same_as_all_tiles_at_once(name: str, direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Conv(3, 8, 16, 11, 8, **SAME, direction=direction)
    x = problem.fill(np.random.default_rng(2))
    monkeypatch.setattr(winograd, "THIN", 1)
    answers = []
    for near in (1 << 14, 1 << 30):
        monkeypatch.setattr(winograd, "NEAR", near)
        answers.append(answered(name, problem, x))
    m = ALGORITHM[name].m
    assert Tiling(problem, m).rows == 3 * Tiling(problem, m).down
    np.testing.assert_allclose(*answers, atol=1e-3)


@pytest.mark.parametrize("pads", [(3, 2, 4, 3), (0, 4, 0, 0), (2, 2, 2, 2), (0, 0, 0, 40)], ids=str)
@pytest.mark.parametrize("direction", ["forward", "dgrad"])
@OURS
def test_what_reads_padding_alone_is_zero(name: str, direction: str, pads: tuple[int, ...]) -> None:
    sides = dict(zip(("pad_top", "pad_left", "pad_bottom", "pad_right"), pads, strict=True))
    problem = Conv(2, 4, 6, 5, 7, **sides, direction=direction)
    x = problem.fill(np.random.default_rng(3))
    got, want = answered(name, problem, x), problem.reference(x)[problem.outputs[0].name]
    assert ((got == 0) == (want == 0)).all()
    assert share(name, problem, x, got) < 0.5


REFUSED: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"r": 5, "s": 3}, {"r": 3}),
    ({"r": 3, "s": 1}, {"s": 3}),
    ({"stride": 2}, {"stride": 1}),
    ({"dilation": 2}, {"dilation": 1}),
    ({"groups": 2}, {"groups": 1}),
]


@pytest.mark.parametrize(("fields", "remedy"), REFUSED, ids=str)
def test_refused_is_what_another_option_makes_acceptable(fields: dict[str, Any], remedy: dict[str, Any]) -> None:
    problem = Conv(1, 4, 9, 9, 4, **fields)
    for row in ROWS:
        reason = row.accepts(problem)
        assert reason is not None
        assert all(f"--{name} {value}" in reason for name, value in remedy.items())
        assert row.accepts(replace(problem, **remedy)) is None


# Kept transforms


@OURS
def test_a_kept_filter_is_that_of_its_launch(name: str) -> None:
    """Another one in its place is taken by the next bind alone."""
    problem, rng = Conv(2, 8, 9, 9, 8, **SAME), np.random.default_rng(5)
    bind = find("conv", f"{name}-kept").prepare(problem, CPU, Setting())
    x, other = (problem.fill(rng) for _ in range(2))
    buffers = operands(problem, x)
    launch = bind(buffers)
    launch.call()
    buffers[1][...] = other["w"]
    launch.call()
    assert share(name, problem, x, buffers[2]) < 1
    bind(buffers).call()
    assert share(name, problem, x | {"w": other["w"]}, buffers[2]) < 1 < share(name, problem, x, buffers[2])


@OURS
def test_a_kept_filter_moves_with_its_entry(name: str) -> None:
    problem = Conv(1, 4, 6, 6, 4, **SAME)
    x, other = (problem.fill(np.random.default_rng(seed)) for seed in (6, 7))
    buffers = operands(problem, x)
    launch = find("conv", f"{name}-kept").prepare(problem, CPU, Setting())(buffers)
    launch.call()
    assert launch.entry is not None
    place = ctypes.c_int64.from_buffer(launch.entry.argument, launch.entry.slots[1])
    place.value = other["w"].ctypes.data
    launch.call()
    assert share(name, problem, x | {"w": other["w"]}, buffers[2]) < 1


def test_a_kept_filter_is_no_gradient() -> None:
    row, problem = find("conv", "winograd-4x3-kept"), Conv(1, 4, 6, 6, 4)
    assert "--direction forward" in (row.accepts(replace(problem, direction="wgrad")) or "")
    assert row.constant == ("w",)


# Room and work


@pytest.mark.parametrize("direction", PASSES)
def test_the_room_is_that_of_a_block(direction: str) -> None:
    problem = Conv(16, 64, 56, 56, 64, **SAME, direction=direction)
    tiling = Tiling(problem, 4)
    tiles = tiling.rows * tiling.across
    assert 4 * 36 * tiles * 128 <= winograd.NEAR and 4 * 36 * (tiles + 2 * tiling.across) * 128 > winograd.NEAR
    launch = find("conv", "winograd-4x3").prepare(problem, CPU, Setting())(operands(problem, problem.fill(RNG())))
    whole = 4 * 36 * (tiles * (64 + 64) + 64 * 64)
    assert whole < launch.workspace < 1.25 * whole  # and rows of pixels


def RNG() -> np.random.Generator:
    return np.random.default_rng(8)


def test_few_tiles_of_many_channels_are_one_block() -> None:
    tiling = Tiling(Conv(16, 256, 13, 13, 384, **SAME), 4)
    assert tiling.rows == 16 * 4
    assert Tiling(Conv(16, 64, 13, 13, 128, **SAME), 4).rows * tiling.across >= winograd.THIN


@pytest.mark.parametrize(
    ("shape", "ratios"),
    [((16, 256, 13, 13, 384), (1.92, 2.56, 2.56, 2.52)), ((16, 64, 56, 56, 64), (2.19, 3.71, 3.71, 3.94))],
    ids=str,
)
def test_executed_work_is_a_known_share_of_the_nominal(shape: Any, ratios: tuple[float, ...]) -> None:
    problem = Conv(*shape, **SAME)
    for name, ratio in zip(NAMES, ratios, strict=True):
        work, kept = find("conv", name).executed(problem), find("conv", f"{name}-kept").executed(problem)
        assert problem.flops / work.flops == pytest.approx(ratio, abs=0.005)
        a = {"2": 4, "4": 6, "6": 8}[name.split("-")[1][0]]
        assert work.flops - kept.flops == 5 * a * (a + 3) * problem.k * problem.c
