"""Rows for a data frame, and names that hold over a whole run."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from reports import flat, stats, store
from reports.record import Result, Run
from tests import build
from tests.reports.runs import SMALL

REFERENCE = Path(__file__).parents[2] / "reports" / "reference"
SCALARS = (str, int, float, bool, type(None))


@pytest.fixture(scope="module")
def run() -> Run:
    return store.read(SMALL)


def result(**changed: Any) -> Result:
    name = "gemm/m:8/trans:nt/variant:a/threads:1"
    problem = {"m": 8, "trans": "nt", "alpha": 1.0, "data": "x/y"}
    fields = {"name": name, "contest": "q/gemm/m:8/variant:a", "problem": problem, "variant": "a"}
    return build.result(**fields | changed)


def alone(*results: Result, times: int = 1) -> Run:
    return build.run(*(build.contest(*results),) * times)


def test_results_are_rows_of_the_same_scalars(run: Run) -> None:
    rows = flat.results(run)
    measured = [x for x in run.results if x.role == "measured"]
    assert [row["name"] for row in rows] == [x.name for x in measured]
    assert len({tuple(row) for row in rows}) == 1
    assert tuple(rows[0])[: len(flat.COLUMNS)] == flat.COLUMNS
    assert all(isinstance(value, SCALARS) for row in rows for value in row.values())
    for row, one in zip(rows, measured, strict=True):
        assert row["median_seconds"] == (one.seconds.median if one.seconds else None)
        assert all(row[axis] == value for axis, value in one.problem.items())
    assert "isa" not in rows[0], "an axis of the ceilings"
    (row,) = flat.results(alone(result(problem={"kernel": 3}, kernel="OpenBLAS")))
    assert (row["kernel"], row["problem_kernel"]) == ("OpenBLAS", 3)  # an axis that is called like a column
    facts = {"compiler": "cc\n 12", "commit": None, "packages": {"mkl": None}}
    assert flat.versions(build.environment(facts=facts)) == {"digest": "0", "compiler": "cc 12"}


def peaks(**changed: Any) -> tuple[float | None, float | None]:
    """What stands beside a case in a row, among ceilings of one and of two threads."""
    bounds = [
        result(name=f"{op}/{rate}", role="ceiling", op=op, threads=threads, problem={}, ceiling=name, **rates)
        for op, threads, name in (
            ("fma", 1, "FMA avx2"),
            ("fma", 2, "FMA avx2, 2 threads"),
            ("stream", 1, "read 4 MiB"),
            ("stream", 1, "read 8 MiB"),
            ("stream", 2, "read 4 MiB, 2 threads"),
        )
        for rate in [1e9 * threads * (2 if "8" in name else 1)]
        for rates in [{"flops_per_second": rate} if op == "fma" else {"bytes_per_second": rate}]
    ]
    (row,) = flat.results(alone(result(**changed), *bounds))
    return row["peak_flops_per_second"], row["peak_bytes_per_second"]


def test_ceilings_are_columns_of_the_cases_beside_them() -> None:
    assert peaks(ceiling="read 8 MiB") == (1e9, 2e9)
    assert peaks(ceiling="FMA avx2") == (1e9, None), "of two reads neither is known to be its own"
    assert peaks(ceiling="FMA avx2, 2 threads", threads=2) == (2e9, 2e9)
    assert peaks(ceiling="read 4 MiB, 4 × 1 thread", threads=4) == (4e9, 4e9)
    assert peaks(device="cuda:0") == (None, None)


def test_samples_are_rows_in_the_order_taken() -> None:
    noted = replace(result(), samples=(1.0, 3.0, 2.0), rounds=(0, 1, 2), rejected=(1,))
    rows = flat.samples(alone(noted))
    assert [(x["round"], x["seconds"], x["rejected"]) for x in rows] == [
        (0, 1.0, False),
        (1, 3.0, True),
        (2, 2.0, False),
    ]
    assert {x["name"] for x in rows} == {noted.name}


def test_comparisons_are_rows_with_the_axes_that_both_sides_share(run: Run) -> None:
    rows = flat.comparisons(run)
    assert [row["ratio"] for row in rows] == [x.ratio for x in run.comparisons]
    assert len({tuple(row) for row in rows}) == 1
    assert all(isinstance(value, SCALARS) for row in rows for value in row.values())
    row = rows[-1]
    assert (row["differs"], row["trans"], row["m"], row["variant"]) == ("trans", None, 16, "openblas")
    medians = {x.name: x.seconds.median for x in run.contests[-1].results if x.seconds}
    assert row["baseline_seconds"] == medians[row["baseline"]]
    assert row["contender_seconds"] == medians[row["contender"]] != row["baseline_seconds"]
    assert "isa" not in row, "an axis of the ceilings"


@pytest.mark.parametrize(
    "path", [SMALL, REFERENCE / "transpose-full.jsonl", REFERENCE / "conv/default.jsonl"], ids=lambda x: x.stem
)
def test_names_are_unique_and_tell_two_sides_apart_by_what_differs(path: Path) -> None:
    run = store.read(path)
    members = flat.named(run)
    names = [name for contest in members for name, _ in contest]
    assert len(names) == len({*names}) == sum(x.role == "measured" for x in run.results)
    for contest, named in zip(run.contests, members, strict=True):
        told = {one.name: (name, one) for name, one in named}
        for comparison in contest.comparisons:
            (first, a), (second, b) = told[comparison.baseline], told[comparison.contender]
            apart = {one.partition(":")[0] for one in set(first.split("/")) ^ set(second.split("/"))}
            keys = ("variant", "threads", "cold", "isa", "heap")
            settings = {key for key in keys if getattr(a, key) != getattr(b, key)}
            assert apart == settings | {axis for axis in a.problem if a.problem[axis] != b.problem[axis]}
            unsaid = {key for key in ("isa", "heap") if getattr(a, key) != getattr(b, key)}  # where it is the default
            assert len(first.split("/")) == len(second.split("/")) or unsaid


def test_a_name_is_the_question_then_every_axis_and_setting() -> None:
    ((name, _),), ((again, _),) = flat.named(alone(result(), times=2))
    assert name == "q/gemm/m:8/trans:nt/alpha:1/data:x%2Fy/variant:a/threads:1/cold:none"
    assert again == name.replace("q/", "q/again:2/")
    for settings, want in (
        ("threads:1/cold:a+b", "threads:1/cold:a,b"),  # compare.py takes a plus for a regular expression's
        ("threads:1/arm:b", "threads:1/cold:none/arm:b"),
        ("threads:1/cold:a/arm:b", "threads:1/cold:a/arm:b"),
    ):
        one = result(name=f"gemm/m:8/trans:nt/variant:a/{settings}")
        (((name, _),),) = flat.named(alone(one))
        assert name == f"q/gemm/m:8/trans:nt/alpha:1/data:x%2Fy/variant:a/{want}"


def test_rejected_rounds_do_not_count_however_few_are_left() -> None:
    many = result(samples=(1.0,) * 8, rounds=tuple(range(8)), rejected=(2, 7))
    assert flat.accepted(many) == [0, 1, 3, 4, 5, 6]
    few = replace(many, rejected=tuple(range(9 - stats.FEWEST)))
    assert flat.accepted(few) == flat.timed(few) == [3, 4, 5, 6, 7]
    none = replace(many, rejected=tuple(range(8)))
    assert flat.accepted(none) == [] and flat.timed(none) == list(range(8)), "a time is of something"
    assert flat.accepted(result()) == []


def test_accepted_samples_give_the_median_of_the_record(run: Run) -> None:
    for recorded in run.results:
        if recorded.seconds:
            last = max(recorded.rounds) + 1
            rounds, samples = (*recorded.rounds, last, last), (*recorded.samples, 1e3, 1e-12)
            noisy = replace(recorded, rounds=rounds, samples=samples, rejected=(*recorded.rejected, last))
            median = stats.order_interval(np.array([samples[i] for i in flat.accepted(noisy)]))[0]
            assert math.isclose(median, recorded.seconds.median, rel_tol=1e-5), recorded.name
