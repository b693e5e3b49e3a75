"""Rows of device "cuda" beside products, of layers, updates and optimizers: from prepare to a checked answer."""

from __future__ import annotations

import importlib
from itertools import product
from typing import Any

import pytest

from kernels.catalog import find, variants
from kernels.devices.cuda import Cuda
from kernels.errors import Unavailable
from kernels.launch import Launch
from kernels.libs import torch_cuda
from kernels.ops.activation.problem import Activation
from kernels.ops.biasact.problem import BiasAct
from kernels.ops.cast.problem import KINDS as CONVERSIONS
from kernels.ops.cast.problem import Cast
from kernels.ops.dropout.problem import Dropout
from kernels.ops.gather.problem import Gather
from kernels.ops.gemm import Gemm
from kernels.ops.launch import Calls
from kernels.ops.norm.problem import Norm
from kernels.ops.optimizer.problem import NAMES, Optimizer
from kernels.ops.pooling.problem import Pooling
from kernels.ops.recurrent.problem import Recurrent
from kernels.ops.softmax.problem import Softmax
from kernels.ops.spmm.problem import Spmm
from kernels.ops.stream.problem import Stream
from kernels.ops.transpose.problem import Transpose
from kernels.ops.update.problem import PARTS, RULES, Update
from kernels.problem import Problem
from kernels.setting import Setting
from kernels.variant import Variant
from micro.worker import guards
from tests.gpu.conftest import REAL, missing
from tests.gpu.rows import data_of, enqueued, once, rows, tried, tries
from tests.gpu.test_rows import FAMILIES

KINDS, PHASES, PLACES = ("relu", "sigmoid", "tanh", "exp"), ("forward", "dgrad"), ("out", "in")
LABELS, BEFORE, WANTED = ("index", "one-hot"), ("none", "softmax", "log-softmax"), ("step", "forward")
DONE = (("lookup", "sgd"), ("step", "sgd"), ("step", "adagrad"))
NORMS = (("batch", "train"), ("batch", "frozen"), ("lrn", "train"))
PROBLEMS: dict[str, list[Problem]] = {
    "update": [Update(*size, *form) for size in ((33, 65, 17), (1, 1, 1)) for form in product(RULES, PARTS)],
    "optimizer": [Optimizer(rule, *size) for rule in NAMES for size in ((1, 1), (3, 333))],
    "pooling": [
        Pooling(*size, *form)
        for size in ((1, 1, 2, 2), (3, 5, 9, 2), (2, 5, 12, 3))
        for form in product(("max", "avg"), ("nchw", "nhwc"), ("forward", "step"))
    ],
    "norm": [
        Norm(*size, *form, phase) for size in ((1, 1, 1), (7, 5, 9)) for form in NORMS for phase in ("forward", "step")
    ],
    "recurrent": [
        Recurrent(*size, *form)
        for size in ((1, 1, 1, 1), (5, 6, 3, 7), (4, 2, 9, 5))
        for form in product(("lstm", "gru", "rnn"), ("tnc", "ntc"), ("forward", "step"))
    ],
    "biasact": [BiasAct(*size, phase=phase) for size in ((1, 1), (67, 129)) for phase in PHASES],
    "dropout": [Dropout(2), Dropout(1027, 0.25), Dropout(20011)],
    "cast": [Cast(count, kind) for kind in CONVERSIONS for count in (1, 2500)],
    "spmm": [Spmm(1, 1, 1, 1.0), Spmm(33, 300, 65, 0.1)],
    "activation": [Activation(count, *form) for count in (1, 1027) for form in product(KINDS, PHASES, PLACES)],
    "softmax": [
        Softmax(*size, *form) for size in ((1, 1), (33, 10), (5, 1027)) for form in product(LABELS, BEFORE, WANTED)
    ],
    "gather": [
        Gather(*size, *done, order)
        for size in ((1, 1, 1), (97, 33, 17), (40, 8, 40))
        for done in DONE
        for order in ("scattered", "block")
    ],
}


@pytest.mark.parametrize(("row", "problems"), [x for op, some in PROBLEMS.items() for x in rows(op, some)])
def test_a_row_is_right(device: Cuda, row: Variant[Any], problems: list[Problem]) -> None:
    tried(device, row, problems)


