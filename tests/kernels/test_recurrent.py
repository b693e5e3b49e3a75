"""Recurrent layers: truth against PyTorch's in float64, rows against the truth, and mistakes that are seen."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

from kernels.devices import open_device
from kernels.dtypes import UNIT_ROUNDOFF
from kernels.errors import UsageError
from kernels.ops.bidirectional import variants as bidirectional
from kernels.ops.bidirectional.problem import Bidirectional
from kernels.ops.recurrent import lengths, loops, native
from kernels.ops.recurrent.problem import GATES, Recurrent
from kernels.ops.recurrent.variants import VARIANTS
from kernels.problem import Inputs
from kernels.setting import Setting
from kernels.variant import Variant

U = UNIT_ROUNDOFF["fp32"]
SMALL = Recurrent(5, 6, 3, 7, want="step")
LONG = Recurrent(32, 8, 64, 64, want="step")
RNG = partial(np.random.default_rng, 7)


def answer(
    variant: Variant[Any],
    problem: Recurrent,
    x: dict[str, Any],
    setting: Setting = Setting(),  # noqa: B008
) -> dict[str, Any]:
    """Return the outputs of one launch of a variant."""
    device, arrays = open_device("cpu"), dict(x)
    for operand in problem.outputs:
        arrays[operand.name] = np.full(operand.shape, np.nan, np.float32)
    buffers = [np.ascontiguousarray(arrays[operand.name]) for operand in problem.operands()]
    variant.prepare(problem, device, setting)(buffers).call()
    by_name = dict(zip((operand.name for operand in problem.operands()), buffers, strict=True))
    return {operand.name: by_name[operand.name] for operand in problem.outputs}


def worst(problem: Recurrent, x: dict[str, Any], got: dict[str, Any]) -> float:
    """Return the largest error in shares of its bound; any error is too large where the answer is exact."""
    shares = []
    for e in problem.compare(x if isinstance(x, Inputs) else Inputs(x), got, U, "dense"):
        error = np.where(np.isnan(e.error), np.inf, e.error)
        shares.append(np.divide(error, e.bound, out=np.where(error > 0, np.inf, 0.0), where=e.bound > 0).max())
    return float(max(shares))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the compiler
def test_a_compiled_loop_agrees_with_float64() -> None:
    variant, problem = next(x for x in VARIANTS if x.name == "torch-compiled"), replace(SMALL, want="step")
    if variant.missing() or not shutil.which("g++"):
        pytest.skip(variant.missing() or "no g++")
    x = problem.fill(RNG())
    assert worst(problem, x, answer(variant, problem, x)) < 1


@pytest.mark.parametrize("variant", [x for x in VARIANTS if x.name != "torch-compiled"], ids=lambda x: x.name)
def test_every_row_agrees_with_float64(variant: Variant[Recurrent]) -> None:
    if variant.missing():
        pytest.skip(variant.missing() or "")
    for cell, layout, want in itertools.product(GATES, ("tnc", "ntc"), ("forward", "step")):
        for problem in (replace(SMALL, cell=cell, layout=layout, want=want), Recurrent(1, 1, 1, 1, cell, layout, want)):
            if variant.accepts(problem) is None:
                x = problem.fill(RNG())
                assert worst(problem, x, answer(variant, problem, x)) < 1, problem.name


@pytest.mark.parametrize("variant", bidirectional.VARIANTS, ids=lambda x: x.name)
def test_both_directions_agree_with_float64(variant: Variant[Bidirectional]) -> None:
    if variant.missing():
        pytest.skip(variant.missing() or "")
    for cell, size in itertools.product(GATES, ((5, 6, 3, 7), (20, 32, 48, 48))):
        problem = Bidirectional(*size, cell, want="step" if size[0] == 5 else "forward")
        if variant.accepts(problem) is None:
            x = problem.fill(RNG())
            got = answer(variant, problem, x, Setting(threads=2))
            assert worst(problem, x, got) < 1, problem.name
            turned = {**got, "y": np.roll(got["y"], problem.hidden, axis=-1)}  # the directions exchanged
            assert worst(problem, x, turned) > 1
    excerpt = problem.excerpt(RNG())
    assert isinstance(excerpt.problem, Bidirectional)
    with pytest.raises(UsageError, match="--directions 2: requires --layout tnc"):
        replace(problem, layout="ntc")
    with pytest.raises(UsageError, match="--directions 3: must be 2; without it, a layer has one"):
        replace(problem, directions=3)


@pytest.mark.parametrize("cell", GATES)
def test_bounds_of_long_sequences_are_small_and_hold(cell: str) -> None:
    problem = replace(LONG, cell=cell)
    x = problem.fill(RNG())
    want, bound = problem.reference(x), problem.bound(x, {}, U)
    for name, array in bound.items():
        assert np.median(array) < 1e-4 * np.abs(want[name]).mean(), name
    assert worst(problem, x, answer(native.ROWS[3], problem, x)) < 0.5


@pytest.mark.parametrize(("cell", "layout"), [*itertools.product(("lstm", "gru", "rnn"), ("tnc", "ntc"))])
def test_the_truth_is_pytorchs_in_float64(cell: str, layout: str) -> None:
    torch = pytest.importorskip("torch", reason="no torch: pip install torch")
    problem = replace(SMALL, cell=cell, layout=layout)
    x = problem.fill(RNG())
    kind = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn": torch.nn.RNN}[cell]
    net = kind(3, 7, batch_first=layout == "ntc").double()
    zero, n = torch.zeros(7, dtype=torch.float64), problem.hidden
    b = torch.from_numpy(x["b"][0]).double()
    second = torch.cat([zero, zero, b[3 * n :]]) if cell == "gru" else torch.zeros(problem.gates * n).double()
    for name, value in zip(
        ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"),
        (torch.from_numpy(x["w"]), torch.from_numpy(x["r"]), b[: problem.gates * n], second),
        strict=True,
    ):
        setattr(net, name, torch.nn.Parameter(value.double()))
    given = torch.from_numpy(x["x"]).double().requires_grad_()
    y, _ = net(given)
    y.backward(torch.from_numpy(x["dy"]).double())
    want = problem.reference(x)
    of = {"y": y.detach(), "dx": given.grad, "dw": net.weight_ih_l0.grad, "dr": net.weight_hh_l0.grad}
    for name, value in of.items():
        assert np.allclose(want[name], value.numpy(), rtol=1e-12, atol=1e-12), name
    biases = net.bias_ih_l0.grad.numpy()
    assert np.allclose(want["db"][0, : len(biases)], biases, rtol=1e-12, atol=1e-12)
    inside = net.bias_hh_l0.grad.numpy()[2 * n :]
    assert cell != "gru" or np.allclose(want["db"][0, 3 * n :], inside, rtol=1e-12, atol=1e-12)


def test_a_reset_before_the_product_has_the_gradients_of_small_differences() -> None:
    problem = Recurrent(3, 2, 2, 3, "gru-before", want="step")
    x = problem.fill(RNG())
    x = {name: value.astype("f8") for name, value in x.items()}
    want = problem.reference(x)

    def loss(changed: dict[str, Any]) -> float:
        return float((replace(problem, want="forward").reference(changed)["y"] * x["dy"]).sum())

    for name in ("x", "w", "r", "b"):
        for at in np.ndindex(x[name].shape):
            moved = [{**x, name: x[name].copy()} for _ in range(2)]
            moved[0][name][at] += 1e-6
            moved[1][name][at] -= 1e-6
            slope = (loss(moved[0]) - loss(moved[1])) / 2e-6
            assert slope == pytest.approx(want[f"d{name}"][at], rel=1e-6, abs=1e-8)


def swapped(weights: tuple[Any, Any, Any], n: int, first: int, second: int) -> tuple[Any, Any, Any]:
    """Return the weights with two gates swapped."""
    order = np.arange(len(weights[0])).reshape(-1, n)
    order[[first, second]] = order[[second, first]]
    w, r, b = weights
    return w[order.ravel()], r[order.ravel()], np.concatenate([b[order.ravel()], b[len(order.ravel()) :]])


MISTAKES: dict[str, tuple[str, Callable[..., Any]]] = {
    "two gates swapped": ("lstm", lambda step, x, h, c, of: step(x, h, c, swapped(of, h.shape[1], 0, 1))),
    "another order of gates": ("lstm", lambda step, x, h, c, of: step(x, h, c, swapped(of, h.shape[1], 2, 3))),
    "no bias": ("lstm", lambda step, x, h, c, of: step(x, h, c, (of[0], of[1], 0 * of[2]))),
    "the bias twice": ("lstm", lambda step, x, h, c, of: step(x, h, c, (of[0], of[1], 2 * of[2]))),
    "no state": ("lstm", lambda step, x, h, c, of: step(x, 0 * h, c, of)),
    "no memory": ("lstm", lambda step, x, h, c, of: step(x, h, 0 * c, of)),
    "the output not squashed": ("lstm", lambda step, x, h, c, of: unsquashed(*step(x, h, c, of))),
    "weights of the state transposed": ("rnn", lambda step, x, h, c, of: step(x, h, c, (of[0], of[1].T, of[2]))),
    "reset and update swapped": ("gru", lambda step, x, h, c, of: step(x, h, c, swapped(of, h.shape[1], 0, 1))),
    "the reset before the product": ("gru", lambda step, x, h, c, of: loops.gru_before(FUNCTIONS, x, h, c, three(of))),
    "the reset after the product": ("gru-before", lambda step, x, h, c, of: loops.gru(FUNCTIONS, x, h, c, four(of))),
    "the second bias outside the reset": ("gru", lambda step, x, h, c, of: step(x, h, c, outside(of))),
}
FUNCTIONS = loops._sigmoid, loops._tanh


def unsquashed(h: Any, c: Any) -> tuple[Any, Any]:
    return h / np.tanh(c) * c, c


def three(of: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    return of[0], of[1], of[2][: len(of[0])]


def four(of: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    return of[0], of[1], np.concatenate([of[2], 0 * of[2][: len(of[0]) // 3]])


def outside(of: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    b, n = of[2].copy(), len(of[0]) // 3
    b[2 * n : 3 * n] += b[3 * n :]
    b[3 * n :] = 0
    return of[0], of[1], b


def looped(problem: Recurrent, x: dict[str, Any], step: Callable[..., Any]) -> Any:
    """Return the outputs of a loop of steps."""
    h = c = np.zeros((problem.batch, problem.hidden), np.float32)
    outputs = []
    for given in problem.by_time(x["x"]):
        h, c = step(given, h, c, (x["w"], x["r"], x["b"][0]))
        outputs.append(h)
    return np.stack(outputs)


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused(mistake: str) -> None:
    cell, change = MISTAKES[mistake]
    problem = Recurrent(4, 3, 5, 6, cell)
    x = problem.fill(RNG())
    right = partial(loops.STEPS[cell], FUNCTIONS)
    assert worst(problem, x, {"y": looped(problem, x, right)}) < 1
    assert worst(problem, x, {"y": looped(problem, x, partial(change, right))}) > 10


def test_a_shift_in_time_and_a_state_that_is_kept_are_refused() -> None:
    problem = Recurrent(4, 3, 5, 6)
    x = problem.fill(RNG())
    y = looped(problem, x, partial(loops.lstm, FUNCTIONS))
    assert worst(problem, x, {"y": np.roll(y, 1, axis=0)}) > 10
    twice = replace(problem, steps=8)
    again = looped(twice, {**x, "x": np.concatenate([x["x"], x["x"]])}, partial(loops.lstm, FUNCTIONS))
    assert worst(problem, x, {"y": again[4:]}) > 10


@pytest.mark.parametrize(("layout", "each"), [*itertools.product(("tnc", "ntc"), ("full", "shuffled"))])
def test_an_excerpt_has_the_gradients_of_all_sequences(layout: str, each: str) -> None:
    longest = lengths.middle(9, "shuffled")[0] if each == "shuffled" else SMALL.steps
    problem = replace(SMALL, steps=longest, batch=9, layout=layout, lengths=each)
    x = {operand.name: problem.indices(operand, RNG()) for operand in problem.operands() if operand.drawn_by_index}
    x["x"] = RNG().standard_normal(problem.sequence(problem.inputs)).astype("f4")
    part = problem.excerpt(RNG())
    some = {name: array[np.ix_(*part.places[name])] for name, array in x.items()}
    complete, few = problem.reference(x), part.problem.reference(some)
    for name, array in few.items():
        assert np.allclose(array, complete[name][np.ix_(*part.places[name])], rtol=1e-12, atol=1e-14), name


def test_padding_is_counted_from_the_lengths() -> None:
    every = lengths.every()
    assert len(every) == 1989 and (min(every), max(every)) == (12, 99)
    parts = lengths.batches(16, "sorted")
    assert len(parts) == 124 and parts[0] == tuple(sorted(every[:16], reverse=True))
    steps = sum(16 * max(part) for part in parts)
    assert lengths.padding(parts) == 1 - sum(every[: 124 * 16]) / steps
    assert lengths.padding(parts, 99) == 1 - sum(every[: 124 * 16]) / (124 * 16 * 99)
    assert lengths.padding(lengths.batches(16, "shuffled")) > lengths.padding(parts)


@pytest.mark.parametrize(
    ("order", "layout", "cell"), [*itertools.product(("sorted", "shuffled"), ("tnc", "ntc"), GATES)]
)
def test_sequences_of_several_lengths_agree_with_float64(order: str, layout: str, cell: str) -> None:
    longest = lengths.middle(4, order)[0]
    for want, steps in itertools.product(("forward", "step"), (longest, longest + 2)):
        problem = Recurrent(steps, 4, 3, 5, cell, layout, want, order)
        x = Inputs(problem.fill(RNG()))  # one truth for all rows
        for variant in VARIANTS:
            if not variant.missing() and variant.accepts(problem) is None:
                assert worst(problem, x, answer(variant, problem, x)) < 1, variant.name


def test_outputs_beyond_a_sequence_are_refused() -> None:
    longest = lengths.middle(4, "shuffled")[0]
    problem = Recurrent(longest, 4, 3, 5, lengths="shuffled")
    x = problem.fill(RNG())
    assert worst(problem, x, {"y": looped(problem, x, partial(loops.lstm, FUNCTIONS))}) > 10


def test_too_few_steps_and_too_many_sequences_are_refused() -> None:
    with pytest.raises(UsageError, match=r"--steps 5: must be .* or more, the longest sequence"):
        Recurrent(5, 4, 3, 5, lengths="sorted")
    with pytest.raises(UsageError, match="--batch 1990: must be at most 1989"):
        Recurrent(99, 1990, 3, 5, lengths="sorted")
