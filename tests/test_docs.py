"""Pages that come from the code are up to date, links lead somewhere, and every example runs."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import load

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EVERY = [
    *PAGES,
    *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md", "reports/reference/README.md")),
]
WRITTEN = load(ROOT / "docs/generate.py").PAGES
ELSEWHERE = ("make ", "pip ", "git ", "apt-get ", ". .venv", "cd ")  # what CI runs, or another machine


@pytest.mark.parametrize("name", sorted(WRITTEN))
def test_page_is_what_the_code_says(name: str) -> None:
    assert (ROOT / "docs" / name).read_text("utf-8") == WRITTEN[name](), "make docs"


@pytest.mark.parametrize("page", EVERY, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text("utf-8")):
        assert "://" in target or (page.parent / target).exists(), target


def blocks(kind: str) -> list[tuple[str, str]]:
    found = []
    for page in PAGES:
        for number, text in enumerate(
            re.findall(rf"```{kind}\n(.*?)```", page.read_text("utf-8"), flags=re.S)
        ):
            found.append((f"{page.name}-{number}", text))
    return found


def run(words: list[str], folder: Path, state: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "KERNELGAP_STATE": str((state or folder) / "state")}
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        text=True,
        capture_output=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize(("name", "text"), blocks("sh"), ids=[name for name, _ in blocks("sh")])
def test_commands(name: str, text: str, tmp_path: Path) -> None:
    """As typed, but for the device, whose clock is scripted: thirty seconds of measuring take one."""
    for line in text.replace("\\\n", " ").splitlines():
        command = line.partition(" #")[0].strip()
        if not command or command.startswith(ELSEWHERE):
            continue
        words = shlex.split(command)
        assert words[:2] == ["python", "-m"], f"{command}: neither a command of ours nor one CI runs"
        fake = ["--device", "fake"] if words[2] == "micro.gemm" and "--device" not in words else []
        ran = run([*words[1:], *fake], tmp_path)
        assert ran.returncode == 0, f"{command}\n{ran.stderr}"


@pytest.mark.parametrize(("name", "text"), blocks("python"), ids=[name for name, _ in blocks("python")])
def test_python(name: str, text: str, tmp_path: Path) -> None:
    ran = run(["-c", text], tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert bool(ran.stdout.strip()) == ("print(" in text)


@pytest.mark.parametrize(
    "command", re.findall(r"^\| `(python -m [^`]+)`", (ROOT / "README.md").read_text("utf-8"), re.M)
)
def test_commands_of_the_table_are_understood(command: str, tmp_path: Path) -> None:
    """Their plan, or their help where they have none."""
    _, *words = shlex.split(command)
    plans = words[1] == "micro.gemm" and not {"--why", "--profile"} & set(words)
    words = [*words, "--list"] if plans else [*words[:2], "--help"]
    assert run(words, ROOT, tmp_path).returncode == 0
