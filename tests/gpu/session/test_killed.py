"""A session that is killed or interrupted: whole lines are left, no process is."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from reports import store
from tests.gpu.session.conftest import assert_whole_lines, log
from tests.gpu.session.processes import ROOT
from tests.micro.command.test_everything import PROGRAM
from tests.processes import MARK, interruptible, left, marked

SESSION = """
import sys
from tests.gpu.session import __main__ as gpu, steps
from tests.gpu.session.steps import Step


def few(part, out, here, share):
    file = str(out / "gpu-1.jsonl")
    words = ("few", "all", "--device", "fake:cuda", "--small", "--budget", "1s", "-o", file, "--resume")
    return Step("benchmarks", words, 90.0), Step("names", ("micro.names", file), 20.0)


steps.steps = few
sys.exit(gpu.main(["--fake", "--part", "1", "--seconds", "100"]))
"""


@pytest.fixture
def session(
    tmp_path: Path, modules: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """`session()`: a session of few benchmarks in a process of its own."""
    modules("few", PROGRAM)
    for name, value in {"OUT": "out", "KERNELGAP_STATE": "state", MARK: ""}.items():
        monkeypatch.setenv(name, str(tmp_path / value).rstrip("/"))
    running: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        words = [sys.executable, "-c", SESSION]
        running.append(subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE))
        return running[-1]

    yield start
    for process in running:
        if process.poll() is None:
            process.kill()
            process.communicate()
    for process in marked(tmp_path):
        process.kill()


@pytest.mark.slow
def test_killed_at_random_moments_it_leaves_whole_lines_and_goes_on(
    session: Callable[[], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """What it started dies with it: the next session writes to the same files."""
    out, rng = tmp_path / "out", random.Random(5)
    file, before = out / "gpu-1.jsonl", b""
    for _ in range(3):
        process = session()
        while process.poll() is None and (not file.exists() or file.stat().st_size <= len(before)):
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.2))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert not left(tmp_path)
        assert_whole_lines(out)
        assert file.read_bytes().startswith(before)
        before = file.read_bytes()
    process = session()
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, (err, log(out))
    assert_whole_lines(out)
    names = [x.contest for x in store.read(file).contests]
    assert len(set(names)) == len(names) and file.read_bytes().startswith(before)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_what_it_started_ends_with_it(
    how: signal.Signals, tmp_path: Path, modules: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MARK, str(tmp_path))
    modules("waits", "import time; print('begun'); time.sleep(600)")
    out = str(tmp_path / "out")
    program = (
        "from tests.gpu.session import __main__ as gpu, steps\n"
        "steps.steps = lambda *given: (steps.Step('x', ('waits',), 99.0),)\n"
        f"raise SystemExit(gpu.main(['--fake', '--part', '1', '--out', {out!r}]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=interruptible,
    )
    begun = tmp_path / "out" / "gpu-1.txt"
    while process.poll() is None and not (begun.exists() and "begun" in begun.read_text()):
        time.sleep(0.01)
    assert len(marked(tmp_path)) == 2
    process.send_signal(how)
    _, err = process.communicate()
    if how == signal.SIGINT:
        assert process.returncode == 130 and "interrupted" in err and "Traceback" not in err
    assert not left(tmp_path)
