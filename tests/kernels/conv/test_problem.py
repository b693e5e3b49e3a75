"""The truth of a convolution against a loop that says what it is, and parts of it against the whole."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels.ops.conv import projected, truth
from kernels.ops.conv.problem import Conv, Spread, spread
from kernels.ops.conv.shape import PASSES
from kernels.problem import Inputs

U = 2.0**-24
SIDES = {"pad_top": 1, "pad_left": 2, "pad_bottom": 0, "pad_right": 3}
FORMS: dict[str, dict[str, int]] = {
    "plain": {},
    "padded": SIDES,
    "strided": {"stride": 2, **SIDES},
    "dilated": {"dilation": 2, **SIDES},
    "even": {"r": 2, "s": 4},
    "groups": {"groups": 2},
    "depthwise": {"groups": 4, "k": 8},
    "sparse": {"r": 1, "s": 1, "stride": 3},  # of dgrad most places are zero
    "pixel": {"h": 1, "w": 1, "r": 1, "s": 1},
    "beyond": {"h": 2, "w": 2, "pad_top": 4, "pad_left": 4, "pad_bottom": 4, "pad_right": 4},
    "narrow": {"c": 4, "k": 2},
}
BLOCKED = {"c": 32, "k": 16, "h": 4, "w": 5, **SIDES}


def problems() -> Iterator[Any]:
    for (form, fields), direction in itertools.product(FORMS.items(), PASSES):
        base = {"n": 2, "c": 4, "h": 7, "w": 6, "k": 6, **fields}
        for layout in ("nchw", "nhwc"):
            yield pytest.param(Conv(**base, direction=direction, layout=layout), id=f"{form}-{direction}-{layout}")
    for direction in PASSES:
        yield pytest.param(Conv(2, **BLOCKED, direction=direction, layout="nchw16c"), id=f"blocked-{direction}")


def by_loops(problem: Conv, x: dict[str, Any]) -> Any:
    """The definition: each product of an output, a tap and a channel, one by one over taps."""
    down, across = problem.lines
    plain = {name: problem.plain(array).astype(np.float64) for name, array in x.items()}
    images = plain.get("x", np.zeros((problem.n, problem.c, problem.h, problem.w)))
    filters = plain.get("w", np.zeros((problem.k, problem.c // problem.groups, problem.r, problem.s)))
    results = plain.get("dy", np.zeros((problem.n, problem.k, down.outputs, across.outputs)))
    c, k = problem.c // problem.groups, problem.k // problem.groups
    places = itertools.product(range(down.outputs), range(across.outputs), range(problem.r), range(problem.s))
    for (i, j, r, s), group in itertools.product(places, range(problem.groups)):
        row = i * problem.stride + r * problem.dilation - problem.pad_top
        column = j * problem.stride + s * problem.dilation - problem.pad_left
        if not (0 <= row < problem.h and 0 <= column < problem.w):
            continue
        channels, maps = slice(group * c, (group + 1) * c), slice(group * k, (group + 1) * k)
        if problem.direction == "forward":
            results[:, maps, i, j] += images[:, channels, row, column] @ filters[maps, :, r, s].T
        elif problem.direction == "dgrad":
            images[:, channels, row, column] += results[:, maps, i, j] @ filters[maps, :, r, s]
        else:
            filters[maps, :, r, s] += results[:, maps, i, j].T @ images[:, channels, row, column]
    return {"forward": results, "dgrad": images, "wgrad": filters}[problem.direction]


@pytest.mark.parametrize("problem", [*problems()])
def test_the_truth_is_the_definition(problem: Conv) -> None:
    x = problem.fill(np.random.default_rng(1))
    (output,) = problem.outputs
    want = problem.reference(x)[output.name]
    assert want.shape == output.shape
    np.testing.assert_allclose(problem.plain(want), by_loops(problem, x), rtol=1e-12, atol=1e-10)


@pytest.mark.parametrize("problem", [*problems()])
def test_an_excerpt_is_a_convolution_of_its_own(problem: Conv) -> None:
    rng = np.random.default_rng(2)
    x = problem.fill(rng)
    arrays = {**x, **problem.reference(x)}
    (output,) = problem.outputs
    for _ in range(5):
        excerpt = problem.excerpt(rng)
        part = {name: arrays[name][np.ix_(*places)] for name, places in excerpt.places.items()}
        assert all(part[operand.name].shape == operand.shape for operand in excerpt.problem.operands())
        want = part.pop(output.name)
        np.testing.assert_allclose(excerpt.problem.reference(part)[output.name], want, rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("problem", [*problems()])
def test_layouts_are_there_and_back(problem: Conv) -> None:
    x = problem.fill(np.random.default_rng(3))
    for name, array in x.items():
        assert np.array_equal(problem.laid(problem.plain(array), name), array)


@pytest.mark.parametrize("form", FORMS)
def test_taps_inside_the_image_are_counted(form: str) -> None:
    problem = Conv(**{"n": 1, "c": 4, "h": 7, "w": 6, "k": 6, **FORMS[form]})
    ones = {operand.name: np.ones(operand.shape) for operand in problem.operands()[:2]}
    assert problem.inside == 2 * problem.reference(ones)["y"].sum()
    assert problem.inside <= problem.flops


def coarsely(x: dict[str, Any], cut: bool) -> dict[str, Any]:
    """In TF32: cut, or rounded."""
    more = np.uint32(0 if cut else 0x1000)
    return {key: ((array.view("u4") + more) & np.uint32(0xFFFFE000)).view("f4") for key, array in x.items()}


@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("probe", ["dense", "sparse", "uniform", "graded"])
@pytest.mark.parametrize("direction", PASSES)
@pytest.mark.parametrize("dear", [False, True])
def test_factors_that_are_rounded_coarsely_are_right_and_a_missing_one_shows(
    cut: bool, probe: str, direction: str, dear: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if dear:
        monkeypatch.setattr("kernels.ops.conv.problem.DEAR", 0.0)
    problem = Conv(4, 16, 14, 14, 32, 3, 3, 1, 1, 1, 1, 1, direction=direction)
    x = problem.fill(np.random.default_rng(6), probe)
    (output,) = problem.outputs

    def right(answer: Any) -> bool:
        evidence = problem.compare(x, {output.name: answer.astype("f4")}, 2.0**-11, probe)
        return all((e.error <= e.bound).all() for e in evidence)

    rounded = coarsely(x, cut)
    assert right(problem.reference(rounded)[output.name])
    if probe == "dense":
        last = rounded[list(rounded)[-1]]
        last.flat[np.abs(last).reshape(-1).argsort()[last.size // 2]] = 0
        assert not right(problem.reference(rounded)[output.name])


@pytest.mark.parametrize("probe", ["dense", "sparse", "uniform", "graded"])
@pytest.mark.parametrize("direction", PASSES)
def test_a_large_answer_is_projected(probe: str, direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bound that is half as wide would refuse nothing more of what is exact, one error of a row too large it must."""
    problem = spread(Conv(2, 32, 8, 8, 32, 3, 3, 1, 1, 1, 1, 1, direction=direction))
    x = problem.fill(np.random.default_rng(5), probe)
    (output,) = problem.outputs
    honest = problem.reference(x)[output.name].astype("f4")
    evidence = projected.compare(problem, x, {output.name: honest}, U, probe)
    assert evidence[0].test == "freivalds" and all((e.error <= e.bound).all() for e in evidence)
    honest[..., 0] *= 1.01
    evidence = projected.compare(problem, x, {output.name: honest}, U, probe)
    assert not (evidence[0].error <= evidence[0].bound).all()


