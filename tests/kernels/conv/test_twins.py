"""Wrong twins of a right convolution: each is refused by every family's bounds, in every pass."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pytest

from kernels.catalog import find, rows
from kernels.errors import Unavailable, WrongResult
from kernels.launch import Bind, Launch
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import PASSES
from kernels.problem import Inputs
from kernels.setting import Setting
from kernels.variant import Variant
from tests.kernels.rows import CPU, checked, kernels

U = 2.0**-24
RIGHT = find("conv", "direct")
Arrays: TypeAlias = "dict[str, Any]"
Twin: TypeAlias = "Callable[[Conv, Arrays], Any]"  # the wrong answer to these inputs


def right(problem: Conv, x: Arrays) -> Any:
    """The answer of our direct kernel."""
    operands = [x[o.name] if o.role == "in" else np.zeros(o.shape, "f4") for o in problem.operands()]
    RIGHT.prepare(problem, CPU, Setting())([np.ascontiguousarray(a) for a in operands]).call()
    return operands[2]


def read(change: Callable[[Conv, Arrays], Arrays]) -> Twin:
    """Right of other inputs."""
    return lambda problem, x: right(problem, x | change(problem, x))


def written(change: Callable[[Conv, Any], None]) -> Twin:
    """Right, then changed."""

    def twin(problem: Conv, x: Arrays) -> Any:
        answer = right(problem, x)
        change(problem, answer)
        return answer

    return twin


def moved(**by: int) -> Twin:
    """Right of paddings that differ by so many."""

    def twin(problem: Conv, x: Arrays) -> Any:
        sides = {name: getattr(problem, name) + more for name, more in by.items()}
        return right(replace(problem, pad=0, **sides), x)

    return twin


def bits(array: Any, mantissa: int) -> Any:
    """Rounded to so many bits after the leading one."""
    drop = 23 - mantissa
    return ((array.view("u4") + np.uint32(1 << (drop - 1))) & np.uint32(0xFFFFFFFF << drop & 0xFFFFFFFF)).view("f4")


def without(array: Any, *at: Any) -> Any:
    """A copy with zeros there."""
    copy = array.copy()
    copy[at] = 0
    return copy


def zero(*at: Any) -> Callable[[Conv, Any], None]:
    def change(problem: Conv, answer: Any) -> None:
        answer[at] = 0

    return change


def phase(problem: Conv, answer: Any) -> None:
    """Only those pixels are written at which a filter begins."""
    kept = answer[:, :, :: problem.stride, :: problem.stride].copy()
    answer[...] = 0
    answer[:, :, :: problem.stride, :: problem.stride] = kept


EVERY = slice(None)
FILTER: dict[str, Twin] = {  # of passes that read one
    "a tap missing": read(lambda p, x: {"w": without(x["w"], EVERY, EVERY, 0, 0)}),
    "the last tap missing, in one filter and channel": read(lambda p, x: {"w": without(x["w"], 0, 0, -1, -1)}),
    "a transposed filter": read(lambda p, x: {"w": x["w"].swapaxes(2, 3)}),
    "a turned filter": read(lambda p, x: {"w": x["w"][:, :, ::-1, ::-1]}),
    "filters by another order": read(lambda p, x: {"w": np.roll(x["w"], 1, 0)}),
    "a channel of the filter forgotten": read(lambda p, x: {"w": without(x["w"], EVERY, -1)}),
}
GRADIENT: dict[str, Twin] = {  # of the one that makes one
    "a tap missing": written(zero(EVERY, EVERY, 0, 0)),
    "the last tap missing, in one filter and channel": written(zero(0, 0, -1, -1)),
    "a transposed filter": written(lambda p, y: y.__setitem__(..., y.swapaxes(2, 3).copy())),
    "a turned filter": written(lambda p, y: y.__setitem__(..., y[:, :, ::-1, ::-1].copy())),
    "an image missing": read(lambda p, x: {"x": without(x["x"], -1)}),
    "the last row of results missing": read(lambda p, x: {"dy": without(x["dy"], EVERY, EVERY, -1)}),
}
ANY: dict[str, Twin] = {
    "padding off by one, down": moved(pad_top=-1, pad_bottom=1),
    "padding off by one, across": moved(pad_left=1, pad_right=-1),
    "TF32": read(lambda p, x: {name: bits(a, 10) for name, a in x.items()}),
    "bf16": read(lambda p, x: {name: bits(a, 7) for name, a in x.items()}),
    "an answer in bf16": lambda p, x: bits(right(p, x), 7),
    "a channel forgotten": read(lambda p, x: {first(x): without(x[first(x)], EVERY, -1)}),
    "the last column missing": written(zero(..., -1)),
    "one element missing": written(lambda p, y: y.reshape(-1).__setitem__(y.size // 2, 0)),
}
STRIDED: dict[str, Twin] = {"a phase of the stride missing": written(phase)}
OF_PASS = {"forward": {**FILTER, **ANY}, "dgrad": {**FILTER, **ANY}, "wgrad": {**GRADIENT, **ANY}}


def first(x: Arrays) -> str:
    return next(iter(x))


SMALL = {
    "plain": Conv(2, 24, 14, 14, 16, pad=1),
    "5×5": Conv(2, 16, 11, 9, 24, 5, 5, pad=2),
    "strided": Conv(3, 16, 15, 16, 16, stride=2, pad=1),
    "whole network's first": Conv(2, 3, 24, 24, 16, 5, 5, stride=2, pad=2),
    "groups": Conv(2, 16, 9, 9, 32, pad=1, groups=2),
}
LAYERS = {
    "resnet-56": Conv(16, 16, 32, 32, 16, pad=1),
    "resnet-56, strided": Conv(16, 16, 32, 32, 32, stride=2, pad=1),
    "a long sum": Conv(16, 8, 56, 56, 8, pad=1),
}
LARGE = {
    "alexnet-r conv2": Conv(16, 32, 15, 15, 32, 5, 5, pad=2),
    "alexnet-s conv3": Conv(16, 256, 13, 13, 384, pad=1),
    "alexnet-s conv2, projected": Conv(16, 96, 27, 27, 256, 5, 5, pad=2),
    "resnet-50 conv1": Conv(16, 3, 224, 224, 64, 7, 7, stride=2, pad=3),
    "resnet-50 conv2": Conv(16, 64, 56, 56, 64, pad=1),
}


def share(problem: Conv, x: Arrays, answer: Any) -> float:
    """The largest error in shares of a bound without growth; infinite where nothing may be off."""
    compared = problem.compare(x, {problem.outputs[0].name: answer}, U, "dense")
    with np.errstate(divide="ignore", invalid="ignore"):
        return max(float(np.nanmax(np.where(e.error > 0, e.error / e.bound, 0.0))) for e in compared)


def cases(shapes: dict[str, Conv], *marks: Any) -> list[Any]:
    return [
        pytest.param(replace(shape, direction=direction), id=f"{name}-{direction}", marks=marks)
        for (name, shape), direction in itertools.product(shapes.items(), PASSES)
    ]


def twins(problem: Conv) -> Iterator[tuple[str, Twin]]:
    """Those that differ from the right one here."""
    for name, twin in OF_PASS[problem.direction].items():
        if name != "filters by another order" or problem.k > 1:
            yield name, twin
    if problem.direction == "dgrad" and problem.stride > 1:
        yield from STRIDED.items()


def families(problem: Conv) -> dict[tuple[type[Conv], float], Variant[Conv]]:
    """By whose bounds kernels that take the problem are judged, and with which growth."""
    return {(row.judged(problem).__class__, row.growth): row for row in rows("conv", "cpu") if not row.accepts(problem)}


@pytest.mark.parametrize("direction", PASSES)
def test_wrong_twins_are_refused_by_projections(direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernels.ops.conv.problem.DEAR", 0.0)
    test_wrong_twins_are_refused_by_the_bounds_of_every_family(Conv(2, 32, 8, 8, 32, pad=1, direction=direction))


@pytest.mark.parametrize("problem", [*cases(SMALL), *cases(LAYERS), *cases(LARGE, pytest.mark.slow)])
def test_wrong_twins_are_refused_by_the_bounds_of_every_family(problem: Conv) -> None:
    """And the right one is by none."""
    x = Inputs(problem.fill(np.random.default_rng(7)))
    every = families(problem)
    judged = {kind: row.judged(problem) for (kind, _), row in every.items()}
    exact = problem.reference(x)[problem.outputs[0].name].astype(np.float32)
    assert all(share(one, x, exact) < 0.5 for one in judged.values())
    assert share(judged[Conv], x, right(problem, x)) < 0.5  # the others' bounds are for short sums
    passed = []
    for name, twin in twins(problem):
        answer = twin(problem, x)
        shares = {kind: share(one, x, answer) for kind, one in judged.items()}
        passed += [f"{name}: {row.name}" for (kind, growth), row in every.items() if not shares[kind] > growth]
    assert passed == []


def test_families_differ() -> None:
    assert len(families(SMALL["plain"])) >= 6
    assert {growth for _, growth in families(SMALL["strided"])} >= {1.0, 5.0}  # the latter where a library may choose


# Through the whole check


def wrapped(twin: Twin) -> Variant[Conv]:
    def prepare(problem: Conv, device: object, setting: object) -> Bind:
        names = [o.name for o in problem.operands()]

        def bind(buffers: Sequence[Any]) -> Launch:
            inputs, output = dict(zip(names[:2], buffers[:2], strict=True)), buffers[2]
            return Launch(lambda: output.__setitem__(..., twin(problem, inputs)))

        return bind

    return replace(RIGHT, prepare=prepare, python=True)


@pytest.mark.parametrize("direction", PASSES)
def test_the_check_refuses_them(direction: str) -> None:
    problem = replace(SMALL["plain"], direction=direction)
    for name, twin in twins(problem):
        with pytest.raises(WrongResult):
            checked(problem, wrapped(twin))
            pytest.fail(f"{name} passed")


def stale(kept: str) -> Variant[Conv]:
    """The input of its first call, for ever."""
    held: dict[str, Any] = {}

    def twin(problem: Conv, x: Arrays) -> Any:
        held.setdefault(kept, x[kept].copy())
        return right(problem, x | held)

    return wrapped(twin)


@pytest.mark.parametrize(("direction", "kept"), [("forward", "w"), ("dgrad", "w"), ("wgrad", "x"), ("forward", "x")])
@pytest.mark.parametrize("shape", [SMALL["plain"], LAYERS["resnet-56"]], ids=["small", "large"])
def test_a_stale_filter_or_image_is_refused(direction: str, kept: str, shape: Conv) -> None:
    row, problem = stale(kept), replace(shape, direction=direction)
    with pytest.raises(WrongResult, match=f"caches its input {kept}|repeats|values have errors up to"):
        checked(problem, row, seed=2)


KEEPING = [
    pytest.param(row, problem, id=f"{row.name}-{problem.direction}")
    for row in kernels(Conv.op)
    for problem in (replace(SMALL["plain"], direction=direction) for direction in PASSES[:2])
    if row.constant and not row.missing() and not row.accepts(problem)
]


@pytest.mark.parametrize(("row", "problem"), KEEPING)
def test_a_stale_spectrum_is_refused(row: Variant[Conv], problem: Conv) -> None:
    """Of a filter that nobody declared to stay the same; with that word it is right."""
    checked(problem, row)
    with pytest.raises(WrongResult, match=r"^caches its input w|^repeats"):
        checked(problem, replace(row, constant=()))


@pytest.mark.parametrize(("row", "problem"), KEEPING)
def test_another_filter_is_derived_anew(row: Variant[Conv], problem: Conv) -> None:
    """Two launches share a workspace by turns; a filter is transformed again unless a launch keeps its first."""
    in_place = () if row.name.startswith("winograd") else ((1, 0), (0, 0))
    bind, rng = row.prepare(problem, CPU, Setting()), np.random.default_rng(2)
    drawn = [problem.fill(rng) for _ in range(2)]
    buffers = [[*(a.copy() for a in x.values()), np.zeros(problem.outputs[0].shape, "f4")] for x in drawn]
    launches = [bind(views) for views in buffers]
    for turn, at in ((0, 0), (1, 1), (0, 0), *in_place):
        for view, array in zip(buffers[at], drawn[turn].values(), strict=False):
            view[...] = array
        launches[at].call()
        assert share(row.judged(problem), drawn[turn], buffers[at][2]) <= row.growth


@pytest.mark.parametrize(("row", "problem"), KEEPING)
def test_a_kept_filter_is_not_timed_cold(row: Variant[Conv], problem: Conv) -> None:
    with pytest.raises(Unavailable, match=r"--cold$"):
        row.prepare(problem, CPU, Setting(cold=("w",)))
