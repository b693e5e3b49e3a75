"""Element-wise rows on a CPU: softmax and activations at their extremes; kernels that are wrong, refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kernels.catalog import find, rows
from kernels.errors import WrongResult
from kernels.launch import Launch
from kernels.ops.activation import Activation
from kernels.ops.biasact import BiasAct
from kernels.ops.cast import Cast
from kernels.ops.cast.problem import doubles
from kernels.ops.dropout import Dropout
from kernels.ops.norm import Norm
from kernels.ops.pooling import Pooling
from kernels.ops.softmax import Softmax
from kernels.problem import Problem
from kernels.setting import Setting
from kernels.variant import Variant
from tests.kernels.rows import CPU, checked

# Softmax where exponentials overflow, and where nothing differs

STABLE = ("c", "c-labels-made", "numpy", "torch", "torch-autograd", "numba")
PARTS = ("c-parts", "numpy-parts", "torch-parts")
EXTREMES: dict[str, Callable[[tuple[int, int]], Any]] = {
    "far apart": lambda shape: np.where(np.arange(shape[0] * shape[1]).reshape(shape) % 3, 80, -80),
    "all equal": lambda shape: np.full(shape, 80.0),
    "all low": lambda shape: np.full(shape, -80.0),
    "one high": lambda shape: np.eye(*shape) * 80,
    "ascending": lambda shape: np.linspace(-80, 80, shape[0] * shape[1]).reshape(shape),
    "sorted": lambda shape: np.sort(np.random.default_rng(3).normal(0, 30, shape)),
    "low at first": lambda shape: np.where(np.arange(shape[0] * shape[1]).reshape(shape) % shape[1] < 3000, -90, 3),
}


def softmax_at(scores: Any, name: str, labels: str) -> bool:
    """Whether a row's answer at these scores is within its bound."""
    problem = Softmax(*scores.shape, labels)
    x = problem.fill(np.random.default_rng(1))
    x["x"] = np.asarray(scores, np.float32)
    if labels == "index":
        x["labels"][:] = [3, 5, 1][: problem.batch]
    out = {operand.name: np.full(operand.shape, np.nan, np.float32) for operand in problem.outputs}
    row = find("softmax", name)
    row.prepare(problem, CPU, Setting())([*x.values(), *out.values()]).call()
    evidence = problem.compare(x, out, row.u(problem), "dense")
    return all(bool((one.error <= one.bound).all()) for one in evidence)


@pytest.mark.slow
@pytest.mark.parametrize("labels", ["index", "one-hot"])
@pytest.mark.parametrize("extreme", EXTREMES)
@pytest.mark.parametrize("name", STABLE)
def test_softmax_at_its_extremes(name: str, extreme: str, labels: str) -> None:
    row = find("softmax", name)
    if reason := row.missing() or row.accepts(Softmax(1, 1, labels)):
        pytest.skip(reason)
    for shape in ((3, 7), (2, 1037), (2, 26752)):
        assert softmax_at(EXTREMES[extreme](shape), name, labels)


@pytest.mark.filterwarnings("ignore:divide by zero", "ignore:invalid value")
@pytest.mark.parametrize("name", PARTS)
def test_parts_lose_the_loss_of_a_share_that_is_zero(name: str) -> None:
    """Which is why the loss is fused at all: the logarithm of exp(−160), 0 in single precision."""
    if reason := find("softmax", name).missing():
        pytest.skip(reason)
    scores = np.full((2, 7), 80.0)
    scores[0, 3] = -80
    assert not softmax_at(scores, name, "index")
    assert softmax_at(np.zeros((2, 7)), name, "index")


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("kind", ["sigmoid", "tanh", "exp"])
def test_activations_at_their_extremes(kind: str) -> None:
    ends = np.array([[-1e4, -104, -88, -80, -1e-30, -0.0, 0.0, 1e-30, 1e-4, 80, 88, 104, 1e4]], np.float32)
    if kind == "exp":
        ends = ends[:, :-2]
    problem = Activation(ends.size, kind)
    for row in (x for x in rows("activation", "cpu") if not x.missing() and not x.accepts(problem)):
        y = np.full_like(ends, np.nan)
        row.prepare(problem, CPU, Setting())([ends, y]).call()
        (evidence,) = problem.compare({"x": ends}, {"y": y}, row.u(problem), "dense")
        assert (evidence.error <= evidence.bound).all(), row.name


# Wrong ones


def wrong(run: Callable[..., None]) -> Variant[Any]:
    return Variant("wrong", "cpu", "test", lambda p, device, setting: lambda views: Launch(lambda: run(p, *views)))


def half_relu(p: Any, x: Any, y: Any) -> None:
    y[...] = np.maximum(x, 0).astype(np.float16)


