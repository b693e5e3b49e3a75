"""The page docs/measurement.md names every file that a traced contest enters, and none that does not exist."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builds import share
from tests.house import ROOMS, ROOT

PAGE = (ROOT / "docs/measurement.md").read_text("utf-8")
SECTIONS = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE, re.S | re.M))
NAMED = {title: re.findall(r"`((?:kernels|micro|reports|macro)/[\w/]+\.(?:py|c))`", x) for title, x in SECTIONS.items()}
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


def test_contest_enters_only_named_files(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(TRACER, "utf-8")
    log, packages = tmp_path / "log", os.pathsep.join(f"{ROOT}/{name}/" for name in ROOMS)
    path = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}", "KERNELGAP_STATE": str(share(tmp_path / "state"))}
    environment = os.environ | path | {"ENTERED": str(log), "PACKAGES": packages}
    subprocess.run([sys.executable, "-m", "micro.gemm", *WORDS.split()], cwd=tmp_path, env=environment, check=True)
    entered = {Path(line).relative_to(ROOT).as_posix() for line in log.read_text("utf-8").splitlines()}
    assert {"micro/worker/visits.py", "reports/store.py"} <= entered, "both processes are traced"
    assert sorted(entered - {name for title in CONTEST for name in NAMED[title]}) == []


@pytest.mark.parametrize("title", NAMED)
def test_named_files_exist(title: str) -> None:
    assert [name for name in NAMED[title] if not (ROOT / name).is_file()] == []
    assert len(set(NAMED[title])) <= MOST.get(title, 99)
