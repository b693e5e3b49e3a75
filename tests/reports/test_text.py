"""Tables: what names share, rows, notes and troubles, as text; numbers with their units."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from reports import stats, table, units
from reports.formats import text
from reports.record import Comparison, Note, Result, Run
from tests import build

BASE, AT = "gemm/m:1/n:8/k:8", "gemm m:1 n:8 k:8"
SETTING = ("variant", "threads", "cold")


@pytest.mark.parametrize(
    ("contender", "baseline", "told"),
    [
        ("trans:nt/variant:x/threads:1", "variant:x/threads:1", (f"{AT} x", "nt", "nn")),
        ("variant:y/threads:1", "variant:x/threads:1", (AT, "y", "x")),
        ("variant:kept-transpose:8/threads:1", "variant:x/threads:1", (AT, "kept-transpose:8", "x")),
        ("trans:nt/variant:y/threads:1", "variant:x/threads:1", (AT, "nt y", "nn x")),
        ("variant:x/threads:2", "variant:x/threads:1", (f"{AT} x", "2", "1")),
        ("variant:x/threads:1/cold:a+b", "variant:x/threads:1", (f"{AT} x", "a+b", "warm")),
        ("ld_pad:16/variant:x/threads:1", "variant:x/threads:1", (f"{AT} x", "16", "0")),
        ("l:2/variant:x/threads:1", "l:1/variant:x/threads:1", (f"{AT} x", "2", "1")),
        ("l:2/variant:y/threads:2", "l:1/variant:x/threads:1", (AT, "l:2 threads:2 y", "l:1 threads:1 x")),
    ],
)
def test_contrast(contender: str, baseline: str, told: tuple[str, str, str]) -> None:
    assert table.contrast(_case(f"{BASE}/{contender}"), _case(f"{BASE}/{baseline}")) == told


def test_contrast_is_of_what_the_record_holds() -> None:
    """Two operations share no field: each is said whole. A word alone stands without its name beside others."""
    first, second = _case("scale/variant:x/threads:1"), _case("scale/factor:3/variant:x/threads:1")
    assert table.contrast(second, replace(first, problem={"factor": 2.0})) == ("scale x", "3", "2")
    layer = replace(_case("conv/n:16/c:64/variant:torch/threads:1"), op="conv")
    norm = replace(_case("norm/images:16/maps:64/variant:c/threads:1"), op="norm")
    assert table.contrast(norm, layer) == ("norm/conv", "images:16 maps:64 c", "n:16 c:64 torch")
    first, second = map(
        _case, ("norm/maps:8/mode:frozen/variant:y/threads:1", "norm/maps:8/mode:train/variant:x/threads:1")
    )
    assert table.contrast(first, second) == ("norm maps:8", "mode:frozen y", "mode:train x")
    first, second = (replace(case, axes={"mode": "word"}) for case in (first, second))
    assert table.contrast(first, second) == ("norm maps:8", "frozen y", "train x")


def _case(name: str) -> Result:
    """A case as its name says; fields that the name leaves out are at their default."""
    words = dict(word.split(":", 1) for word in name.split("/")[1:])
    problem = {"trans": "nn", "ld_pad": 0, "beta": 0.0} | {k: v for k, v in words.items() if k not in SETTING}
    cold = tuple(words["cold"].split("+")) if "cold" in words else ()
    fields = {"problem": problem, "variant": words["variant"], "cold": cold, "axes": {"trans": "word"}}
    return build.result(name, **fields)


FIRST = build.result(f"{BASE}/variant:x/threads:1", problem={"m": 1}, variant="x")
SECOND = replace(FIRST, name=f"{BASE}/variant:y/threads:1", variant="y", percent_of_ceiling=40.0)
COMPARED = build.comparison(FIRST.name, SECOND.name, low=1.4, high=1.6)
FMA = replace(
    FIRST,
    name="fma/isa:avx2",
    role="ceiling",
    op="fma",
    problem={"isa": "avx2"},
    flops_per_second=5e10,
    ceiling="FMA avx2",
)
READ = replace(
    FIRST,
    name="stream",
    role="ceiling",
    op="stream",
    problem={"kind": "read", "size": 49152},
    bytes_per_second=2e10,
    ceiling="read 48 KiB",
)


def run(*results: Result, compared: tuple[Comparison, ...] = ()) -> Run:
    spent = {"measuring": 1.25, "setup": 0.5}
    return build.run(build.contest(*results, comparisons=compared, seconds=spent), environment=build.environment())


def test_a_row_for_each_comparison() -> None:
    made = table.comparisons(run(FIRST, SECOND, compared=(COMPARED,)))
    (row,) = made.rows
    assert len(row) == len(made.head)
    assert made.title == "Ratios of time, gemm m:1 n:8 k:8" and row[0] == "y / x"
    assert "1.50" in row[1] and "1.40" in row[1] and "1.60" in row[1]
    assert row[2:4] == ("slower", "1.00 µs, 1.00 µs")
    assert "40 %" in row[4]
    assert made.notes == ()


def test_a_reason_said_twice_is_one_note() -> None:
    noted = replace(COMPARED, low=0.9, verdict="unresolved", reason="the budget ran out")
    both = replace(noted, notes=("one case includes a Python call",))
    made = table.comparisons(run(FIRST, SECOND, compared=(noted, both)))
    assert [row[2] for row in made.rows] == ["unresolved (1)", "unresolved (1) (2)"]
    assert made.notes[:2] == ("(1) the budget ran out", "(2) one case includes a Python call")
    assert made.notes[2].startswith("unresolved: the 99% interval, ") and len(made.notes) == 3
    failed = replace(SECOND, status="failed", seconds=None, reason="crashes", percent_of_ceiling=None)
    blank = replace(COMPARED, ratio=None, low=None, high=None, verdict="not comparable", reason="y failed: crashes")
    made = table.comparisons(run(FIRST, failed, compared=(blank,)))
    assert made.rows[0][1:4] == ("–", "crashed (1)", "–, 1.00 µs") and made.notes == ("(1) y failed: crashes",)


@pytest.mark.parametrize(
    ("low", "high", "verdict", "cell"),
    [
        (1.1, 1.9, "unresolved", "unresolved†"),
        (0.1, 0.9, "unresolved", "unresolved†"),
        (0.9, 1.9, "unresolved", "unresolved"),
        (None, None, "unresolved", "unresolved"),
        (1.4, 1.6, "slower", "slower"),
    ],
)
def test_unresolved_beside_an_interval_that_excludes_1_is_explained(
    low: float | None, high: float | None, verdict: str, cell: str
) -> None:
    made = table.comparisons(run(FIRST, SECOND, compared=(replace(COMPARED, low=low, high=high, verdict=verdict),)))
    assert made.rows[0][2] == cell
    assert any("†: the 95% interval shown excludes 1" in note for note in made.notes) == ("†" in cell)


@pytest.mark.parametrize(
    ("status", "reason", "cell"),
    [
        ("wrong", "off by 3", "wrong"),
        ("failed", "crashes: its process was killed by SIGSEGV", "crashed"),
        ("failed", "out of memory", "failed"),
        ("skipped", "not here", "skipped"),
    ],
)
def test_a_side_without_a_time_is_the_verdict_and_a_file_is_named_as_typed(status: Any, reason: str, cell: str) -> None:
    name, variant = "gemm/m:1/n:8/k:8/variant:.%2Fown%25.py:f/threads:1", "./own%.py:f"
    own = replace(SECOND, name=name, variant=variant, status=status, seconds=None, reason=reason)
    blank = replace(COMPARED, contender=name, ratio=None, low=None, high=None, p=None, verdict="not comparable")
    blank = replace(blank, reason=f"{name} {status}: {reason}", notes=("one case includes a Python call",))
    content = table.comparisons(run(FIRST, own, compared=(blank,)))
    assert content.rows[0][0] == "./own%.py:f / x" and content.rows[0][2] == f"{cell} (1)"
    assert content.notes == (f"(1) {variant} {status}: {reason}",), "a call that was not timed needs no remark"
    assert table.troubles(run(FIRST, own, compared=(blank,))) == ()
    (trouble,) = table.troubles(run(FIRST, replace(own, evidence="x.json"), compared=(blank,)))
    where = variant if status == "skipped" else f"{BASE}/variant:{variant}/threads:1"
    assert trouble == f"{where}: {status}: {reason} (evidence: x.json)"
    blank = replace(blank, baseline=name, contender=FIRST.name)
    assert table.comparisons(run(FIRST, own, compared=(blank,))).rows[0][2] == f"baseline {cell} (1)"


def test_a_ratio_of_contended_times_says_so_behind_its_star() -> None:
    busy = replace(SECOND, status="contended")
    judged = replace(COMPARED, p=0.0, interval=stats.ROUNDS)
    content = table.comparisons(run(FIRST, busy, compared=(judged, replace(judged, verdict="unresolved"))))
    assert [row[2] for row in content.rows] == ["slower* contended", "unresolved† contended"]
    assert any(note.startswith("contended: more than a fifth of one side's rounds") for note in content.notes)


def test_too_few_rounds_are_one_footnote_of_all_comparisons() -> None:
    few = replace(COMPARED, ratio=None, low=None, high=None, p=None, verdict="unresolved")
    reasons = [f"{n} of the 6 rounds that an interval needs, {m} more were rejected" for n, m in ((3, 24), (0, 27))]
    content = table.comparisons(run(FIRST, SECOND, compared=tuple(replace(few, reason=text) for text in reasons)))
    assert [row[2] for row in content.rows] == ["unresolved (1)"] * 2
    assert content.notes[0] == "(1) 0 to 3 of the 6 rounds that an interval needs, 24 to 27 more were rejected"


def test_the_best_of_each_ceiling() -> None:
    slow = replace(FMA, flops_per_second=1e10)
    tensor = {"dtype": "bf16", "unit": "wgmma", "steps": 4096, "processors": 132}
    rates = {"flops_per_second": 9e14, "bytes_per_second": 3e10, "ceiling": "tensor cores bf16, wgmma"}
    made = run(FIRST, slow, FMA, slow, replace(FMA, op="mma", problem=tensor, **rates), READ, SECOND)
    told = ("FMA avx2 50.0 GFLOP/s", "tensor cores bf16, wgmma 900 TFLOP/s", "read 48 KiB 20.0 GB/s")
    assert table.ceilings(made) == told
    assert [row[0] for row in table.results(made).rows] == [FIRST.name, SECOND.name], "cases alone"
    seconds = table.seconds(replace(made, contests=made.contests * 2))
    assert "2.5 s" in seconds and "1.0 s" in seconds


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


# What ran, errors, the home device


def named(*notes: Note) -> dict[str, str]:
    """What `kernels` says of each variant, of a run of two cases of x and one of y."""
    other = replace(FIRST, name=f"{BASE}/trans:nt/variant:x/threads:1", kernel="X 1")
    made = run(replace(FIRST, kernel="X 1"), other, replace(SECOND, blas="NN = sgemm(N,N)"))
    lines = table.kernels(replace(made, notes=notes))
    return {line.partition(": ")[0]: line.partition(": ")[2] for line in lines}


OTHER = f"{BASE}/trans:nt/variant:x/threads:1"


def test_kernels_that_a_profiler_saw_are_named() -> None:
    """A chain of one kernel once; others of other cases are counted."""

    def seen(names: dict[str, list[str]]) -> Note:
        return Note("kernels", {"names": names})

    every = seen({FIRST.name: ["pack", "sgemm_128x64"], OTHER: ["pack", "sgemm_128x64"]})
    assert named(every) == {"x": "X 1 (instruction set not known); ran pack + sgemm_128x64", "y": "NN = sgemm(N,N)"}
    assert named(seen({FIRST.name: ["pack", *["empty"] * 128]}))["x"].endswith("; ran pack + 128 × empty")
    later = seen({SECOND.name: ["mine"], "gemm/of/another/run": ["nobody's"]})
    told = named(seen({FIRST.name: ["sgemm_nn"], OTHER: ["sgemm_nt"]}), later)
    assert told["x"].endswith("; ran sgemm_nn and 1 others") and told["y"] == "NN = sgemm(N,N); ran mine"
    for note in (Note("answer", {"names": {FIRST.name: ["sgemm"]}}), Note("kernels", {}), seen({})):
        assert named(note) == named() and not [text for text in named().values() if "ran" in text]


SHORT = replace(
    SECOND,
    name=f"{BASE}/dtype:bf16/variant:y/threads:1",
    precision="bf16",
    error=0.0213,
    error_bound=0.05,
    percent_of_ceiling=None,
)


def test_errors_stand_where_a_time_is_bought_with_them() -> None:
    """One pair of two precisions shows all errors, and several of one precision none."""
    across = replace(COMPARED, contender=SHORT.name)
    made = table.comparisons(run(replace(FIRST, error=0.0, error_bound=0.0), SHORT, compared=(across,)))
    assert made.head[-1] == "of allowed error" and made.rows[0][-1] == "43 %, 0 %"
    assert "of ceiling" not in made.head  # none was measured
    rows = replace(FIRST, error=1e-6, error_bound=1e-5), replace(SECOND, error=None), SHORT
    made = table.comparisons(run(*rows, compared=(across, COMPARED)))
    assert [row[-1] for row in made.rows] == ["43 %, 10 %", "–, 10 %"]
    assert {len(row) for row in made.rows} == {len(made.head)} == {6}
    made = table.comparisons(run(replace(FIRST, error=1e-6), replace(SECOND, error=1e-5), compared=(COMPARED,)))
    assert "of allowed error" not in made.head and made.head[-1] == "of ceiling"
    assert len(made.rows[0]) == len(made.head)


def test_the_device_of_the_whole_run_is_not_told_in_each_row() -> None:
    def shown(second: Result, home: str | None, first: Result = FIRST) -> table.Table:
        made = run(first, second, compared=(replace(COMPARED, baseline=first.name, contender=second.name),))
        facts = {"device": {"name": home}} if home else {}
        return table.comparisons(replace(made, environment=replace(made.environment, facts=facts)))

    rows = [replace(x, name=f"{BASE}/variant:{x.variant}/device:fake:cuda/threads:1") for x in (FIRST, SECOND)]
    for home, told in (
        ("fake:cuda", ""),
        ("cpu", " device:fake:cuda"),
        ("fake", " device:fake:cuda"),
        (None, " device:fake:cuda"),
    ):
        found = shown(rows[1], home, rows[0])
        assert (found.title, found.rows[0][0]) == (f"Ratios of time, {AT}{told}", "y / x")
    (row,) = shown(replace(SECOND, name=f"{BASE}/variant:y/device:cuda:0/threads:1"), "cpu").rows
    assert row[0] == "device:cuda:0 y / device:cpu x"


HEAD = ("at", "contender / baseline", "ratio, 95 % interval", "verdict")
ROW = ("gemm m:64 n:64 k:64", "transpose-then-nn / openblas", "1.026 [1.019, 1.032]", "unresolved (1) (2)")


def shown(width: int, *rows: tuple[str, ...], head: tuple[str, ...] = HEAD) -> str:
    stream = io.StringIO()
    text._table(Console(file=stream, width=width), table.Table("", head, rows))
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    return stream.getvalue()


@pytest.mark.parametrize("width", [50, 70, 100])
def test_words_stand_whole_where_there_is_room(width: int) -> None:
    """And a number also where words do not; a long name gives way before the words of others."""
    out = shown(width, ROW, ROW)
    words = {word for cell in ROW[:2] + ROW[3:] for word in cell.split(" ")}
    assert width < 70 or all(out.count(word) >= 2 for word in words)
    assert out.count(ROW[2]) == 2
    out = shown(100, ("x" * 90, *ROW[1:]))
    assert "transpose-then-nn" in out and "unresolved" in out and "x" * 90 not in out


NAMES = ("m:8 openblas-scipy", "nt transpose-then-nn / nn openblas", "0.926 [0.924, 0.927]", "0.81 to 1.05")
FULL = (*NAMES, "not comparable (1) (2)", "6.13 ms, 5.29 ms", "20 %, 23 %")
FULL_HEAD = ("at", "contender / baseline", *table.UNBROKEN, "verdict", "times of both", "of ceiling")


def full(width: int, ratio: str = FULL[2]) -> list[str]:
    """The lines of a table of every column, its names as long as they are."""
    return shown(width, (*FULL[:2], ratio, *FULL[3:]), head=FULL_HEAD).splitlines()


@pytest.mark.parametrize("width", [94, 100])
def test_where_there_is_room_every_name_stands_whole(width: int) -> None:
    """The gap is narrow before a name is broken."""
    lines = full(width)
    assert max(map(len, lines)) <= width
    shown = "\n".join(lines)
    assert all(name in shown for name in ("openblas-scipy", "transpose-then-nn"))
    if width == 100:
        words = [word for cell in (*FULL_HEAD, *FULL) for word in cell.split(" ")]
        pieces = ("6.13 ms,", "5.29 ms", "20 %,", "23 %")  # a number and its unit
        assert all(piece in shown for piece in (*words, *pieces))


def test_at_80_columns_names_are_broken_at_their_hyphens() -> None:
    lines = full(80, "0.93 [0.92, 0.94]")
    assert max(map(len, lines)) <= 80
    pieces = ("openblas-", "scipy", "transpose-", "then-nn", FULL[3], "comparable", "0.93 [0.92, 0.94]")
    assert all(piece in "\n".join(lines) for piece in pieces)


def test_a_name_with_hyphens_gives_way_before_a_longer_one_without() -> None:
    row = ("x-" * 9, "y" * 20)
    out = shown(25, row, head=("at", "verdict"))
    assert row[1] in out and row[0] not in out


def test_a_cell_is_broken_where_it_reads_best() -> None:
    for cell, width, lines in (
        ("short", 5, "short"),
        ("81 %, 79 %", 9, "81 %,|79 %"),
        ("nt / nn", 6, "nt /|nn"),
        ("nt a / nn b", 9, "nt a /|nn b"),
        ("transpose-then-nn / openblas", 12, "transpose-|then-nn /|openblas"),
        ("gemm/m:64/n:64/variant:x", 10, "gemm/m:64/|n:64/|variant:x"),
        ("xxxxx", 2, "xx|xx|x"),
        ("two\nlines of it", 9, "two\nlines|of it"),
        ("--variant", 9, "--variant"),
        ("", 3, ""),
    ):
        assert [line.rstrip() for line in text._lines(cell, width)] == lines.split("|")


def test_every_power_of_ten_has_three_figures() -> None:
    for power in range(-9, 15):
        text = units.scaled(10.0**power, "s")
        assert text.split()[0] in ("1.00", "10.0", "100"), text


# Functions of reports.units with their arguments and the text that they return.
UNITS = json.loads((Path(__file__).parent / "units.json").read_bytes())


@pytest.mark.parametrize("function", UNITS)
def test_numbers_with_their_units(function: str) -> None:
    for *given, wanted in UNITS[function]:
        assert getattr(units, function)(*given) == wanted