def rough_tanh(p: Any, x: Any, y: Any) -> None:
    y[...] = np.tanh(x) * (1 + 2e-6)


def label_forgotten(p: Any, x: Any, labels: Any, dx: Any, loss: Any) -> None:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    dx[...] = e / e.sum(axis=1, keepdims=True)
    loss[...] = np.log(e.sum(axis=1)) + x.max(axis=1) - x[np.arange(p.batch), labels]


def loss_of_another(p: Any, x: Any, labels: Any, dx: Any, loss: Any) -> None:
    label_forgotten(p, x, labels, dx, loss)
    dx[np.arange(p.batch), labels] -= 1
    loss += x[:, 0] - x[:, 1]


def loss_not_written(p: Any, x: Any, labels: Any, dx: Any, loss: Any) -> None:
    label_forgotten(p, x, labels, dx, loss)
    dx[np.arange(p.batch), labels] -= 1
    loss[...] = np.nan


def label_of_its_own(p: Any, x: Any, labels: Any, dx: Any, loss: Any) -> None:
    loss_of_another(p, x, labels, dx, loss)
    loss -= x[:, 0] - x[:, 1]
    labels[0] = (labels[0] + 1) % p.classes


def mask_of_halves(p: Any, x: Any, dy: Any, y: Any, dx: Any) -> None:
    kept = np.arange(p.units) % 2
    y[...], dx[...] = x * kept * p.scale, dy * kept * p.scale


def two_masks(p: Any, x: Any, dy: Any, y: Any, dx: Any) -> None:
    for given, to in ((x, y), (dy, dx)):
        to[...] = given * (np.random.default_rng().random(x.shape) > p.rate) * p.scale


def not_scaled(p: Any, x: Any, dy: Any, y: Any, dx: Any) -> None:
    kept = np.random.default_rng().random(x.shape) > p.rate
    y[...], dx[...] = x * kept, dy * kept


def nothing_dropped(p: Any, x: Any, dy: Any, y: Any, dx: Any) -> None:
    y[...], dx[...] = x * p.scale, dy * p.scale


def last_of_equals(p: Any, x: Any, dy: Any, y: Any, dx: Any) -> None:
    y[...] = p.reference({"x": x, "dy": dy})["y"]
    dx[...] = p.reference({"x": -x, "dy": dy})["dx"]


def whole_bias(p: Any, x: Any, dy: Any, dx: Any, db: Any) -> None:
    dx[...] = np.where(x > 0, dy, 0)
    db[...] = dy.sum(axis=0)


def population(p: Any, x: Any, scale: Any, shift: Any, y: Any, mean: Any, rstd: Any) -> None:
    """The variance of a sample, by n − 1."""
    n, right = p.count // p.channels, p.reference({"x": x, "scale": scale, "shift": shift})
    y[...] = (right["y"] - shift[0, :, None]) * np.sqrt(1 - 1 / n) + shift[0, :, None]
    mean[...], rstd[...] = right["mean"], right["rstd"] * np.sqrt(1 - 1 / n)


def variance_for_rstd(p: Any, x: Any, scale: Any, shift: Any, y: Any, mean: Any, rstd: Any) -> None:
    right = p.reference({"x": x, "scale": scale, "shift": shift})
    y[...], mean[...], rstd[...] = right["y"], right["mean"], right["rstd"] ** -2


def through_the_mean_alone(p: Any, x: Any, scale: Any, shift: Any, dy: Any, *out: Any) -> None:
    """dx without the part that goes through the variance."""
    right = p.reference({"x": x, "scale": scale, "shift": shift, "dy": dy})
    level = dy - dy.mean(axis=(0, 2), keepdims=True)
    right["dx"] = level * (scale[0] * right["rstd"])[:, None]
    for operand, array in zip(p.outputs, out, strict=True):
        array[...] = right[operand.name]


def statistics_not_the_batchs(p: Any, x: Any, scale: Any, shift: Any, dy: Any, *out: Any) -> None:
    """Training's gradient where mean and variance are kept."""
    given = {"x": x, "scale": scale, "shift": shift, "dy": dy}
    right = p.reference(given)
    right["dx"] = Norm(p.images, p.maps, p.size, phase="step").reference(given)["dx"]
    for operand, array in zip(p.outputs, out, strict=True):
        array[...] = right[operand.name]


def neighbors_forgotten(p: Any, x: Any, dy: Any, y: Any, dx: Any) -> None:
    right = p.reference({"x": x, "dy": dy})
    y[...], dx[...] = right["y"], dy * np.where(x == 0, 1, right["y"] / x)


def truncated(p: Any, x: Any, y: Any) -> None:
    y[...] = x.view(np.uint32) >> 16


