"""Questions of `update` and `optimizer`: their plans, their names, the commands on the fake device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernels.ops.update.problem import Update
from kernels.setting import Setting
from micro import optimizer, update
from micro.command.line import main
from micro.planning.benchmark import Benchmark, Request
from tests.conftest import Ran

CPU, GPU = Setting(), Setting(device="cuda:0")


def asked(
    *flags: str, made: Benchmark = update.BENCHMARK, device: Setting = CPU, rows: tuple[str, ...] = (), **axes: Any
) -> Request:
    named = frozenset((*axes, *(("variant",) if rows else ())))
    return Request(made.problem.op, made.sweep | axes, rows, (device,), frozenset(flags), named)


def asked_optimizer(device: Setting = CPU, **axes: Any) -> Request:
    return asked(made=optimizer.BENCHMARK, device=replace(device, data="uniform"), **axes)


# The plan


def test_the_layers_of_the_question() -> None:
    layers = {contest.name.split("/")[1] for contest in update.fused(asked()) if contest.name.startswith("fused/")}
    assert layers == {"update"}
    shapes = [c.cases[0].problem for c in update.fused(asked("all")) if c.name.startswith("fused/")]
    found = {(x.m, x.n, x.k) for x in shapes}  # type: ignore[attr-defined]
    assert found >= {(26752, 2048, 64), (2048, 2048, 64), (1024, 10, 1024), (9216, 4096, 16), (4096, 1000, 16)}
    assert len(found) == 2 + 8 + 3 + 2
    few = [c.cases[0].problem for c in update.fused(asked()) if c.name.startswith("fused/") and "openblas" in c.name]
    assert len(update.forms(asked(), Update(64, 10, 32), "openblas").cases) == 6, "as small as a tile"
    assert {(2048, 2048, k) for k in (16, 64, 512)} < {(x.m, x.n, x.k) for x in few}  # type: ignore[attr-defined]


def test_gains_are_compared_at_rates_that_make_their_steps_equal() -> None:
    for contest in (update.gain(asked(), Update(8, 8, 8), "openblas"), optimizer.gain(asked_optimizer(), 1, 8, "c")):
        plain, unit = (case.problem for case in contest.cases)
        assert (plain.rule, unit.rule, contest.differs) == ("momentum", "unit", "work: differs (rule)")  # type: ignore[attr-defined]
        assert unit.lr * (1 - unit.mu) == pytest.approx(plain.lr)  # type: ignore[attr-defined]
        assert unit.flops > plain.flops, "its gradient is scaled"


def test_sizes_and_libraries_that_are_named_are_kept_to() -> None:
    found = update.fused(asked(rows=("separate:mkl", "fused:mkl"), m=(8,), n=(16,), k=(4,)))
    assert {c.name for c in found if c.name.startswith("fused/")} == {"fused/update/m:8/n:16/k:4/mkl"}
    batches = [c.cases[0].problem.k for c in update.batch(asked(k=(3, 9), rows=("fused:mkl",)))]  # type: ignore[attr-defined]
    assert batches == [3, 9]
    found = optimizer.together(asked_optimizer(tensors=(2, 4), size=(8,), rule=("adam",)))
    assert [c.name for c in found] == [f"tensors/optimizer/rule:adam/tensors:{t}/size:8" for t in (2, 4)]


def test_on_a_gpu_steps_come_from_its_memory_too() -> None:
    """Of 1 M parameters, and of most layers, all lies in its second-level cache."""
    cache = 60e6
    found = optimizer.rules(asked_optimizer(device=GPU))
    far = [x for x in found if min(case.problem.footprint for case in x.cases) >= 4 * cache]
    assert {x.name.partition("/")[0] for x in far} == {"traffic", "ways"}
    assert ["memory" in x.question for x in far] == [x.name.startswith("traffic") for x in far]
    assert all(case.problem.footprint < cache for x in found if x not in far for case in x.cases)
    named = optimizer.rules(asked_optimizer(device=GPU, size=(64,)))
    assert all(case.problem.size == 64 for x in named for case in x.cases)  # type: ignore[attr-defined]
    layers = [case.problem for x in update.fused(asked(device=GPU)) for case in x.cases]
    assert max(4 * x.m * x.n for x in layers) > 2 * cache  # type: ignore[attr-defined]
    layers = [case.problem for x in update.fused(asked()) for case in x.cases]
    assert max(4 * x.m * x.n for x in layers) < cache  # type: ignore[attr-defined]


# The commands on the fake device


def test_squares_are_refused_on_normal_data(
    capsys: pytest.CaptureFixture[str], own_state: Path, in_process: Callable[..., Ran]
) -> None:
    argv = ["--rule", "adam", "--size", "64", "--variant", "c", "--data", "normal", "--until", "build", "-v"]
    ran = in_process(capsys, main, optimizer.BENCHMARK, "optimizer", argv)
    assert "adam keeps squares, which are not negative: --data uniform" in " ".join(ran.out.split())
