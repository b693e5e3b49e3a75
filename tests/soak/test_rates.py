"""What is judged of rates, on measurements made by hand; no speed is asserted."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

from kernels.catalog import find
from kernels.libs import openblas
from reports.record import Comparison
from tests import build
from tests.soak import elementwise, rate

needs_openblas = pytest.mark.skipif(openblas.missing("numpy") is not None, reason="NumPy without OpenBLAS")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rate.build(tmp_path_factory.mktemp("loop"), ("-Wall", "-Wextra", "-Werror"))


@needs_openblas
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # the worker's cell
def test_a_pair_takes_every_round_in_both_processes(program: Path) -> None:
    logs = rate.pair(program, 8, 6, np.random.default_rng(0))
    assert logs.shape == (6,) and np.isfinite(logs).all()


@needs_openblas
@pytest.mark.parametrize(("place", "text"), [(0, "no/such/library.so"), (1, "no_such_symbol"), (3, "no_such_threads")])
def test_the_loop_refuses_in_one_line(program: Path, place: int, text: str) -> None:
    arguments = [*rate.entry(), "8", "8", "8", "1e-4"]
    arguments[place] = text
    done = subprocess.run([str(program), *arguments], capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert done.stderr.startswith("gemm_loop: ") and text in done.stderr


def test_a_rate_below_the_promise_is_not_held() -> None:
    wobble = np.random.default_rng(1).normal(0, 0.002, (5, 40))
    figure = rate.judged(64, list(wobble))
    assert figure.held and figure.name.startswith("rate of 64x64x64") and figure.value.startswith("1.000 [")
    figure = rate.judged(256, list(wobble + np.log(0.95)))
    assert not figure.held and figure.value.startswith("0.950 [")
    figure = rate.judged(64, [np.zeros(2)])
    assert (figure.value, figure.held) == ("too few rounds for an interval", False)


def rivals(*ratios: float | None, width: float = 0.01) -> list[tuple[str, Comparison]]:
    """Rivals by number, each so many times as slow as ours."""
    ends = [{"low": x - width, "high": x + width} if x else {"reason": "skipped"} for x in ratios]
    return [(f"rival{i}", build.comparison(ratio=x, **ends[i])) for i, x in enumerate(ratios)]


def test_the_best_rival_counts() -> None:
    promise = next(elementwise.streams())
    assert elementwise.judged(promise, rivals(1.3, 0.97, None, 1.1)).say() == (
        "copy of 64 KiB: 0.970 [0.960, 0.980] of the rate of the best of 3, rival1; promised 0.95: held"
    )
    assert not elementwise.judged(promise, rivals(1.3, 0.93, None, 1.1)).held
    assert elementwise.judged(promise, rivals(0.945)).held, "it is missed where the whole interval lies below"
    figure = elementwise.judged(promise, rivals(None))
    assert (figure.value, figure.held) == ("nothing could be measured: skipped", False)


def test_every_case_can_be_measured() -> None:
    for promise in (*elementwise.streams(), *elementwise.transposes(), *elementwise.softmax()):
        for case in (promise.ours, *promise.rivals):
            assert find(case.problem.op, case.variant).accepts(case.problem) is None
