"""Exports for pyperf, read by pyperf itself."""

from __future__ import annotations

import importlib.util
import json
import math
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reports import flat, store
from reports.record import Run
from tests.build import environment
from tests.reports.runs import SMALL, changed, formatted

needs_pyperf = pytest.mark.skipif(
    importlib.util.find_spec("pyperf") is None, reason="no pyperf: pip install -c constraints.txt pyperf"
)


@pytest.fixture(scope="module")
def run() -> Run:
    return store.read(SMALL)


def write(run: Run, path: Path) -> Path:
    path.write_text(formatted("pyperf", run))
    return path


def slower(run: Run, factor: float) -> Run:
    """The run with every sample that much longer."""

    return changed(run, lambda one: replace(one, samples=tuple(factor * x for x in one.samples)))


def names(run: Run) -> list[str]:
    return [name for contest in flat.named(run) for name, _ in contest]


def pyperf(*words: str | Path) -> str:
    """What pyperf prints."""
    command = [sys.executable, "-m", "pyperf", *map(str, words)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def test_a_benchmark_for_each_result_with_its_accepted_samples(run: Run, tmp_path: Path) -> None:
    run = changed(run, lambda one: replace(one, rejected=(0, 3), launches=7, uses=2))
    document = json.loads(write(run, tmp_path / "a.json").read_text())
    assert (document["version"], document["metadata"]["unit"]) == ("1.0", "second")
    assert [x["metadata"]["name"] for x in document["benchmarks"]] == names(run)
    results = [result for contest in flat.named(run) for _, result in contest]
    for found, result in zip(document["benchmarks"], results, strict=True):
        (process,) = found["runs"]
        assert process["values"] == [result.samples[1], result.samples[2], *result.samples[4:]]
        assert (found["metadata"]["loops"], found["metadata"]["inner_loops"]) == (7, 2)


def test_a_run_for_each_process(run: Run, tmp_path: Path) -> None:
    contest = run.contests[0]
    first, *rest = contest.results
    first = replace(first, samples=(1.0, 2.0, 3.0, 4.0), rounds=(0, 1, 0, 1), processes=(0, 0, 1, 1))
    run = replace(run, contests=(replace(contest, results=(first, *rest)),))
    found = json.loads(write(run, tmp_path / "a.json").read_text())["benchmarks"]
    assert found[0]["runs"] == [{"values": [1.0, 2.0]}, {"values": [3.0, 4.0]}]
    assert all(len(x["runs"]) == 1 for x in found[1:])


def test_results_without_samples_or_times_are_left_out(run: Run, tmp_path: Path) -> None:
    first, second, *rest = (contest := run.contests[0]).results
    first = replace(first, status="failed", seconds=None, reason="it crashed")
    second = replace(second, samples=(), rounds=())
    run = replace(run, contests=(replace(contest, results=(first, second, *rest)), *run.contests[1:]))
    document = json.loads(write(run, tmp_path / "a.json").read_text())
    assert [x["metadata"]["name"] for x in document["benchmarks"]] == names(run)[2:]
    nothing = json.loads(write(Run(environment()), tmp_path / "b.json").read_text())
    assert nothing == {"version": "1.0", "metadata": {"unit": "second", "digest": "0"}, "benchmarks": []}


@needs_pyperf
def test_pyperf_reads_what_the_record_says(run: Run, tmp_path: Path) -> None:
    import pyperf

    environment = replace(run.environment, command="python -m micro.gemm \\\n --transpose")
    suite = pyperf.BenchmarkSuite.load(str(write(replace(run, environment=environment), tmp_path / "a.json")))
    results: dict[str, Any] = {name: result for contest in flat.named(run) for name, result in contest}
    assert suite.get_benchmark_names() == list(results)
    for found in suite.get_benchmarks():
        result = results[found.get_name()]
        assert math.isclose(found.median(), result.seconds.median, rel_tol=1e-5)
        told = found.get_metadata()
        assert (told["cpu_model_name"], told["cpu_count"], told["timer"]) == ("AMD EPYC", 2, "cpu")
        assert (told["python_version"], told["load_avg_1min"]) == ("3.11.7", run.environment.state["load"][0])
        assert told["command"] == "python -m micro.gemm \\ --transpose"


@needs_pyperf
def test_compare_to(run: Run, tmp_path: Path) -> None:
    a = write(run, tmp_path / "a.json")
    b = write(slower(run, 1.25), tmp_path / "b.json")
    told = pyperf("compare_to", a, b)
    for name in names(run):
        (line,) = re.findall(rf"^{re.escape(name)}: Mean \+- std dev: (.*)$", told, re.MULTILINE)
        assert line.endswith("1.25x slower")
    assert told.rstrip().endswith("Geometric mean: 1.25x slower")
    c = write(slower(run, 1.0001), tmp_path / "c.json")
    hidden, _, listed = pyperf("compare_to", a, c).partition("\n")[0].partition(": ")
    assert hidden == f"Benchmark hidden because not significant ({len(names(run))})"
    assert listed.split(", ") == names(run)


@needs_pyperf
def test_stats_and_check(run: Run, tmp_path: Path) -> None:
    a = write(run, tmp_path / "a.json")
    told = pyperf("stats", a)
    counts = [len(flat.accepted(result)) for contest in flat.named(run) for _, result in contest]
    assert [int(x) for x in re.findall(r"^Total number of values: (\d+)$", told, re.MULTILINE)] == counts
    assert re.findall(r"^Number of run with values: (\d+)$", told, re.MULTILINE) == ["1"] * len(counts)
    quiet = changed(run, lambda one: replace(one, samples=one.samples[:1] * len(one.samples)))
    b = write(quiet, tmp_path / "b.json")
    assert "the standard deviation" in pyperf("check", a), "this run is noisy"
    assert "WARNING" not in pyperf("check", b)
