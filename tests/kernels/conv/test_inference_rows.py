"""Inference engines' convolutions, ncnn and ONNX Runtime: refused layers, and named as what really ran."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels.catalog import find
from kernels.errors import Unavailable
from kernels.libs import ncnn, onnx_model, onnxruntime
from kernels.ops.conv import ncnn as ncnn_rows
from kernels.ops.conv.problem import Conv
from kernels.setting import Setting
from tests.kernels.rows import CPU

SIDES = {"pad_top": 0, "pad_left": 1, "pad_bottom": 2, "pad_right": 1}
ncnn_here = pytest.mark.skipif(ncnn.missing() is not None, reason=str(ncnn.missing()))
onnxruntime_here = pytest.mark.skipif(onnxruntime.missing() is not None, reason=str(onnxruntime.missing()))


def problem(**fields: Any) -> Conv:
    return Conv(**{"n": 2, "c": 12, "h": 9, "w": 8, "k": 10, **fields})


def kernel(name: str, one: Conv) -> str:
    """The kernel that a launch of the row names."""
    launch = find("conv", name).prepare(one, CPU, Setting())([np.zeros(x.shape, "f4") for x in one.operands()])
    return str((launch.kernel or ("",))[0])


@pytest.mark.parametrize("name", ["ncnn", "onnxruntime"])
def test_gradients_and_other_layouts_are_refused(name: str) -> None:
    row = find("conv", name)
    assert "--direction forward" in str(row.accepts(problem(direction="wgrad")))
    assert "--layout nchw" in str(row.accepts(problem(layout="nhwc")))
    assert row.executed(problem()).flops > 0


@pytest.mark.parametrize(
    ("fields", "option"),
    [({"r": 5}, "--r 3"), ({"stride": 2}, "--stride 1"), ({"c": 4, "k": 8}, "--k 9"), ({"pad": 10}, "--pad-top 9")],
)
def test_ncnn_takes_winograd_for_some_layers_alone(fields: dict[str, int], option: str) -> None:
    assert option in str(ncnn_rows.by_tiles(problem(**fields)))
    assert ncnn_rows.least(problem(**fields)) == problem(**fields).direct_work()
    assert ncnn_rows.least(problem()).flops < problem().inside


@ncnn_here
@pytest.mark.parametrize("shape", [(12, 10, 9, {"pad": 1}), (64, 64, 28, {}), (16, 256, 13, SIDES)], ids=str)
@pytest.mark.parametrize(("m", "option"), [(2, "23"), (4, "43"), (6, "63")])
def test_the_tile_that_ncnn_takes_is_seen(m: int, option: str, shape: Any) -> None:
    c, k, size, pads = shape
    one = problem(n=1, c=c, k=k, h=size, w=size, **pads)
    chosen = {name: name[4:].startswith(("sgemm", "winograd_", f"winograd{option}")) for name in ncnn_rows.OPTIONS}
    assert ncnn_rows.tile(one, 1, chosen) == m
    assert ncnn_rows.tile(one, 1, chosen | {"use_winograd_convolution": False}) == 0


@ncnn_here
def test_ncnn_names_its_tile() -> None:
    one = problem(c=64, k=64, pad=1)
    assert kernel("ncnn", one) == f"{ncnn.version()}, Winograd F({ncnn_rows.tile(one, 1)},3)"
    assert kernel("ncnn", problem(r=5)).endswith("no Winograd, im2col and a product allowed")


@ncnn_here
def test_ncnn_refuses_a_layer_by_a_reason() -> None:
    with pytest.raises(Unavailable, match="does not support this layer"):
        ncnn.net("7767517\n1 1\nNothing layer 0 1 x\n", b"", {}, 1)


@onnxruntime_here
def test_onnxruntime_names_what_it_runs() -> None:
    blocks = "channels in blocks (NCHWc), ReorderInput, ReorderOutput"
    assert kernel("onnxruntime", problem(c=16, k=32, pad=1)).endswith(blocks)


def test_numbers_of_a_model_take_seven_bits_a_byte() -> None:
    assert onnx_model._varint(300) == b"\xac\x02" and onnx_model._varint(127) == b"\x7f"
    assert onnx_model.field(9, b"ab") == b"\x4a\x02ab" and onnx_model.field(1, 8) == b"\x08\x08"
