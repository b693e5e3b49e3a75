"""Rows of device "cuda" of what layers do beside products, from prepare to an answer that is checked; captured ones as
a graph, too. On a real GPU where there is one; else on the fake CuPy, whose arrays refuse what CuPy's do."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from kernels.catalog import find
from kernels.devices.cuda import Cuda
from kernels.launch import Launch
from kernels.libs import torch_cuda
from kernels.ops.activation.problem import Activation
from kernels.ops.biasact.problem import BiasAct
from kernels.ops.cast.problem import KINDS as CONVERSIONS
from kernels.ops.cast.problem import Cast
from kernels.ops.dropout.problem import Dropout
from kernels.ops.gather.problem import Gather
from kernels.ops.norm.problem import Norm
from kernels.ops.pooling.problem import Pooling
from kernels.ops.softmax.problem import Softmax
from kernels.ops.spmm.problem import Spmm
from kernels.ops.stream.problem import Stream
from kernels.ops.transpose.problem import Transpose
from kernels.problem import Problem
from kernels.setting import Setting
from kernels.variant import Variant
from micro.worker import guards
from tests.gpu.conftest import REAL, missing
from tests.gpu.rows import once, rows, tried
from tests.gpu.test_update_rows import OPTIMIZERS, STEPS

KINDS, PHASES, PLACES = ("relu", "sigmoid", "tanh", "exp"), ("forward", "dgrad"), ("out", "in")
ACTIVATIONS = [Activation(count, *form) for count in (1, 1027) for form in itertools.product(KINDS, PHASES, PLACES)]
LABELS, BEFORE, WANTED = ("index", "one-hot"), ("none", "softmax", "log-softmax"), ("step", "forward")
SOFTMAXES = [
    Softmax(*size, *form)
    for size in ((1, 1), (33, 10), (5, 1027))
    for form in itertools.product(LABELS, BEFORE, WANTED)
]
DONE = (("lookup", "sgd"), ("step", "sgd"), ("step", "adagrad"))
GATHERS = [
    Gather(*size, *done, order)
    for size in ((1, 1, 1), (97, 33, 17), (40, 8, 40))
    for done in DONE
    for order in ("scattered", "block")
]


POOLINGS = [
    Pooling(*size, *form)
    for size in ((1, 1, 2, 2), (3, 5, 9, 2), (2, 5, 12, 3))
    for form in itertools.product(("max", "avg"), ("nchw", "nhwc"), ("forward", "step"))
]
NORMS = [
    Norm(*size, method, mode, phase)
    for size in ((1, 1, 1), (7, 5, 9))
    for method, mode in (("batch", "train"), ("batch", "frozen"), ("lrn", "train"))
    for phase in ("forward", "step")
]
BIASES = [BiasAct(*size, phase=phase) for size in ((1, 1), (67, 129)) for phase in PHASES]


DROPOUTS = [Dropout(2), Dropout(1027, 0.25), Dropout(20011)]
PRUNED = [Spmm(1, 1, 1, 1.0), Spmm(33, 300, 65, 0.1)]
CASTS = [Cast(count, kind) for kind in CONVERSIONS for count in (1, 2500)]
LAYERS = [
    row
    for op, some in (
        ("pooling", POOLINGS),
        ("norm", NORMS),
        ("biasact", BIASES),
        ("dropout", DROPOUTS),
        ("cast", CASTS),
    )
    for row in rows(op, some)
]


@pytest.mark.parametrize(("row", "problems"), LAYERS)
def test_layers(device: Cuda, row: Variant[Any], problems: list[Problem]) -> None:
    tried(device, row, problems)


@pytest.mark.parametrize(("row", "problems"), rows("spmm", PRUNED))
def test_pruned_layers(device: Cuda, row: Variant[Any], problems: list[Spmm]) -> None:
    tried(device, row, problems)


@pytest.mark.parametrize(("row", "problems"), rows("activation", ACTIVATIONS))
def test_activations(device: Cuda, row: Variant[Any], problems: list[Activation]) -> None:
    if reason := missing(row):
        pytest.skip(reason)
    for problem in problems:
        once(device, row, problem)


@pytest.mark.parametrize(("row", "problems"), rows("softmax", SOFTMAXES))
def test_softmaxes(device: Cuda, row: Variant[Any], problems: list[Softmax]) -> None:
    if reason := missing(row):
        pytest.skip(reason)
    for problem in problems:
        once(device, row, problem)


@pytest.mark.parametrize(("row", "problems"), rows("gather", GATHERS))
def test_gathers(device: Cuda, row: Variant[Any], problems: list[Gather]) -> None:
    if reason := missing(row):
        pytest.skip(reason)
    for problem in problems:
        once(device, row, problem)


def test_rows_of_tensors_are_exact_after_a_product_in_tf32(device: Cuda) -> None:
    """Which leaves a switch of the process as it wanted it."""
    row = find("gather", "torch-cuda-one-hot")
    if reason := missing(row):
        pytest.skip(reason)
    torch_cuda.arithmetic(torch_cuda.load(device), "tf32")()
    once(device, row, Gather(97, 33, 17))


def bound(device: Cuda, row: Variant[Any], problem: Problem, bench: guards.Bench) -> Launch:
    data = "uniform" if problem.op == "optimizer" else "normal"
    launch = row.prepare(problem, device, Setting(device=device.name, data=data))(bench.views)
    device.sync()
    return launch


def enqueued(device: Cuda, launch: Launch) -> list[str]:
    """What one call leaves in a stream that is held: whoever waited for it would wait for ever."""
    device.cp.journal.clear()
    device.hold()
    try:
        launch.call()
        return device.cp.journal[1:]
    finally:
        device.release()
        device.sync()


COUNTED: dict[str, list[Problem]] = {
    "activation": [x for x in ACTIVATIONS if x.count > 1],
    "softmax": [x for x in SOFTMAXES if x.batch > 1],
    "gather": [x for x in GATHERS if x.rows > 1],
    "pooling": [x for x in POOLINGS if x.images > 1],
    "norm": [x for x in NORMS if x.images > 1],
    "biasact": [x for x in BIASES if x.rows > 1],
    "dropout": [x for x in DROPOUTS if x.units > 2],
    "spmm": [x for x in PRUNED if x.m > 1],
    "update": [x for x in STEPS if x.m > 1],
    "optimizer": [x for x in OPTIMIZERS if x.tensors > 1],
    "stream": [Stream(kind, 4 * 1027) for kind in ("read", "copy", "triad")],
    "transpose": [Transpose(33, 65)],
}


@pytest.mark.skipif(REAL, reason="a GPU tells nobody how many kernels it was given")
@pytest.mark.parametrize(("row", "problems"), [x for op, some in COUNTED.items() for x in rows(op, some)])
def test_a_row_tells_how_many_kernels_it_enqueues(device: Cuda, row: Variant[Any], problems: list[Problem]) -> None:
    """At most, and of CuPy's not three times as many: by that number a held stream is filled. None of them waits for
    the stream, or brings an array from the host."""
    if reason := missing(row):
        pytest.skip(reason)
    for problem in problems:
        bench = guards.Bench(device, problem)
        launch = bound(device, row, problem, bench)
        told = enqueued(device, launch)
        assert told and not {"sync", "memcpy from the host"} & set(told), (problem.name, told)
        assert len(told) <= launch.kernels, (problem.name, launch.kernels, told)
        assert row.provider != "cupy" or 3 * len(told) >= launch.kernels, (problem.name, launch.kernels, told)


@pytest.mark.parametrize(("mode", "most"), [("frozen", 65_535), ("train", 880_801)])
def test_cudnn_is_not_given_more_images_than_it_takes(mode: str, most: int) -> None:
    row = find("norm", "cudnn")
    assert row.accepts(Norm(most, 1, 1, mode=mode)) is None
    assert row.accepts(Norm(most + 1, 1, 1, mode=mode)) == f"cuDNN fails above {most} images: --images {most} or fewer"
