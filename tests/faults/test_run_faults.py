"""What happens to a whole command: killed, interrupted, without room, without memory, without rights.

Each runs the real command in a process of its own. What had ended is in the run file, what is left is
said in one line, and nothing stays behind.
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from reports import store
from tests.builds import share
from tests.processes import MARK, ROOT, interruptible, left, python

SWEEP = ("--m", "8,16,24,32,40,48", "--n", "32", "--k", "32,64", "--variant", "openblas,naive", "--budget", "6s")
CONTESTS = 12


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """A folder with a space and letters beyond ASCII, after which no process of the test is left."""
    folder = tmp_path / "größe und 幅"
    folder.mkdir()
    yield folder
    assert not left(folder)


def start(
    place: Path, *words: str, limit: Callable[[], None] = interruptible, **variables: str
) -> subprocess.Popen[str]:
    environment = os.environ | {"KERNELGAP_STATE": str(share(place.parent / "state")), MARK: str(place)} | variables
    return subprocess.Popen(
        [sys.executable, "-m", "micro.gemm", *words],
        cwd=ROOT,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=limit,
    )


def run(place: Path, *words: str, **more: object) -> tuple[int, str, str]:
    """Exit code and both streams. No traceback, whatever happened."""
    process = start(place, *words, **more)  # type: ignore[arg-type]
    out, err = process.communicate(timeout=600)
    assert "Traceback" not in err, err
    return process.returncode, out, err


def names(path: Path) -> list[tuple[str, str]]:
    """Of what is measured, and which bound each ceiling is; by which instructions, each process measures for itself."""
    return [(x.contest, x.name.split("/")[0] if x.role == "ceiling" else x.name) for x in store.read(path).results]


def contests(path: Path) -> int:
    """How many have ended, by a run file that may not be there yet."""
    return path.read_bytes().count(b'"kind":"contest"') if path.exists() else 0


def wait_for_contests(process: subprocess.Popen[str], path: Path, count: int) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end and process.poll() is None:
        if contests(path) >= count:
            return
        time.sleep(0.01)
    raise AssertionError("it ended before it could be disturbed")


@pytest.mark.slow
def test_killed_again_and_again_and_resumed(place: Path) -> None:
    """Where it is killed is chance: while it prepares, checks, measures or writes."""
    whole, killed = place / "whole.jsonl", place / "killed.jsonl"
    brief = (*SWEEP, "--target", "40%")  # the cases are what counts
    assert run(place, *brief, "-o", str(whole))[0] == 0
    chance = random.Random(4)
    for ended in (0, 1, 4, 6):
        process = start(place, *brief, "-o", str(killed), "--resume")
        while process.poll() is None and contests(killed) < ended:
            time.sleep(0.005)
        time.sleep(chance.uniform(0.0, 0.3))
        process.kill()
        process.communicate()
    code, out, _ = run(place, *brief, "-o", str(killed), "--resume")
    assert code == 0 and "killed.jsonl" in out
    assert sorted(names(killed)) == sorted(names(whole))
    assert len(set(names(killed))) == len(names(killed))
    lines = [json.loads(line) for line in killed.read_text("utf-8").splitlines()]
    assert [line["kind"] for line in lines].count("environment") == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_interrupted(place: Path, number: signal.Signals, code: int) -> None:
    path = place / "run.jsonl"
    process = start(place, *SWEEP, "-o", str(path), "--target", "0.01%", "--json", str(place / "x.json"))
    wait_for_contests(process, path, 2)
    process.send_signal(number)
    out, err = process.communicate(timeout=600)
    assert process.returncode == code, err
    written = store.read(path).contests
    kept = [contest for contest in written if not contest.interrupted]
    assert 2 <= len(kept) < CONTESTS and len(written) <= len(kept) + 1
    assert f"interrupted; {len(kept)} of {CONTESTS} contests finished" in err and "--resume" in err
    assert "Traceback" not in err
    assert kept[0].results[0].problem["m"] == 8 and "m:8" in out  # what had ended is reported
    assert len(json.loads((place / "x.json").read_text("utf-8"))["comparisons"]) == len(written)


@pytest.mark.slow
def test_full_disk(place: Path) -> None:
    """A limit on the size of files fails a write as a full disk does; /dev/full at the first byte."""
    path = place / "run.jsonl"
    full = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))  # noqa: E731
    rough = ("--target", "40%")  # one look: 6 to 9 kB a contest, however busy the machine is
    code, out, err = run(place, *SWEEP, *rough, "-o", str(path), limit=full)
    kept = store.read(path)
    assert code == 1
    assert f"File too large; {len(kept.contests)} finished contests are kept" in err and "--resume" in err
    assert 0 < len(kept.contests) < CONTESTS and not kept.damaged
    assert "m:8" in out
    assert run(place, *SWEEP, *rough, "-o", str(path), "--resume")[0] == 0
    assert len(store.read(path).contests) == CONTESTS
    code, _, err = run(place, "--m", "8", "-o", "/dev/full")
    assert code == 1 and "No space left" in err and len(err.splitlines()) == 1


def test_full_output(place: Path) -> None:
    """A report that finds no room leaves the run file and the other exports."""
    words = f"-o '{place}/run.jsonl' --csv '{place}/x.csv' --markdown /dev/full --m 8 --n 8 --k 8 --budget 0.2s"
    told = subprocess.run(
        ["bash", "-c", f"'{sys.executable}' -m micro.gemm {words} > /dev/full"],
        cwd=ROOT,
        text=True,
        capture_output=True,
        check=False,
        env=os.environ | {"KERNELGAP_STATE": str(share(place.parent / "state"))},
    )
    assert told.returncode == 1 and "Traceback" not in told.stderr
    assert "stdout: No space left" in told.stderr and "--markdown: No space left" in told.stderr
    assert len(store.read(place / "run.jsonl").contests) == 1
    assert (place / "x.csv").read_text("utf-8").count("\n") > 2


@pytest.mark.parametrize("option", ["-o", "--json", "--figures"])
def test_folder_that_cannot_be_written(place: Path, option: str) -> None:
    code, out, err = run(place, "--m", "8", option, "/sys/x/y")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert option in err


@pytest.mark.slow
def test_home_that_cannot_be_written(place: Path) -> None:
    variables = {"HOME": "/sys", "XDG_CACHE_HOME": "/sys/cache", "KERNELGAP_STATE": "", "TMPDIR": str(place)}
    code, out, _ = run(place, "--m", "8", "--n", "8", "--k", "8", "--budget", "0.3s", "-q", **variables)
    assert code == 0 and "numpy" in out
    told = python("-m", "kernels", **variables)
    assert told.returncode == 0 and "temporary" in told.stdout


EATER = """
import numpy as np

