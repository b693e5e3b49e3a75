"""`micro.selftest --soak`: its parts and what they judge, on numbers made by hand; no speed is asserted."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.libs import openblas
from micro import selftest
from micro.command import injected, soak, soak_explain, soak_frameworks, soak_rate, soak_sweeps
from micro.command.figure import Figure
from reports.record import Comparison, Contest, Environment, Run
from tests.conftest import Ran, load

STRICT = ("-Wall", "-Wextra", "-Werror")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return soak_rate.build(tmp_path_factory.mktemp("loop"), STRICT)


def loop(program: Path, arguments: Sequence[str], told: str = "") -> subprocess.CompletedProcess[str]:
    command = [str(program), *arguments]
    return subprocess.run(command, input=told, capture_output=True, text=True, check=False, timeout=300)


needs_openblas = pytest.mark.skipif(openblas.missing("numpy") is not None, reason="NumPy without OpenBLAS")


@needs_openblas
@pytest.mark.parametrize("seconds", [[], ["1e-3"]])
def test_loop_tells_one_number_a_visit(program: Path, seconds: list[str]) -> None:
    done = loop(program, [*soak_rate.entry(), "8", "8", "8", *seconds], "go 1\ngo 2\n")
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
    arguments = [*soak_rate.entry(), "8", "8", "8", "1e-4"]
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
    logs = soak_rate.pair(program, 8, 6, np.random.default_rng(0))
    assert logs.shape == (6,) and np.isfinite(logs).all()


def test_a_rate_below_the_promise_is_not_held() -> None:
    wobble = np.random.default_rng(1).normal(0, 0.002, (5, 40))
    figure = soak_rate.judged(64, list(wobble))
    assert figure.held and figure.name.startswith("rate of 64x64x64") and figure.found.startswith("1.000 [")
    figure = soak_rate.judged(256, list(wobble + np.log(0.95)))
    assert not figure.held and figure.found.startswith("0.950 [")
    figure = soak_rate.judged(64, [np.zeros(2)])
    assert (figure.found, figure.held) == ("too few rounds for an interval", False)


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
    found = soak_sweeps.agreement(first, second)
    assert found.compared == 4
    assert found.median == pytest.approx(0.06)
    assert found.ninth == pytest.approx(np.percentile([0.1, 0, 0.5, 0.02], 90))
    assert found.contradictory == ("c",)
    assert found.same_against_different == ("a",)
    assert found.unresolved == 2
    apart, contradictory, mixed, unresolved = soak_sweeps.judged(found)
    assert not apart.held and apart.found == "median 6.00%, 90th percentile 38.00%"
    assert not contradictory.held and contradictory.found == "1, c"
    assert (mixed.found, unresolved.found) == ("1, a", "2")


def test_a_run_agrees_with_itself() -> None:
    run = run_of(a=(1.10, "slower"), b=(0.9, "faster"))
    found = soak_sweeps.agreement(run, run)
    assert (found.compared, found.median, found.ninth) == (2, 0, 0)
    assert all(figure.held for figure in soak_sweeps.judged(found))


def test_nothing_in_common_is_no_agreement() -> None:
    nothing = soak_sweeps.agreement(run_of(a=(1.0, "same")), run_of(b=(1.0, "same")))
    assert not soak_sweeps.judged(nothing)[0].held


def test_only_small_products_are_swept(tmp_path: Path) -> None:
    made, count = soak_sweeps.small(soak_sweeps.SHAPES, tmp_path)
    rows = json.loads(made.read_text())["problems"]
    assert len(rows) == count > 0
    assert all(2 * row["m"] * row["n"] * row["k"] < 1e9 for row in rows)


def against_itself(ratio: float | None, width: float = 0.01) -> Comparison:
    ends = (ratio - width, ratio + width) if ratio else (None, None)
    return Comparison("x", "variant", "a", "b", ratio, *ends, 0.95, "same", None, 0.01, 0.01)


@pytest.mark.parametrize(
    ("comparisons", "held", "found"),
    [
        ([(1.005, 0.01)] * 18 + [(1.02, 0.01)] * 2, True, "18 of 20 intervals hold 1, median half-width 1.00%"),
        ([(1.005, 0.01)] * 17 + [(1.02, 0.01)] * 3, False, "17 of 20"),
        ([(1.0, 0.04)] * 20, False, "median half-width 4.00%"),
        ([(1.0, 0.01)] * 9 + [(None, 0.0)], True, "9 of 10"),
    ],
)
def test_a_framework_against_itself(comparisons: list[tuple[float | None, float]], held: bool, found: str) -> None:
    figure = soak_frameworks.together("numpy against itself", [against_itself(*one) for one in comparisons])
    assert figure.held is held and found in figure.found


def test_a_run_that_fails_ends_its_part(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: object) -> Comparison:
        raise subprocess.CalledProcessError(3, "macro run")

    monkeypatch.setattr(soak_frameworks, "run", fails)
    (figure,) = soak_frameworks.figures("numpy", times=4)
    assert not figure.held and figure.found == "ends with exit code 3"


def explained(column: str | None, row: str = "fc2 wgrad", size: float = 0.1) -> dict[str, Any]:
    """A document of `explain` that names one cell first, or nothing; 0.1 s were injected."""
    named = [{"row": row, "column": column, "a": 0.3 + size, "b": 0.3}] if column else []
    return {"named": named, "identity": [{"injected": 0.1}], "gap": 0.2, "resolution": 0.005}


@pytest.mark.parametrize(
    ("document", "right"),
    [
        (explained("waiting"), True),
        (explained("waiting", size=0.109), True),
        (explained("waiting", size=0.112), False),
        (explained("waiting", row="fc3 wgrad"), False),
        (explained("gemm"), False),
        (explained(None), False),
    ],
)
def test_an_injection_is_named_by_its_row_its_column_and_its_size(document: dict[str, Any], right: bool) -> None:
    assert soak_explain.named_right(soak_explain.Draw("sleep", "fc2", 0.2), document) is right


def test_runs_with_and_without_an_injection_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the first kind, `sleep`, one is found; of the others none is; nothing is named where nothing is."""

    def explanation(draw: soak_explain.Draw) -> dict[str, Any]:
        return explained("waiting" if draw.what else None, f"{draw.layer} wgrad")

    monkeypatch.setattr(soak_explain, "explanation", explanation)
    *draws, found, quiet = soak_explain.figures(draws=2, empty=3)
    assert [figure.found.rpartition(": ")[2] for figure in draws] == ["right", "WRONG"]
    assert (found.found, found.held) == ("1 of 2", False) and (quiet.found, quiet.held) == ("3 of 3", True)


