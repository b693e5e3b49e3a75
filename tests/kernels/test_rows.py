"""Rows of many operations on a CPU: right at odd shapes or refused by an option; refused where they are harmed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels.catalog import find, variants
from kernels.errors import WrongResult
from kernels.ops.activation import Activation
from kernels.ops.biasact import BiasAct
from kernels.ops.cast import Cast
from kernels.ops.cast.problem import KINDS
from kernels.ops.dropout import Dropout
from kernels.ops.fft import Fft
from kernels.ops.launch import Calls
from kernels.ops.norm import Norm
from kernels.ops.optimizer import Optimizer
from kernels.ops.optimizer.problem import NAMES
from kernels.ops.pooling import Pooling
from kernels.ops.softmax import Softmax
from kernels.ops.spmm import Spmm
from kernels.ops.update import Update
from kernels.ops.update.problem import PARTS, RULES
from kernels.problem import Problem
from kernels.setting import Setting
from kernels.variant import Variant
from micro.worker import check, guards
from tests.kernels.rows import CPU, checked, harmed

FFTS = ((1, 2, 2), (3, 2, 5), (2, 7, 4), (3, 15, 31), (2, 30, 36), (1, 97, 3), (3, 32, 32), (2, 64, 64), (2, 32, 128))
PROBLEMS: list[Problem] = [
    *itertools.starmap(
        Activation,
        itertools.product((1, 37, 1091), ("relu", "sigmoid", "tanh", "exp"), ("forward", "dgrad"), ("out", "in")),
    ),
    *(
        Softmax(*shape, *how)
        for shape in ((1, 1), (3, 7), (2, 1025), (1, 2051))
        for how in itertools.product(("index", "one-hot"), ("none", "softmax", "log-softmax"), ("step", "forward"))
    ),
    *(
        Pooling(2, *shape, *how, relu)
        for shape in ((1, 3), (3, 38), (35, 9))
        for *how, relu in itertools.product(
            (2, 3), ("max", "avg"), ("nchw", "nhwc"), ("forward", "step"), ("no", "yes")
        )
        if (how[1], relu) != ("avg", "yes")
    ),
    *itertools.starmap(Cast, itertools.product((1, 37, 1091), KINDS)),
    *(BiasAct(*shape, 0, phase) for shape in ((1, 1), (5, 67)) for phase in ("forward", "dgrad")),
    *(BiasAct(*shape) for shape in ((1, 1, 1), (5, 67, 19))),
    *itertools.starmap(Dropout, itertools.product((2, 37, 40003), (0.1, 0.5))),
    *(
        Norm(*shape, *how)
        for shape in ((2, 1, 3), (3, 7, 7), (2, 19, 9))
        for how in itertools.product(("batch", "lrn"), ("train", "frozen"), ("forward", "step"))
        if how[:2] != ("lrn", "frozen")
    ),
    *(
        Update(*shape, rule, part)
        for shape in ((33, 65, 17), (1, 1, 1), (70, 129, 45))
        for rule, part in itertools.product(RULES, PARTS)
    ),
    *(Optimizer(rule, *shape) for rule in NAMES for shape in ((1, 1), (3, 17), (2, 4099))),
    *(Optimizer(rule, 2, 1027, eps=0.25, rho=0.9) for rule in ("rmsprop", "adagrad", "adadelta", "adam")),
    *itertools.starmap(Calls, itertools.product(("gemm", "empty"), (1, 3))),
    *(Fft(*size, direction) for size in FFTS for direction in ("r2c", "c2r")),
    *itertools.starmap(
        Spmm,
        (
            *((1, 1, 1, 0.11), (7, 3, 5, 0.11), (65, 17, 33, 0.11), (16, 64, 40, 0.5), (3, 65, 200, 0.11)),
            *((40, 129, 7, 0.3), (33, 16, 100, 0.0), (12, 31, 20, 1.0), (200, 63, 3, 0.05), (5, 80, 9, 2.0)),
        ),
    ),
]
OPERATIONS = sorted({problem.op for problem in PROBLEMS})
REMEDIES = (
    *(": --", "only --phase", "requires --", "separate variant"),
    *("NumPy has no", "gradients do not use", "relu does not use"),
)


def settings(problem: Problem) -> list[Setting]:
    """Return a setting for each kind of data; an optimizer's squares are drawn without negative values."""
    data = {"optimizer": ("uniform",), "fft": ("normal", "uniform")}.get(problem.op, ("normal",))
    return [Setting(data=x) for x in data]


