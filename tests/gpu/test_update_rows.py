"""Rows of device "cuda" of `update` and `optimizer`, from prepare to an answer that is checked; captured ones as a
graph, too. On a real GPU where there is one; else on the fake CuPy."""

from __future__ import annotations

import importlib

import pytest

from kernels.catalog import find, variants
from kernels.devices.cuda import Cuda
from kernels.errors import Unavailable
from kernels.ops.optimizer.problem import NAMES, Optimizer
from kernels.ops.update.problem import PARTS, RULES, Update
from kernels.setting import Setting
from kernels.variant import Variant
from tests.gpu.conftest import REAL, missing
from tests.gpu.rows import enqueued, once, rows

STEPS = [Update(*shape, rule, part) for shape in ((33, 65, 17), (1, 1, 1)) for rule in RULES for part in PARTS]
OPTIMIZERS = [Optimizer(rule, tensors, size) for rule in NAMES for tensors, size in ((1, 1), (3, 333))]


@pytest.mark.parametrize(("row", "problems"), rows("update", STEPS))
def test_steps(device: Cuda, row: Variant[Update], problems: list[Update]) -> None:
    if reason := missing(row):
        pytest.skip(reason)
    for problem in problems:
        once(device, row, problem)


@pytest.mark.parametrize(("row", "problems"), rows("optimizer", OPTIMIZERS))
def test_optimizers(device: Cuda, row: Variant[Optimizer], problems: list[Optimizer]) -> None:
    if reason := missing(row):
        pytest.skip(reason)
    absent = []
    for problem in problems:
        try:
            once(device, row, problem, "uniform")
        except Unavailable as error:
            absent.append(str(error))
    if absent:
        pytest.skip(", ".join(dict.fromkeys(absent)))


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
