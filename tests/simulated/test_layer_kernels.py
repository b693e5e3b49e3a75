"""The CUDA kernels of layers, loads and exchanges on the CPU: at their edges and extremes."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kernels.errors import UsageError
from kernels.ops.activation import Activation
from kernels.ops.activation import gpu as activation
from kernels.ops.biasact import BiasAct
from kernels.ops.biasact import variants as biasact
from kernels.ops.chase import Chase
from kernels.ops.chase import variants as chase
from kernels.ops.conv import Conv, implicit
from kernels.ops.conv.shape import PASSES
from kernels.ops.dropout import Dropout
from kernels.ops.dropout import variants as dropout
from kernels.ops.fma import Fma
from kernels.ops.norm import Norm
from kernels.ops.norm import gpu as norm
from kernels.ops.optimizer import Optimizer
from kernels.ops.optimizer import variants as optimizer
from kernels.ops.pooling import Pooling
from kernels.ops.pooling import variants as pooling
from kernels.ops.softmax import Softmax
from kernels.ops.softmax import gpu as softmax
from kernels.problem import Problem
from tests.simulated import cases, launcher
from tests.simulated.cases import HOW

pytestmark = pytest.mark.skipif(launcher.missing() is not None, reason=launcher.missing() or "")
MAX, RELU = Pooling(2, 3, 9, 3, "max", "nhwc", "step"), Pooling(2, 3, 9, 2, "max", "nchw", "step", "yes")
MODULES: dict[str, Any] = {
    "activation": activation,
    "biasact": biasact,
    "conv": implicit,
    "norm": norm,
    "optimizer": optimizer,
    "pooling": pooling,
    "softmax": softmax,
}
SIZES: tuple[dict[str, Any], ...] = (
    {"n": 1, "c": 1, "h": 5, "w": 1, "k": 65, "r": 2, "s": 1},
    {"n": 3, "c": 4, "h": 8, "w": 9, "k": 6, "r": 1, "s": 3, "stride": 3, "pad_left": 2, "groups": 2},
    {"n": 1, "c": 2, "h": 70, "w": 3, "k": 2, "r": 5, "s": 3, "pad": 3, "dilation": 2},
    {"n": 2, "c": 17, "h": 4, "w": 4, "k": 3, "pad_bottom": 1},
)
FORMS = itertools.product(("max", "avg"), (2, 3), ("nchw", "nhwc"), ("forward", "step"), ("no", "yes"))
KINDS = (("batch", "train"), ("batch", "frozen"), ("lrn", "train"))
EDGES: list[Problem] = [
    *(  # an average does not commute with a ReLU; of some images the last pixels are in no window
        Pooling(2, 5, size, window, pool, *form, relu)
        for (pool, window, *form, relu), size in itertools.product(FORMS, (3, 4, 7, 10))
        if (pool, relu) != ("avg", "yes")
    ),
    *(
        BiasAct(*size, phase=phase)
        for phase in ("forward", "dgrad")
        for size in ((1, 1), (1, 33), (7, 31), (8, 32), (9, 64), (300, 3))
    ),
    *(
        Norm(*size, *kind, phase)
        for phase in ("forward", "step")
        for kind in KINDS
        for size in ((1, 1, 2), (2, 5, 1), (1, 2, 16), (257, 2, 1), (3, 1, 13))
    ),
    *(
        Activation(count, "sigmoid", *form)
        for form in itertools.product(("forward", "dgrad"), ("out", "in"))
        for count in (*range(1, 10), 255, 1023, 1024, 1025)
    ),
    *(
        Softmax(2, classes, labels)
        for labels in ("index", "one-hot")
        for classes in (1, 2, 31, 32, 33, 255, 256, 257, 513)
    ),
    *(Conv(**size, direction=direction) for size in SIZES for direction in PASSES),
    *(
        Optimizer(rule, *size, eps=0.25, decay=0.1)
        for rule in optimizer.RULES
        for size in ((1, 17), (3, 333), (5, 1024))
    ),
]


@pytest.mark.parametrize("problem", EDGES, ids=lambda problem: problem.name)
def test_a_kernel_at_its_edges(problem: Problem) -> None:
    kernel = cases.find(MODULES[problem.op].kernel(problem))
    for how in HOW:
        assert cases.run(kernel, problem, **how).allowed


@pytest.mark.parametrize("rule", optimizer.RULES)
def test_an_optimizer_by_a_launch_a_tensor(rule: str) -> None:
    problem = Optimizer(rule, 3, 333, eps=0.25, decay=0.1)
    kernel = cases.find(optimizer.kernel(problem))
    each = replace(kernel, launches=lambda problem, name: optimizer.launches(problem, name, 1, each=True))
    for how in HOW:
        assert cases.run(each, problem, **how).allowed
    text, first = kernel.source.read_text(), {"sgd": "g += first, ", "adam": "m += first, "}.get(rule)
    if first:
        assert first in text and not cases.run(each, problem, text.replace(first, "")).allowed


def test_launches_cover_every_parameter_once() -> None:
    problem = Optimizer("adam", 5, 1000)
    (whole,) = optimizer.launches(problem, "optimizer_adam")
    assert whole.grid == (5, 1, 1) and whole.arguments[4:6] == (("int64", 0), ("int64", 5000))
    each = optimizer.launches(problem, "optimizer_adam", each=True)
    assert [x.arguments[4:6] for x in each] == [(("int64", 1000 * t), ("int64", 1000)) for t in range(5)]
    (large,) = optimizer.launches(Optimizer("sgd", 1, 1 << 28), "optimizer_sgd", processors=148)
    assert large.grid == (8 * 148, 1, 1)
    with pytest.raises(UsageError, match="no kernel for copy; choose from"):
        optimizer.kernel(Optimizer("copy", 1, 8))


@pytest.mark.parametrize("problem", [MAX, RELU], ids=["max", "relu"])
def test_the_first_of_equal_maxima_has_the_gradient(problem: Pooling) -> None:
    rng = np.random.default_rng(0)
    x = problem.fill(rng)
    x["x"] = rng.integers(-2, 2, x["x"].shape).astype(np.float32)
    source, operation = pooling.CUDA_SOURCE.read_text(), pooling.launches(problem, pooling.kernel(problem))

    def allowed(text: str) -> bool:
        return cases.compare(problem, x, launcher.launch(text, operation, problem.operands(), x)).allowed

    assert allowed(source)
    assert not allowed(source.replace("v > top) top = v, row", "v >= top) top = v, row"))


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


def test_a_key_is_another_in_each_launch() -> None:
    """By the text of the kernel: what makes no new key keeps the same elements again."""
    problem, text = Dropout(4099), dropout.CUDA_SOURCE.read_text()
    key, both = dropout.launches(problem, "dropout_both")
    x = problem.fill(np.random.default_rng(0))

    def masks(source: str) -> list[bytes]:
        """Of two launches: of one key made, and of a second made of it."""
        found = []
        for keys in ((key,), (key, key)):
            got = launcher.launch(source, (*keys, both), problem.operands(), x)
            found.append((got["y"] != 0).tobytes())
        return found

    first, second = masks(text)
    assert first != second
    same = masks(text.replace("key[0] = mixed(key[0] + 0x9e3779b9u)", "key[0] = 1"))
    assert same[0] == same[1]


REFUSED: list[tuple[Any, Any, str]] = [
    (biasact._alone, BiasAct(3, 4, 5), "--terms 0"),
    (cases.fma.on_gpu, Fma("cuda", chains=1), "--chains 10"),
    (cases.fma.on_gpu, Fma("avx2"), "--isa cuda"),
    (chase.refused, Chase(1 << 21, 1 << 21), "a GPU's page size is fixed: --page 4096"),
    (implicit.refused, Conv(1, 16, 4, 4, 16, layout="nhwc"), "--layout nchw"),
    (norm.refused, Norm(1 << 9, 3, 1 << 11), "fewer than 2^31 elements"),
    (pooling.refused, Pooling(1, 1 << 11, 1 << 10), "an image exceeds 2^31"),
]


@pytest.mark.parametrize(("accepts", "problem", "reason"), REFUSED)
def test_a_problem_without_a_kernel_is_refused(accepts: Any, problem: Any, reason: str) -> None:
    assert reason in str(accepts(problem))
    assert cases.fma.on_gpu(Fma("cuda")) is None


def test_a_sum_too_long_or_a_tile_too_empty_is_refused() -> None:
    first = Conv(16, 3, 224, 224, 96, 11, 11, 4, 2)
    assert implicit.refused(first) is None
    assert "only 3 of a tile's 64 rows would be used" in str(implicit.refused(replace(first, direction="dgrad")))
    assert "12 blocks would each sum 48400 terms" in str(implicit.refused(replace(first, direction="wgrad")))
