"""The runner, on probes of its own making: one line each, whatever they do, and whole ones however it ends."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernels.libs import cuda
from micro.probing import checklist, processes
from tests.processes import gone

KILLS = 6


def lines(path: Path) -> list[dict[str, Any]]:
    """Every line, each a whole one."""
    text = path.read_bytes() if path.exists() else b""
    assert not text or text.endswith(b"\n")
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture
def probe(tmp_path: Path) -> Callable[..., Path]:
    """`probe("name", "1 // 0")`: a probe with this body, in a folder, which is returned."""
    folder = tmp_path / "probes"
    folder.mkdir()

    def write(name: str, body: str, limit: float = 20.0, more: str = "") -> Path:
        text = f'QUESTION = "{name}?"\nLIMIT = {limit}\n{more}\n\ndef ask():\n'
        (folder / f"{name}.py").write_text(text + "".join(f"    {line}\n" for line in body.splitlines()))
        return folder

    return write


def asked(folder: Path, *argv: str) -> dict[str, dict[str, Any]]:
    """Each probe's line; the run must have been a success."""
    out = folder.parent / "answers.jsonl"
    assert checklist.main(["-o", str(out), *argv], folder) == 0
    return {line["probe"]: line for line in lines(out)}


def test_the_folder_is_the_registry() -> None:
    """Each is read without being run, asks something, and says how long it may take."""
    probes = checklist.find(checklist.PROBES)
    assert {x.name for x in probes} == {x.stem for x in checklist.PROBES.glob("[a-z]*.py")}
    assert all(x.question.endswith("?") and 10 <= x.limit <= 200 for x in probes)
    assert [x.name for x in checklist.find(checklist.PROBES, "^trace_.*x$")] == ["trace_jax"]
    places = [(x.part, x.rank) for x in probes]
    assert len(set(places)) == len(places) > 15, "two of one rank: which is asked first?"
    assert max(x.rank for x in probes) < checklist.RANK and {x.part for x in probes} <= set(checklist.PARTS)


def test_what_is_worth_most_is_asked_first() -> None:
    first, last = (checklist.find(checklist.PROBES, part=part) for part in (1, 3))
    assert [x.name for x in first] == ["hold", "versions", "event_loop"]
    names = [x.name for x in last]
    assert names[:5] == ["clocks", "cudnn_forward", "cudnn_backward_data", "cudnn_backward_filter", "transfers"]
    assert names[5:7] == ["sanitizer", "ncu"] and names[-2:] == ["pycuda_kernel", "skcuda_blas"]


def test_a_part_is_asked_in_its_order(probe: Callable[..., Path], capsys: pytest.CaptureFixture[str]) -> None:
    """A probe that says nothing of either comes last, a short one of them first."""
    probe("a", "return {}", more="PART = 3\nRANK = 20")
    probe("b", "return {}", more="PART = 3\nRANK = 10")
    probe("c", "return {}", more="PART = 1\nRANK = 30")
    probe("d", "return {}", limit=30)
    folder = probe("e", "return {}", limit=15)
    assert checklist.main(["--list"], folder) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split() for line in listed] == [
        [part, limit, "s", f"{name}:", f"{name}?"]
        for part, limit, name in (
            ("1", "20", "c"),
            ("3", "20", "b"),
            ("3", "20", "a"),
            ("3", "15", "e"),
            ("3", "30", "d"),
        )
    ]
    assert list(asked(folder, "--part", "3", "--only", "[ab]")) == ["b", "a"]
    assert checklist.main(["--part", "2"], folder) == 1