def eats(problem, a, b, c):
    np.ones(1 << 34, np.float32)
"""


def test_out_of_memory(place: Path) -> None:
    """What cannot fit is refused before anything is done; a kernel that eats the rest fails alone."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (3 << 29, 3 << 29))  # noqa: E731
    words = ("--m", "32", "--n", "32", "--k", "32", "--budget", "0.3s", "-o", str(path := place / "run.jsonl"))
    code, out, err = run(place, "--m", "8000", "--n", "8000", "--k", "8000", limit=limit, OPENBLAS_NUM_THREADS="1")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert "take smaller --m, --n, --k" in err
    (eater := place / "eater.py").write_text(EATER)
    code, _, err = run(
        place, *words, "--variant", f"openblas,naive,{eater}:eats", limit=limit, OPENBLAS_NUM_THREADS="1"
    )
    results = {result.variant: result for result in store.read(path).results}
    assert code == 1, err
    assert results["openblas"].seconds and results["naive"].seconds
    eaten = results[f"{eater}:eats"]
    assert eaten.status == "failed" and "emory" in (eaten.reason or "")


@pytest.mark.slow
def test_two_runs_of_one_file(place: Path) -> None:
    path = place / "run.jsonl"
    first = start(place, *SWEEP, "-o", str(path), "--target", "0.01%")
    wait_for_contests(first, path, 1)
    for resume in ([], ["--resume"]):
        code, out, err = run(place, "--m", "8", "-o", str(path), *resume)
        assert (code, out) == (2, "") and "another run is writing this file" in err
    first.terminate()
    first.communicate(timeout=600)
    assert not store.read(path).damaged


