"""A child that speaks JSON lines: what it answers, and how it dies, hangs and rambles."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from micro.worker import json_child
from micro.worker.client import Died
from micro.worker.json_child import JsonChild
from tests.processes import MARK, left

# Runs the code of each request, which may change the answer.
CHILD = """
import json, os, signal, sys, time

requests, write, parent = os.fdopen(int(sys.argv[1])), int(sys.argv[2]), int(sys.argv[3])
assert parent == os.getppid()
for line in requests:
    answer = {"ok": True}
    exec(json.loads(line)["code"])
    os.write(write, (json.dumps(answer) + "\\n").encode())
"""
HOW = {
    "os.kill(os.getpid(), signal.SIGSEGV)": "crashes: its process died of SIGSEGV",
    "os._exit(3)": "ends its process with exit code 3",
    "if os.fork() == 0: time.sleep(600)\nos._exit(0)": "ends its process with exit code 0",
    "os.close(write); time.sleep(600)": "closes its descriptor and goes on without an answer",
    "os.write(write, b'nonsense\\n')": "sends what is no message: b'nonsense'",
    "os.write(write, b'\\xff\\xfe\\n')": r"sends what is no message: b'\\xff\\xfe'",
    "answer = [1, 2]": r"sends what is no message: b'\[1, 2\]'",
}


def started() -> JsonChild:
    return JsonChild([sys.executable, "-IS", "-c", CHILD], os.environ)


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[JsonChild]:
    """A child; nothing of it is left after the test."""
    monkeypatch.setattr(json_child, "CLOSE", 0.5)
    monkeypatch.setenv(MARK, str(tmp_path))
    with started() as made:
        yield made
    assert not left(tmp_path)


def does(child: JsonChild, code: str, patience: float = 20.0) -> dict[str, Any]:
    child.send({"code": code})
    return child.receive(patience)


def test_an_answer_comes_whole(child: JsonChild) -> None:
    assert does(child, "") == {"ok": True}
    assert does(child, "answer['long'] = 'x' * (1 << 20)") == {"ok": True, "long": "x" * (1 << 20)}


def test_answers_are_taken_one_by_one(child: JsonChild) -> None:
    child.send({"code": "answer = {'a': 1}"})
    child.send({"code": "answer = {'b': 2}"})
    assert (child.receive(20.0), child.receive(20.0)) == ({"a": 1}, {"b": 2})


def test_what_it_prints_is_no_message(tmp_path: Path) -> None:
    with (
        (tmp_path / "log").open("wb") as stream,
        JsonChild([sys.executable, "-IS", "-c", CHILD], os.environ, stream) as made,
    ):
        assert does(made, "print('{}', flush=True); os.write(2, b'a warning')") == {"ok": True}
    assert (tmp_path / "log").read_text() == "{}\na warning"


@pytest.mark.parametrize("code", HOW)
def test_one_that_dies_or_rambles_is_blamed_by_how(child: JsonChild, code: str) -> None:
    with pytest.raises(Died, match=f"^{HOW[code]}$"):
        does(child, code)
    with pytest.raises(Died):  # and it stays dead
        does(child, "")


def test_one_that_hangs_is_not_waited_for(child: JsonChild) -> None:
    does(child, "")  # it has started
    with pytest.raises(Died, match=r"^hangs: no answer within 0 s$"):
        does(child, "time.sleep(60)", patience=0.05)
    with pytest.raises(Died, match="SIGKILL"):  # what it says late would be taken for the next answer
        does(child, "", patience=5.0)


def test_an_interrupt_is_the_driver_s_alone(child: JsonChild) -> None:
    """A terminal sends it to all processes of its foreground group."""
    assert does(child, "answer = {'group': os.getpgrp()}")["group"] != os.getpgrp()


def test_a_closed_child_leaves_no_descriptor() -> None:
    handles = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").is_dir() else 0
    other = started()
    does(other, "")
    other.close()
    other.close()
    with pytest.raises(FileNotFoundError):
        JsonChild(["/no/such/program"], os.environ)
    assert handles == (len(os.listdir("/proc/self/fd")) if handles else 0)
