"""The CUDA kernels of activations and softmax on the CPU: in place, at their edges and extremes, and broken."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kernels.errors import UsageError
from kernels.ops.activation import Activation
from kernels.ops.activation import gpu as activation
from kernels.ops.softmax import Softmax
from kernels.ops.softmax import gpu as softmax
from kernels.problem import Problem
from tests.simulated import cases, launcher
from tests.slow import some

pytestmark = pytest.mark.skipif(launcher.missing() is not None, reason=launcher.missing() or "")
HOW: tuple[dict[str, Any], ...] = ({"align": 16}, {"align": 4, "backward": True})
RELU, TANH = Activation(1027), Activation(1027, "tanh", "dgrad")
INDEX, ONE_HOT = Softmax(3, 1025), Softmax(3, 1025, "one-hot")


@pytest.mark.parametrize("count", [*range(1, 10), 255, 1023, 1024, 1025])
@pytest.mark.parametrize("place", ["out", "in"])
@pytest.mark.parametrize("phase", ["forward", "dgrad"])
def test_activation_at_the_edges(phase: str, place: str, count: int) -> None:
    problem = Activation(count, "sigmoid", phase, place)
    for how in HOW:
        assert cases.run(cases.find(activation.kernel(problem)), problem, **how).allowed


@pytest.mark.parametrize("classes", [1, 2, 31, 32, 33, 255, 256, 257, 513])
@pytest.mark.parametrize("labels", ["index", "one-hot"])
def test_softmax_at_the_edges(labels: str, classes: int) -> None:
    problem = Softmax(2, classes, labels)
    for how in HOW:
        assert cases.run(cases.find(softmax.kernel(problem)), problem, **how).allowed


@pytest.mark.parametrize("labels", ["index", "one-hot"])
@pytest.mark.parametrize(
    "scores",
    [
        np.full((2, 300), 80.0),
        np.where(np.arange(600).reshape(2, 300) % 3, 80, -80),
        np.linspace(-80, 80, 600).reshape(2, 300),
        np.linspace(80, -80, 600).reshape(2, 300),
    ],
    ids=["all equal", "far apart", "ascending", "descending"],
)
def test_softmax_at_its_extremes(scores: Any, labels: str) -> None:
    problem = Softmax(*scores.shape, labels)
    x = problem.fill(np.random.default_rng(0)) | {"x": scores.astype(np.float32)}
    kernel = softmax.kernel(problem)
    found = launcher.launch(softmax.SOURCE.read_text(), softmax.launches(problem, kernel), problem.operands(), x)
    assert cases.compare(problem, x, found).allowed


BROKEN: list[tuple[Problem, str, str]] = [
    (RELU, "i + 4 <= count && aligned", "aligned"),
    (RELU, "i + 4 < count ? i + 4 : count", "count - 1"),
    (RELU, "x > 0 ? x : 0", "x"),
    (TANH, "1.0f - y * y", "1.0f - y"),
    (TANH, "F(a.w, b.w)", "F(a.w, b.z)"),
    (TANH, "where % sizeof(float4) == 0", "true"),
    (INDEX, "n.sum = n.sum * below(n.top, v), n.top = v", "n.top = v"),
    (INDEX, "a.sum * below(a.top, c.top) + b.sum", "a.sum + b.sum"),
    (INDEX, "(j == own ? 1.0f : 0.0f)", "0.0f"),
    (INDEX, "+ logf(n.sum)", "+ n.sum"),
    (INDEX, "own = labels[row]", "own = labels[0]"),
    (INDEX, "loss[row] = n.top", "loss[0] = n.top"),
    (INDEX, "threadIdx.x < WARPS ? shared[threadIdx.x] : none", "shared[threadIdx.x % WARPS]"),
    (INDEX, "__syncthreads();", ""),
    (INDEX, "d = WARP / 2", "d = WARP / 4"),
    (ONE_HOT, "c.dot = a.dot + b.dot", "c.dot = a.dot"),
    (ONE_HOT, "- truth[j]", ""),
]


@pytest.mark.parametrize(("problem", "old", "new"), some(BROKEN, [f"{old}-{new}" for _, old, new in BROKEN]))
def test_a_broken_kernel_is_refused(problem: Any, old: str, new: str) -> None:
    module: Any = activation if isinstance(problem, Activation) else softmax
    kernel = cases.find(module.kernel(problem))
    text = kernel.source.read_text()
    assert old in text

    def passes(**how: Any) -> bool:
        try:
            return cases.run(kernel, problem, text.replace(old, new), **how).allowed
        except launcher.LaunchFailed:
            return False

    assert not all(passes(**how) for how in HOW)


def test_another_kernel_is_not_launched() -> None:
    with pytest.raises(UsageError, match="take relu_forward"):
        activation.launches(RELU, "exp_forward")
    for problem in (ONE_HOT, Softmax(3, 5, before="softmax"), Softmax(3, 5, want="forward")):
        with pytest.raises(UsageError, match="is not for"):
            softmax.launches(problem, "softmax_index")
