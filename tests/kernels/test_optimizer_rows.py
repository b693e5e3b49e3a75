"""The rows of `optimizer`: formulas that are those of torch.optim, traffic, what they ask of the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels.catalog import find
from kernels.errors import Unavailable, WrongResult
from kernels.libs import torch as torch_library
from kernels.ops.optimizer import libraries
from kernels.ops.optimizer.problem import NAMES, RULES, Optimizer
from kernels.setting import Setting
from tests.kernels.rows import CPU, checked

SETTING = Setting(data="uniform")
needs_torch = pytest.mark.skipif(torch_library.missing() is not None, reason=torch_library.missing() or "")


@needs_torch
@pytest.mark.parametrize("rule", [rule for rule in NAMES if rule not in ("copy", "clip", "norm")])
def test_formulas_are_those_of_torch(rule: str) -> None:
    """The reference against torch.optim's own loop, both in double precision."""
    torch = torch_library.load()
    problem = Optimizer(rule, 3, 41, eps=0.25, rho=0.9, decay=0.1)
    x = problem.fill(np.random.default_rng(8))
    g, *s = (torch.from_numpy(array.astype("f8")) for array in x.values())
    rows = [list(row.split(problem.size)) for row in s]
    libraries.step(torch, problem, list(g.split(problem.size)), rows, "loop")()
    for row, want in zip(s, problem.reference(x).values(), strict=True):
        assert np.abs(row.numpy() - want).max() < 1e-12


@needs_torch
@pytest.mark.parametrize("rule", ["clip", "norm"])
def test_clipping_is_that_of_torch(rule: str) -> None:
    torch = torch_library.load()
    problem = Optimizer(rule, 3, 41)
    x = problem.fill(np.random.default_rng(9))
    p = torch.nn.Parameter(torch.from_numpy(x["p"].astype("f8")))
    p.grad = torch.from_numpy(x["g"].astype("f8"))
    if rule == "clip":
        torch.nn.utils.clip_grad_value_([p], problem.limit)
    else:
        torch.nn.utils.clip_grad_norm_([p], problem.limit * problem.count**0.5)
    with torch.no_grad():
        moved = (p - problem.lr * p.grad).numpy()
    assert np.abs(moved - problem.reference(x)["p"]).max() < 1e-12
    assert np.abs(moved - (x["p"] - problem.lr * x["g"])).max() > 0.01, "it does clip"


def test_a_tensor_that_is_left_out_shows() -> None:
    problem = Optimizer("adam", 5, 33)
    fewer = replace(problem, tensors=4)
    sound = find("optimizer", "c-each")

    def prepare(problem: Optimizer, device: Any, setting: Any) -> Any:
        return sound.prepare(fewer, device, setting)

    row = replace(sound, prepare=prepare)
    with pytest.raises(WrongResult):
        checked(problem, row, setting=SETTING)


@pytest.mark.parametrize("rule", [name for name, rule in RULES.items() if rule.squares])
@pytest.mark.parametrize("row", ["c", "ctypes-each", "numpy", "torch-loop"])
def test_squares_ask_for_data_that_is_not_negative(row: str, rule: str) -> None:
    if reason := find("optimizer", row).missing():
        pytest.skip(reason)
    with pytest.raises(Unavailable, match=rf"^{rule} needs nonnegative second moments: --data uniform$"):
        find("optimizer", row).prepare(Optimizer(rule, 1, 8), CPU, Setting())


def test_chains_move_what_they_say() -> None:
    """Each function of a chain: 4 bytes for every array it reads, scalars none, and 4 for the one it writes."""
    for rule, chain in libraries.CHAINS.items():
        g, s, t = np.ones(8, "f4"), np.ones((3, 8), "f4"), np.ones((2, 8), "f4")
        f = {name: np.float32(0.5) for name in ("lr", "mu", "rho", "decay", "eps", "limit", "gain", "rest")}
        if rule in ("momentum", "nesterov"):
            f["gain"] = np.float32(1)
        calls: list[Any] = chain(g, s, t if rule == "adadelta" else t[0], f)
        moved = sum(
            4 * (sum(x.ndim > 0 for x in call.args) + ("out" in call.keywords) - _twice(call.args)) for call in calls
        )
        assert moved == libraries.BYTES[rule], rule


def _twice(arguments: Sequence[Any]) -> int:
    """An array that is both arguments is read once."""
    return int(len(arguments) == 2 and arguments[0] is arguments[1])


def test_traffic_is_that_of_each_array_once() -> None:
    for name, rule in RULES.items():
        problem = Optimizer(name, 2, 8)
        changed = len(problem.state) + 1
        once = 4 * (1 + (2 if name != "copy" else 1) * changed)
        assert rule.bytes == once + (4 if name == "norm" else 0), name
        assert problem.bytes == rule.bytes * 16
        assert [x.shape for x in problem.operands()] == [(16,)] * (changed + 1)
