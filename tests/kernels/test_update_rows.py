"""The rows of `update`: the forms equal, the rules as they say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels.catalog import find
from kernels.dtypes import UNIT_ROUNDOFF
from kernels.ops.update.problem import WITH_VELOCITY, Update
from kernels.setting import Setting
from micro.worker import guards
from tests.kernels.rows import CPU, checked, harmed

U = UNIT_ROUNDOFF["fp32"]


def stepped(row: str, problem: Update, x: dict[str, Any]) -> Any:
    """The weights after a row's step from these operands."""
    bench = guards.Bench(CPU, problem)
    launch = find("update", row).prepare(problem, CPU, Setting())(bench.views)
    bench.load(x)
    launch.call()
    return bench.answer()["w"]


def test_sums_that_begin_with_w_are_not_refused() -> None:
    """Sample by sample onto W, each time rounded at its size: what a product with beta = 1 may do."""

    def one_by_one(before: Any, x: Any, dy: Any, w: Any) -> None:
        w[...] = before[2]
        for i in range(len(x)):
            w -= np.outer(x[i], dy[i]) * np.float32(1 / len(x))

    problem, row = Update(48, 80, 1024), harmed(find("update", "separate:openblas"), one_by_one)
    passed = checked(problem, row)
    assert passed.error > 0.1 * passed.bound


# What the forms and the rules have in common

LIBRARIES = [
    name for name in ("openblas", "openblas-scipy", "mkl", "torch") if not find("update", f"fused:{name}").missing()
]


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("rule", ["sgd", "decay", "momentum", "unit", "tied"])
def test_fused_equals_separate(rule: str, library: str) -> None:
    problem = Update(70, 129, 45, rule)
    x = problem.fill(np.random.default_rng(3))
    one, other = (stepped(f"{form}:{library}", problem, x) for form in ("fused", "separate"))
    want = problem.reference(x)
    assert (np.abs(one - other) <= 2 * problem.bound(x, want, U)["w"]).all()
    assert np.abs(one - x["w"]).max() > 0.01, "a step that shows"


def test_two_gradients_of_a_shared_w_are_one_sum() -> None:
    problem = Update(70, 129, 45, "tied")
    x = problem.fill(np.random.default_rng(4))
    doubled = replace(problem, rule="sgd", k=90, lr=2.0)  # the mean is over half as many samples
    want, same = problem.reference(x), doubled.reference(x)
    assert np.abs(want["w"] - same["w"]).max() < 1e-12
    for row in ("separate:openblas", "two-buffers:openblas"):
        assert (np.abs(stepped(row, problem, x) - want["w"]) <= problem.bound(x, want, U)["w"]).all()


def test_momentum_of_unit_gain_is_the_plain_one_at_another_rate() -> None:
    """V of unit gain is (1 − mu) times the plain V; at lr / (1 − mu) the weights go the same way, step by step."""
    plain = Update(33, 65, 17, "momentum", lr=0.1)
    unit = replace(plain, rule="unit", lr=1.0)
    rng = np.random.default_rng(5)
    x = plain.fill(rng)
    y = {name: value.astype("f8") for name, value in x.items()}
    y["v"] *= 1 - unit.mu
    for _ in range(4):
        x |= plain.reference(x)
        y |= unit.reference(y)
        assert np.allclose(x["w"], y["w"], rtol=1e-6, atol=1e-6)
        x |= {name: plain.fill(rng)[name] for name in ("x", "dy")}
        y |= {name: x[name] for name in ("x", "dy")}


def test_clipping_binds_at_the_default_limit() -> None:
    problem = Update(64, 64, 16, "clip")
    x = problem.fill(np.random.default_rng(6))
    g = problem.gradient(x)
    share = float((np.abs(g) > problem.limit).mean())
    assert 0.1 < share < 0.9
    assert 0 < problem.coefficient(g) < 1


def test_what_is_counted() -> None:
    step, gradient, apply = (Update(8, 4, 2, part=part) for part in ("step", "wgrad", "update"))
    assert step.flops == gradient.flops + apply.flops == 2 * 8 * 4 * 2 + 2 * 8 * 4
    assert (step.bytes, apply.bytes) == (4 * 2 * 12 + 8 * 32, 12 * 32)
    separate, fused = (find("update", f"{form}:openblas").executed(step) for form in ("separate", "fused"))
    assert separate.bytes - fused.bytes == 8 * 32, "the gradient is written and read"
    for rule in WITH_VELOCITY[:2]:
        assert [x.shape for x in Update(8, 4, 2, rule).outputs] == [(8, 4), (8, 4)]