def test_the_injected_framework_is_a_framework(tmp_path: Path) -> None:
    """With all that `explain` calls, and the knobs by which it knows what to do."""
    plugin = load(injected.written(tmp_path, "sleep", "fc2", 0.2))
    assert plugin.ROWS == {"plugin": {"what": "sleep", "layer": "fc2", "share": 0.2}}
    assert all(callable(plugin.__dict__[name]) for name in ("available", "identity", "build", "trace", "record"))


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three parts whose figures are known."""

    def part(*figures: Figure) -> Callable[[], Iterator[Figure]]:
        return lambda: iter(figures)

    fine, busy = Figure("a", "1", "1", True), Figure("b", "2", "1", False, "too busy")
    known = {"fine": part(fine), "busy": part(fine, busy), "broken": part(Figure("c", "3", "1", False))}
    monkeypatch.setattr(soak, "PARTS", known)


@pytest.mark.parametrize(
    ("words", "code", "out"),
    [
        ("fine", 0, ["a: 1; promised 1: held"]),
        ("busy", 0, ["a: 1; promised 1: held", "b: 2; promised 1: not judged: too busy"]),
        ("broken,fine", 1, ["c: 3; promised 1: NOT HELD", "a: 1; promised 1: held"]),
    ],
)
def test_the_parts_asked_for_are_measured_in_their_order(
    parts: None,
    words: str,
    code: int,
    out: list[str],
    capsys: pytest.CaptureFixture[str],
    in_process: Callable[..., Ran],
) -> None:
    ran = in_process(capsys, selftest.main, ["--soak", words])
    assert (ran.code, ran.out.splitlines()) == (code, out)


def test_without_names_all_parts_are_measured(
    parts: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran]
) -> None:
    ran = in_process(capsys, selftest.main, ["--soak", "--json", str(tmp_path / "figures.json")])
    figures = json.loads((tmp_path / "figures.json").read_text())["figures"]
    assert (ran.code, [figure["name"] for figure in figures]) == (1, ["a", "a", "b", "c"])


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--soak", "slow"], "--soak slow: there are fine, busy, broken"),
        (["--soak", "-o", "x"], "-o: --soak keeps no run file"),
        (["--soak", "--full"], "not allowed with argument --"),
    ],
)
def test_what_cannot_be_asked_of_it(
    parts: None, words: list[str], says: str, capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran]
) -> None:
    ran = in_process(capsys, selftest.main, words)
    assert ran.code == 2 and says in ran.err
