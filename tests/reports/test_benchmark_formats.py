"""Exports for google-benchmark and pyperf, read by their own programs."""

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
from reports.record import Result, Run
from tests.build import environment
from tests.reports.runs import SMALL, changed, formatted, strict

COMPARE = Path("/usr/share/benchmark/compare.py")
needs_compare = pytest.mark.skipif(
    not COMPARE.exists(), reason=f"no {COMPARE}: apt-get install -y --no-install-recommends libbenchmark-tools"
)


@pytest.fixture(scope="module")
def run() -> Run:
    return store.read(SMALL)


def exported(run: Run) -> Any:
    return strict(formatted("googlebench", run))


def broken(one: Result, status: str = "wrong") -> Result:
    """NT at M = 4 of nn-nt, without a time."""
    if one.contest.startswith("nn-nt/gemm/m:4/") and "trans:nt" in one.name:
        return replace(one, status=status, seconds=None, reason="it is 0.1 off", samples=(), rounds=())
    return one


def compare(folder: Path, mode: str, runs: list[Run], *filters: str) -> dict[str, Any]:
    """What compare.py says: for each name its measurements and U test, as its --dump_to_json has them."""
    paths = [folder / f"{i}.json" for i in range(len(runs))]
    for path, one in zip(paths, runs, strict=True):
        path.write_text(json.dumps(exported(one)))
    command = [sys.executable, COMPARE, "--no-color", "-a", "-d", folder / "told", mode, *paths, *filters]
    ran = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600, check=False)
    assert (ran.returncode, ran.stderr) == (0, "")
    found = json.loads((folder / "told").read_text())
    assert all(row["name"] in ran.stdout for row in found if row["run_type"] == "aggregate")
    return {row["name"]: row for row in found}


def test_a_row_for_each_accepted_round(run: Run) -> None:
    run = changed(run, lambda one: replace(one, rejected=(0, 3), launches=7, uses=2))
    rows = [row for row in exported(run)["benchmarks"] if row["run_type"] == "iteration"]
    for name, one in (pair for contest in flat.named(run) for pair in contest):
        own = [row for row in rows if row["name"] == name]
        assert [row["repetition_index"] for row in own] == list(range(len(one.samples) - 2))
        assert {row["repetitions"] for row in own} == {len(own)}
        assert [row["cpu_time"] for row in own] == [1e9 * one.samples[i] for i in flat.accepted(one)]
        assert [row["real_time"] for row in own] == [1e9 * one.wall_samples[i] for i in flat.accepted(one)]
        assert one.seconds and one.flops_per_second
        work = one.flops_per_second * one.seconds.median
        assert all(math.isclose(row["items_per_second"] * row["cpu_time"], 1e9 * work) for row in own)
        assert {(row["iterations"], row["threads"], row["time_unit"]) for row in own} == {(14, 1, "ns")}
    assert {row["name"] for row in rows} == {name for contest in flat.named(run) for name, _ in contest}


def test_statistics_of_the_rounds(run: Run) -> None:
    import numpy as np

    rows = {row["name"]: row for row in exported(run)["benchmarks"] if row["run_type"] == "aggregate"}
    for name, one in (pair for contest in flat.named(run) for pair in contest):
        times = 1e9 * np.array([one.samples[i] for i in flat.accepted(one)])
        want = {"mean": times.mean(), "median": np.median(times), "stddev": times.std(ddof=1)}
        for statistic, value in want.items():
            row = rows.pop(f"{name}_{statistic}")
            assert math.isclose(row["cpu_time"], value)
            assert (row["aggregate_name"], row["aggregate_unit"]) == (statistic, "time")
            assert (row["run_name"], row["iterations"]) == (name, len(times))
        row = rows.pop(f"{name}_cv")
        assert math.isclose(row["cpu_time"], want["stddev"] / want["mean"])
        assert row["aggregate_unit"] == "percentage"
    assert not rows


