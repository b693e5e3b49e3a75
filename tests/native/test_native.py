"""The programs beside this file do what they say; how fast anything is, is not asked here."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import rate
import sweeps

from kernels.libs import openblas
from reports.record import Comparison, Contest, Environment, Run

STRICT = ("-Wall", "-Wextra", "-Werror")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rate.build(tmp_path_factory.mktemp("loop"), STRICT)


def loop(program: Path, arguments: Sequence[str], told: str = "") -> subprocess.CompletedProcess[str]:
    command = [str(program), *arguments]
    return subprocess.run(command, input=told, capture_output=True, text=True, check=False, timeout=60)


needs_openblas = pytest.mark.skipif(openblas.missing("numpy") is not None, reason="NumPy without OpenBLAS")


@needs_openblas
@pytest.mark.parametrize("seconds", [[], ["1e-3"]])
def test_loop_tells_one_number_a_visit(program: Path, seconds: list[str]) -> None:
    done = loop(program, [*rate.entry(), "8", "8", "8", *seconds], "go 1\ngo 2\n")
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 3
    assert all(0 < float(line) < 1 for line in done.stdout.splitlines())


@needs_openblas
@pytest.mark.parametrize(
    ("change", "told", "says"),
    [
        ({0: "no/such/library.so"}, "", "no/such/library.so"),
        ({1: "no_such_symbol"}, "", "exports no no_such_symbol"),
        ({2: "48"}, "", "not 48"),
        ({3: "no_such_threads"}, "", "exports no no_such_threads"),
        ({4: "0"}, "", "not a number from 1 to 1048576: 0"),
        ({5: "8x"}, "", "not a number from 1 to 1048576: 8x"),
        ({7: "soon"}, "", "not seconds"),
        ({}, "go\n", 'not "go N": go'),
        ({}, "go 1 2\n", 'not "go N": go 1 2'),
        ({}, "\n", 'not "go N": '),
    ],
)
def test_loop_refuses_in_one_line(program: Path, change: dict[int, str], told: str, says: str) -> None:
    arguments = [*rate.entry(), "8", "8", "8", "1e-4"]
    for place, text in change.items():
        arguments[place] = text
    done = loop(program, arguments, told)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (2, "", 1)
    assert done.stderr.startswith("gemm_loop: ") and says in done.stderr


@pytest.mark.parametrize("arguments", [[], ["a", "b", "64", "c", "8", "8"], ["x"] * 9])
def test_loop_tells_its_usage(program: Path, arguments: list[str]) -> None:
    done = loop(program, arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("gemm_loop: usage: ") and len(done.stderr.splitlines()) == 1


@needs_openblas
@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")  # the worker's cell
def test_a_pair_takes_every_round_in_both_processes(program: Path) -> None:
    logs = rate.pair(program, 8, 6, np.random.default_rng(0))
    assert logs.shape == (6,) and np.isfinite(logs).all()


def test_a_rate_below_the_promise_is_told() -> None:
    wobble = np.random.default_rng(1).normal(0, 0.002, (5, 40))
    text, held = rate.report(64, list(wobble))
    assert held and text.startswith("64x64x64: 1.000 [") and ": held\n" in text
    text, held = rate.report(256, list(wobble + np.log(0.95)))
    assert not held and text.startswith("256x256x256: 0.950 [") and ": not held\n" in text
    assert rate.report(64, [np.zeros(2)]) == ("64x64x64: too few rounds for an interval", False)


def run_of(**ratios: tuple[float | None, str]) -> Run:
    """A run with one comparison for each name."""
    contests = []
    for name, (ratio, verdict) in ratios.items():
        one = Comparison(name, "trans", "nn", "nt", ratio, None, None, 0.95, verdict, None, 0.01, 0.01)
        contests.append(Contest(name, "?", "trans", (), (one,)))
    return Run(Environment("", {}, {}, "", ""), tuple(contests))


def test_agreement_of_two_runs() -> None:
    first = run_of(
        a=(1.10, "slower"),
        b=(1.00, "same"),
        c=(1.2, "slower"),
        d=(1.02, "unresolved"),
        e=(None, "unresolved"),
        f=(1.0, "same"),
    )
    second = run_of(a=(1.00, "same"), b=(1.00, "same"), c=(0.8, "faster"), d=(1.00, "same"), e=(1.0, "same"))
    found = sweeps.agreement(first, second)
    assert found.compared == 4
    assert found.median == pytest.approx(0.06)
    assert found.ninth == pytest.approx(np.percentile([0.1, 0, 0.5, 0.02], 90))
    assert found.contradictory == ("c",)
    assert found.same_against_different == ("a",)
    assert found.unresolved == 2
    assert not found.held
    assert "  c" in sweeps.lines(found)


def test_a_run_agrees_with_itself() -> None:
    run = run_of(a=(1.10, "slower"), b=(0.9, "faster"))
    found = sweeps.agreement(run, run)
    assert (found.compared, found.median, found.ninth, found.held) == (2, 0, 0, True)


def test_nothing_in_common_is_no_agreement() -> None:
    assert not sweeps.agreement(run_of(a=(1.0, "same")), run_of(b=(1.0, "same"))).held


def test_only_small_products_are_swept(tmp_path: Path) -> None:
    made, count = sweeps.small(sweeps.SHAPES, tmp_path)
    rows = json.loads(made.read_text())["problems"]
    assert len(rows) == count > 0
    assert all(2 * row["m"] * row["n"] * row["k"] < 1e9 for row in rows)
