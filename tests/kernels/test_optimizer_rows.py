"""The rows of `optimizer`: right answers, wrong ones refused, and formulas that are those of torch.optim."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels.catalog import find, variants
from kernels.errors import Unavailable, UsageError, WrongResult
from kernels.libs import torch as torch_library
from kernels.ops.optimizer import libraries
from kernels.ops.optimizer.problem import NAMES, RULES, Optimizer
from kernels.setting import Setting
from kernels.variant import Variant
from micro.worker import check, guards
from tests.kernels.rows import CPU, checked, harmed

ROWS = [row for row in variants("optimizer") if row.device == "cpu"]
SETTING = Setting(data="uniform")
SIZES = ((1, 1), (3, 17), (2, 4099))
needs_torch = pytest.mark.skipif(torch_library.missing() is not None, reason=torch_library.missing() or "")


@pytest.mark.parametrize("rule", NAMES)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_every_row_answers_or_says_why_not(row: Variant[Optimizer], rule: str) -> None:
    for tensors, size in SIZES:
        problem = Optimizer(rule, tensors, size)
        if why := row.missing() or row.accepts(problem):
            assert "\n" not in why and (": --" in why or "pip install" in why)
            continue
        checked(problem, row, setting=SETTING)
        bind = row.prepare(problem, CPU, SETTING)
        assert (bind(guards.Bench(CPU, problem).views).entry is None) == row.python


def test_epsilon_stands_where_torch_puts_it() -> None:
    """At 1e-8 it does not show: here it is as large as what it is added to."""
    for row, rule in itertools.product(ROWS, ("rmsprop", "adagrad", "adadelta", "adam")):
        problem = Optimizer(rule, 2, 1027, eps=0.25, rho=0.9)
        if row.missing() or row.accepts(problem):
            continue
        checked(problem, row, setting=SETTING)


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


def test_momentum_of_unit_gain_is_the_plain_one_at_another_rate() -> None:
    plain = Optimizer("momentum", 1, 99)
    unit = replace(plain, rule="unit", lr=plain.lr / (1 - plain.mu))
    x = plain.fill(np.random.default_rng(10))
    y = {"g": x["g"], "p": x["p"], "v": (1 - plain.mu) * x["v"].astype("f8")}
    for _ in range(4):
        x |= plain.reference(x)
        y |= unit.reference(y)
        assert np.allclose(x["p"], y["p"])


ALLOWS = "times what its precision allows"


@pytest.mark.parametrize(
    ("rule", "harm", "how"),
    [
        ("sgd", lambda old, g, p: np.copyto(p, old[1]), "^writes nothing"),
        ("sgd", lambda old, g, p: np.copyto(p, old[1] + 0.125 * g.astype("f2")), ALLOWS),
        ("decay", lambda old, g, p: np.copyto(p, old[1] + 0.125 * g), ALLOWS),
        ("momentum", lambda old, g, p, v: np.copyto(v, old[2]), "^v: writes nothing"),
        ("nesterov", lambda old, g, p, v: np.copyto(p, old[1] + 0.125 * v), f"^p: .*{ALLOWS}"),
        ("adam", lambda old, g, p, m, v: np.copyto(v, old[3]), "^v: writes nothing"),
        ("adam", lambda old, g, p, m, v: np.copyto(p, old[1] + 0.125 * m / np.sqrt(old[3])), f"^p: .*{ALLOWS}"),
        ("adam", lambda old, g, p, m, v: np.copyto(m, m.astype("f2")), f"^m: .*{ALLOWS}"),
        ("norm", lambda old, g, p: np.copyto(p, old[1] + 0.125 * g), ALLOWS),
        ("adadelta", lambda old, g, p, v, u: np.copyto(u, old[3] * 0.999), f"^u: .*{ALLOWS}"),
        ("adam", lambda old, g, p, m, v: np.add(g, 1, out=g), "changes its input g"),
    ],
)
def test_wrong_rows_are_refused(
    monkeypatch: pytest.MonkeyPatch, rule: str, harm: Callable[..., object], how: str
) -> None:
    monkeypatch.setattr(check, "LATE", 0.0)
    problem, row = Optimizer(rule, 3, 1027), harmed(find("optimizer", "c"), harm)
    with pytest.raises(WrongResult, match=how):
        checked(problem, row, setting=SETTING)


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
    with pytest.raises(Unavailable, match=rf"^{rule} keeps squares, .*: --data uniform$"):
        find("optimizer", row).prepare(Optimizer(rule, 1, 8), CPU, Setting())


def test_launched_again_and_again_nothing_leaves_the_normal_numbers() -> None:
    """Nor changes its sign: a second moment may lie in a later round where a parameter lay."""
    for rule in NAMES:
        problem = Optimizer(rule, 1, 333)
        bench = guards.Bench(CPU, problem)
        launch = find("optimizer", "c").prepare(problem, CPU, SETTING)(bench.views)
        x = problem.fill(np.random.default_rng(11))
        bench.load({name: np.abs(value) + np.float32(1e-3) for name, value in x.items()})
        for _ in range(20_000):
            launch.call()
        for name, answer in bench.answer().items():
            assert np.isfinite(answer).all() and answer.max() < 1e7, (rule, name)
            assert answer.min() > np.finfo("f4").tiny, (rule, name)


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


@pytest.mark.parametrize(
    ("words", "says"), [({"mu": 1.0}, "--mu 1.0"), ({"rho": 1.5}, "--rho 1.5"), ({"size": 0}, "--size 0")]
)
def test_impossible_steps_are_refused(words: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Optimizer(**({"rule": "adam", "tensors": 1, "size": 4} | words))