@pytest.mark.slow
@pytest.mark.parametrize(
    "content", [b"", b"Dear reader,\n", b'{"kind": "environment", "format": 99}\n', b"\x00" * 4096]
)
def test_resuming_what_is_no_run(place: Path, content: bytes) -> None:
    path = place / "run.jsonl"
    path.write_bytes(content)
    code, _, err = run(place, "--m", "8", "--n", "8", "--k", "8", "--budget", "0.2s", "-o", str(path), "--resume", "-q")
    if content:
        assert code == 2 and len(err.splitlines()) == 1
        assert path.read_bytes() == content
    else:
        assert code == 0 and len(store.read(path).contests) == 1


def test_resuming_with_other_cases_is_refused(place: Path) -> None:
    path = place / "run.jsonl"
    words = ("--m", "8", "--n", "8", "--k", "8", "--budget", "0.2s", "-o", str(path))
    assert run(place, *words, "--variant", "openblas,numpy")[0] == 0
    before = path.read_bytes()
    code, _, err = run(place, *words, "--variant", "openblas,naive", "--resume")
    assert code == 2 and "with other cases" in err
    assert path.read_bytes() == before


@pytest.mark.slow
def test_resuming_other_contests_is_refused_and_both_commands_named(place: Path) -> None:
    path = place / "run.jsonl"
    words = ("--n", "8", "--k", "8", "--budget", "0.2s", "--variant", "openblas,numpy", "-o", str(path))
    assert run(place, "--m", "8", *words)[0] == 0
    before = path.read_bytes()
    code, _, err = run(place, "--m", "16", *words, "--resume")
    assert code == 2 and len(err.splitlines()) == 1
    assert "--m 8 " in err and "--m 16 " in err and err.rstrip().endswith("name another file")
    assert path.read_bytes() == before
    assert run(place, "--m", "8", *words, "--resume", "-q")[0] == 0


@pytest.mark.slow
def test_other_locale(place: Path) -> None:
    """A terminal that knows ASCII alone still gets its report; a document is UTF-8 all the same."""
    variables = {"LC_ALL": "POSIX", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    words = ("--m", "8", "--n", "8", "--k", "8", "--budget", "0.2s", "-q")
    path = place / "x.md"
    code, out, _ = run(place, *words, "--markdown", str(path), **variables)
    assert code == 0 and "numpy" in out and out.isascii()
    assert "numpy" in path.read_text("utf-8")
    code, out, _ = run(place, *words, "--json", "-", **variables)
    assert code == 0 and json.loads(out)["results"]


@pytest.mark.slow
@pytest.mark.parametrize("broken", ["raise ImportError('libtorch.so: no such file')", ""])
def test_half_installed_package(place: Path, broken: str) -> None:
    """A torch that raises, and one that is an empty module."""
    package = place / "packages" / "torch"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(broken)
    path = place / "run.jsonl"
    words = ("--m", "8", "--n", "8", "--k", "8", "--budget", "0.3s", "--variant", "openblas,torch", "-o", str(path))
    code, out, _ = run(place, *words, PYTHONPATH=str(place / "packages"))
    results = {result.variant: result for result in store.read(path).results}
    assert results["openblas"].status in ("ok", "contended")
    assert results["torch"].status == "skipped"
    assert "pip install" in (results["torch"].reason or "") and "torch" in out
    assert code == 0


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="one core: none can be taken away")
@pytest.mark.slow
def test_core_taken_away(place: Path) -> None:
    path = place / "run.jsonl"
    words = ("--m", "32", "--n", "32", "--k", "32", "--variant", "openblas,naive", "--target", "0.0001%")
    process = start(place, *words, "--budget", "5s", "-o", str(path))
    while process.poll() is None:  # again and again: one of them is in the middle of its rounds
        for child in psutil.Process(process.pid).children():
            with suppress(psutil.NoSuchProcess):
                child.cpu_affinity([core for core in os.sched_getaffinity(0) if core not in child.cpu_affinity()])
        time.sleep(0.2)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    for result in store.read(path).results:
        if result.role == "measured":
            assert result.status == "contended" and result.seconds
            assert any("the CPU affinity changed" in warning for warning in result.warnings)
