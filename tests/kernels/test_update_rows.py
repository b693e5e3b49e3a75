"""The rows of `update`: right answers at odd shapes, wrong ones refused, the forms equal, the rules as they say."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels.catalog import find, variants
from kernels.dtypes import UNIT_ROUNDOFF
from kernels.errors import UsageError, WrongResult
from kernels.ops.update.problem import PARTS, RULES, WITH_VELOCITY, Update
from kernels.setting import Setting
from kernels.variant import Variant
from micro.worker import check, guards
from tests.kernels.rows import CPU, checked, harmed

ROWS = [row for row in variants("update") if row.device == "cpu"]
SHAPES = ((33, 65, 17), (1, 1, 1), (70, 129, 45))
U = UNIT_ROUNDOFF["fp32"]


def stepped(row: str, problem: Update, x: dict[str, Any]) -> Any:
    """The weights after a row's step from these operands."""
    bench = guards.Bench(CPU, problem)
    launch = find("update", row).prepare(problem, CPU, Setting())(bench.views)
    bench.load(x)
    launch.call()
    return bench.answer()["w"]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_answers_or_says_why_not(row: Variant[Update], shape: tuple[int, int, int]) -> None:
    tried = 0
    for rule, part in itertools.product(RULES, PARTS):
        problem = Update(*shape, rule, part)
        if why := row.missing() or row.accepts(problem):
            assert "\n" not in why and (": --" in why or "pip install" in why or "separate form" in why)
            continue
        checked(problem, row)
        bind = row.prepare(problem, CPU, Setting())
        assert (bind(guards.Bench(CPU, problem).views).entry is None) == row.python
        tried += 1
    assert tried or row.missing()


@pytest.mark.parametrize("row", [row for row in ROWS if not row.missing()], ids=lambda row: row.name)
def test_every_row_takes_some_part(row: Variant[Update]) -> None:
    assert any(row.accepts(Update(8, 8, 8, rule, part)) is None for rule in RULES for part in PARTS)


# Wrong rows


def half(before: Any, x: Any, dy: Any, w: Any) -> None:
    g = x.astype("f2").astype("f4").T @ dy.astype("f2").astype("f4") / len(x)
    w[...] = before[2] - g


def twice(before: Any, x: Any, dy: Any, w: Any) -> None:
    w -= x.T @ dy / len(x)


def last_sample_lost(before: Any, x: Any, dy: Any, w: Any) -> None:
    w += np.outer(x[-1], dy[-1]) / len(x)


def up(before: Any, x: Any, dy: Any, w: Any) -> None:
    w[...] = 2 * before[2] - w


def velocity_not_kept(before: Any, x: Any, dy: Any, w: Any, v: Any) -> None:
    v[...] = before[3]


def velocity_off(before: Any, x: Any, dy: Any, w: Any, v: Any) -> None:
    v[-1, -1] += 1


def weights_not_moved(before: Any, x: Any, dy: Any, w: Any, v: Any) -> None:
    w[...] = before[2]


def writes_its_input(before: Any, x: Any, dy: Any, w: Any) -> None:
    dy[0, 0] += 1


@pytest.mark.parametrize(
    ("rule", "harm", "how"),
    [
        ("sgd", half, "times what its precision allows"),
        ("sgd", twice, "times what its precision allows"),
        ("sgd", last_sample_lost, "times what its precision allows"),
        ("sgd", up, "times what its precision allows"),
        ("sgd", lambda before, x, dy, w: np.copyto(w, before[2]), "writes nothing"),
        ("sgd", writes_its_input, "changes its input dy"),
        ("decay", lambda before, x, dy, w: np.add(w, 0.01 * before[2], out=w), "times what its precision allows"),
        ("momentum", velocity_not_kept, "^v: writes nothing"),
        ("momentum", velocity_off, "^v: dense probe: 1 of 3840 values off"),
        ("momentum", weights_not_moved, "^w: writes nothing"),
        ("clip", twice, "times what its precision allows"),
        ("norm", lambda before, x, dy, w: np.multiply(w, 1.001, out=w), "off by"),
    ],
)
def test_wrong_rows_are_refused(
    monkeypatch: pytest.MonkeyPatch, rule: str, harm: Callable[..., object], how: str
) -> None:
    monkeypatch.setattr(check, "LATE", 0.0)
    problem, row = Update(48, 80, 24, rule), harmed(find("update", "separate:openblas"), harm)
    sound = find("update", "separate:openblas")
    checked(problem, sound)
    with pytest.raises(WrongResult, match=how):
        checked(problem, row)


@pytest.mark.parametrize("k", [64, 1024])
def test_a_gradient_in_half_precision_is_refused_at_any_batch(k: int) -> None:
    problem, row = Update(48, 80, k), harmed(find("update", "separate:openblas"), half)
    with pytest.raises(WrongResult, match="times what its precision allows"):
        checked(problem, row)


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


def test_launched_again_and_again_nothing_leaves_the_normal_numbers() -> None:
    for rule in RULES:
        problem = Update(17, 33, 4, rule)
        bench = guards.Bench(CPU, problem)
        launch = find("update", "separate:openblas").prepare(problem, CPU, Setting())(bench.views)
        bench.load(problem.fill(np.random.default_rng(7)))
        for _ in range(20_000):
            launch.call()
        for name, answer in bench.answer().items():
            size = np.abs(answer)
            assert np.isfinite(size).all() and size.max() < 1e7, (rule, name)
            assert size[size > 0].min() > np.finfo("f4").tiny, (rule, name)


@pytest.mark.parametrize(
    ("words", "says"),
    [({"mu": 1.0}, "--mu 1.0"), ({"decay": 2.0}, "--decay 2.0"), ({"lr": -1.0}, "--lr -1.0"), ({"k": 0}, "--k 0")],
)
def test_impossible_steps_are_refused(words: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Update(**({"m": 4, "n": 4, "k": 4} | words))


def test_what_is_counted() -> None:
    step, gradient, apply = (Update(8, 4, 2, part=part) for part in ("step", "wgrad", "update"))
    assert step.flops == gradient.flops + apply.flops == 2 * 8 * 4 * 2 + 2 * 8 * 4
    assert (step.bytes, apply.bytes) == (4 * 2 * 12 + 8 * 32, 12 * 32)
    separate, fused = (find("update", f"{form}:openblas").executed(step) for form in ("separate", "fused"))
    assert separate.bytes - fused.bytes == 8 * 32, "the gradient is written and read"
    for rule in WITH_VELOCITY[:2]:
        assert [x.shape for x in Update(8, 4, 2, rule).outputs] == [(8, 4), (8, 4)]
