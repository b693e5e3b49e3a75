"""Exports of a run on the fake device can be parsed by those who know nothing of the suite."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from reports import attribution, formats, store
from reports.__main__ import main
from reports.formats import csv as csv_format
from reports.record import Note, Run
from tests.build import environment
from tests.conftest import Ran
from tests.reports.runs import formatted, strict

KINDS = ("text", "json", "csv", "ratios", "markdown")


@pytest.fixture
def files(gemm: Callable[..., Ran], tmp_path: Path) -> Iterator[Path]:
    """A folder with every export of one run, and what was printed, in `text`."""
    exports = [word for kind in KINDS[1:] for word in (f"--{kind}", str(tmp_path / kind))]
    words = "--m 8 --n 8 --k 8 --trans nn,nt --vary trans --variant openblas,numpy --alpha 2 --device fake -q -o"
    ran = gemm(*words.split(), str(tmp_path / "run"), *exports)
    assert (ran.code, ran.err) == (0, "")
    report, where, _ = ran.out.rpartition("run file: ")
    assert where
    (tmp_path / "text").write_text(report)
    yield tmp_path


def test_json(files: Path) -> None:
    document = strict((files / "json").read_text())
    assert set(document) >= {"format", "environment", "results", "comparisons"}
    run = store.read(files / "run")
    assert [x["name"] for x in document["results"]] == [x.name for x in run.results]
    names = {x["name"] for x in document["results"]}
    for comparison in document["comparisons"]:
        assert {comparison["baseline"], comparison["contender"]} <= names


def test_csv(files: Path) -> None:
    text = (files / "csv").read_text()
    rows = list(csv.DictReader(io.StringIO(text), strict=True))
    run = store.read(files / "run")
    measured = [x for x in run.results if x.role == "measured"]
    assert len(rows) == len(measured) < len(run.results)
    for row, result in zip(rows, measured, strict=True):
        assert None not in row and None not in row.values()
        assert (row["name"], row["status"]) == (result.name, result.status)
        median = result.seconds.median if result.seconds else None
        assert (float(row["median_seconds"]) if row["median_seconds"] else None) == median
        assert all(row[axis] == str(value) for axis, value in result.problem.items())
    assert tuple(next(csv.reader(io.StringIO(text))))[: len(csv_format.COLUMNS)] == csv_format.COLUMNS


def test_ratios(files: Path) -> None:
    rows = list(csv.DictReader(io.StringIO((files / "ratios").read_text()), strict=True))
    run = store.read(files / "run")
    assert len(rows) == len(run.comparisons) > 0
    for row, comparison in zip(rows, run.comparisons, strict=True):
        assert all(row[name] == getattr(comparison, name) for name in ("baseline", "contender", "verdict"))
        assert row["ratio"] == ("" if comparison.ratio is None else str(comparison.ratio))
        assert (row["m"], row["trans"]) == ("8", "")
    assert any(row["ratio"] for row in rows)
    (head,) = formatted("ratios", replace(run, contests=())).splitlines()
    assert "ratio,low,high" in head
    table = [line for line in (files / "markdown").read_text().splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in table} == {table[0].count("|")}
    assert set(table[1]) == {"|", "-"} and len(table) == 2 + len(run.comparisons)


def test_the_run_file_gives_every_format_again(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for kind in KINDS:
        flags = [] if kind == "text" else [f"--{kind}"]
        assert main(["show", str(files / "run"), *flags]) == 0
        assert capsys.readouterr().out == (files / kind).read_text(), kind


def hostile(run: Run) -> Run:
    """The run with words that mean something to one format or another."""
    words = 'a|b "c", d\n[bold]e[/bold] [/nothing] é\t<f>'
    contest = run.contests[0]
    first, *rest = contest.results
    bad = replace(first, status="failed", seconds=None, reason=words)
    compared = tuple(replace(x, verdict="not comparable", reason=words) for x in contest.comparisons)
    contest = replace(contest, results=(bad, *rest), comparisons=compared)
    return replace(run, contests=(contest, *run.contests[1:]), notes=(Note("answer", {"sentences": [words]}),))


@pytest.mark.parametrize("kind", KINDS)
def test_hostile_words_break_no_format(files: Path, kind: str) -> None:
    run = hostile(store.read(files / "run"))
    text = formatted(kind, run, verbose=True)
    if kind == "json":
        assert strict(text)["results"][0]["reason"] == run.results[0].reason
    elif kind == "csv":
        rows = list(csv.DictReader(io.StringIO(text), strict=True))
        assert len(rows) == sum(x.role == "measured" for x in run.results)
        assert rows[0]["reason"] == run.results[0].reason
    elif kind == "ratios":
        assert [row["reason"] for row in csv.DictReader(io.StringIO(text), strict=True)] == [
            comparison.reason for comparison in run.comparisons
        ]
    else:
        assert "[bold]e[/bold] [/nothing]" in text


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_of_nothing_can_be_written(kind: str) -> None:
    assert formatted(kind, Run(environment()))


EXPLAINED = Path(__file__).parents[2] / "reports/reference/macro/explain-fcn-s.jsonl"


def test_an_attribution_in_markdown_is_what_a_person_reads() -> None:
    run = store.read(EXPLAINED)

    def written(kind: str) -> str:
        stream = io.StringIO()
        formats.write_attribution(kind, run, stream)
        return stream.getvalue()

    (document,) = attribution.of(run)
    first, *lines, last = written("markdown").splitlines()
    assert (first, last) == ("```text", "```")
    assert lines == attribution.text(document).splitlines()
    assert formatted("markdown", run) == written("markdown")
    damaged = replace(run, damaged=("x, line 3: not a record",))
    assert formatted("markdown", damaged).endswith("```\n\nx, line 3: not a record\n")
    (note,) = (note for note in run.notes if note.topic == attribution.TOPIC)
    assert json.loads(written("json")) == note.data


@pytest.mark.parametrize("what", ["step", "residual", "closure", "levels"])
def test_an_attribution_without_one_of_its_sides_is_none(what: str) -> None:
    run = store.read(EXPLAINED)
    (note,) = run.notes
    cut = replace(run, notes=(Note(note.topic, note.data | {what: {"a": note.data[what]["a"]}}),))
    with pytest.raises(store.Unreadable, match="an explanation without its side b"):
        formatted("text", cut)


def test_which_formats_there_are_for_what() -> None:
    everything = [path.stem for path in Path(formats.__file__).parent.glob("[a-z]*.py")]
    assert sorted(everything) == formats.kinds()
    assert set(formats.documents()) == set(formats.kinds()) - {"text"}
    assert {"json", "markdown"} <= set(formats.documents("attribution")) < set(formats.documents())