def rows(op: str) -> list[Variant[Any]]:
    """Return the installed variants without torch.compile, which takes half a minute."""
    return [x for x in variants(op) if x.device == "cpu" and x.missing() is None and x.name != "torch-compile"]


@pytest.mark.parametrize("problem", PROBLEMS, ids=lambda problem: problem.name)
def test_every_row_is_right_or_says_why_not(problem: Problem) -> None:
    for row in rows(problem.op):
        if why := row.accepts(problem):
            assert "\n" not in why and any(word in why for word in REMEDIES), why
            continue
        for setting in settings(problem):
            checked(problem, row, setting=setting)
        launch = row.prepare(problem, CPU, setting)(guards.Bench(CPU, problem).views)
        assert (launch.entry is None) == row.python


@pytest.mark.parametrize("op", OPERATIONS)
def test_no_row_goes_untried(op: str) -> None:
    problems = [problem for problem in PROBLEMS if problem.op == op]
    assert all(any(row.accepts(problem) is None for problem in problems) for row in rows(op))


@pytest.mark.parametrize(
    "problem",
    [x for x in PROBLEMS if x.op in ("activation", "biasact", "cast", "norm", "pooling", "softmax")],
    ids=lambda problem: problem.name,
)
def test_a_bound_is_no_wide_gate(problem: Problem) -> None:
    """A thousandth more is refused wherever there is an answer that is not zero."""
    x = problem.fill(np.random.default_rng(5))
    off = {name: 1.002 * right for name, right in problem.reference(x).items()}
    for evidence in problem.compare(x, off, 2.0**-24, "dense"):
        exact = problem.precision == "bf16" or not np.abs(off[evidence.operand]).max()
        assert exact or not (evidence.error <= evidence.bound).all(), evidence.operand


@pytest.mark.parametrize(
    ("problem", "row"),
    [
        *((Update(17, 33, 4, rule), "separate:openblas") for rule in RULES),
        *((Optimizer(rule, 1, 333), "c") for rule in NAMES),
    ],
    ids=lambda x: getattr(x, "name", x),
)
def test_launched_again_and_again_nothing_leaves_the_normal_numbers(problem: Problem, row: str) -> None:
    """Nor changes an optimizer's state its sign: a second moment may lie in a later round where a parameter lay."""
    bench, optimizer = guards.Bench(CPU, problem), problem.op == "optimizer"
    launch = find(problem.op, row).prepare(problem, CPU, settings(problem)[0])(bench.views)
    x = problem.fill(np.random.default_rng(7))
    bench.load({name: np.abs(value) + np.float32(1e-3) for name, value in x.items()} if optimizer else x)
    for _ in range(20_000):
        launch.call()
    for name, answer in bench.answer().items():
        sizes = answer if optimizer else np.abs(answer)[answer != 0]
        assert np.isfinite(sizes).all() and sizes.max() < 1e7 and sizes.min() > np.finfo("f4").tiny, name


# Harmed ones: `old` are copies of the operands from before the call


def half(old: Any, x: Any, dy: Any, w: Any) -> None:
    g = x.astype("f2").astype("f4").T @ dy.astype("f2").astype("f4") / len(x)
    w[...] = old[2] - g


def twice(old: Any, x: Any, dy: Any, w: Any) -> None:
    w -= x.T @ dy / len(x)


def touched(old: Any, x: Any) -> None:
    x[0, -1] += 1


def velocity_off(old: Any, x: Any, dy: Any, w: Any, v: Any) -> None:
    v[-1, -1] += 1


