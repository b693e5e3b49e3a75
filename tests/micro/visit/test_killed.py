"""A visit that is killed or interrupted: whole lines are left, no process is."""

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
from tests.micro.command.test_everything import PROGRAM
from tests.micro.visit.conftest import ROOT, whole, words
from tests.processes import MARK, interruptible, left, marked

VISIT = """
import sys
from micro import gpu
from micro.visit import steps
from micro.visit.steps import Step


def few(part, out, here, share):
    file = str(out / "gpu-1.jsonl")
    words = ("few", "all", "--device", "fake:cuda", "--small", "--budget", "1s", "-o", file, "--resume")
    asked = ("micro.probes", "-o", str(out / "answers.jsonl"), "--fake", "--only", "versions")
    return Step("benchmarks", words, 90.0), Step("probes", asked, 20.0)


steps.steps = few
sys.exit(gpu.main(["--fake", "--part", "1", "--seconds", "100"]))
"""


@pytest.fixture
def visit(
    tmp_path: Path, modules: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """`visit()`: a visit in a process of its own, of few benchmarks and one probe."""
    modules("few", PROGRAM)
    for name, value in {"OUT": "out", "KERNELGAP_STATE": "state", MARK: ""}.items():
        monkeypatch.setenv(name, str(tmp_path / value).rstrip("/"))
    running: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        running.append(
            subprocess.Popen([sys.executable, "-c", VISIT], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        )
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
    visit: Callable[[], subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    """What it started dies with it: the next visit writes to the same files."""
    out, rng = tmp_path / "out", random.Random(5)
    file, before = out / "gpu-1.jsonl", b""
    for _ in range(3):
        process = visit()
        while process.poll() is None and (not file.exists() or file.stat().st_size <= len(before)):
            time.sleep(0.005)
        time.sleep(rng.uniform(0, 0.2))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert not left(tmp_path)
        whole(out)
        assert file.read_bytes().startswith(before)
        before = file.read_bytes()
    process = visit()
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, (err, words(out))
    whole(out)
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
        "from micro import gpu; from micro.visit import steps\n"
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
