"""Rows of JAX's and TensorFlow's operations in a network with convolutions; statistics and masks in memory there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.usefixtures("beside")

PIECES = """HloModule jit__update

ENTRY %main (x: f32[4,9,9,3]) -> f32[4,4,4,3] {
  %x = f32[4,9,9,3]{3,2,1,0} parameter(0)
  %iota = f32[4,9,9,3]{3,2,1,0} fusion(%x), kind=kLoop, calls=%wrapped
  %window = (f32[4,4,4,3]{3,2,1,0}, s32[4,4,4,3]{3,2,1,0}) reduce-window(%x, %iota), to_apply=%largest
  %first = f32[4,4,4,3]{3,2,1,0} get-tuple-element(%window), index=0
  %second = s32[4,4,4,3]{3,2,1,0} get-tuple-element(%window), index=1
  %joined = f32[4,4,4,3]{3,2,1,0} scatter(%first, %second), metadata={op_name="jit(_update)/transpose(jvp(pool1))/x"}
  %filters = f32[3,5,5,32]{3,2,1,0} convolution(%x, %x), dim_labels=b01f_01io->b01f
  %moved = f32[3,5,5,32]{3,2,1,0} subtract(%filters, %filters), metadata={op_name="jit(_update)/conv1 update/sub"}
  ROOT %both = (f32[4,4,4,3]{3,2,1,0}) tuple(%joined, %moved)
}
"""


def test_pieces_that_nothing_names_are_of_what_alone_uses_them() -> None:
    """A search for the largest and a named scatter: a pooling's gradient; what is subtracted from filters: theirs."""
    import graphs
    import hlo
    import jax_trace

    layers = [
        {"name": "conv1", "kind": "conv", "activation": "none", "after": ["input"]},
        {"name": "pool1", "kind": "pool", "activation": "none", "after": ["conv1"]},
    ]
    told = hlo.rows(PIECES, lambda one: jax_trace.row(one, layers, 4), graphs.work_kinds(layers))
    assert told["window"] == told["iota"] == told["joined"] == (["pool1 gradient"], "pooling")
    assert told["filters"] == (["conv1 wgrad"], "convolution")
    assert told["moved"] == (["conv1 update"], "update")
    assert hlo.products(PIECES) == {"filters"}


def test_products_of_a_recurrent_layer_are_of_its_cell() -> None:
    import graphs
    import tf_rows

    layers = [
        {"name": name, "kind": kind, "activation": act, "parameters": {"weight": [2, 2]}, "first": False}
        for name, kind, act in (("table", "embedding", "none"), ("lstm", "recurrent", "none"), ("out", "dense", "tanh"))
    ]
    kinds = {
        "lstm/MatMul_3": (["lstm forward"], "recurrent cell"),
        "gradient_tape/lstm/MatMul/MatMul_1": (["lstm gradient"], "recurrent cell"),
        "table/embedding_lookup": (["table forward"], "embedding"),
        "lstm/Sigmoid_3": (["lstm forward"], "recurrent cell"),
        "gradient_tape/lstm/TanhGrad": (["lstm gradient"], "recurrent cell"),
        "gradient_tape/lstm/BiasAddGrad": (["lstm gradient"], "recurrent cell"),
        "out/MatMul": (["out forward"], None),
        "out/Tanh": (["out activation"], "element-wise"),
    }
    for name, (served, column) in kinds.items():
        kind = name.rpartition("/")[2].partition("_")[0]
        assert tf_rows.tell({}, layers, (tf_rows.KERNELS, kind, name)) == (served, column)
    assert graphs.work_kind(["lstm update"], layers) is None
    assert graphs.work_kind(["lstm gradient", "out wgrad"], layers) is None


@pytest.mark.parametrize(
    ("opcodes", "kind"),
    [
        (["convolution"], "convolution"),
        (["pad"], "convolution"),
        (["transpose"], "convolution"),
        (["add", "convolution"], "convolution"),
        (["add"], "element-wise"),
        (["exponential", "add", "multiply"], "element-wise"),
        (["reduce"], "reduction"),
        (["copy"], "copy"),
    ],
)
def test_what_convolves_nothing_is_no_convolution(opcodes: list[str], kind: str) -> None:
    """Its bias, or what somebody added to the layer."""
    import hlo

    assert hlo.column(["conv1 forward"], opcodes, {"conv1": "convolution"}) == kind


def test_gradients_of_a_convolution_by_what_they_are_as_large_as() -> None:
    import hlo

    layer = {"kind": "conv", "in": [[3, 8, 8]], "parameters": {"weight": [16, 3, 5, 5]}}

    def convolution(shape: str) -> Any:
        text = "%c () {\n  %a = f32[9]{0} parameter(0)\n"
        text += f"  ROOT %d = f32[{shape}]{{3,2,1,0}} convolution(%a, %a)\n}}\n"
        return hlo.computations(text)["c"]["d"]

    assert hlo.product(layer, convolution("5,5,3,16"), 64) == "wgrad"
    assert hlo.product(layer, convolution("64,8,8,3"), 64) == "dgrad"
    assert hlo.product(layer, convolution("64,8,8,16"), 64) is None


