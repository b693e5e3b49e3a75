"""Rows of device "cuda" of `update` and `optimizer`, from prepare to an answer that is checked; captured ones as a
graph, too. On a real GPU where there is one; else on the fake CuPy."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from kernels.devices.cuda import Cuda
from kernels.ops.optimizer.problem import Optimizer
from kernels.ops.optimizer.rules import NAMES
from kernels.ops.update.problem import PARTS, RULES, Update
from kernels.problem import Problem
from kernels.variant import Setting, Variant, variants
from micro import _check
from tests.gpu.conftest import REAL, missing

STEPS = [
    Update(*shape, rule, part) for shape in ((33, 65, 17), (1, 1, 1)) for rule in RULES for part in PARTS
]
OPTIMIZERS = [Optimizer(rule, tensors, size) for rule in NAMES for tensors, size in ((1, 1), (3, 333))]


def rows(op: str, problems: Sequence[Problem]) -> list[Any]:
    """Each row with the problems that it accepts."""
    found = []
    for row in variants(op):
        accepted = [x for x in problems if row.accepts(x) is None]
        if row.device == "cuda":
            assert accepted, f"{row.name} accepts nothing"
            found.append(pytest.param(row, accepted, id=row.name))
    return found


def tried(device: Cuda, row: Variant[Any], problem: Problem, data: str = "normal") -> None:
    seed = zlib.crc32(problem.name.encode())
    bind = row.prepare(problem, device, Setting(device=device.name, data=data))
    _check.check(device, problem, row, bind, seed)
    bench = _check.Bench(device, problem)
    launch = bind(bench.views)
    if launch.capturable:
        replay = device.repeat(launch, 1)
        _check.judge(bench, replay, row, np.random.default_rng(seed + 1), problem.probes)


@pytest.mark.parametrize(("row", "problems"), rows("update", STEPS))
def test_steps(device: Cuda, row: Variant[Update], problems: list[Update]) -> None:
    if reason := missing(row):
        pytest.skip(reason)
    for problem in problems:
        tried(device, row, problem)


@pytest.mark.parametrize(("row", "problems"), rows("optimizer", OPTIMIZERS))
def test_optimizers(device: Cuda, row: Variant[Optimizer], problems: list[Optimizer]) -> None:
    if reason := missing(row):
        pytest.skip(reason)
    if not REAL and row.name == "torch-fused-cuda":
        problems = [x for x in problems if x.rule in ("sgd", "adam")]  # the fake's tensors are the CPU's
    for problem in problems:
        tried(device, row, problem, "uniform")


@pytest.mark.skipif(REAL, reason="a GPU tells nobody how many launches it was given")
@pytest.mark.parametrize(("name", "launches"), [("cuda", 1), ("cuda-each", 3)])
@pytest.mark.parametrize("rule", ["decay", "nesterov", "adam"])
def test_one_launch_for_all_tensors_or_one_for_each(
    device: Cuda, name: str, launches: int, rule: str
) -> None:
    problem = Optimizer(rule, 3, 333)
    (row,) = (x for x in variants("optimizer") if x.name == name)
    bench = _check.Bench(device, problem)
    launch = row.prepare(problem, device, Setting(device=device.name, data="uniform"))(bench.views)
    device.sync()
    device.cp.journal.clear()
    launch.call()
    told = list(device.cp.journal)
    device.sync()
    assert len(told) == launches


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
        bench = _check.Bench(device, problem)
        launch = row.prepare(problem, device, Setting(device=device.name))(bench.views)
        device.sync()
        device.cp.journal.clear()
        launch.call()
        told = list(device.cp.journal)
        device.sync()
        assert len(told) == calls, (form, rule, told)
