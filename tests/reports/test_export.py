"""`python -m reports export`, and the folder of formats as its own registry."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from reports import formats, store
from reports.__main__ import main
from tests.reports.runs import SMALL, called, formatted

ROOT = Path(__file__).parents[2]
KINDS = formats.kinds()


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


@pytest.mark.parametrize("kind", KINDS)
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
    words = [sys.executable, "-m", "reports", "export", str(SMALL), "--to", "markdown"]
    terminal = os.environ | {"PYTHONIOENCODING": "ascii"}
    told = subprocess.run(words, cwd=ROOT, env=terminal, capture_output=True, check=True).stdout
    assert told.decode().startswith("Multiplying by a transposed B (4×2048 times 2048×2048 transposed)")


def test_an_unknown_format_is_refused_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    line = refused(capsys, "export", SMALL, "--to", "xml")
    assert "--to" in line and "'xml'" in line and all(kind in line for kind in KINDS)
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