WRONG: list[tuple[Problem, Callable[..., None], str]] = [
    (Activation(1091), half_relu, "values differ|factor"),
    (Activation(1091, "tanh"), rough_tanh, "values have errors"),
    (Softmax(5, 37), label_forgotten, "^dx: dense probe: .* values have errors"),
    (Softmax(5, 37), loss_of_another, "^loss: dense probe: .* values have errors"),
    (Softmax(5, 37), loss_not_written, "^loss: writes nothing"),
    (Softmax(5, 37), label_of_its_own, "^changes its input labels$"),
    (Dropout(4099), mask_of_halves, "kept|both ways"),
    (Dropout(4099), two_masks, "both ways"),
    (Dropout(4099), not_scaled, "scaled"),
    (Dropout(4099), nothing_dropped, "kept"),
    (Pooling(2, 3, 9, phase="step"), last_of_equals, "^dx: .*values differ"),
    (BiasAct(5, 67, 0, "dgrad"), whole_bias, "^db: .*values differ"),
    (Norm(2, 3, 5), population, "^y: .*(values have errors|factor)"),
    (Norm(2, 3, 5), variance_for_rstd, "^rstd: .*values have errors"),
    (Norm(2, 3, 5, phase="step"), through_the_mean_alone, "^dx: .*values have errors"),
    (Norm(2, 3, 5, mode="frozen", phase="step"), statistics_not_the_batchs, "^dx: .*values have errors"),
    (Norm(2, 7, 5, "lrn", phase="step"), neighbors_forgotten, "^dx: .*values have errors"),
    (Cast(1091, "f32-bf16"), truncated, "values differ|factor"),
]


@pytest.mark.parametrize(("problem", "run", "why"), WRONG, ids=[run.__name__ for _, run, _ in WRONG])
def test_a_wrong_kernel_is_refused(problem: Problem, run: Callable[..., None], why: str) -> None:
    with pytest.raises(WrongResult, match=why):
        checked(problem, wrong(run))


def test_relu_commutes_with_the_maximum() -> None:
    """One reference for both orders: here against the other order, written out."""
    problem = Pooling(2, 3, 11, 3, relu="yes")
    x = problem.fill(np.random.default_rng(2))
    first = {"x": np.maximum(x["x"], 0)}
    other = Pooling(2, 3, 11, 3)
    assert np.array_equal(problem.reference(x)["y"], other.reference(first)["y"])


def test_a_second_log_softmax_changes_nothing() -> None:
    x = Softmax(3, 19).fill(np.random.default_rng(2))
    once, twice = Softmax(3, 19), Softmax(3, 19, before="log-softmax")
    assert all(np.array_equal(right, twice.reference(x)[name]) for name, right in once.reference(x).items())
    assert twice.flops == 2 * once.flops
    doubled = Softmax(3, 19, before="softmax")
    assert np.abs(doubled.reference(x)["dx"] - once.reference(x)["dx"]).max() > 0.1


GRADIENTS: list[tuple[Problem, str, tuple[str, ...]]] = [
    *(
        (problem, "loss", ("x",))
        for problem in (Softmax(2, 5), Softmax(2, 5, before="softmax"), Softmax(2, 5, "one-hot"))
    ),
    *((Norm(2, 3, 2, "batch", mode, "step"), "y", ("x", "scale", "shift")) for mode in ("train", "frozen")),
    (Norm(2, 3, 2, "lrn", phase="step"), "y", ("x",)),
]


@pytest.mark.parametrize(("problem", "of", "inputs"), GRADIENTS, ids=lambda x: getattr(x, "name", None))
def test_gradients_are_those_of_the_result(problem: Problem, of: str, inputs: tuple[str, ...]) -> None:
    """The gradient of the summed losses, or of dy·y, agrees with differences in float64."""
    drawn = problem.fill(np.random.default_rng(4))
    x = {name: array if name == "labels" else array.astype("f8") for name, array in drawn.items()}
    right, step = problem.reference(x), 1e-6
    for name, i in [(each, i) for each in inputs for i in range(x[each].size)]:
        ends = []
        for sign in (1, -1):
            moved = x[name].copy()
            moved.flat[i] += sign * step
            ends.append((problem.reference(x | {name: moved})[of] * x.get("dy", 1)).sum())
        assert right[f"d{name}"].flat[i] == pytest.approx((ends[0] - ends[1]) / (2 * step), abs=1e-7)


def test_a_double_is_two_words() -> None:
    x = Cast(1000).fill(np.random.default_rng(0))["x"]
    assert x.shape == (1, 2000) and not np.isnan(x).any()
    assert abs(doubles(x).std() - 1) < 0.2
