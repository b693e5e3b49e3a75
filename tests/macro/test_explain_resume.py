"""The command `explain` that is interrupted, killed, cut, refused and resumed: real processes of a small network."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from macro.watching import perf
from reports import attribution, store
from tests.conftest import Ran
from tests.processes import MARK, interruptible, left, marked
from tests.simulated import frameworks

ROOT = Path(__file__).parents[2]
COMMAND = (
    "import sys, macro.__main__ as m; from macro.watching import rounds; rounds.BLOCK = rounds.SPARE = 0.02; "
    "sys.exit(m.main())"
)
ENOUGH = 16  # notes: more than six rounds of both sides
BRIEF = ("--budget", "1ms")  # six rounds


@pytest.fixture
def place(explaining: Path, tmp_path: Path) -> Iterator[Path]:
    """A folder of a test, after which no process of it is left."""
    yield tmp_path
    assert not left(tmp_path)


def start(
    explaining: Path, place: Path, *more: str, program: tuple[str, ...] = ("-c", COMMAND), words: Sequence[str] = ()
) -> Any:
    """Start the command with blocks of a fiftieth of a second, in a session of its own."""
    words = words or ("numpy", "numpy", "--heap", "default,keep", "-o", str(place / "run.jsonl"))
    return subprocess.Popen(
        [sys.executable, *program, "explain", str(explaining / "small.json"), *words, *more],
        cwd=ROOT,
        env=os.environ | {MARK: str(place)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=interruptible,
    )


def wait(process: Any, done: Callable[[], object]) -> None:
    """Wait until something is done, or the process has ended."""
    while process.poll() is None and not done():
        time.sleep(0.01)


def kill(process: Any) -> None:
    process.kill()
    _, err = process.communicate()
    assert process.returncode < 0, err


def ran(explaining: Path, place: Path, *more: str, **how: Any) -> tuple[int, str, str]:
    """Exit code and both streams of one that ends by itself."""
    process = start(explaining, place, *more, **how)
    out, err = process.communicate(timeout=600)
    assert "Traceback" not in err, err
    return process.returncode, out, err


def notes(place: Path) -> list[dict[str, Any]]:
    path = place / "run.jsonl"
    if not path.exists() or b"\n" not in path.read_bytes():
        return []
    return [note.data for note in store.read(path).notes if note.topic == "watched"]


def killed(explaining: Path, place: Path, count: int, *more: str) -> list[dict[str, Any]]:
    """A run that is killed when so many notes are in its file; the notes that are."""
    process = start(explaining, place, "--budget", "600s", "-q", "--resume", *more)
    wait(process, lambda: len(notes(place)) >= count)
    kill(process)
    return notes(place)


@pytest.mark.slow
@pytest.mark.parametrize("here", [True, False], ids=["perf", "no perf"])
def test_killed_and_killed_and_resumed(
    explaining: Path, place: Path, request: pytest.FixtureRequest, here: bool
) -> None:
    if not here:
        request.getfixturevalue("without_perf")
    elif perf.missing():
        pytest.skip(str(perf.missing()))
    first = killed(explaining, place, ENOUGH)
    second = killed(explaining, place, len(first) + ENOUGH)
    assert second[: len(first)] == first
    code, out, err = ran(explaining, place, *BRIEF, "--resume", "--json", str(place / "x.json"))
    assert code == 0, err
    assert "3 processes of each: few, so intervals are wide" in out
    assert " rounds of each side, which count; the remaining rounds are watched now" in err
    third = notes(place)
    assert third[: len(second)] == second
    assert {one["process"] for one in third} == {0, 1, 2}, "processes of its own after each kill"
    assert [(one["side"], one["process"]) for one in third if one["ended"]] == [(0, 2), (1, 2)]
    assert all(bool(one["watched"]["samples"]) == here for one in third if not one["ended"])
    document = json.loads((place / "x.json").read_text("utf-8"))
    plain: list[list[list[float]]] = [[[], [], []], [[], [], []]]
    for one in third:
        pair = [x["number"] for x in third if x["process"] == one["process"] and x["side"] != one["side"]]
        if not one["ended"] and one["number"] <= max(pair):
            plain[one["side"]][one["process"]] += one["watched"]["levels"]["P0"]
    for name, side in zip("ab", plain, strict=True):
        assert document["step"][name] == pytest.approx(sum(sum(x) / len(x) for x in side) / 3), "all of them"
    before = (place / "run.jsonl").read_bytes()
    assert before.count(b'"kind":"environment"') == before.count(b'"topic":"attribution"') == 1
    code, again, err = ran(explaining, place, *BRIEF, "--resume")
    assert (code, again) == (0, out) and err.endswith("`): nothing is measured\n")
    assert (place / "run.jsonl").read_bytes() == before


@pytest.mark.slow
def test_killed_in_the_second_process_with_a_line_cut(explaining: Path, place: Path) -> None:
    """The whole pair counts, the beginning of the second does not; nor does half a line."""
    begun = start(explaining, place, "--runs", "2", "--budget", "1s", "-q")
    wait(begun, lambda: any(one["ended"] for one in notes(place)))
    kill(begun)
    path = place / "run.jsonl"
    assert not any(note.topic == "attribution" for note in store.read(path).notes)
    whole = notes(place)
    with path.open("ab") as stream:
        stream.write(path.read_bytes().splitlines()[-1][:500])
    code, out, err = ran(explaining, place, "--runs", "2", *BRIEF, "--resume", "-q")
    assert (code, err) == (0, "")
    assert "2 processes of each: few, so intervals are wide" in out
    assert notes(place)[: len(whole)] == whole and not store.read(path).damaged


@pytest.mark.slow
def test_stopped_after_a_first_answer_and_gone_on_with(explaining: Path, place: Path) -> None:
    process = start(explaining, place, "--budget", "600s")
    assert process.stderr is not None
    while not (line := process.stderr.readline()).startswith("so far, "):
        assert line, "it ended"
    assert " rounds: numpy heap default takes " in line and " than numpy heap keep [" in line
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130 and "Traceback" not in err
    assert f"kept in {place / 'run.jsonl'}, --resume continues" in err and "a gap of" in out
    assert "stopped early: interrupted" in out
    code, out, err = ran(explaining, place, *BRIEF, "--resume", "-q")
    assert (code, err) == (0, "") and "stopped early" not in out
    (whole,) = attribution.of(store.read(place / "run.jsonl"))
    assert whole.runs == 2


@pytest.mark.slow
def test_a_full_disk_in_the_middle(explaining: Path, place: Path) -> None:
    """A limit on the size of files fails a write as a full disk does."""

    path = place / "run.jsonl"
    process = start(explaining, place, "--budget", "600s")
    wait(process, lambda: notes(place))
    size = path.stat().st_size + 1000
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (size, size))
    assert process.stderr is not None
    while "File too large: later rounds are not kept" not in (line := process.stderr.readline()):
        assert line, "it ended"
    kept = notes(place)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 143 and "Traceback" not in err and "a gap of" in out
    assert notes(place) == kept and not store.read(path).damaged
    code, out, _ = ran(explaining, place, *BRIEF, "--resume")
    assert code == 0 and f"run file: {path}" in out
    assert notes(place)[: len(kept)] == kept


def test_both_commands_are_named_where_they_differ(explaining: Path, place: Path) -> None:
    """Also where the first was killed before its first round."""
    plain, path = ("-m", "macro"), place / "run.jsonl"
    first = start(explaining, place, "--runs", "2", program=plain)
    wait(first, lambda: path.exists() and b"\n" in path.read_bytes())
    kill(first)
    before = path.read_bytes()
    code, out, err = ran(explaining, place, "--runs", "3", "--resume", program=plain)
    assert (code, out) == (2, "") and len(err.splitlines()) == 1 and path.read_bytes() == before
    assert "--runs 2`; this command is `" in err and "--runs 3 --resume`: name another file" in err


@pytest.mark.slow
@pytest.mark.usefixtures("without_perf")
def test_another_explanation_is_not_gone_on_with(explain: Callable[..., Ran], tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    words = ("-o", str(path), *BRIEF)
    first = explain("numpy", "numpy", *words)
    assert first.code == 0, first.err
    before = path.read_bytes()
    for more in ("", "--phase forward", "--batch 8", "--heap keep", "--set A=1", "--runs 2", "--kernels"):
        other = "numpy" if more else "kernels-only"
        told = explain("numpy", other, *more.split(), *words, "--resume")
        assert (told.code, told.out, len(told.err.splitlines())) == (2, "", 1), more
        assert "it holds other contests, from `" in told.err and told.err.rstrip().endswith("name another file")
    again = explain("numpy", "numpy", "-o", str(path), "--budget", "900s", "--resume")
    assert (again.code, again.out) == (0, first.out)
    assert path.read_bytes() == before


# Dies in the midst of a block of traced steps, perf looking, a map of generated code written.
DIES = """
import os, signal

