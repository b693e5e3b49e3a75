"""What libraries print of their calls is taken out of a program's output, which is as it would have been."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import pytest

from macro.watching.library_log import talked
from micro.planning.library_log import read
from tests.macro.worker.conftest import FOLDER

torch = pytest.importorskip("torch", reason="no torch: pip install torch")

SCRIPT = f"""
import os, sys
sys.path.insert(0, {str(FOLDER)!r})
import library_talk, torch
a, b = torch.ones(64, 512), torch.ones(512, 256)
talk = library_talk.Talk(torch)
print("before", end=" ")
talk.start()
print("mine")
for _ in range(200):
    a @ b
    print("again", flush=True)
    print("open", end=" ", flush=True)
told = talk.stop()
print("after")
a @ b
sys.stderr.write(told)
"""


def ran(script: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120)


@pytest.mark.slow
@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="a torch without MKL")
def test_every_call_is_told_and_every_line_of_the_programs_is_its_own() -> None:
    told = ran(SCRIPT)
    assert told.stdout == "before mine\n" + 200 * "again\nopen " + "after\n"
    products = [calls for (_, problem), calls in read(told.stderr).calls.items() if problem is not None]
    assert [calls.count for calls in products] == [200]
    assert list(talked(told.stderr, 200)) == ["MKL SGEMM"]


@pytest.mark.slow
def test_a_program_that_has_closed_its_output_is_left_alone() -> None:
    closed = SCRIPT.replace("talk.start()", "sys.stdout.flush(); os.close(1); sys.stdout = sys.stderr; talk.start()")
    told = ran(closed)
    assert told.stderr == "mine\n" + 200 * "again\nopen " + "after\n" and told.stdout == "before "


@pytest.mark.slow
def test_a_library_that_the_program_asks_itself_is_left_to_it() -> None:
    told = ran("import os; os.environ['MKL_VERBOSE'] = '1'; " + SCRIPT.strip())
    assert not told.stderr and told.stdout.startswith("before mine\n")


@pytest.mark.slow
@pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="a torch without MKL")
def test_a_child_prints_where_the_program_would_have() -> None:
    forks = "talk.start()\nif not os.fork():\n    talk.forked(); print('child', flush=True); os._exit(0)\nos.wait()"
    told = ran(SCRIPT.replace("talk.start()", forks))
    assert "child\n" in told.stdout and "MKL_VERBOSE" not in told.stdout
    assert told.stdout.endswith("after\n") and told.stderr.count("MKL_VERBOSE SGEMM") == 200


def test_libraries_that_cannot_be_asked_say_nothing(beside: None) -> None:
    import library_talk  # type: ignore[import-not-found]

    talk = library_talk.Talk(SimpleNamespace(_C=SimpleNamespace()))
    talk.start()
    assert talk.stop() == ""


def test_seconds_are_of_a_step_and_of_what_multiplies() -> None:
    lines = [
        "MKL_VERBOSE SGEMM(N,N,512,64,256,0x1,0x2,512,0x3,256,0x4,0x5,512) 3.00ms CNR:OFF Dyn:1 FastMM:1",
        "onednn_verbose,v1,primitive,exec,cpu,matmul,brg,undef,src:f32::x wei:f32::x dst:f32::x,,,8x8:8x8,1.5",
        "MKL_VERBOSE SAXPY(512,0x1,0x2,1,0x3,1) 7.00ms CNR:OFF Dyn:1 FastMM:1",
        "MKL_VERBOSE SGEMM_BATCH_STRIDED(N,N,8,8,8) 1.00ms CNR:OFF Dyn:1 FastMM:1",
        "onednn_verbose,v1,primitive,exec,cpu,eltwise,jit,forward,data_f32::x,,alg:relu,8x8,9.0",
    ]
    assert talked("\n".join(lines), 2) == pytest.approx(
        {"MKL SGEMM": 1.5e-3, "MKL SGEMM_BATCH_STRIDED": 0.5e-3, "oneDNN matmul": 0.75e-3}
    )
