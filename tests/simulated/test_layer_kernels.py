"""The CUDA kernels of pooling, batch normalization, bias and ReLU, dropout, on the CPU: at their edges, and broken."""

from __future__ import annotations

import contextlib
from typing import Any

import numpy as np
import pytest

from kernels.errors import UsageError
from kernels.ops.biasact import BiasAct
from kernels.ops.biasact import gpu as biasact
from kernels.ops.dropout import Dropout
from kernels.ops.dropout import gpu as dropout
from kernels.ops.norm import Norm
from kernels.ops.norm import gpu as norm
from kernels.ops.pooling import Pooling
from kernels.ops.pooling import gpu as pooling
from kernels.problem import Problem
from tests.simulated import cases, launcher
from tests.slow import some

pytestmark = pytest.mark.skipif(launcher.missing() is not None, reason=launcher.missing() or "")
HOW: tuple[dict[str, Any], ...] = ({"align": 16}, {"align": 4, "backward": True})
MAX, AVG = Pooling(2, 3, 9, 3, "max", "nhwc", "step"), Pooling(2, 3, 8, 3, "avg", "nchw", "step")
RELU, FORWARD = Pooling(2, 3, 9, 2, "max", "nchw", "step", "yes"), Pooling(2, 3, 9, 3)
LRN, DLRN = Norm(3, 7, 5, "lrn"), Norm(3, 7, 5, "lrn", phase="step")
NORM, DNORM = Norm(7, 3, 9), Norm(7, 3, 9, phase="step")
FROZEN, DFROZEN = Norm(7, 3, 9, mode="frozen"), Norm(7, 3, 9, mode="frozen", phase="step")
MASK = Dropout(20011, 0.25)
BIAS, DBIAS = BiasAct(67, 37), BiasAct(67, 37, phase="dgrad")


def module(problem: Problem) -> Any:
    return {"pooling": pooling, "norm": norm, "biasact": biasact, "dropout": dropout}[problem.op]


CSR = [("sum +=", "sum ="), ("e < pointers[row + 1]", "e < pointers[row + 1] - 1"), ("columns[e] * n", "columns[e]")]


@pytest.mark.parametrize(("text", "instead"), [*CSR, ("if (col >= n) return;", "")])
def test_a_broken_product_by_csr_is_refused(text: str, instead: str) -> None:
    kernel = cases.find("csr_rows")
    source = kernel.source.read_text()
    assert text in source
    with contextlib.suppress(launcher.LaunchFailed):
        assert not all(cases.run(kernel, x, source.replace(text, instead)).allowed for x in kernel.problems)


@pytest.mark.parametrize("relu", ["no", "yes"])
@pytest.mark.parametrize("phase", ["forward", "step"])
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("window", [2, 3])
@pytest.mark.parametrize("pool", ["max", "avg"])
def test_poolings_of_every_form(pool: str, window: int, layout: str, phase: str, relu: str) -> None:
    """Images whose last pixels are in no window too."""
    if (pool, relu) == ("avg", "yes"):
        pytest.skip("an average does not commute with a ReLU")
    for size in (3, 4, 7, 10):
        problem = Pooling(2, 5, size, window, pool, layout, phase, relu)
        for how in HOW:
            assert cases.run(cases.find(pooling.kernel(problem)), problem, **how).allowed


@pytest.mark.parametrize("phase", ["forward", "dgrad"])
@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (1, 33), (7, 31), (8, 32), (9, 64), (300, 3)])
def test_bias_at_the_edges(rows: int, cols: int, phase: str) -> None:
    problem = BiasAct(rows, cols, phase=phase)
    for how in HOW:
        assert cases.run(cases.find(biasact.kernel(problem)), problem, **how).allowed


@pytest.mark.parametrize("phase", ["forward", "step"])
@pytest.mark.parametrize("size", [(1, 1, 2), (2, 5, 1), (1, 2, 16), (257, 2, 1), (3, 1, 13)])
def test_norms_at_the_edges(size: tuple[int, int, int], phase: str) -> None:
    kinds = (("batch", "train"), ("batch", "frozen"), ("lrn", "train"))
    for problem in (Norm(*size, *kind, phase) for kind in kinds):
        for how in HOW:
            assert cases.run(cases.find(norm.kernel(problem)), problem, **how).allowed


