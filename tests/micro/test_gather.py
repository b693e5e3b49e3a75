"""Rows of a table: every kernel right, wrong ones refused, what the questions compare."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels.catalog import find
from kernels.devices.cpu import Cpu
from kernels.errors import UsageError, WrongResult
from kernels.launch import Launch
from kernels.ops.gather import Gather, variants
from kernels.setting import Setting
from kernels.variant import Variant
from micro.worker.check import check
from tests.micro.plans import contests

LOOKUP = Gather(37, 5, 11)
STEPS = tuple(Gather(37, 5, 11, "step", rule) for rule in ("sgd", "adagrad"))
PROBLEMS = (LOOKUP, replace(LOOKUP, order="block"), Gather(1, 1, 1), Gather(64, 3, 64), *STEPS)


class Borrowed(Cpu):
    """A CPU that lends NumPy for CuPy: the calls of its rows are the same."""

    cp = np


def right(variant: Variant[Any], problem: Gather, device: Cpu) -> None:
    bind = variant.prepare(problem, device, Setting())
    for seed in (1, 2):
        check(device, problem, variant, bind, seed)


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
@pytest.mark.parametrize("variant", variants.VARIANTS, ids=lambda variant: variant.name)
def test_every_kernel_is_right(variant: Variant[Any], problem: Gather) -> None:
    on_gpu = variant.device == "cuda"
    if variant.accepts(problem):
        assert (problem.does == "step") == (variant.name.rpartition("-")[2] not in ("rows", "dense"))
        return
    if on_gpu and variant.provider != "cupy":
        pytest.skip("PyTorch on a GPU has no stand-in here")
    if not on_gpu and variant.missing():
        pytest.skip(str(variant.missing()))
    right(variant, problem, Borrowed() if on_gpu else Cpu())


def kernel(call: Callable[..., object]) -> Variant[Any]:
    """`call(problem, *operands)`."""
    return Variant("wrong", "cpu", "mine", lambda problem, device, setting: lambda b: Launch(lambda: call(problem, *b)))


def next_rows(problem: Gather, ids: Any, y: Any, table: Any) -> None:
    y[:] = table[(ids + 1) % problem.rows]


def sorted_table(problem: Gather, ids: Any, y: Any, table: Any) -> None:
    y[:] = table[ids]
    table.sort(axis=0)


def all_rows(problem: Gather, ids: Any, g: Any, w: Any) -> None:
    w -= -0.125 * g[0]


def table_alone(problem: Gather, ids: Any, g: Any, w: Any, v: Any) -> None:
    w[ids] -= -0.125 * g / (np.sqrt(v[ids] + g * g) + np.float32(1e-8))


def one_element_off(problem: Gather, ids: Any, g: Any, w: Any) -> None:
    w[ids] -= -0.125 * g
    w[ids[0], 0] += 1


@pytest.mark.parametrize(
    ("problem", "call", "why"),
    [
        (LOOKUP, next_rows, "^y: "),
        (LOOKUP, sorted_table, "^table: dense probe: "),  # few of its elements stay, and those are right
        (STEPS[0], all_rows, "off where one answer alone is right"),
        (STEPS[0], one_element_off, "^dense probe: 1 of 185 values off"),
        (STEPS[1], table_alone, "^v: writes nothing"),
    ],
)
def test_a_wrong_kernel_is_refused(problem: Gather, call: Callable[..., object], why: str) -> None:
    with pytest.raises(WrongResult, match=why):
        right(kernel(call), problem, Cpu())


def test_rows_are_different_ones_and_everyones() -> None:
    for problem in PROBLEMS:
        ids = problem.ids()
        assert len(set(ids.tolist())) == problem.batch
        assert ids.min() >= 0
        assert ids.max() < problem.rows
        assert (ids == problem.ids()).all()
    block = replace(LOOKUP, order="block").ids()
    assert (np.diff(block) == 1).all()
    assert (np.diff(LOOKUP.ids()) != 1).any()
    with pytest.raises(UsageError, match="more than --rows 4"):
        Gather(4, 1, 5)
    assert "GiB" in str(find("gather", "one-hot").accepts(Gather(1 << 20, 1, 1 << 10)))


def test_the_work_is_what_is_executed() -> None:
    assert find("gather", "one-hot").executed(LOOKUP).flops == 2 * 11 * 37 * 5
    assert find("gather", "c").executed(LOOKUP).flops == 0
    rows, dense = (find("gather", f"c-{form}").executed(STEPS[0]) for form in ("rows", "dense"))
    assert rows.bytes == 8 * 11 + 12 * 11 * 5
    assert dense.bytes == 8 * 11 + 8 * 11 * 5 + (4 + 12) * 37 * 5
    assert dense.flops == pytest.approx(2 * 37 * 5)


def test_steps_are_of_uniform_data_and_on_a_gpu_its_own() -> None:
    assert {case.setting.data for x in contests("gather", "--step") for case in x.cases} == {"uniform"}
    on_gpu = contests("gather", "--step", "--device", "fake:cuda")
    assert [case.variant for case in on_gpu[0].cases] == ["cupy-rows", "cupy-dense"]
