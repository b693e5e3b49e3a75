"""The command `explain` when it ends badly: one line, and nobody and nothing left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from reports import attribution, store
from tests import processes
from tests.conftest import Ran
from tests.simulated import frameworks

ROOT = Path(__file__).parents[2]
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
    assert told.err == f"macro explain: {dying.path}: crashes: its process died of SIGKILL, as where memory runs out\n"
    pids = (tmp_path / "pids").read_text().split()
    assert pids and not [pid for pid in pids if Path(f"/tmp/perf-{pid}.map").exists()]


@contextmanager
def asked(explaining: Path, folder: Path, until: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    """An explanation of steps that last, once it has said that."""
    lasting = frameworks.write(folder, "lasting", frameworks.SLEEPING)
    words = [sys.executable, "-m", "macro", "explain", str(explaining / "small.json"), str(lasting.path), "numpy"]
    with subprocess.Popen(
        [*words, *more],
        cwd=ROOT,
        env=os.environ | {processes.MARK: str(folder)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        preexec_fn=processes.interruptible,
    ) as ran:
        assert ran.stderr is not None
        while not (line := ran.stderr.readline()).startswith(until):
            assert line, "it ended"
        yield ran


@pytest.mark.slow
def test_ctrl_c_leaves_nobody(explaining: Path, tmp_path: Path) -> None:
    with asked(explaining, tmp_path, "process 1 of 1 each: 1 round") as ran:
        assert len(processes.marked(tmp_path)) >= 3
        os.killpg(ran.pid, signal.SIGINT)  # as a terminal does: perf is in the group
        out, err = ran.communicate(timeout=120)
    assert ran.returncode == 130 and out == ""
    assert err.strip().splitlines()[-1] == "macro explain: interrupted" and "Traceback" not in err
    assert not processes.left(tmp_path)


@pytest.mark.slow
def test_processes_that_had_ended_are_told(explaining: Path, tmp_path: Path) -> None:
    run = tmp_path / "run.jsonl"
    words = ("--runs", "3", "--budget", "1s", "-o", str(run))
    with asked(explaining, tmp_path, "process 2 of 3 each: 1 round", *words) as ran:
        os.killpg(ran.pid, signal.SIGINT)
        out, err = ran.communicate(timeout=120)
    assert ran.returncode == 130 and "Traceback" not in err
    assert f"they are in {run}, --resume goes on" in err
    assert re.search(r"macro explain: interrupted; told from \d+ rounds of 1 process of each; they", err)
    assert "a gap of" in out and "1 process of each: intervals and what is named hold within these processes" in out
    (told,) = attribution.of(store.read(run))
    assert told.runs == 1
    assert not processes.left(tmp_path)