BROKEN: list[tuple[Problem, str, str]] = [
    (FORWARD, "if (v > top) top = v;", ""),
    (FORWARD, "i >= count(OF)", "i > count(OF)"),
    (FORWARD, "STRIDE * p.row + r", "p.row + r"),
    (FORWARD, "image * count(pixels)", "image * count(results)"),
    (MAX, "row == p.row && col == p.col", "row == p.row"),
    (MAX, "window < edge ? window : edge - 1", "window"),
    (AVG, "before + STRIDE - 1", "before"),
    (MAX, "p.channel = i % of.channels", "p.channel = i % (of.channels + 1)"),
    (AVG, "sum += d[", "sum = d["),
    (AVG, "/ (float)(taps * taps)", ""),
    (RELU, "relu && !(top > 0) ? 0 : top", "top"),
    (RELU, "(!relu || top > 0)", "true"),
    (NORM, "float d = x[i] - middle;", "float d = x[i];"),
    (Norm(1, 1, 1), "+ epsilon", ""),
    (NORM, "* gain + plus", "* gain"),
    (NORM, "d = WARP / 2", "d = WARP / 4"),
    (NORM, "warp < WARPS", "warp < WARPS - 1"),
    (NORM, "j % (unsigned)pixels", "j % (unsigned)channels"),
    (NORM, "__syncthreads();\n    float sum", "float sum"),
    (DNORM, "(level + (x[i]", "((x[i]"),
    (DNORM, "* root * tilt", "* tilt"),
    (DNORM, "dscale[channel] = products", "dscale[channel] = slopes"),
    (FROZEN, "channel % 2 ? odd_mean : even_mean", "even_mean"),
    (FROZEN, "channel % 2 ? odd_variance : even_variance", "even_variance"),
    (DFROZEN, "dx[i] = gain * slope;", "dx[i] = slope;"),
    (DFROZEN, "products += slope * ((x[i] - middle) * root)", "products += slope * (x[i] - middle)"),
    (DFROZEN, "slopes += slope;", "slopes = slope;"),
    (LRN, "c <= channel + 2", "c < channel + 2"),
    (LRN, "c >= 0 && c < channels", "c < channels"),
    (LRN, "share * sum", "sum"),
    (LRN, "if (i >= images * channels * pixels) return;", ""),
    (DLRN, "if (c < 0 || c >= channels) continue;", "if (c < 0 || c > channels) continue;"),
    (DLRN, "- 1.5f * share * x[i] * sum", ""),
    (DLRN, "if (c == channel) own = slope;", "own = slope;"),
    (BIAS, "b[i % cols]", "b[0]"),
    (BIAS, "v > 0 ? v : 0", "v"),
    (DBIAS, "__syncthreads();", ""),
    (DBIAS, "other < ROWS", "other < ROWS - 1"),
    (DBIAS, "if (line || col >= cols) return;", "if (line) return;"),
    (DBIAS, "if (col < cols)", ""),
    (DBIAS, "row += ROWS", "row += ROWS + 1"),
    (MASK, ">= (unsigned)dropped", "< (unsigned)dropped"),
    (MASK, "x[i] * scale", "x[i]"),
    (MASK, "dx[i] = kept ?", "dx[i] = mixed((unsigned)i) > 9u ?"),
    (MASK, "(unsigned)i + key[0]", "key[0]"),
    (MASK, "if (i >= units) return;", ""),
]


@pytest.mark.parametrize(("problem", "text", "instead"), some(BROKEN, [f"{x[0].op}: {x[1]}" for x in BROKEN]))
def test_a_broken_kernel_is_refused(problem: Problem, text: str, instead: str) -> None:
    kernel = cases.find(module(problem).kernel(problem))
    source = kernel.source.read_text()
    assert text in source
    try:
        assert not cases.run(kernel, problem, source.replace(text, instead)).allowed
    except launcher.LaunchFailed:
        pass


@pytest.mark.parametrize("problem", [MAX, RELU], ids=["max", "relu"])
def test_the_first_of_equal_maxima_has_the_gradient(problem: Pooling) -> None:
    rng = np.random.default_rng(0)
    x = problem.fill(rng)
    x["x"] = rng.integers(-2, 2, x["x"].shape).astype(np.float32)
    source, operation = pooling.SOURCE.read_text(), pooling.launches(problem, pooling.kernel(problem))

    def allowed(text: str) -> bool:
        return cases.compare(problem, x, launcher.launch(text, operation, problem.operands(), x)).allowed

    assert allowed(source)
    assert not allowed(source.replace("v > top) top = v, row", "v >= top) top = v, row"))


def test_a_kernel_of_something_else_is_refused() -> None:
    with pytest.raises(UsageError, match="fewer than 2"):
        pooling.launches(Pooling(1, 1 << 11, 1 << 10), "pooling_max_forward")
    with pytest.raises(UsageError, match="is not for"):
        norm.launches(Norm(2, 3, 4, mode="frozen"), "norm_train_forward")
    with pytest.raises(UsageError, match=r"fewer than 2\^31 elements"):
        norm.launches(Norm(1 << 9, 3, 1 << 11), "norm_train_forward")
    product = BiasAct(3, 4, 5)
    for problem, name in ((FORWARD, "pooling_avg_forward"), (BIAS, "biasact_dgrad"), (product, "biasact_forward")):
        with pytest.raises(UsageError, match="is not for"):
            module(problem).launches(problem, name)
