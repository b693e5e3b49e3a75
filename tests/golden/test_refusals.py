"""Refusals of command lines, word by word. `GOLDEN=write` rewrites them.

A title of refusals.txt is a command of micro, or of macro; what stands behind ` < ` is in the file that it names last.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from macro.__main__ import main as macro
from micro.command.everything import benchmarks
from micro.command.line import main
from tests.conftest import Ran, unsteered
from tests.golden.sections import compare, sections

PATH = Path(__file__).parent / "refusals.txt"
COUNT = 373  # of its sections, at least: a file cut short would refuse nothing
BENCHMARKS = benchmarks()


@pytest.fixture(autouse=True)
def _one_machine(
    own_state: Path, light_fake: None, four_cores: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four cores and no GPU."""
    for module in ("kernels.devices.cuda", "kernels.libs.cuda"):
        monkeypatch.setattr(f"{module}.missing", lambda: "the driver is missing")
    monkeypatch.chdir(tmp_path)
    unsteered(monkeypatch)


def test_no_refusal_is_lost() -> None:
    assert len(sections(PATH)) >= COUNT


@pytest.mark.parametrize("title", sections(PATH))
def test_refusal_is_one_line(
    title: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran]
) -> None:
    command, file, content = title.partition(" < ")
    name, *words = shlex.split(command)
    if file:
        path = tmp_path / [word for word in words if "." in word][-1].partition(":")[0]
        path.write_bytes(content.encode().decode("unicode_escape").encode("latin-1"))
        before = path.read_bytes()
    called = (macro, words) if name == "macro" else (main, BENCHMARKS[name], name, words)
    ran = in_process(capsys, *called)
    assert (ran.code, ran.out, len(ran.err.splitlines())) == (2, "", 1), ran.err
    compare(PATH, title, ran.err)
    assert not file or path.read_bytes() == before
    assert not Path("run.jsonl").exists()