@pytest.mark.parametrize("direction", PASSES)
def test_rivals_share_the_projected_truth(direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And none of them its bounds with one that is judged otherwise."""
    problem = Conv(2, 32, 8, 8, 32, 3, 3, 1, 1, 1, 1, 1, direction=direction)
    x = Inputs(problem.fill(np.random.default_rng(8)))
    (output,) = problem.outputs
    honest = problem.reference(x)[output.name].astype("f4")
    counted: list[Any] = []
    output_of = truth.output

    def counting(one: Any, *inputs: Any) -> Any:
        counted.append(one)
        return output_of(one, *inputs)

    monkeypatch.setattr(truth, "output", counting)
    evidence = [projected.compare(kind, x, {output.name: honest}, U, "dense")[0] for kind in (problem, spread(problem))]
    of_vectors = [one for one in counted if projected.VECTORS in (one.c, one.k)]
    assert len(of_vectors) == 1
    assert np.array_equal(evidence[0].error, evidence[1].error) and (evidence[0].bound < evidence[1].bound).any()
    honest[0] *= 1.01
    again = projected.compare(problem, x, {output.name: honest}, U, "dense")[0]
    assert not (again.error <= again.bound).all()


def test_a_kernel_that_transforms_is_judged_by_planes() -> None:
    problem = Conv(1, 4, 9, 9, 4, direction="forward")
    x = problem.fill(np.random.default_rng(6), "sparse")
    local, wide = (truth.of_sums(p, "sparse", *p.inputs(x)) for p in (problem, spread(problem)))
    assert wide.shape == local.shape and (wide * (truth.SPARSE / truth.PLANES) >= local * 0.999).all()
    assert replace(spread(problem), n=2).__class__ is Spread
