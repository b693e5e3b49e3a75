"""The products in Numba on one core: their loops as Python runs them, and the rows compiled."""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Callable

import numpy as np
import pytest

from kernels.catalog import find
from kernels.devices import open_device
from kernels.errors import Unavailable
from kernels.ops.gemm import Gemm, libraries
from kernels.setting import Setting
from micro.worker import guards
from tests.kernels.rows import checked

LOOPS = {"numba-naive": libraries.naive, "numba-blocked": libraries.blocked}
LAYOUTS = ("nn", "nt", "tn", "tt")
SHAPES = ((1, 1, 1), (5, 7, 6), (4, 9, 11), (3, 16, 8))  # with a block of 8: less, more, none left over
compiled = pytest.mark.skipif(importlib.util.find_spec("numba") is None, reason="no numba: pip install numba")


@pytest.mark.parametrize("trans", LAYOUTS)
@pytest.mark.parametrize("loops", LOOPS.values())
def test_loops(monkeypatch: pytest.MonkeyPatch, loops: Callable[..., None], trans: str) -> None:
    """C is NaN where it is not read, and the packed block wherever nothing was packed."""
    monkeypatch.setattr(libraries, "DEPTH", 8)
    monkeypatch.setattr(libraries, "WIDTH", 8)
    for shape, (alpha, beta) in itertools.product(SHAPES, ((1.0, 0.0), (0.5, 2.0))):
        problem = Gemm(*shape, trans, alpha=alpha, beta=beta)
        x = problem.fill(np.random.default_rng(3))
        c = x["c"].copy() if beta else np.full(shape[:2], np.nan, np.float32)
        left, right = (y if flag == "n" else y.T for y, flag in zip((x["a"], x["b"]), trans, strict=True))
        pack = np.full((8, 8), np.nan, np.float32) if loops is libraries.blocked else np.zeros((1, 1), "f4")
        loops(left, right, c, pack, np.float32(alpha), np.float32(beta))
        assert abs(c - problem.reference(x)["c"]).max() < 1e-5, problem.name


@pytest.mark.slow
@compiled
@pytest.mark.parametrize(
    "problem",
    [
        Gemm(33, 65, 17),
        Gemm(7, 9, 5, "nt", alpha=0.5, beta=2.0, ld_pad=3),
        Gemm(3, 600, 300, "tn"),
        Gemm(70, 129, 45, "tt", alpha=0.5, beta=2.0, ld_pad=3),
    ],
    ids=lambda problem: problem.name.replace("/", "-"),
)
@pytest.mark.parametrize("name", LOOPS)
def test_rows(name: str, problem: Gemm) -> None:
    """Against float64, between guards; the third is longer and wider than a block."""
    row = find("gemm", name)
    assert row.accepts(problem) is None and row.missing() is None
    checked(problem, row)


@compiled
def test_a_launch_compiles_nothing() -> None:
    """That was done when it was bound, for the very layouts."""
    row, device, problem = find("gemm", "numba-naive"), open_device("cpu"), Gemm(5, 7, 6, "nt")
    launch = row.prepare(problem, device, Setting())(guards.Bench(device, problem).views)
    function = launch.call.func  # type: ignore[attr-defined]
    before = list(function.signatures)
    launch.call()
    assert len(before) == 1 and function.signatures == before
    assert launch.workspace == 4 * libraries.DEPTH * libraries.WIDTH


@compiled
def test_they_run_on_one_thread() -> None:
    row = find("gemm", "numba-naive")
    with pytest.raises(Unavailable, match="single-threaded loops: --threads 1"):
        row.prepare(Gemm(5, 7, 6), open_device("cpu"), Setting(threads=2))


@pytest.mark.parametrize("name", LOOPS)
def test_other_types_and_long_ones_are_refused(name: str) -> None:
    accepts = find("gemm", name).accepts
    assert accepts(Gemm(4096, 4096, 4096)) and accepts(Gemm(8, 8, 8, dtype="fp16"))