ALLOWS = "times the tolerance of its precision"
SGD, MOMENTUM, SEPARATE = Update(48, 80, 24), Update(48, 80, 24, "momentum"), "separate:openblas"
ADAM = Optimizer("adam", 3, 1027)
HARMED: list[tuple[Problem, str, Callable[..., object], str]] = [
    (SGD, SEPARATE, half, ALLOWS),
    (replace(SGD, k=64), SEPARATE, half, ALLOWS),
    (replace(SGD, k=1024), SEPARATE, half, ALLOWS),
    (SGD, SEPARATE, twice, ALLOWS),
    (
        SGD,
        SEPARATE,
        lambda old, x, dy, w: np.add(w, np.outer(x[-1], dy[-1]) / len(x), out=w),
        ALLOWS,
    ),  # one sample lost
    (SGD, SEPARATE, lambda old, x, dy, w: np.copyto(w, 2 * old[2] - w), ALLOWS),  # uphill
    (SGD, SEPARATE, lambda old, x, dy, w: np.copyto(w, old[2]), "writes nothing"),
    (SGD, SEPARATE, lambda old, x, dy, w: dy.__setitem__((0, 0), dy[0, 0] + 1), "changes its input dy"),
    (replace(SGD, rule="decay"), SEPARATE, lambda old, x, dy, w: np.add(w, 0.01 * old[2], out=w), ALLOWS),
    (MOMENTUM, SEPARATE, lambda old, x, dy, w, v: np.copyto(v, old[3]), "^v: writes nothing"),
    (MOMENTUM, SEPARATE, velocity_off, "^v: dense probe: 1 of 3840 values have errors"),
    (MOMENTUM, SEPARATE, lambda old, x, dy, w, v: np.copyto(w, old[2]), "^w: writes nothing"),
    (replace(SGD, rule="clip"), SEPARATE, twice, ALLOWS),
    (replace(SGD, rule="norm"), SEPARATE, lambda old, x, dy, w: np.multiply(w, 1.001, out=w), "wrong by the factor"),
    (replace(ADAM, rule="sgd"), "c", lambda old, g, p: np.copyto(p, old[1]), "^writes nothing"),
    (replace(ADAM, rule="sgd"), "c", lambda old, g, p: np.copyto(p, old[1] + 0.125 * g.astype("f2")), ALLOWS),
    (replace(ADAM, rule="decay"), "c", lambda old, g, p: np.copyto(p, old[1] + 0.125 * g), ALLOWS),
    (replace(ADAM, rule="momentum"), "c", lambda old, g, p, v: np.copyto(v, old[2]), "^v: writes nothing"),
    (replace(ADAM, rule="nesterov"), "c", lambda old, g, p, v: np.copyto(p, old[1] + 0.125 * v), f"^p: .*{ALLOWS}"),
    (ADAM, "c", lambda old, g, p, m, v: np.copyto(v, old[3]), "^v: writes nothing"),
    (ADAM, "c", lambda old, g, p, m, v: np.copyto(p, old[1] + 0.125 * m / np.sqrt(old[3])), f"^p: .*{ALLOWS}"),
    (ADAM, "c", lambda old, g, p, m, v: np.copyto(m, m.astype("f2")), f"^m: .*{ALLOWS}"),
    (replace(ADAM, rule="norm"), "c", lambda old, g, p: np.copyto(p, old[1] + 0.125 * g), ALLOWS),
    (replace(ADAM, rule="adadelta"), "c", lambda old, g, p, v, u: np.copyto(u, old[3] * 0.999), f"^u: .*{ALLOWS}"),
    (ADAM, "c", lambda old, g, p, m, v: np.add(g, 1, out=g), "changes its input g"),
    (Calls("gemm", 2), "c", lambda old, a, b, c: np.copyto(c, c.T.copy()), "transposed"),
    (Calls("gemm", 2), "c", lambda old, a, b, c: np.copyto(c, a.astype("f2") @ b.astype("f2")), ALLOWS),
    (Calls("gemm", 2), "c", lambda old, a, b, c: c.fill(np.nan), "writes nothing"),
    (Calls("gemm", 2), "c", lambda old, a, b, c: b.fill(0), "changes its input b"),
    (Calls("empty", 2), "c", touched, "1 of 16 values differ"),  # as many as it leaves are right
    (Calls("empty", 2), "c", lambda old, x: x.fill(0), "returns zeros"),
]


@pytest.mark.parametrize(("problem", "name", "harm", "how"), HARMED)
def test_a_harmed_row_is_refused(
    monkeypatch: pytest.MonkeyPatch, problem: Problem, name: str, harm: Callable[..., object], how: str
) -> None:
    monkeypatch.setattr(check, "LATE", 0.0)
    with pytest.raises(WrongResult, match=how):
        checked(problem, harmed(find(problem.op, name), harm), setting=settings(problem)[0])
