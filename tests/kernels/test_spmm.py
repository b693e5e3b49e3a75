"""A pruned layer's kernels: right at odd shapes, and one that loses a weight is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from kernels.catalog import find
from kernels.errors import WrongResult
from kernels.launch import Launch
from kernels.ops.gemm.problem import Gemm
from kernels.ops.spmm.problem import Spmm
from kernels.ops.spmm.variants import VARIANTS
from kernels.variant import Variant
from micro import gemm as benchmark
from micro.gemm import PRUNED
from micro.planning.contest import Case
from tests.conftest import Ran
from tests.kernels.rows import checked

SHAPES = (
    Spmm(1, 1, 1, 0.11),
    Spmm(7, 3, 5, 0.11),
    Spmm(65, 17, 33, 0.11),
    Spmm(16, 64, 40, 0.5),
    Spmm(3, 65, 200, 0.11),
    Spmm(40, 129, 7, 0.3),
    Spmm(33, 16, 100, 0.0),
    Spmm(12, 31, 20, 1.0),
    Spmm(200, 63, 3, 0.05),
    Spmm(5, 80, 9, 2.0),
)
Array = Any


# The weights


def dense(problem: Spmm) -> Array:
    values, columns, pointers = problem.weights()
    weights = np.zeros((problem.m, problem.k), np.float32)
    for i in range(problem.m):
        for t in range(pointers[i], pointers[i + 1]):
            weights[i, columns[t]] = values[t]
    return weights


@pytest.mark.parametrize("problem", SHAPES, ids=lambda problem: problem.name)
def test_weights_are_csr(problem: Spmm) -> None:
    values, columns, pointers = problem.weights()
    assert (pointers[0], pointers[-1], len(pointers)) == (0, problem.nonzeros, problem.m + 1)
    assert len(values) == len(columns) == np.count_nonzero(dense(problem)) == problem.nonzeros
    for i in range(problem.m):
        row = columns[pointers[i] : pointers[i + 1]]
        assert (np.diff(row) > 0).all()
    assert [x.dtype for x in (values, columns, pointers)] == ["f4", "i4", "i4"]


def test_they_are_drawn_once() -> None:
    one, other = (Spmm(64, 8, 32, density=0.5) for _ in range(2))
    assert all(a is b for a, b in zip(one.weights(), other.weights(), strict=True))


def test_they_are_the_same_for_every_kernel() -> None:
    for mine, others in zip(SHAPES[2].weights(), Spmm(65, 5, 33, 0.11).weights(), strict=True):
        assert np.array_equal(mine, others)
    assert not np.array_equal(SHAPES[2].weights()[1], Spmm(33, 17, 65, 0.11).weights()[1])


@pytest.mark.parametrize(
    ("problem", "count"),
    [(Spmm(10, 4, 10, 0.11), 11), (Spmm(10, 4, 10, 0.0), 1), (Spmm(10, 4, 10, 1.0), 100), (Spmm(10, 4, 10, 9.0), 100)],
)
def test_so_many_are_left(problem: Spmm, count: int) -> None:
    assert problem.nonzeros == count and problem.flops == 2 * count * 4
    assert problem.bytes == 4 * (40 + 40) + 8 * count + 4 * 11


def test_alexnet_s_pruned_layers_keep_a_ninth() -> None:
    """Of 54.5 M weights of two layers 6 M."""
    whole = [Spmm(outputs, 16, inputs, 0.11) for outputs, inputs in PRUNED]
    assert [round(x.nonzeros / 1e5) for x in whole] == [42, 18]


def test_the_reference_is_the_dense_product() -> None:
    for problem in SHAPES:
        x = problem.fill(np.random.default_rng(5))
        assert np.allclose(problem.reference(x)["c"], dense(problem).astype("f8") @ x["b"], rtol=0, atol=1e-10)


def test_the_weights_have_a_digest() -> None:
    one, other = Spmm(10, 4, 10, 0.11), Spmm(10, 4, 10, 0.12)
    assert one.digests() == Spmm(10, 8, 10, 0.11).digests() != other.digests(), "the batch is no part of W"
    assert Gemm(2, 2, 2).digests() == {}


def test_a_dense_product_does_more_work() -> None:
    problem = Spmm(10, 4, 10, 0.11)
    work = {row.name: row.executed(problem) for row in VARIANTS}
    assert work["dense"].flops == 2 * 10 * 4 * 10
    assert {work[name].flops for name in work if not name.endswith("dense")} == {problem.flops}


# Wrong ones

Faulty = Callable[[Spmm, Array], None]


def last_of_one_row(problem: Spmm, weights: Array) -> None:
    full = np.flatnonzero(weights.any(axis=1))[-1]
    weights[full, np.flatnonzero(weights[full])[-1]] = 0


def in_half(problem: Spmm, weights: Array) -> None:
    weights[...] = weights.astype(np.float16)


FAULTS = (last_of_one_row, in_half)


def made(fault: Faulty | None) -> Variant[Any]:
    """A dense product of weights with a fault."""

    def prepare(problem: Spmm, device: object, setting: object) -> Callable[[Sequence[Array]], Launch]:
        weights = dense(problem)
        if fault:
            fault(problem, weights)
        return lambda buffers: Launch(partial(np.matmul, weights, buffers[0], buffers[1]))

    return Variant("made", "cpu", "tests", prepare, python=True)


@pytest.mark.parametrize("problem", [Spmm(65, 17, 33, 0.11), Spmm(64, 16, 400, 0.5)], ids=lambda x: x.name)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_lost_weight_is_refused(fault: Faulty, problem: Spmm) -> None:
    with pytest.raises(WrongResult, match=r"^dense probe: .* times the tolerance of its precision"):
        checked(problem, made(fault))


def test_without_a_fault_it_passes() -> None:
    checked(Spmm(64, 16, 400, 0.5), made(None))


# Through the command line


def test_the_question_of_a_size_that_is_named(gemm: Callable[..., Ran]) -> None:
    ran = gemm("--sparse", "--m", "64", "--n", "1,8", "--device", "fake", "--list")
    assert [line.partition(" ")[0] for line in ran.out.splitlines() if line[0] != " "] == [
        f"sparse/spmm/m:64/n:{batch}/k:4096/density:0.11" for batch in (1, 8)
    ]


def test_a_pruned_layer_of_any_size(
    own_state: object, in_process: Callable[..., Ran], capsys: pytest.CaptureFixture[str], light_fake: None
) -> None:
    """In true kernels, by the axis that dense products have not."""
    from micro.command.line import main

    words = ["--density", "0.2", "--m", "30", "--n", "5", "--k", "20", "--variant", "dense,c-csr", "--budget", "0.3s"]
    ran = in_process(capsys, main, benchmark.BENCHMARK, "gemm", [*words, "--json", "-"])
    told = [x for x in json.loads(ran.out)["results"] if x["role"] == "measured"]
    assert ran.code == 0
    assert {x["status"] for x in told} <= {"ok", "contended"}
    problem = Spmm(30, 5, 20, 0.2)
    assert [x["name"] for x in told] == [Case(problem, name).name for name in ("dense", "c-csr")]
    assert [x["work"]["flops"] for x in told] == [2 * 30 * 5 * 20, problem.flops]
    assert find("spmm", "c-csr").executed(problem).flops == problem.flops