def test_without_samples_the_median_is_told(run: Run) -> None:
    """And where only the wall's clock was read, both times are its."""
    bare = changed(run, lambda one: replace(one, samples=(), wall_samples=(), rounds=(), rejected=()))
    rows = exported(bare)["benchmarks"]
    assert [row["run_type"] for row in rows] == ["aggregate"] * sum(map(len, flat.named(run)))
    _, one = flat.named(run)[0][0]
    assert one.seconds
    assert rows[0]["name"].endswith("_median") and rows[0]["real_time"] == 1e9 * one.seconds.median
    rows = exported(changed(run, lambda one: replace(one, clock="wall", wall_samples=())))["benchmarks"]
    assert rows and all(row["real_time"] == row["cpu_time"] > 0 for row in rows)


def test_context(run: Run) -> None:
    context = exported(run)["context"]
    assert context["json_schema_version"] == 1
    assert [cache["size"] for cache in context["caches"]] == [49152, 1048576, 33554432]
    assert (context["num_cpus"], context["mhz_per_cpu"]) == (2, 2596)
    assert (context["date"], context["digest"]) == (run.environment.started, run.environment.digest)
    assert (context["executable"], context["numpy"]) == (run.environment.command, "2.4.6")
    empty = exported(Run(environment()))
    assert empty["benchmarks"] == empty["context"]["caches"] == empty["context"]["load_avg"] == []


@pytest.mark.parametrize(
    ("status", "flag", "message"),
    [("wrong", "error_occurred", "error_message"), ("skipped", "skipped", "skip_message")],
)
def test_a_case_without_a_time_says_why(run: Run, status: str, flag: str, message: str) -> None:
    document = exported(changed(run, lambda one: broken(one, status)))
    (row,) = (row for row in document["benchmarks"] if flag in row)
    assert (row[flag], row[message]) == (True, f"{status}: it is 0.1 off")
    assert "trans:nt" in row["name"] and row["real_time"] == 0


@needs_compare
def test_compare_sets_two_values_of_an_axis_side_by_side(run: Run, tmp_path: Path) -> None:
    told = compare(tmp_path, "filters", [run], "trans:nn", "trans:nt")
    for contest, members in zip(run.contests, flat.named(run), strict=True):
        (first, a), (_, b) = members[:2]  # NN and NT in the same library
        name = first.replace("trans:nn", "[trans:nn vs. trans:nt]")
        assert a.seconds and b.seconds, contest.contest
        (change,) = told[f"{name}_median"]["measurements"]
        assert math.isclose(1 + change["cpu"], b.seconds.median / a.seconds.median)
        test = told[name]["utest"]
        assert test["have_optimal_repetitions"]
        assert test["nr_of_repetitions"] == test["nr_of_repetitions_other"] == len(flat.accepted(a))
    assert len(told) == 5 * len(run.contests) + 1, "a name, four statistics; the geometric mean of all"


@needs_compare
def test_compare_sets_two_runs_side_by_side(run: Run, tmp_path: Path) -> None:
    def slower(one: Result) -> Result:
        times = (tuple(1.25 * x for x in samples) for samples in (one.samples, one.wall_samples))
        return replace(one, **dict(zip(("samples", "wall_samples"), times, strict=True)))

    told = compare(tmp_path, "benchmarks", [run, changed(run, slower)])
    for name, _ in (pair for contest in flat.named(run) for pair in contest):
        (change,) = told[f"{name}_median"]["measurements"]
        assert math.isclose(change["time"], 0.25) and math.isclose(change["cpu"], 0.25)
    (whole,) = told["OVERALL_GEOMEAN"]["measurements"]
    assert math.isclose(whole["time"], 0.25)


@pytest.mark.slow
@needs_compare
def test_compare_takes_no_case_without_a_time_for_a_fast_one(run: Run, tmp_path: Path) -> None:
    names = [name for contest in flat.named(run) for name, _ in contest]
    (gone,) = (name for name in names if "nn-nt/gemm/m:4/" in name and "trans:nt" in name)
    bad = changed(run, broken)
    for runs in ([bad, run], [run, bad], [bad, bad]):
        told = compare(tmp_path, "benchmarks", runs)
        assert {name for name in names if name in told} == {*names} - {gone}
        assert "OVERALL_GEOMEAN" in told
        assert not [x for row in told.values() for x in row["measurements"] if x["cpu_time_other"] == 0]


needs_pyperf = pytest.mark.skipif(
    importlib.util.find_spec("pyperf") is None, reason="no pyperf: pip install -c constraints.txt pyperf"
)


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
