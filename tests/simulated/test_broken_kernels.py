"""Kernels broken on purpose, each by one change of its text, are refused: by a wrong answer or by the shim."""

from __future__ import annotations

from typing import Any

import pytest

from kernels.ops.activation import Activation
from kernels.ops.activation import gpu as activation
from kernels.ops.biasact import BiasAct
from kernels.ops.biasact import variants as biasact
from kernels.ops.conv import columns, frames, implicit, winograd_cuda
from kernels.ops.dropout import Dropout
from kernels.ops.dropout import variants as dropout
from kernels.ops.norm import Norm
from kernels.ops.norm import gpu as norm
from kernels.ops.pooling import Pooling
from kernels.ops.pooling import variants as pooling
from kernels.ops.softmax import Softmax
from kernels.ops.softmax import gpu as softmax
from kernels.problem import Problem
from tests.simulated import cases, launcher
from tests.slow import some

pytestmark = pytest.mark.skipif(launcher.missing() is not None, reason=launcher.missing() or "")
HOW: tuple[dict[str, Any], ...] = ({"align": 16}, {"align": 4, "backward": True})
MODULES: dict[str, Any] = {
    "activation": activation,
    "biasact": biasact,
    "dropout": dropout,
    "norm": norm,
    "pooling": pooling,
    "softmax": softmax,
}
BARRIER = "        __syncthreads();\n"
MAX, AVG = Pooling(2, 3, 9, 3, "max", "nhwc", "step"), Pooling(2, 3, 8, 3, "avg", "nchw", "step")
RELU, FORWARD = Pooling(2, 3, 9, 2, "max", "nchw", "step", "yes"), Pooling(2, 3, 9, 3)
LRN, DLRN = Norm(3, 7, 5, "lrn"), Norm(3, 7, 5, "lrn", phase="step")
NORM, DNORM = Norm(7, 3, 9), Norm(7, 3, 9, phase="step")
FROZEN, DFROZEN = Norm(7, 3, 9, mode="frozen"), Norm(7, 3, 9, mode="frozen", phase="step")
MASK = Dropout(20011, 0.25)
BIAS, DBIAS = BiasAct(67, 37), BiasAct(67, 37, phase="dgrad")
RELU_LAYER, TANH = Activation(1027), Activation(1027, "tanh", "dgrad")
INDEX, ONE_HOT = Softmax(3, 1025), Softmax(3, 1025, "one-hot")
# A kernel with the problems of its row or a problem, what is changed, into what.
BROKEN: list[tuple[str | Problem, str, str]] = [
    ("implicit_forward", f"{BARRIER}#pragma", "#pragma"),
    ("implicit_forward", f"{BARRIER}    }}\n#pragma", "    }\n#pragma"),
    ("implicit_forward", "* p.stride - p.top", "* p.stride"),
    ("implicit_forward", "tap / p.s * p.dilation;\n    int col = result", "tap / p.s;\n    int col = result"),
    ("implicit_forward", "row >= 0 && row < p.h &&", "row < p.h &&"),
    ("implicit_forward", "w[(index_t)(group * p.k + row) * depth() + t]", "w[row * depth() + t]"),
    ("implicit_forward", "j + col < cols && l + b < depth", "l + b < depth"),
    ("implicit_forward", "i + row < rows && l + a < depth", "l + a < depth"),
    ("implicit_forward", "row < rows && col < cols)", "col < cols)"),
    ("implicit_dgrad", "|| row % p.stride || col % p.stride", "|| col % p.stride"),
    ("implicit_dgrad", "return row < p.down && col < p.across", "return col < p.across"),
    ("implicit_dgrad", "* p.c + row) * taps(p) + t % taps(p)", "* p.c + row) * taps(p)"),
    ("implicit_dgrad", "pixel / p.w + p.top", "pixel / p.w"),
    ("implicit_wgrad", "col % taps(p), &at", "0, &at"),
    ("implicit_wgrad", "return (index_t)(group * p.k + row) * cols() + col", "return row * cols() + col"),
    ("implicit_wgrad", "sum[r][q] += left", "sum[r][q] = left"),
    ("columns_of", "(int)across * (int)stride - (int)top", "(int)across - (int)top"),
    ("columns_of", "inside ? x[(plane * h + row) * w + col] : 0", "x[(plane * h + row) * w + col]"),
    ("columns_of", "tap % (int)s * (int)dilation", "tap / (int)s * (int)dilation"),
    ("columns_back", "row % stride ||", ""),
    ("columns_back", "|| row / stride >= down", ""),
    ("columns_back", "sum +=", "sum ="),
    ("columns_back", "(plane * r + a)", "(plane * r)"),
    ("frames_of", "row % step == 0 &&", ""),
    ("frames_of", "&& row / step < rows", ""),
    ("frames_of", "inside ? planes[(plane * rows", "inside ? planes[(plane"),
    ("frames_back", "scale *", ""),
    ("frames_back", "* step + first", "* step - first"),
    ("frames_back", "* step + left", "+ left"),
    ("winograd2_image", "row * m + i - top", "row * m + i"),
    ("winograd4_image", "-169. / 128, 0, 1. / 2, 0}", "-168. / 128, 0, 1. / 2, 0}"),
    ("winograd4_image", "y >= 0 && y < h", "y < h"),
    ("winograd2_image", "plane % channels * images * tiles", "plane / channels * images * tiles"),
    ("winograd2_gradient", "d[i][j] = y < h &&", "d[i][j] ="),
    ("winograd4_gradient", "both<A<m>, false>(d, t)", "t[0][0] = d[0][0]"),
    ("winograd4_result", "if (to < h && along < w)", ""),
    ("winograd2_result", "add(to[i][j], element<X, turned>(j, l), half[i][l])", "to[i][j] = half[i][l]"),
    ("winograd4_result", "{1, 5. / 8, 25. / 64", "{1, 5. / 8, 24. / 64"),
    ("winograd2_filter", "turned ? TAPS * TAPS - 1 - tap : tap", "tap"),
    ("winograd4_filter", "turned ? own % c * k + own / c : own", "own"),
    ("winograd4_filter", "512. / 225", "511. / 225"),
    ("winograd2_filter", "if (own >= k * c) return;\n    float g", "float g"),
    ("winograd2_dfilter", "k * c + own];", "k * c];"),
    ("winograd4_dfilter", "{0, 0, 2}", "{0, 0, 1}"),
    ("csr_rows", "sum +=", "sum ="),
    ("csr_rows", "e < pointers[row + 1]", "e < pointers[row + 1] - 1"),
    ("csr_rows", "columns[e] * n", "columns[e]"),
    ("csr_rows", "if (col >= n) return;", ""),
    ("exchange_load", "thread % WARP * (unsigned)spread", "thread % WARP"),
    ("exchange_load", "if (thread < UNROLL - 1) words", "if (thread < UNROLL - 2) words"),
    ("exchange_load", "at = (at + UNROLL) % THREADS", "at = at + UNROLL & THREADS / 2 - 1"),
    ("exchange_load", "int rest = steps % UNROLL", "int rest = steps % (UNROLL - 1)"),
    ("exchange_shuffle", "1 << i) + 1;\n#pragma", "1) + 1;\n#pragma"),
    ("exchange_shuffle", "i < steps % DISTANCES", "i < steps % 4"),
    ("exchange_add_shared", "words[thread] = 0;", ""),
    ("exchange_add_shared", "words + thread % (unsigned)spread", "words"),
    ("exchange_add_shared", "atomicAdd(to, value)", "*to = value"),
    ("exchange_add_global", "if (own < spread) y[own] = 0;", "if (own < spread - 1) y[own] = 0;"),
    ("exchange_add_global", "y + own % spread", "y + threadIdx.x % spread"),
    ("exchange_add_global", "index_t left = steps; left;", "index_t left = steps; left > 1;"),
    ("chase_walk", "i + 1 < lines ? i + 1 : 0", "i + 1"),
    ("chase_walk", "} while (i >= lines)", "} while (false)"),
    ("chase_walk", "0xC2B2AE35ull", "0xC2B2AE37ull"),
    ("chase_walk", "int shift = bits / 2 + 1", "int shift = bits / 2"),
    ("chase_walk", "if (i >= lines) return;", ""),
    ("chase_walk", "i < steps / STOPS", "i < steps / STOPS - 1"),
    ("chase_walk", "2654435761u", "2654435763u"),
    ("chase_walk", "if (threadIdx.x) return;", "if (threadIdx.x > 1) return;"),
    (RELU_LAYER, "i + 4 <= count && aligned", "aligned"),
    (RELU_LAYER, "i + 4 < count ? i + 4 : count", "count - 1"),
    (RELU_LAYER, "x > 0 ? x : 0", "x"),
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


def kernel(of: str | Problem) -> str:
    """Return the name of the kernel that solves a problem, or the name itself."""
    return of if isinstance(of, str) else str(MODULES[of.op].kernel(of))


@pytest.mark.parametrize(("of", "old", "new"), some(BROKEN, [f"{kernel(of)}: {old}" for of, old, _ in BROKEN]))
def test_a_broken_kernel_is_refused(of: str | Problem, old: str, new: str) -> None:
    found = cases.find(kernel(of))
    text = found.source.read_text()
    assert old in text

    def passes(problem: Problem, how: dict[str, Any]) -> bool:
        try:
            return cases.run(found, problem, text.replace(old, new), **how).allowed
        except launcher.LaunchFailed:
            return False

    problems = found.problems if isinstance(of, str) else (of,)
    assert not all(passes(problem, how) for problem in problems for how in HOW)


def test_every_kernel_of_convolutions_is_broken_here() -> None:
    names = {*implicit.KERNELS, *columns.KERNELS, *frames.KERNELS, *winograd_cuda.KERNELS}
    assert names <= {kernel(of) for of, _, _ in BROKEN}
