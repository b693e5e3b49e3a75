"""Words that threads of a GPU hand each other: what they must be, thread by thread, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from kernels.ops.exchange import Exchange
from kernels.ops.exchange.problem import DISTANCES, THREADS, WARP


def by_hand(problem: Exchange, x: np.ndarray) -> np.ndarray:
    """Step by step, as the words say it."""
    y = np.zeros(problem.operands()[1].shape)
    if problem.how == "shuffle":
        value = x.astype(np.float64)
        for i in range(problem.steps):
            value = value[:, [t ^ DISTANCES[i % len(DISTANCES)] for t in range(THREADS)]] + 1
        return value
    for block, thread in np.ndindex(problem.processors, THREADS):
        if problem.how == "load":
            at = thread % WARP * problem.spread + thread // WARP * WARP
            y[block, thread] = sum(x[block, (at + i) % THREADS] for i in range(problem.steps))
        elif problem.how == "add-shared":
            y[block, thread % problem.spread] += problem.steps * x[block, thread]
        else:
            y[0, (block * THREADS + thread) % problem.spread] += problem.steps * x[block, thread]
    return y


@pytest.mark.parametrize(
    "problem",
    [
        Exchange("load", 1, 1030, 1),
        Exchange("load", 32, 5, 2),
        Exchange("load", 0, 3),
        Exchange("shuffle", 1, 8, 2),
        Exchange("shuffle", 1, 23),
        Exchange("add-shared", 31, 3, 2),
        Exchange("add-global", 1500, 3, 2),
        Exchange("add-global", 7, 2, 2),
    ],
    ids=lambda x: x.name,
)
def test_the_reference_is_what_a_person_would_count(problem: Exchange) -> None:
    x = problem.fill(np.random.default_rng(1))
    assert (x["x"] != x["x"][0, 0]).any()
    np.testing.assert_array_equal(problem.reference(x)["y"], by_hand(problem, x["x"]))


@pytest.mark.parametrize("how", ["add-shared", "add-global"])
def test_no_sum_is_larger_than_is_exact(how: str) -> None:
    problem = Exchange(how, 1, 100, 132 if how == "add-global" else 1)
    largest = problem.reference({"x": np.full((problem.processors, THREADS), 1.0)})["y"].max()
    drawn = problem.fill(np.random.default_rng(2))["x"].max()
    assert 0 < drawn * largest < 2**24
