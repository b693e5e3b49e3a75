"""From Python: the same words as on the command line, the same records, errors instead of exit codes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import micro
from kernels.errors import SuiteError, UsageError
from kernels.users import name_of
from micro.measuring.checks import Checks
from reports import flat, store
from reports.record import Result, Run
from tests.conftest import Ran
from tests.processes import ROOT, python

SIZE: dict[str, Any] = {"m": 8, "n": 8, "k": 8}
FAKE: dict[str, Any] = SIZE | {"device": "fake", "variant": "openblas,naive"}
Gemm = Callable[..., Ran]


def names(**options: Any) -> list[str]:
    """The contests and cases of a plan, as `--list` prints them."""
    found = []
    for contest in micro.plan("gemm", **options).contests:
        found.append(f"{contest.name} (differs: {contest.differs})")
        found += [f"  {case.name}" + (f"  skipped: {case.skip}" if case.skip else "") for case in contest.cases]
    return found


# A plan


def test_a_plan_imports_nothing_heavy() -> None:
    program = (
        "import sys, micro; plan = micro.plan('gemm', m=[64, 128], transpose=True)\n"
        "assert plan.contests and not {'numpy', 'scipy', 'rich', 'msgspec'} & set(sys.modules), 'heavy'"
    )
    ran = python("-c", program)
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (SIZE, "--m 8 --n 8 --k 8"),
        (SIZE | {"m": [8, 16]}, "--m 8,16 --n 8 --k 8"),
        (SIZE | {"m": (8, 16), "trans": ["nn", "nt"]}, "--m 8,16 --n 8 --k 8 --trans nn,nt"),
        (SIZE | {"m": "8:64:*2", "variant": "openblas,naive"}, "--m 8:64:*2 --n 8 --k 8 --variant openblas,naive"),
        (SIZE | {"ld_pad": 3, "alpha": -0.5}, "--m 8 --n 8 --k 8 --ld-pad 3 --alpha=-0.5"),
        (SIZE | {"cold": ["a", "b"]}, "--m 8 --n 8 --k 8 --cold a,b"),
        (SIZE | {"vary": "trans", "trans": "nn,nt"}, "--m 8 --n 8 --k 8 --vary trans --trans nn,nt"),
        ({"transpose": True, "all": True, "full": False, "only": None}, "--transpose --all"),
        ({"transpose": True, "without": "numpy|mkl", "only": "m:8"}, "--transpose --not numpy|mkl --only m:8"),
        ({"shapes": ROOT / "micro/shapes/fc.json"}, "--shapes micro/shapes/fc.json"),
    ],
)
def test_options_are_those_of_the_command_line(
    gemm: Gemm, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any], words: str
) -> None:
    monkeypatch.chdir(ROOT)
    assert names(**options) == gemm(*words.split(), "--list").out.splitlines()


def test_the_budget() -> None:
    for options, budget in (
        ({}, (30.0, 0.01, None)),
        ({"budget": "5s", "target": "2%", "margin": 0.04}, (5.0, 0.02, 0.04)),
        ({"transpose": True, "full": True}, (240.0, 0.01, None)),
        ({"budget": 7}, (7.0, 0.01, None)),
    ):
        found = micro.plan("gemm", **options).budget
        assert (found.seconds, found.target, found.margin) == budget


def test_how_often_all_is_measured() -> None:
    assert [micro.plan("gemm", **SIZE, replicate=n).replicates for n in (1, 3)] == [1, 3]


BAD: list[tuple[str, dict[str, Any]]] = [
    ("banana", {}),
    ("ab", {}),
    ("../gemm", {}),
    *(
        ("gemm", options)
        for options in (
            {"banana": 1},
            {"m": []},
            {"m": [8, 8]},
            {"m": True},
            {"transpose": 5},
            {"resume": True},
            {"output": ["a", "b"]},
            {"until": "tomorrow"},
            {"replicate": 0},
            {"quiet": True, "verbose": True, "threads": 0},
        )
    ),
]


@pytest.mark.parametrize(("benchmark", "options"), BAD)
def test_bad_plans_are_errors_of_one_line(
    capsys: pytest.CaptureFixture[str], benchmark: str, options: dict[str, Any]
) -> None:
    with pytest.raises(UsageError) as told:
        micro.plan(benchmark, **options)
    assert isinstance(told.value, SuiteError) and len(str(told.value).splitlines()) == 1
    assert capsys.readouterr() == ("", "")


# A measurement


@pytest.fixture
def quiet(own_state: Path, light_fake: None) -> None:
    """The fake device with small caches and a state of its own."""


def plain(run: Run) -> list[Result]:
    """Results without what no two runs have in common."""
    return [replace(result, setup_seconds=None, faults=None) for result in run.results]


@pytest.mark.usefixtures("quiet")
def test_measuring_gives_records_in_the_order_of_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    plan = micro.plan("gemm", **FAKE | {"m": [8, 16]})
    run = micro.measure(plan)
    assert [contest.contest for contest in run.contests] == [contest.name for contest in plan.contests]
    measured = [result.name for result in run.results if result.role == "measured"]
    assert measured == [case.name for contest in plan.contests for case in contest.cases]
    assert all(comparison.ratio and comparison.verdict for comparison in run.comparisons)
    assert len(flat.comparisons(run)) == 2 and len(flat.results(run)) == sum(x.role == "measured" for x in run.results)
    assert capsys.readouterr() == ("", "")


def test_the_results_are_those_of_the_command_line(gemm: Gemm, tmp_path: Path) -> None:
    """Placements, samples, errors, verdicts: everything but what the clock of this machine says."""
    words = "--m 8,16 --n 8 --k 8 --trans nt --device fake --variant openblas,transpose-then-nn -q"
    assert gemm(*words.split(), "-o", str(tmp_path / "cli.jsonl")).code == 0
    options = FAKE | {"m": [8, 16], "trans": "nt", "variant": ["openblas", "transpose-then-nn"]}
    run = micro.measure(micro.plan("gemm", **options))
    other = store.read(tmp_path / "cli.jsonl")
    encoded = [json.dumps([vars(x) | {"seconds": None} for x in plain(y)], default=list) for y in (run, other)]
    assert encoded[0] == encoded[1]
    assert [x.seconds for x in run.results] == [x.seconds for x in other.results]
    assert run.comparisons == other.comparisons
    assert run.environment.digest == other.environment.digest


@pytest.mark.usefixtures("quiet")
def test_output_is_the_run_file(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    run = micro.measure(micro.plan("gemm", output=path, **FAKE))
    read = store.read(path)
    assert (read.comparisons, read.environment.digest) == (run.comparisons, run.environment.digest)
    with pytest.raises(UsageError, match="continue its run with --resume"):
        micro.measure(micro.plan("gemm", output=path, **FAKE))
    again = micro.measure(micro.plan("gemm", output=str(path), resume=True, **FAKE))
    assert [contest.contest for contest in again.contests] == ["gemm/m:8/n:8/k:8"]
    with pytest.raises(UsageError, match="it holds other contests"):
        micro.measure(micro.plan("gemm", output=str(path), resume=True, **FAKE | {"m": [8, 16]}))
    with pytest.raises(UsageError, match="-o "):
        micro.measure(micro.plan("gemm", output=tmp_path / "missing" / "x", **FAKE))


@pytest.mark.usefixtures("quiet")
def test_plans_that_share_workers_start_them_and_check_a_case_once(monkeypatch: pytest.MonkeyPatch) -> None:
    checked, checking = list[str](), Checks._checked
    monkeypatch.setattr(Checks, "_checked", lambda self, x, seed: (checked.append(x.name), checking(self, x, seed))[1])
    with micro.workers() as by:
        for variants in ("openblas", "openblas,naive"):
            plan = micro.plan("gemm", m=4, n=4, k=4, variant=variants, until="check")
            assert [x.status for x in micro.measure(plan, by).results] == ["ran"] * (1 + variants.count(","))
        planned = micro.plan("gemm", m=5, n=4, k=4, variant="openblas", until="plan")
        for plan, status in ((planned, "planned"), (replace(planned, until="check"), "ran")):
            assert [x.status for x in micro.measure(plan, by).results] == [status]
        assert len(by.workers._alive) == 1
    assert len(checked) == 4 and len(set(checked)) == 3 and not by.workers._alive


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize("bounded", [True, False])
def test_ceilings_are_measured_where_they_are_wanted(bounded: bool) -> None:
    with micro.workers(bounded) as by:
        run = micro.measure(micro.plan("gemm", **FAKE), by)
    assert any(x.role == "ceiling" for x in run.results) == bounded == any(x.ceiling for x in run.results)
    assert all(x.ratio is not None for x in run.comparisons) and run.comparisons


@pytest.mark.usefixtures("quiet")
@pytest.mark.parametrize(("options", "said"), [({}, False), ({"quiet": True}, False), ({"quiet": False}, True)])
def test_progress_only_where_it_is_asked_for(
    capsys: pytest.CaptureFixture[str], options: dict[str, Any], said: bool
) -> None:
    micro.measure(micro.plan("gemm", **FAKE, **options))
    told = capsys.readouterr()
    assert told.out == ""
    assert ("[1/1] which variant is fastest at gemm/m:8/n:8/k:8?" in told.err) is said


@pytest.mark.slow
def test_script_without_guard_keeps_its_stdout(tmp_path: Path) -> None:
    program = "import micro\nmicro.measure(micro.plan('gemm', m=8, n=8, k=8, device='fake', output='run.jsonl'))\n"
    (tmp_path / "script.py").write_text(program)
    ran = python("script.py", cwd=tmp_path, state=tmp_path / "state")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert store.read(tmp_path / "run.jsonl").environment.command == "from Python: script.py"


# A Python function as a variant


def product(problem: Any, a: Any, b: Any, c: Any) -> None:
    np.matmul(a, b, out=c)


def test_a_function_of_a_module_is_measured_as_of_its_file() -> None:
    assert name_of(product) == f"{__file__}:product"
    run = micro.measure(micro.plan("gemm", **SIZE, variant=["numpy", product], budget="0.1s"))
    assert [r.variant for r in run.results if r.role == "measured"] == ["numpy", f"{__file__}:product"]
    assert all(r.status in ("ok", "contended") for r in run.results)


@pytest.mark.parametrize("wrong", [False, True])
def test_a_function_of_a_script_is_kept_with_what_it_refers_to(wrong: bool, own_state: Path) -> None:
    factor = 2.0 if wrong else 1.0

    def mine(problem: Any, a: Any, b: Any, c: Any) -> None:
        np.multiply(np.matmul(a, b), factor, out=c)

    run = micro.measure(micro.plan("gemm", **SIZE, variant=mine, budget="0.1s"))
    (result,) = [r for r in run.results if r.role == "measured"]
    assert result.variant.startswith(str(own_state / "functions" / "mine-")) and result.variant.endswith(".pkl:mine")
    assert (result.status == "wrong") == wrong, result.reason
    assert result.kernel is not None and result.kernel.startswith("mine-")


def test_what_cannot_be_kept_is_refused() -> None:
    lock = threading.Lock()
    with pytest.raises(UsageError, match=r"cannot be pickled \(TypeError: .*\): define it in a file$"):
        micro.plan("gemm", **SIZE, variant=lambda problem, a, b, c: lock.acquire())
