"""A run of frameworks that is killed in the middle: its rounds are in the file, and it is gone on with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from macro.networks.base import chain
from reports import store
from tests.builds import share
from tests.processes import MARK, ROOT, left

SMALL = chain("small", "a test", 8, (12, 10, 9, 4), rate=0.1, momentum=0.5)
COMMAND = "import sys, macro.__main__ as m; from macro.timing import groups; groups.BLOCK = 0.02; sys.exit(m.main())"
ENOUGH = 8  # rounds


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder with a network in it, after which no process of the test is left."""
    (tmp_path / "small.json").write_text(json.dumps(SMALL.data()))
    yield tmp_path
    assert not left(tmp_path)


def start(place: Path, budget: str) -> subprocess.Popen[str]:
    """The command, with blocks of a fiftieth of a second."""
    words = ["run", str(place / "small.json"), "--frameworks", "numpy,numpy", "--budget", budget, "--runs", "2"]
    return subprocess.Popen(
        [sys.executable, "-c", COMMAND, *words, "-q", "-o", str(place / "run.jsonl"), "--resume"],
        cwd=ROOT,
        env=os.environ | {"KERNELGAP_STATE": str(share(place / "state")), MARK: str(place)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def killed(place: Path, rounds: int) -> list[dict[str, object]]:
    """A run that is killed when so many rounds are in its file; the rounds that are."""
    process = start(place, "600s")
    while process.poll() is None and len(rounds_of(place)) < rounds:
        time.sleep(0.005)
    process.kill()
    _, err = process.communicate()
    assert process.returncode < 0, err
    return rounds_of(place)


def rounds_of(place: Path) -> list[dict[str, object]]:
    path = place / "run.jsonl"
    if not path.exists() or not path.stat().st_size:
        return []
    return [note.data for note in store.read(path).notes if note.topic == "round"]


@pytest.mark.slow
def test_killed_and_killed_and_resumed(place: Path) -> None:
    first = killed(place, ENOUGH)
    second = killed(place, len(first) + ENOUGH)
    assert second[: len(first)] == first
    ended = start(place, "2s")
    out, err = ended.communicate(timeout=600)
    assert ended.returncode == 0, err
    assert "numpy~b / numpy" in out and "Traceback" not in err
    lines = [json.loads(line)["kind"] for line in (place / "run.jsonl").read_text("utf-8").splitlines()]
    assert lines.count("environment") == lines.count("contest") == 1
    read = store.read(place / "run.jsonl")
    kept, result = rounds_of(place), read.results[0]
    assert kept[: len(second)] == second
    assert [x["entries"][result.name]["block"]["cpu"] for x in kept] == [*result.samples]  # type: ignore[index]
    assert {*result.processes} >= {0, 1, 2}, "a process of its own after each kill"
    assert read.comparisons[0].ratio is not None
    ends = {x["generation"]: x["seconds"] for x in kept}  # the last round's of each
    assert read.contests[0].seconds["measuring"] == pytest.approx(sum(ends.values()), rel=0.1), "killed ones' too"
