"""Exports: formats there are, `python -m reports export`, and documents that strangers can parse."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
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
from tests.processes import ROOT, python
from tests.reports.runs import SMALL, called, formatted, strict

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


EXPLAINED = ROOT / "reports/reference/macro/explain-fcn-s.jsonl"


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


REGISTERED = formats.kinds()


def refused(capsys: pytest.CaptureFixture[str], *argv: str | Path) -> str:
    """The one line in which a command refuses, with exit code 2."""
    ran = called(capsys, *argv)
    assert (ran.code, ran.out) == (2, "")
    (line,) = ran.err.splitlines()
    return line


@pytest.fixture
def another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A format in a file of its own, which the folder seems to hold."""
    (tmp_path / "shout.py").write_text(
        "def write(run, stream):\n    stream.write('SO MANY: %d!\\n' % len(run.results))\n"
    )
    (tmp_path / "_machinery.py").write_text("raise AssertionError('no format')\n")
    monkeypatch.setattr(formats, "__path__", [*formats.__path__, str(tmp_path)])
    monkeypatch.delitem(sys.modules, "reports.formats.shout", raising=False)
    return "shout"


def test_formats_are_the_files_of_the_folder() -> None:
    folder = Path(formats.__file__).parent
    assert formats.kinds() == sorted(x.stem for x in folder.glob("*.py") if not x.stem.startswith("_"))
    assert {"csv", "googlebench", "json", "markdown", "pyperf", "ratios", "text"} <= set(formats.kinds())


def test_a_format_is_added_by_adding_a_file(another: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert another in formats.kinds() and "_machinery" not in formats.kinds()
    want = f"SO MANY: {len(store.read(SMALL).results)}!\n"
    for words in (["export", str(SMALL), "--to", another], ["show", str(SMALL), f"--{another}"]):
        assert main(words) == 0
        assert capsys.readouterr().out == want


@pytest.mark.parametrize("kind", REGISTERED)
def test_export_writes_the_format(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = formatted(kind, store.read(SMALL))
    for output in ([], ["-o", "-"]):
        assert main(["export", str(SMALL), "--to", kind, *output]) == 0
        assert capsys.readouterr() == (text, "")
    out = tmp_path / "out"
    out.write_text("something longer than what comes " * 100_000)
    assert main(["export", str(SMALL), "--to", kind, "-o", str(out)]) == 0
    assert capsys.readouterr() == ("", "")
    assert out.read_text() == text


def test_documents_are_utf8_whatever_the_terminal_is() -> None:
    ran = python("-m", "reports", "export", str(SMALL), "--to", "markdown", PYTHONIOENCODING="ascii")
    assert ran.stdout.startswith("Multiplying by a transposed B (4×2048 times 2048×2048 transposed)")


def test_an_unknown_format_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "export", SMALL, "--to", "xml")
    assert "--to" in line and "'xml'" in line and all(kind in line for kind in REGISTERED)
    assert "--to" in refused(capsys, "export", SMALL)
    assert "--csv" in refused(capsys, "show", SMALL, "--json", "--csv")


def test_a_file_that_is_no_run_file_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a run\n")
    for path in (tmp_path / "none", tmp_path, tmp_path / "text"):
        line = refused(capsys, "export", path, "--to", "csv", "-o", tmp_path / "out")
        assert line.startswith(f"reports export: {path}")
    assert not (tmp_path / "out").exists()


def test_an_output_that_cannot_be_written_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none" / "out", Path("/dev/full")):
        line = refused(capsys, "export", SMALL, "--to", "csv", "-o", path)
        assert line.startswith(f"reports export: -o {path}: ")
    (source := tmp_path / "mine.c").write_text("int x;\n")
    assert "does not end in .csv" in refused(capsys, "export", SMALL, "--to", "csv", "-o", source)
    assert source.read_text() == "int x;\n"


def test_the_run_file_is_not_overwritten_by_its_own_export(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.write_bytes(SMALL.read_bytes())
    (tmp_path / "link").symlink_to(run)
    assert "the run file itself" in refused(capsys, "export", run, "--to", "csv", "-o", tmp_path / "link")
    assert run.read_bytes() == SMALL.read_bytes()


def test_lines_that_were_passed_over_are_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    head, *lines = SMALL.read_text().splitlines()
    run = tmp_path / "run"
    run.write_text("\n".join([head, "{not a record", *lines]) + "\n")
    assert main(["export", str(run), "--to", "csv"]) == 0
    told = capsys.readouterr()
    assert told.err.startswith(f"reports export: {run}, line 2: ") and len(told.err.splitlines()) == 1
    measured = [x for x in store.read(SMALL).results if x.role == "measured"]
    assert len(told.out.splitlines()) == 1 + len(measured)


@pytest.mark.parametrize("command", ["show --json", "export --to googlebench"])
def test_a_reader_that_goes_away_is_no_traceback(command: str) -> None:
    name, *flags = command.split()
    words = [sys.executable, "-m", "reports", name, str(SMALL), *flags]
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    with subprocess.Popen(words, cwd=ROOT, env=buffered, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as ran:
        assert ran.stdout and ran.stderr
        ran.stdout.close()
        assert ran.stderr.read() == b""
    assert ran.returncode == 141
