"""What two names share and in what they differ; the rows, notes and troubles of a run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from reports import table
from reports.record import Comparison, Contest, Environment, Result, Run, Seconds

BASE = "gemm/m:1/n:8/k:8"


@pytest.mark.parametrize(
    ("contender", "baseline", "told"),
    [
        (
            f"{BASE}/trans:nt/variant:x/threads:1", f"{BASE}/variant:x/threads:1",
            ("gemm m:1 n:8 k:8 x", "nt", "nn"),
        ),
        (
            f"{BASE}/variant:y/threads:1", f"{BASE}/variant:x/threads:1",
            ("gemm m:1 n:8 k:8", "y", "x"),
        ),
        (
            f"{BASE}/variant:kept-transpose:8/threads:1", f"{BASE}/variant:x/threads:1",
            ("gemm m:1 n:8 k:8", "kept-transpose:8", "x"),
        ),
        (
            f"{BASE}/trans:nt/variant:y/threads:1", f"{BASE}/variant:x/threads:1",
            ("gemm m:1 n:8 k:8", "nt y", "nn x"),
        ),
        (
            f"{BASE}/variant:x/threads:2", f"{BASE}/variant:x/threads:1",
            ("gemm m:1 n:8 k:8 x", "2", "1"),
        ),
        (
            f"{BASE}/variant:x/threads:1/cold:a+b", f"{BASE}/variant:x/threads:1",
            ("gemm m:1 n:8 k:8 x", "a+b", "warm"),
        ),
        (
            f"{BASE}/ld_pad:16/variant:x/threads:1", f"{BASE}/variant:x/threads:1",
            ("gemm m:1 n:8 k:8 x", "16", "0"),
        ),
        (
            "gemm/m:2/n:8/k:8/variant:x/threads:1", f"{BASE}/variant:x/threads:1",
            ("gemm n:8 k:8 x", "2", "1"),
        ),
        (
            "gemm/m:2/n:8/k:8/variant:y/threads:2", f"{BASE}/variant:x/threads:1",
            ("gemm n:8 k:8", "m:2 threads:2 y", "m:1 threads:1 x"),
        ),
    ],
)  # fmt: skip
def test_contrast(contender: str, baseline: str, told: tuple[str, str, str]) -> None:
    assert table.contrast(contender, baseline) == told


SECONDS = Seconds(1e-6, 0.9e-6, 1.1e-6, 0.95)
FIRST = Result(
    f"{BASE}/variant:x/threads:1", "c", "measured", "gemm", {"m": 1}, "x", "cpu", 1, "ok", seconds=SECONDS
)
SECOND = replace(FIRST, name=f"{BASE}/variant:y/threads:1", variant="y", percent_of_ceiling=40.0)
COMPARED = Comparison(
    "c", "variant", FIRST.name, SECOND.name, 1.5, 1.4, 1.6, 0.95, "slower", None, 0.01, 0.01
)
FMA = replace(
    FIRST, name="fma/isa:avx2", role="ceiling", op="fma", problem={"isa": "avx2"}, flops_per_second=5e10
)
READ = replace(
    FIRST, name="stream", role="ceiling", op="stream", problem={"kind": "read", "size": 49152},
    bytes_per_second=2e10,
)  # fmt: skip


def run(*results: Result, compared: tuple[Comparison, ...] = ()) -> Run:
    environment = Environment("0", {}, {}, "", "")
    spent = {"measuring": 1.25, "setup": 0.5}
    return Run(environment, (Contest("c", "?", "variant", results, compared, spent),))


def test_a_row_for_each_comparison() -> None:
    made = table.comparisons(run(FIRST, SECOND, compared=(COMPARED,)))
    (row,) = made.rows
    assert len(row) == len(made.head)
    assert row[:2] == ("gemm m:1 n:8 k:8", "y / x")
    assert "1.50" in row[2] and "1.40" in row[2] and "1.60" in row[2]
    assert row[3:6] == ("slower", "1.00 µs", "1.00 µs")
    assert "40 %" in row[6]
    assert made.notes == ()


def test_a_reason_said_twice_is_one_note() -> None:
    noted = replace(COMPARED, verdict="unresolved", reason="the budget ran out")
    both = replace(noted, notes=("includes the Python call of one side",))
    made = table.comparisons(run(FIRST, SECOND, compared=(noted, both)))
    assert [row[3] for row in made.rows] == ["unresolved (1)", "unresolved (1) (2)"]
    assert made.notes == ("(1) the budget ran out", "(2) includes the Python call of one side")


def test_what_could_not_be_compared_has_dashes() -> None:
    failed = replace(SECOND, status="failed", seconds=None, reason="crashes", percent_of_ceiling=None)
    compared = replace(
        COMPARED, ratio=None, low=None, high=None, verdict="not comparable", reason="y failed: crashes"
    )
    made = table.comparisons(run(FIRST, failed, compared=(compared,)))
    (row,) = made.rows
    assert (row[2], row[3], row[4]) == ("–", "not comparable (1)", "–")
    assert made.notes == ("(1) y failed: crashes",)


def test_the_table_of_cases_leaves_ceilings_out() -> None:
    assert [row[0] for row in table.results(run(FIRST, FMA, SECOND)).rows] == [FIRST.name, SECOND.name]


def test_the_best_of_each_ceiling() -> None:
    slow = replace(FMA, flops_per_second=1e10)
    told = table.ceilings(run(FIRST, slow, FMA, slow, READ))
    assert told == ("FMA avx2 50.0 GFLOP/s", "read 48 KiB 20.0 GB/s")


def test_troubles_are_told_once() -> None:
    skipped = replace(SECOND, status="skipped", seconds=None, reason="torch is not installed")
    warned = replace(FIRST, warnings=("contended: slow host",))
    told = table.troubles(run(skipped, replace(skipped, name="other"), warned, replace(warned, name="z")))
    assert len(told) == 2
    assert "y" in told[0] and "skipped: torch is not installed" in told[0]
    assert FIRST.name in told[1] and "contended: slow host" in told[1]


def test_kernels_are_told_once_for_each_variant() -> None:
    known = replace(FIRST, kernel="OpenBLAS 0.3", isa_observed="avx2", blas="sgemm(N,N) m=8 n=1")
    other = replace(known, problem={"m": 1, "trans": "nt"}, blas="sgemm(T,N) m=8 n=1")
    told = [line for line in table.kernels(run(known, known, other, SECOND)) if line.startswith("x: ")]
    text = "\n".join(told)
    assert text.count("sgemm(N,N)") == text.count("sgemm(T,N)") == 1
    assert all("OpenBLAS 0.3" in line and "avx2" in line for line in told)
    assert "m=8" not in text
    assert not [line for line in table.kernels(run(FIRST, SECOND)) if "None" in line]


def test_seconds_are_summed() -> None:
    one = run(FIRST)
    two = replace(one, contests=one.contests * 2)
    assert "2.5 s" in table.seconds(two) and "1.0 s" in table.seconds(two)
