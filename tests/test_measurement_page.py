"""The page docs/measurement.md names every file that a traced contest enters, and none that does not exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builds import share
from tests.conftest import unsteered
from tests.house import ROOMS, ROOT

PAGE = (ROOT / "docs/measurement.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.S | re.M))
FILE = r"`((?:kernels|micro|reports|macro)/[\w/]+\.(?:py|c))`"
NAMED = {title: re.findall(FILE, text) for title, text in SECTIONS.items()}
CONTEST = ("The files in order", "Not needed to understand it", "Entered beside them")
MOST = {"The files in order": 18, "Not needed to understand it": 15, "A user's script": 32}
WORDS = "--m 64 --n 64 --k 64 --trans nn,nt --vary trans --variant openblas --budget 200ms -q -o run.jsonl"
# Logs each file at the first call of a function in it, outside of imports, until the contest's record is written.
TRACER = """
import os, sys, threading
log, entered = os.open(os.environ["ENTERED"], os.O_WRONLY | os.O_CREAT | os.O_APPEND), set()
packages = tuple(os.environ["PACKAGES"].split(os.pathsep))
def importing(frame):
    while frame and frame.f_code.co_filename != "<frozen importlib._bootstrap>":
        frame = frame.f_back
    return frame is not None
def note(frame, event, argument):
    code = frame.f_code
    if event == "return" and code.co_qualname == "RunFile.append":
        sys.setprofile(None)
    elif event == "call" and code.co_filename.startswith(packages) and code.co_filename not in entered:
        if code.co_flags & 1 and not importing(frame):
            entered.add(code.co_filename)
            os.write(log, (code.co_filename + "\\n").encode())
threading.setprofile(note)
sys.setprofile(note)
"""


def test_contest_enters_only_named_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unsteered(monkeypatch)
    (tmp_path / "sitecustomize.py").write_text(TRACER, "utf-8")
    log, packages = tmp_path / "log", os.pathsep.join(f"{ROOT}/{name}/" for name in ROOMS)
    places = os.pathsep.join(filter(None, [str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH")]))
    path = {"PYTHONPATH": places, "KERNELGAP_STATE": str(share(tmp_path / "state"))}
    environment = os.environ | path | {"ENTERED": str(log), "PACKAGES": packages}
    command = [sys.executable, "-m", "micro.gemm", *WORDS.split()]
    subprocess.run(command, cwd=tmp_path, env=environment, timeout=600, check=True)
    entered = {Path(line).relative_to(ROOT).as_posix() for line in log.read_text("utf-8").splitlines()}
    assert {"micro/worker/visits.py", "reports/store.py"} <= entered, "both processes are traced"
    assert sorted(entered - {name for title in CONTEST for name in NAMED[title]}) == []


def test_named_files_exist() -> None:
    assert [name for name in re.findall(FILE, PAGE) if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("title", MOST)
def test_lists_are_short(title: str) -> None:
    assert 0 < len(set(NAMED[title])) <= MOST[title]
