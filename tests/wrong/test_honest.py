"""No right kernel is refused, whatever its operation, its element type and the data: random problems and kernels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kernels.catalog import variants
from kernels.devices import open_device
from kernels.dtypes import DATA, decode, encode, stored_as
from kernels.errors import WrongResult
from kernels.launch import Launch
from kernels.ops.activation.problem import Activation
from kernels.ops.biasact.problem import BiasAct
from kernels.ops.cast.problem import KINDS, Cast
from kernels.ops.dropout.problem import Dropout
from kernels.ops.fft.problem import Fft
from kernels.ops.gather.problem import Gather
from kernels.ops.gemm.problem import Gemm
from kernels.ops.norm.problem import Norm
from kernels.ops.optimizer.problem import NAMES, Optimizer
from kernels.ops.pooling.problem import Pooling
from kernels.ops.recurrent.problem import GATES, Recurrent
from kernels.ops.saxpy.problem import Saxpy
from kernels.ops.softmax.problem import Softmax
from kernels.ops.spmm.problem import Spmm
from kernels.ops.stream.problem import Stream
from kernels.ops.transpose.problem import Transpose
from kernels.ops.update.problem import RULES, Update
from kernels.problem import Problem
from kernels.setting import Setting
from kernels.variant import Variant
from micro.worker import check as checking

if TYPE_CHECKING:
    from kernels.problem import Array

CPU = open_device("cpu")
COARSE = ("tf32", "bf16", "fp16")


def size(rng: np.random.Generator, most: int) -> int:
    """Each as likely in every octave."""
    return max(1, int(math.exp(rng.uniform(0, math.log(most + 1)))))


def chosen(rng: np.random.Generator, *words: str) -> str:
    return str(rng.choice(words))


DRAW: dict[str, Callable[[np.random.Generator], Problem]] = {
    "activation": lambda r: Activation(
        size(r, 99999),
        chosen(r, "relu", "sigmoid", "tanh", "exp"),
        chosen(r, "forward", "dgrad"),
        chosen(r, "out", "in"),
    ),
    "biasact": lambda r: BiasAct(size(r, 300), size(r, 300), int(r.choice([0, 0, size(r, 900)]))),
    "cast": lambda r: Cast(size(r, 99999), chosen(r, *KINDS)),
    "dropout": lambda r: Dropout(1024 + size(r, 99999)),
    "fft": lambda r: Fft(size(r, 9), 1 + size(r, 200), 1 + size(r, 200), chosen(r, "r2c", "c2r")),
    "gather": lambda r: Gather(
        rows := size(r, 3000) + 1, size(r, 90), size(r, rows - 1), chosen(r, "lookup", "step", "scatter")
    ),
    "norm": lambda r: Norm(
        size(r, 30), size(r, 60), size(r, 30), chosen(r, "batch", "lrn"), phase=chosen(r, "forward", "step")
    ),
    "optimizer": lambda r: Optimizer(chosen(r, *NAMES), size(r, 30), size(r, 3000)),
    "pooling": lambda r: Pooling(size(r, 9), size(r, 40), 2 + size(r, 60), pool=chosen(r, "max", "avg")),
    "recurrent": lambda r: Recurrent(
        *(size(r, most) for most in (20, 20, 60, 60)),
        chosen(r, *GATES),
        chosen(r, "tnc", "ntc"),
        chosen(r, "forward", "step"),
    ),
    "saxpy": lambda r: Saxpy(64 * size(r, 900), "warm"),
    "softmax": lambda r: Softmax(size(r, 90), 1 + size(r, 4000), before=chosen(r, "none", "softmax", "log-softmax")),
    "spmm": lambda r: Spmm(size(r, 300), size(r, 60), size(r, 900), 0.2),
    "stream": lambda r: Stream(chosen(r, "read", "copy", "triad"), 64 * size(r, 30000)),
    "transpose": lambda r: Transpose(size(r, 600), size(r, 600)),
    "update": lambda r: Update(size(r, 300), size(r, 300), size(r, 600), chosen(r, *RULES)),
}


def rows(problem: Problem) -> list[Variant[Any]]:
    """Return the variants that run here, without those that compile for half a minute."""
    here = (x for x in variants(problem.op) if x.device == "cpu" and not x.missing() and not x.accepts(problem))
    return [x for x in here if "compiled" not in x.roles]


@pytest.mark.parametrize("checks", [56, pytest.param(500, marks=pytest.mark.slow)])
def test_no_honest_kernel_of_another_operation_is_refused(checks: int) -> None:
    rng, refused, done = np.random.default_rng(20261123), [], dict.fromkeys(DRAW, 0)
    while sum(done.values()) < checks:
        op = min(done, key=lambda name: done[name])
        problem, data = DRAW[op](rng), chosen(rng, "normal", *DATA)
        there = rows(problem)
        if not there:
            continue
        row = there[int(rng.integers(len(there)))]
        bind = row.prepare(problem, CPU, Setting(data="uniform" if op == "optimizer" else data))
        done[op] += 1
        try:
            checking.check(CPU, problem, row, bind, sum(done.values()), checking.Asked(data=data))
        except WrongResult as error:
            refused.append(f"{problem.name}/variant:{row.name}/data:{data}: {error}")
    assert refused == []


# Products of coarse types, which no library here has: as their units compute them


def cut(x: Array) -> Array:
    """TF32 as a tensor core takes it: the last bits are not read."""
    return (np.ascontiguousarray(x, np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def nearest(x: Array) -> Array:
    return cut((np.ascontiguousarray(x, np.float32).view(np.uint32) + np.uint32(0x1000)).view(np.float32))


def coarse(narrow: Callable[[Array], Array], tail: int = 0) -> Variant[Any]:
    """Inputs that `narrow` leaves of a TF32 product, sums in single precision; without so many of its last terms."""

    def prepare(problem: Gemm, device: object, setting: object) -> Any:
        def bind(buffers: Sequence[Array]) -> Launch:
            def call() -> None:
                a, b, c = (decode(x) for x in buffers)
                left, right = a if problem.trans[0] == "n" else a.T, b if problem.trans[1] == "n" else b.T
                if problem.dtype == "tf32":
                    left, right = narrow(left), narrow(right)
                most = problem.k - tail
                answer = np.float32(problem.alpha) * (left[:, :most] @ right[:most])
                if problem.beta:
                    answer = answer + np.float32(problem.beta) * c
                buffers[2][...] = encode(answer, stored_as(buffers[2].dtype))

            return Launch(call)

        return bind

    return Variant("coarse", "cpu", "tests", prepare)


@pytest.mark.parametrize("checks", [60, pytest.param(600, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", COARSE)
def test_no_honest_coarse_product_is_refused(dtype: str, checks: int) -> None:
    rng, refused = np.random.default_rng(7), []
    for seed in range(checks):
        m, n, k = size(rng, 200), size(rng, 200), size(rng, 26752)
        if (m + n) * k > 1e6:
            continue
        beta, pad = float(rng.choice([0, 0, -0.3])), int(rng.choice([0, 5]))
        problem = Gemm(m, n, k, chosen(rng, "nn", "nt", "tn", "tt"), dtype, 1.0, beta, pad)
        row = coarse(cut if seed % 2 else nearest)
        data = chosen(rng, "normal", "uniform")
        try:
            checking.check(CPU, problem, row, row.prepare(problem, CPU, Setting()), seed, checking.Asked(data=data))
        except WrongResult as error:
            refused.append(f"{problem.name}/data:{data}: {error}")
    assert refused == []


def test_a_product_of_two_small_halves_is_a_multiple_of_the_least_one() -> None:
    """Of 40,000 values some lie below the normal numbers of half precision, where roundings are no longer relative."""
    problem = Gemm(200, 200, 1, dtype="fp16")
    row = coarse(nearest)
    checking.check(CPU, problem, row, row.prepare(problem, CPU, Setting()), 0, checking.Asked(data="uniform"))


@pytest.mark.parametrize("k", [40, 64, 300, 1024, 4096, 26752])
@pytest.mark.parametrize("dtype", COARSE)
def test_a_coarse_product_without_its_last_terms_is_refused_at_every_k(dtype: str, k: int) -> None:
    row = coarse(nearest, tail=32)
    for seed in range(3):
        problem = Gemm(16, 16, k, dtype=dtype)
        with pytest.raises(WrongResult, match=r"probe: .* times the tolerance of its precision"):
            checking.check(CPU, problem, row, row.prepare(problem, CPU, Setting()), seed)
