"""Pages that come from the code are up to date, links lead somewhere, and every example runs."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import kernelgap
from macro import explain
from macro.explaining import device_time
from macro.running import script_request as own
from micro.planning.options import request
from micro.planning.request import planned
from tests.conftest import load
from tests.processes import ROOT, python

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EVERY = [*PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "reports/reference/README.md"))]
WRITTEN = load(ROOT / "docs/generate.py").PAGES
ELSEWHERE = ("make ", "pip ", "git ", "apt-get ", ". .venv", "cd ")  # what CI runs, or another machine


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_page_is_what_the_code_says(name: str) -> None:
    assert (ROOT / "docs" / name).read_text("utf-8") == WRITTEN[name](), "make docs"


@pytest.mark.parametrize("page", EVERY, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8")):
        assert "://" in target or (page.parent / target).exists(), target


REFERENCE = ROOT / "reports/reference"


def expanded(name: str) -> list[str]:
    """Return the names that a shell makes of braces."""
    before, brace, rest = name.partition("{")
    words, _, after = rest.partition("}")
    return [before + word + end for word in words.split(",") for end in expanded(after)] if brace else [name]


def test_reference_files_are_those_of_their_table() -> None:
    cells = re.findall(r"^\| (`.*?`(?:, `.*?`)*) \|", (REFERENCE / "README.md").read_text("utf-8"), flags=re.M)
    listed = {name for cell in cells for words in re.findall(r"`(.*?)`", cell) for name in expanded(words)}
    files = {x.relative_to(REFERENCE).as_posix(): x.stat().st_size for x in REFERENCE.rglob("*") if x.is_file()}
    assert listed == files.keys() - {"README.md"}
    assert sum(files.values()) < 4_000_000, "keep what a page cites, without samples"


@pytest.mark.parametrize("page", EVERY, ids=lambda page: page.name)
def test_reference_files_that_a_page_names_exist(page: Path) -> None:
    named = re.findall(r"reports/reference/[\w/.-]*\w", page.read_text("utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


def blocks(kind: str) -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for number, text in enumerate(re.findall(rf"```{kind}\n(.*?)```", page.read_text("utf-8"), flags=re.S)):
            found.append((f"{page.name}-{number}", text))
    return found


INSTALLED = {name: (module, *words) for name, module, words in kernelgap.commands()}
SLOW = {"README.md-1", "README.md-2", "record.md-0"}  # whole questions: CI runs the first for real, too


@pytest.mark.parametrize(
    ("name", "text"),
    [pytest.param(*one, id=one[0], marks=[pytest.mark.slow] if one[0] in SLOW else []) for one in blocks("sh")],
)
def test_commands(name: str, text: str, tmp_path: Path) -> None:
    """As typed, but for the device, whose clock is scripted: thirty seconds of measuring take one."""
    for line in text.replace("\\\n", " ").splitlines():
        command = line.partition(" #")[0].strip()
        if not command or command.startswith(ELSEWHERE):
            continue
        words = shlex.split(command)
        if words[0] == "kernelgap":
            words = ["python", "-m", *INSTALLED[words[1]], *words[2:]]
            command = shlex.join(words)
        assert words[:2] == ["python", "-m"], f"{command}: neither a command of ours nor one CI runs"
        if own.is_script(words[4:], explain.parser()) and words[2:4] == ["macro", "explain"]:
            parsed(command)  # its script is the reader's
            continue
        fake = ["--device", "fake"] if words[2] == "micro.gemm" and "--device" not in words else []
        ran = python(*words[1:], *fake, cwd=tmp_path, state=tmp_path / "state", timeout=600)
        assert ran.returncode == 0, f"{command}\n{ran.stderr}"


@pytest.mark.parametrize(("name", "text"), blocks("python"), ids=[name for name, _ in blocks("python")])
def test_python(name: str, text: str, tmp_path: Path) -> None:
    ran = python("-c", text, cwd=tmp_path, state=tmp_path / "state", timeout=600)
    assert ran.returncode == 0, ran.stderr
    assert bool(ran.stdout.strip()) == ("print(" in text)


def rows() -> Iterator[str]:
    """Yield the commands of README's and questions.md's tables; `… --full` goes on with the command before it."""
    text = "\n".join((ROOT / name).read_text("utf-8") for name in ("README.md", "docs/questions.md"))
    yield from dict.fromkeys(_told(re.findall(r"^\| (?:[^|`]+ \| )?(`[^|]+`)(?: \(\[[^|]*)? \|", text, re.M)))


def _told(cells: Sequence[str]) -> Iterator[str]:
    before = ""
    for cell in cells:
        for span in re.findall(r"`([^`]+)`", cell):
            if span.startswith("…"):
                yield before.partition(" --")[0] + span[1:]
            elif span.startswith("-"):
                yield f"{before.partition(' --')[0]} {span}"
            else:
                yield (before := span)


def parsed(command: str) -> None:
    """Raise SystemExit where a command of ours does not take its words."""
    _, _, module, *words = shlex.split(command.rpartition("; ")[2])
    if module == "kernels":
        assert not words
    elif module == "macro" and words[0] == "explain" and device_time.is_trace(words[1:]):
        device_time.parser().parse_args(words[1:])
    elif module == "macro" and own.is_script(words[1:], explain.parser()):
        own.parser().parse_args(words[1 : words.index("--") if "--" in words else None])
    elif module == "macro":
        importlib.import_module(f"macro.{words[0]}").parser().parse_args(words[1:])
    elif hasattr(command_file := importlib.import_module(module), "BENCHMARK"):
        meant, arguments = request(command_file.BENCHMARK, module, words)
        if not arguments.shapes or arguments.shapes.exists():
            assert planned(meant, module, arguments).contests
    else:
        command_file = importlib.import_module("micro.__main__") if module == "micro" else command_file
        command_file.parser().parse_args(words)


@pytest.mark.parametrize("command", [*rows()])
def test_commands_of_the_table_are_understood(command: str, four_cores: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """With every word of them."""
    monkeypatch.chdir(ROOT)
    parsed(command)