@pytest.mark.parametrize(
    ("name", "kind", "rows", "column"),
    [
        ("conv1/Conv2D", "_FusedConv2D", ["conv1 forward"], "convolution"),
        ("conv1/Relu", "_FusedConv2D", ["conv1 activation", "conv1 forward"], "convolution"),
        ("gradient_tape/conv2/Conv2D/Conv2DBackpropInput", "Conv2DBackpropInput", ["conv2 dgrad"], "convolution"),
        ("gradient_tape/conv2/Conv2D/Conv2DBackpropFilter", "Conv2DBackpropFilter", ["conv2 wgrad"], "convolution"),
        ("gradient_tape/conv2/BiasAddGrad", "BiasAddGrad", ["conv2 bias gradient"], "reduction"),
        ("pool1/MaxPool2d", "MaxPool", ["pool1 forward"], "pooling"),
        ("gradient_tape/pool1/MaxPool2d/MaxPoolGrad", "MaxPoolGrad", ["pool1 gradient"], "pooling"),
        ("s.0.norm/FusedBatchNormV3", "FusedBatchNormV3", ["s.0.norm forward"], "normalization"),
        ("gradient_tape/s.0.norm/FusedBatchNormGradV3", "FusedBatchNormGradV3", ["s.0.norm gradient"], "normalization"),
        ("AddN_3", "AddN", ["gradient sums"], "element-wise"),
        ("conv1/added/Tanh_3", "Tanh", ["conv1 forward"], "element-wise"),
        ("Momentum/update__3/ResourceApplyMomentum", "ResourceApplyMomentum", ["conv2 update"], "update"),
    ],
)
def test_operations_of_a_graph_of_tensorflow(name: str, kind: str, rows: list[str], column: str | None) -> None:
    import tf_rows

    both = {"weight": [1], "bias": [1]}
    layers = [
        {"name": "conv1", "kind": "conv", "first": True, "parameters": both},
        {"name": "pool1", "kind": "pool", "first": False, "parameters": {}},
        {"name": "conv2", "kind": "conv", "first": False, "parameters": both},
        {"name": "s.0.norm", "kind": "norm", "first": False, "parameters": {}},
    ]
    assert tf_rows.rows(name, kind, layers) == rows
    assert tf_rows.column(rows, kind) == column


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_a_variance_without_its_correction_is_as_with_it(steps: int) -> None:
    """Running variances of both kinds, step by step, from the variances of batches."""
    import layouts

    rng, share, batch, rows, columns = np.random.default_rng(1), 0.3, 2, 3, 4
    count = batch * rows * columns
    biased, unbiased = np.ones(5), np.ones(5)
    for _ in range(steps):
        seen = rng.uniform(0.5, 2.0, 5)
        biased += share * (seen - biased)
        unbiased += share * (seen * count / (count - 1) - unbiased)
    layers = [
        {"name": "norm", "frozen": False, "share": share, "out": [5, rows, columns]},
        {"name": "still", "frozen": True, "share": share, "out": [5, rows, columns]},
        {"name": "fc"},
    ]
    mean = rng.normal(size=5)
    arrays = {"norm.variance": biased.astype(np.float32), "norm.mean": mean, "still.variance": np.ones(5, np.float32)}
    found = layouts.unbiased(arrays, layers, batch, steps)
    assert found["norm.variance"] == pytest.approx(unbiased, rel=1e-5)
    assert found["norm.mean"] == pytest.approx(mean) and (found["still.variance"] == 1).all()


def layer(name: str, kind: str, after: str, **more: object) -> dict[str, object]:
    return {"name": name, "kind": kind, "after": [after], "in": [[3, 2, 4]], **more}


@pytest.mark.parametrize(("taker", "turned"), [("dense", True), ("add", False)])
def test_a_mask_lies_as_what_it_multiplies(taker: str, turned: bool) -> None:
    """With the channels last; flattened so too, but where something takes it that sees how it lies."""
    import layouts

    image = np.arange(2 * 3 * 2 * 4, dtype=np.float32).reshape(2, 3, 2, 4)
    drop = layer("drop", "dropout", "conv", mask=image)
    assert (layouts.mask(drop, [layer("conv", "conv", ""), drop]) == image.transpose(0, 2, 3, 1)).all()
    flat = image.reshape(2, -1)
    first = layer("first", "dropout", "flat", mask=flat)
    second = layer("second", "dropout", "first", mask=flat)
    layers = [layer("flat", "flatten", "conv"), first, second, layer("last", taker, "second")]
    wanted = image.transpose(0, 2, 3, 1).reshape(2, -1) if turned else flat
    for told in (first, second):
        assert (layouts.mask(told, layers) == wanted).all()
    data = layer("drop", "dropout", "data", mask=flat)
    assert layouts.mask(data, [data, layer("last", "dense", "drop")]) is flat