class Refuses:
    """A torch whose fused Adagrad is not on this device."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __call__(self, *given: object, **more: object) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (NotImplementedError("Could not run 'aten::_fused_adagrad_' with arguments from the 'CUDA' backend."), True),
        (RuntimeError("`fused=True` requires all the params to be on supported devices"), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), False),
    ],
)
def test_a_fused_kernel_that_this_torch_lacks_is_unavailable(
    device: Cuda, monkeypatch: pytest.MonkeyPatch, error: Exception, told: bool
) -> None:
    """Whatever else goes wrong is no such thing."""
    row = find("optimizer", "torch-fused-cuda")
    if reason := missing(row):
        pytest.skip(reason)
    module = importlib.import_module("torch.optim.adagrad")
    monkeypatch.setattr(module, "adagrad", Refuses(error))
    setting = Setting(device=device.name, data="uniform")
    with pytest.raises(Unavailable if told else RuntimeError, match="has no fused adagrad" if told else "illegal"):
        row.prepare(Optimizer("adagrad", 2, 8), device, setting)
    assert row.prepare(Optimizer("adam", 2, 8), device, setting)


@pytest.mark.skipif(REAL, reason="a GPU tells nobody how many launches it was given")
@pytest.mark.parametrize(("name", "launches"), [("cuda", 1), ("cuda-each", 3)])
@pytest.mark.parametrize("rule", ["decay", "nesterov", "adam"])
def test_one_launch_for_all_tensors_or_one_for_each(device: Cuda, name: str, launches: int, rule: str) -> None:
    problem = Optimizer(rule, 3, 333)
    (row,) = (x for x in variants("optimizer") if x.name == name)
    assert len(enqueued(device, row, problem, "uniform")[1]) == launches


@pytest.mark.skipif(REAL, reason="a GPU tells nobody how many launches it was given")
def test_the_fused_step_is_one_call(device: Cuda) -> None:
    for form, rule, calls in (
        ("fused", "sgd", 1),
        ("fused", "momentum", 2),
        ("separate", "sgd", 2),
        ("fused", "tied", 2),
    ):
        problem = Update(33, 65, 17, rule)
        (row,) = (x for x in variants("update") if x.name == f"{form}:cublas")
        _, journal = enqueued(device, row, problem)
        assert len(journal) == calls, (form, rule, journal)


def test_rows_of_tensors_are_exact_after_a_product_in_tf32(device: Cuda) -> None:
    """Which leaves a switch of the process as it wanted it."""
    row = find("gather", "torch-cuda-one-hot")
    if reason := missing(row):
        pytest.skip(reason)
    torch_cuda.arithmetic(torch_cuda.load(device), "tf32")()
    once(device, row, Gather(97, 33, 17))


def bound(device: Cuda, row: Variant[Any], problem: Problem, bench: guards.Bench) -> Launch:
    launch = row.prepare(problem, device, Setting(device=device.name, data=data_of(problem)))(bench.views)
    device.sync()
    return launch


def enqueued_when_held(device: Cuda, launch: Launch) -> list[str]:
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
    **{op: [x for x in some if x.footprint > 100] for op, some in PROBLEMS.items()},  # more than an element
    "stream": [Stream(kind, 4 * 1027) for kind in ("read", "copy", "triad")],
    "transpose": [Transpose(33, 65)],
}
CALLS = [Calls(kernel, chain) for kernel in ("gemm", "empty") for chain in (1, 3)]
LAUNCHED = [
    *tries("gemm", Gemm(33, 65, 17, "tt"), Gemm(33, 65, 17, "tn", "fp16", ld_pad=3), also=FAMILIES),
    *tries("launch", *CALLS),
    *(x for op, some in COUNTED.items() for x in rows(op, some)),
]


@pytest.mark.skipif(REAL, reason="a GPU tells nobody how many kernels it was given")
@pytest.mark.parametrize(("row", "problems"), LAUNCHED)
def test_a_row_tells_how_many_kernels_it_enqueues(device: Cuda, row: Variant[Any], problems: list[Problem]) -> None:
    """Hold them to what fills a stream: at most as many kernels, no wait for the stream, no array from the host."""
    if reason := missing(row):
        pytest.skip(reason)
    for problem in problems:
        bench = guards.Bench(device, problem)
        launch = bound(device, row, problem, bench)
        told = enqueued_when_held(device, launch)
        assert (told or not launch.capturable) and not {"sync", "memcpy from the host"} & set(told), (
            problem.name,
            told,
        )
        assert len(told) <= launch.kernels, (problem.name, launch.kernels, told)
        if row.provider == "cupy" and problem.op != "gemm":  # of whose product the fake makes one kernel
            assert 3 * len(told) >= launch.kernels, (problem.name, launch.kernels, told)


@pytest.mark.parametrize(("mode", "most"), [("frozen", 65_535), ("train", 880_801)])
def test_cudnn_is_not_given_more_images_than_it_takes(mode: str, most: int) -> None:
    row = find("norm", "cudnn")
    assert row.accepts(Norm(most, 1, 1, mode=mode)) is None
    assert row.accepts(Norm(most + 1, 1, 1, mode=mode)) == f"cuDNN fails above {most} images: --images {most} or fewer"
