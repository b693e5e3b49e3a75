"""Convolutions of libraries that keep their filter, ncnn and ONNX Runtime: right, refused, named as what really ran."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels.catalog import find
from kernels.errors import Unavailable, WrongResult
from kernels.libs import ncnn, onnxruntime
from kernels.ops.conv import ncnn as ncnn_rows
from kernels.ops.conv import onnxruntime as onnx_model
from kernels.ops.conv.ncnn import Choice
from kernels.ops.conv.problem import Conv
from kernels.setting import Setting
from kernels.variant import Variant
from tests.kernels.rows import CPU, checked

ROWS = (*ncnn_rows.ROWS, *onnx_model.ROWS)
SIDES = {"pad_top": 0, "pad_left": 1, "pad_bottom": 2, "pad_right": 1}
FORMS: dict[str, dict[str, int]] = {
    "3x3": {"pad": 1},
    "vectors": {"c": 16, "k": 32, "pad": 1},
    "5x5": {"r": 5, "s": 5, "h": 11, "pad": 2},
    "even": {"r": 2, "s": 4},
    "sides": SIDES,
    "strided": {"stride": 2, "pad": 1},
    "dilated": {"dilation": 2, "pad": 1},
    "groups": {"c": 6, "groups": 2, "k": 10},
    "pixel": {"h": 1, "w": 1, "r": 1, "s": 1},
    "few": {"c": 3, "k": 4},
}
ncnn_here = pytest.mark.skipif(ncnn.missing() is not None, reason=str(ncnn.missing()))
onnxruntime_here = pytest.mark.skipif(onnxruntime.missing() is not None, reason=str(onnxruntime.missing()))


def problem(**fields: Any) -> Conv:
    return Conv(**{"n": 2, "c": 12, "h": 9, "w": 8, "k": 10, "r": 3, "s": 3, **fields})


def cases() -> list[Any]:
    every = []
    for row, (form, fields) in itertools.product(ROWS, FORMS.items()):
        one = problem(**fields)
        if row.accepts(one) is None:
            here = pytest.mark.skipif(row.missing() is not None, reason=str(row.missing()))
            every.append(pytest.param(row, one, marks=here, id=f"{row.name}-{form}"))
    return every


@pytest.mark.parametrize(("row", "one"), cases())
def test_rows_are_right(row: Variant[Conv], one: Conv) -> None:
    checked(one, row)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_gradients_and_other_layouts_are_refused(row: Variant[Conv]) -> None:
    assert "--direction forward" in str(row.accepts(problem(direction="wgrad")))
    assert "--layout nchw" in str(row.accepts(problem(layout="nhwc")))
    assert row.executed(problem()).flops > 0


@pytest.mark.parametrize("name", ["ncnn", "onnxruntime"])
def test_what_is_kept_is_not_timed_cold_and_no_other_filters(name: str) -> None:
    row = find("conv", name)
    if row.missing():
        pytest.skip(str(row.missing()))
    with pytest.raises(Unavailable, match="no --cold"):
        row.prepare(problem(), CPU, Setting(cold=("w",)))
    with pytest.raises(WrongResult, match="keeps a copy of its input w"):
        checked(problem(), replace(row, constant=()))


@pytest.mark.parametrize("name", ["ncnn", "onnxruntime"])
def test_another_filter_is_loaded(name: str) -> None:
    row, one = find("conv", name), problem(pad=1)
    if row.missing():
        pytest.skip(str(row.missing()))
    bind = row.prepare(one, CPU, Setting())
    rng = np.random.default_rng(2)
    drawn = [one.fill(rng) for _ in range(2)]
    buffers = [[*x.values(), np.zeros(one.outputs[0].shape, "f4")] for x in drawn]
    launches = [bind(one) for one in buffers]
    for turn in (0, 1, 0):
        launches[turn].call()
        np.testing.assert_allclose(buffers[turn][2], one.reference(drawn[turn])["y"], atol=1e-3)


# ncnn


@pytest.mark.parametrize(
    ("fields", "option"),
    [({"r": 5}, "--r 3"), ({"stride": 2}, "--stride 1"), ({"c": 4, "k": 8}, "--k 9"), ({"groups": 2}, "--groups 1")],
)
def test_ncnn_takes_winograd_for_some_layers_alone(fields: dict[str, int], option: str) -> None:
    for m in ncnn_rows.TILES:
        assert option in str(find("conv", f"ncnn-winograd-{m}x3").accepts(problem(**fields)))


@ncnn_here
@pytest.mark.parametrize("shape", [(12, 10, 9, {"pad": 1}), (64, 64, 28, {}), (16, 256, 13, SIDES)], ids=str)
@pytest.mark.parametrize("m", ncnn_rows.TILES)
def test_ncnn_takes_the_tiles_that_are_asked_for(m: int, shape: Any) -> None:
    c, k, size, pads = shape
    one = problem(n=1, c=c, k=k, h=size, w=size, **pads)
    assert ncnn_rows.tile(one, Choice((m,)), 1) == m
    x = one.fill(np.random.default_rng(1))
    launch = find("conv", f"ncnn-winograd-{m}x3").prepare(one, CPU, Setting())(
        [*x.values(), np.zeros(one.outputs[0].shape, "f4")]
    )
    assert launch.kernel == (f"{ncnn.version()}, Winograd F({m},3)", None)


@ncnn_here
def test_ncnn_without_tiles_is_seen_to_have_none() -> None:
    one = problem(c=64, k=64, pad=1)
    assert ncnn_rows.tile(one, Choice(), 1) == ncnn_rows.tile(one, Choice(products=False), 1) == 0
    assert ncnn_rows.tile(one, Choice((2, 4, 6)), 1) in ncnn_rows.TILES


@ncnn_here
def test_ncnn_that_takes_another_tile_is_no_such_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ncnn_rows, "tile", lambda *given: 2)
    with pytest.raises(Unavailable, match=r"takes F\(2,3\) for this layer, not F\(6,3\)"):
        find("conv", "ncnn-winograd-6x3").prepare(problem(), CPU, Setting())


@ncnn_here
def test_ncnn_refuses_a_layer_by_a_reason() -> None:
    with pytest.raises(Unavailable, match="refuses this layer"):
        ncnn.net("7767517\n1 1\nNothing layer 0 1 x\n", b"", {}, 1)


# ONNX Runtime


@onnxruntime_here
def test_onnxruntime_names_what_it_runs() -> None:
    one = problem(c=16, k=32, pad=1)
    bench = [np.zeros(x.shape, "f4") for x in one.operands()]
    blocked, plain = (
        str((find("conv", name).prepare(one, CPU, Setting())(bench).kernel or ("",))[0])
        for name in ("onnxruntime", "onnxruntime-im2col")
    )
    assert "channels in blocks (NCHWc), ReorderInput, ReorderOutput" in blocked
    assert plain.endswith("Conv of plain images")


def test_numbers_of_a_model_take_seven_bits_a_byte() -> None:
    assert onnx_model._varint(300) == b"\xac\x02" and onnx_model._varint(127) == b"\x7f"
    assert onnx_model._field(9, b"ab") == b"\x4a\x02ab" and onnx_model._field(1, 8) == b"\x08\x08"