def test_fake_gives_a_line_for_every_probe(tmp_path: Path) -> None:
    told = subprocess.run(
        [sys.executable, "-m", "micro.probes", "--fake", "-o", tmp_path / "fake.jsonl"],
        cwd=processes.ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    found = lines(tmp_path / "fake.jsonl")
    assert {x["probe"] for x in found} == {x.name for x in checklist.find(checklist.PROBES)}
    for line in found:
        assert set(line) == {"probe", "question", "error", "seconds"}
        assert re.match(r"unavailable: [^\n]*(driver|CUDA_VISIBLE_DEVICES)[^\n]*$", line["error"]), line
        assert line["seconds"] < checklist.FAKE_LIMIT


def test_what_goes_wrong_costs_its_line_alone(probe: Callable[..., Path]) -> None:
    probe("raises", "1 // 0")
    probe("prints", "print('x' * 100_000)\nreturn {'answer': 1}")
    probe("exits", "raise SystemExit(3)")
    probe("leaves", "import os\nos._exit(4)")
    probe("crashes", "import ctypes\nctypes.string_at(0)")
    probe("answers", "return {'a': [1, 2.5, None], 'nan': float('nan')}")
    probe("strange", "return {1: object}")
    probe("missing", "import not_here_at_all")
    folder = probe("hangs", "import time\ntime.sleep(60)", limit=1.5)
    (folder / "broken.py").write_text("def ask(:\n")
    (folder / "empty.py").write_text("")
    found = asked(folder)
    assert len(found) == 11
    assert found["prints"]["answer"] == {"answer": 1}
    assert found["answers"]["answer"] == {"a": [1, 2.5, None], "nan": "nan"}
    assert found["strange"]["answer"] == {"1": "<class 'object'>"}
    assert found["raises"]["error"] == "ZeroDivisionError: integer division or modulo by zero"
    assert found["exits"]["error"] == "SystemExit: 3"
    assert found["leaves"]["error"] == "ended without an answer: exit code 4"
    assert found["crashes"]["error"] == "ended without an answer: killed by SIGSEGV"
    assert "in ask" in found["crashes"]["tail"]  # where it was
    assert found["hangs"]["error"] == "no answer within 1.5 s" and found["hangs"]["seconds"] < 15
    assert found["missing"]["error"].startswith("unavailable: ModuleNotFoundError: No module named")
    assert found["broken"]["error"].startswith("SyntaxError") and not found["broken"]["question"]
    assert found["empty"]["error"].startswith("AttributeError")


@pytest.mark.slow
def test_what_was_found_before_the_end_is_kept(probe: Callable[..., Path]) -> None:
    facts = "from micro.probing.facts import Facts\nfacts = Facts()\nfacts.note('one', 1)\n"
    probe("dies", facts + "facts.ask('two', lambda: 1 // 0)\nimport os\nos.abort()")
    found = asked(probe("hangs", facts + "import time\ntime.sleep(60)", limit=2.5))
    assert found["hangs"]["so_far"] == {"one": 1}
    assert found["dies"]["so_far"]["two"]["error"].startswith("ZeroDivisionError")


@pytest.mark.slow
def test_what_a_probe_started_ends_with_it(probe: Callable[..., Path], tmp_path: Path) -> None:
    """Whether it is killed or answers."""
    start = "import subprocess, time\nx = subprocess.Popen(['sleep', '60'])\n"
    start += f"open(r'{tmp_path}/%s', 'w').write(str(x.pid))\n"
    probe("hangs", start % "first" + "time.sleep(60)", limit=2.5)
    found = asked(probe("answers", start % "second" + "return {}"))
    assert "answer" in found["answers"] and "error" in found["hangs"]
    assert all(gone(int((tmp_path / name).read_text())) for name in ("first", "second"))


@pytest.mark.slow
def test_the_time_for_all_is_kept(probe: Callable[..., Path]) -> None:
    """Whoever comes too late is told so, and has a line."""
    probe("a", "import time\ntime.sleep(60)", limit=30)
    found = asked(probe("b", "return {}", limit=40), "--seconds", "2")
    assert re.fullmatch(r"no answer within (2|1\.9\d*) s", found["a"]["error"])
    assert found["b"]["error"] == "not asked: the 2 s for all are over"


def test_the_file_stays_within_its_room(probe: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checklist, "ROOM", 40_000)
    probe("big", "return {'small': 1, 'large': 'x' * 1_000_000}")
    folder = probe("small", "return {'x': 'y' * 10_000}")
    found = asked(folder)
    assert found["big"]["answer"] == {"small": 1, "large": "left out: 1000002 bytes"}
    assert found["small"]["answer"] == {"x": "y" * 10_000}
    assert (folder.parent / "answers.jsonl").stat().st_size < 40_000


def test_a_second_run_adds_to_the_file(probe: Callable[..., Path], tmp_path: Path) -> None:
    """What a former one left half is dropped."""
    out = tmp_path / "answers.jsonl"
    out.write_bytes(b'{"probe": "old"}\n{"pro')
    asked(probe("new", "return {}"))
    assert [line["probe"] for line in lines(out)] == ["old", "new"]


def runner(folder: Path, out: Path) -> subprocess.Popen[bytes]:
    code = "import pathlib, sys; from micro.probing import checklist; "
    code += "checklist.main(['-o', sys.argv[1]], pathlib.Path(sys.argv[2]))"
    return subprocess.Popen(
        [sys.executable, "-c", code, out, folder],
        cwd=processes.ROOT,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"TMPDIR": str(folder.parent)},
    )


@pytest.mark.slow
def test_lines_are_whole_after_a_kill(probe: Callable[..., Path], tmp_path: Path) -> None:
    """At any moment; and the probe that ran then ends, too."""
    body = "import os\nopen(%r, 'a').write(f'{os.getpid()}\\n')\nreturn {'x': 'y' * %d}"
    for number in range(30):
        folder = probe(f"p{number:02d}", body % (str(tmp_path / "pid"), 10 ** (number % 7)))
    rng, counts = random.Random(1), []
    for number in range(KILLS):
        out = tmp_path / f"{number}.jsonl"
        process = runner(folder, out)
        enough = rng.randint(1, 8)
        for _ in range(2000):
            if len(lines(out)) >= enough or process.poll() is not None:
                break
            time.sleep(0.01)
        time.sleep(rng.uniform(0.0, 0.1))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        counts.append(len(lines(out)))
        assert all(gone(int(pid)) for pid in (tmp_path / "pid").read_text().split())
    assert 1 < max(counts) < 30, "killed too early or too late to tell"


def test_a_terminated_run_leaves_nothing_behind(probe: Callable[..., Path], tmp_path: Path) -> None:
    """As a time limit from outside ends it."""
    body = f"import os, time\nopen(r'{tmp_path}/pid', 'w').write(str(os.getpid()))\ntime.sleep(60)"
    folder = probe("hangs", body)
    process = runner(folder, tmp_path / "out.jsonl")
    for _ in range(500):
        if (tmp_path / "pid").exists() and (tmp_path / "pid").read_text():
            break
        time.sleep(0.01)
    process.terminate()
    process.wait()
    assert gone(int((tmp_path / "pid").read_text()))


def test_versions_are_told_without_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU without CuPy has versions to tell, and no products."""
    from kernels.errors import Unavailable
    from micro.probing import facts as probing_facts

    monkeypatch.setattr(cuda, "missing", lambda: "cupy is not installed: pip install it")
    probing_facts.need()
    with pytest.raises(Unavailable, match="cupy is not installed"):
        probing_facts.need("cupy")
