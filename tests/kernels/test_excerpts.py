"""Part of a problem is a problem of its own: the right answer to it is that part of the whole's."""

from __future__ import annotations

import numpy as np
import pytest

from kernels import places
from kernels.ops.activation.problem import Activation
from kernels.ops.biasact.problem import BiasAct
from kernels.ops.cast.problem import Cast
from kernels.ops.dropout.problem import Dropout
from kernels.ops.fft.problem import Fft
from kernels.ops.gather.problem import Gather
from kernels.ops.gemm import Gemm
from kernels.ops.norm.problem import Norm
from kernels.ops.optimizer.problem import Optimizer
from kernels.ops.pooling.problem import Pooling
from kernels.ops.softmax.problem import Softmax
from kernels.ops.spmm.problem import Spmm
from kernels.ops.stream import Stream
from kernels.ops.transpose.problem import Transpose
from kernels.ops.update.problem import Update
from kernels.problem import Problem

LARGE = (
    *(Gemm(300, 200, 400, trans, beta=beta, ld_pad=3) for trans in ("nn", "nt", "tn", "tt") for beta in (0.0, 1.0)),
    Gemm(64, 500, 9000),
    Stream("triad", 1 << 20),
    *(Update(300, 200, 400, rule, part) for rule in ("sgd", "momentum", "tied", "decay") for part in ("step", "wgrad")),
    Update(700, 300, 8, "clip", "update"),
    Optimizer("adam", 3, 40000),
    Softmax(500, 1000),
    Softmax(5000, 100, "one-hot", want="forward"),
    *(Pooling(64, 16, 32, layout=layout, phase=phase) for layout in ("nchw", "nhwc") for phase in ("forward", "step")),
    Norm(32, 64, 28),
    Norm(32, 64, 28, mode="frozen"),
    Norm(32, 64, 28, "lrn"),
    *(Norm(32, 65, 28, *how, phase="step") for how in (("batch", "train"), ("batch", "frozen"), ("lrn", "train"))),
    BiasAct(300, 2000),
    BiasAct(300, 2000, 300),
    BiasAct(300, 2000, phase="dgrad"),
    Activation(100_000, "tanh", "dgrad", "in"),
    *(Cast(100_000, convert) for convert in ("f64-f32", "f32-bf16", "clear")),
    *(Fft(300, 20, 30, direction) for direction in ("r2c", "c2r")),
    *(Gather(5000, 64, 512, does, "adagrad") for does in ("lookup", "step")),
    Spmm(512, 400, 512, 0.1),
    Transpose(700, 900),
)
SMALL = (Gemm(8, 8, 8), Stream("read", 4096), Update(300, 200, 40, "norm"), Optimizer("norm", 2, 100))


@pytest.mark.parametrize("problem", LARGE, ids=lambda problem: problem.name)
def test_the_answer_to_a_part_is_that_part_of_the_whole_s(problem: Problem) -> None:
    rng = np.random.default_rng(3)
    x = problem.fill(rng)
    want, excerpt = problem.reference(x), problem.excerpt(rng)
    part = {name: array[np.ix_(*excerpt.places[name])] for name, array in x.items()} | dict(excerpt.given)
    shapes = {operand.name: operand.shape for operand in excerpt.problem.operands()}
    assert shapes == {name: tuple(map(len, along)) for name, along in excerpt.places.items()}
    assert sum(map(np.prod, shapes.values())) < sum(np.prod(operand.shape) for operand in problem.operands())
    for name, answer in excerpt.problem.reference(part).items():
        np.testing.assert_allclose(answer, want[name][np.ix_(*excerpt.places[name])], rtol=1e-12, atol=1e-12)


def test_a_mask_of_any_part_is_judged_as_one_of_all() -> None:
    problem = Dropout(100_000)
    rng = np.random.default_rng(3)
    x = problem.fill(rng)
    got, excerpt = problem.reference(x), problem.excerpt(rng)
    part = {name: array[np.ix_(*excerpt.places[name])] for name, array in x.items()}
    answers = {name: array[np.ix_(*excerpt.places[name])].astype(np.float32) for name, array in got.items()}
    evidence = excerpt.problem.compare(part, answers, 2.0**-24, "dense")
    assert all((one.error <= one.bound).all() for one in evidence)


@pytest.mark.parametrize("problem", SMALL, ids=lambda problem: problem.name)
def test_small_ones_and_whole_reductions_are_looked_at_whole(problem: Problem) -> None:
    excerpt = problem.excerpt(np.random.default_rng(3))
    assert excerpt.problem == problem


def test_every_block_of_an_axis_can_be_drawn() -> None:
    drawn = [places.blocks(np.random.default_rng(seed), 10, 4, 3) for seed in range(200)]
    assert set(np.concatenate(drawn).tolist()) == set(range(10))
    assert all((np.diff(one) > 0).all() and len(one) <= 4 for one in drawn)