_step, _traced = Model.step, []
if "ONEDNN_JIT_PROFILE" in os.environ:
    with open(os.path.join(os.path.dirname(__file__), "pids"), "a") as stream:
        stream.write("%d\\n" % os.getpid())
    open("/tmp/perf-%d.map" % os.getpid(), "w").close()


def step(self):
    if self.do.spans is not None:
        _traced.append(0)
        if len(_traced) == 4:
            os.kill(os.getpid(), signal.SIGKILL)
    _step(self)


Model.step = step
"""


@pytest.mark.parametrize("perf", [pytest.param(True, marks=pytest.mark.slow), False])
def test_a_process_that_dies_while_it_is_traced_is_one_line(
    explain: Callable[..., Ran], tmp_path: Path, request: pytest.FixtureRequest, perf: bool
) -> None:
    if not perf:
        request.getfixturevalue("without_perf")
    dying = frameworks.write(tmp_path, "dying", DIES)
    told = explain("numpy", str(dying.path), "--budget", "1s")
    assert told.code == 1 and told.out == ""
    assert told.err == f"macro explain: {dying.path}: crashes: its process was killed by SIGKILL, e.g. out of memory\n"
    pids = (tmp_path / "pids").read_text().split()
    assert pids and not [pid for pid in pids if Path(f"/tmp/perf-{pid}.map").exists()]


@pytest.mark.slow
def test_ctrl_c_leaves_nobody(explaining: Path, place: Path) -> None:
    lasting = str(frameworks.write(place, "lasting", frameworks.SLEEPING).path)
    process = start(explaining, place, program=("-m", "macro"), words=(lasting, "numpy"))
    while not (line := process.stderr.readline()).startswith("process 1 of 1 each: 1 round"):
        assert line, "it ended"
    assert len(marked(place)) >= 3
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: perf is in the group
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (130, "") and "Traceback" not in err
    assert err.strip().splitlines()[-1] == "macro explain: interrupted"
