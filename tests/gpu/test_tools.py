"""The suite's kernels under compute-sanitizer and Nsight Compute, or under programs that write what these write.

A stand-in takes the real command, launches nothing, and writes the lines that the launching process would have written.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kernels.errors import Unavailable
from tests.gpu import suite_kernels, tools
from tests.gpu.conftest import REAL
from tests.gpu.session import processes
from tests.processes import gone

SECONDS = 160.0  # of a tool over all kernels: compute-sanitizer took 36 s on an H100
SMALL = [kernel.kernel for kernel in suite_kernels.SMALL]
LARGE = {kernel.kernel: kernel.problem.bytes for kernel in suite_kernels.LARGE}
SHARES = {"softmax_index": 1.5}  # of what their problems count, at most; all others 1.1 (1.396 and 1.074 on an H100)
ANNOUNCED = {("initcheck", "dropout_key")}  # reads memory that nobody wrote, as its file says
SAID = json.loads(Path(__file__).with_name("tools.json").read_text("utf-8"))  # what the tools print

Write = Callable[[str, str], None]


def tool(name: str) -> str:
    """Return the path of a tool; skip the test where it or a GPU is not here."""
    if not REAL:
        pytest.skip("no GPU: kernels are watched on one alone")
    try:
        return tools.find(name)
    except Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def sanitizer() -> str:
    """compute-sanitizer, which works on one kernel at least."""
    path = tool("compute-sanitizer")
    if reason := tools.sanitizer_refusal(tools.sanitize(path, "memcheck", ["transpose_tiled"], 30.0)):
        pytest.skip(f"compute-sanitizer does not work here: {reason}")
    return path


@pytest.mark.parametrize("name", tools.SANITIZERS)
def test_no_kernel_strays_races_or_reads_what_nobody_wrote(name: str, sanitizer: str) -> None:
    ran = tools.sanitize(sanitizer, name, (), SECONDS)
    assert [x for x in tools.errors(ran) if (name, x) not in ANNOUNCED] == [], ran.words[-3000:]
    assert (ran.faults(), [x["kernel"] for x in ran.kernels], ran.end) == ({}, SMALL, "exit code 0")


@pytest.fixture(scope="module")
def counted() -> dict[str, float]:
    """The bytes that each large kernel moves, by Nsight Compute."""
    path, first = tool("ncu"), ["softmax_index"]
    if reason := tools.profiler_refusal(tools.count_bytes(path, "small", first, 30.0)):
        pytest.skip(f"ncu does not work here: {reason}")
    return tools.moved(tools.count_bytes(path, "large", [*LARGE], SECONDS).words)


@pytest.mark.parametrize("kernel", LARGE)
def test_a_kernel_moves_the_bytes_that_its_problem_counts(kernel: str, counted: dict[str, float]) -> None:
    assert 0.9 <= counted[kernel] / LARGE[kernel] <= SHARES.get(kernel, 1.1)


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Write:
    """`program("ncu", text)`: a shell script on PATH; `launched` writes the lines of the kernels."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def write(name: str, text: str) -> None:
        (folder / name).write_text(f"""#!/bin/sh
while [ "$1" != tests.gpu.suite_kernels ]; do shift; done
file=$3 size=$4
shift 4
if [ "$size" = large ]; then all="{" ".join(LARGE)}"; else all="{" ".join(SMALL)}"; fi
kernels="${{*:-$all}}"
launched() {{ for k in $kernels; do echo "{{\\"kernel\\": \\"$k\\"$1}}" >>"$file"; done; }}
{text}
""")
        (folder / name).chmod(0o755)

    return write


def prints(text: str) -> str:
    return f"cat <<'END'\n{text}END\n"


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        (SAID["clean"], {}),
        (SAID["race"], {"transpose_tiled": 1}),
        (SAID["unwritten"], {"softmax_index": 2, "elsewhere": 1}),
    ],
    ids=["clean", "race", "unwritten"],
)
def test_errors_are_counted_by_kernel(program: Write, text: str, errors: dict[str, int]) -> None:
    program("compute-sanitizer", f"launched ', \"right\": true'\n{prints(text)}")
    ran = tools.sanitize("compute-sanitizer", "memcheck", (), 20.0)
    assert tools.sanitizer_refusal(ran) is None
    assert (tools.errors(ran), ran.faults(), ran.end) == (errors, {}, "exit code 0")
    assert [x["kernel"] for x in ran.kernels] == SMALL


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            f"""launched ', "error": "CUDARuntimeError: cudaErrorUnknown"'\n{prints(SAID["refused"])}exit 1""",
            "Error: Device not supported; CUDARuntimeError: cudaErrorUnknown; exit code 1",
        ),
        (
            prints(SAID["clean"]),
            "========= ERROR SUMMARY: 0 errors; exit code 0",
        ),  # it ran nothing, and says so of that
        (
            "echo 'libsanitizer-collection.so: cannot open shared object file' >&2; exit 127",
            "libsanitizer-collection.so: cannot open shared object file; exit code 127",
        ),
    ],
    ids=["refuses", "runs nothing", "a library is missing"],
)
def test_a_sanitizer_that_does_not_work_says_why(program: Write, text: str, reason: str) -> None:
    program("compute-sanitizer", text)
    ran = tools.sanitize("compute-sanitizer", "memcheck", ["transpose_tiled"], 20.0)
    assert tools.sanitizer_refusal(ran) == reason


def table(counts: dict[str, list[tuple[str, str]]]) -> str:
    rows = [(i, name, *count) for name, some in counts.items() for i, count in enumerate(some)]
    place, grid = SAID["place"], SAID["grid"]
    lines = [f'"{i}",{place},"{name}(const float *, int)",{grid},"{a}","{b}"' for i, name, a, b in rows]
    return SAID["before"] + SAID["head"] + "\n".join(lines) + "\n"


def test_bytes_are_summed_over_the_launches_of_a_kernel(program: Write) -> None:
    launches = {"stream_read": [("268,435,456", "4224"), ("4224", "32")], "stream_copy": [("1,000.5", "n/a")]}
    program("ncu", f"launched\n{prints(table(launches))}")
    ran = tools.count_bytes("ncu", "large", [*launches], 20.0)
    assert tools.profiler_refusal(ran) is None and [x["kernel"] for x in ran.kernels] == [*launches]
    moved = tools.moved(ran.words)
    assert moved["stream_read"] == 2**28 + 2 * 4224 + 32 and str(moved["stream_copy"]) == "nan"
    moved = tools.moved(ran.words.replace('"byte","byte"', '"Mbyte","Kbyte"'))
    assert moved["stream_read"] == pytest.approx((2**28 + 4224) * 1e6 + (4224 + 32) * 1e3)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            f"launched\n{prints(SAID['no_right'])}exit 1",
            "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission",
        ),
        (f"{prints(SAID['not_loaded'])}exit 9", SAID["not_loaded"].strip() + "; exit code 9"),
        ("exit 3", "without a word; exit code 3"),
    ],
    ids=["no right", "no library", "silent"],
)
def test_a_profiler_that_does_not_work_says_why(program: Write, text: str, reason: str) -> None:
    program("ncu", text)
    assert (tools.profiler_refusal(tools.count_bytes("ncu", "small", ["x"], 20.0)) or "").startswith(reason)


WATCHER = """
import os, sys
from tests.gpu import tools
start = f"echo $$ >tool; {sys.executable} program.py {os.getpid()} & exec sleep 60"
tools.run(["sh", "-c", f"cd {sys.argv[1]}; {start}"], "small", [], 60.0)
"""
PROGRAM = """
import os, sys, time
from tests.gpu.session import processes
open("program", "w").write(f"{os.getpid()}\\n")
processes.follow(int(sys.argv[1]))
time.sleep(60)
"""


def test_a_tool_and_its_program_end_with_a_test_that_is_killed(tmp_path: Path) -> None:
    """The program is no child of the test, and the tool does not end it."""
    (tmp_path / "program.py").write_text(PROGRAM)
    words = [sys.executable, "-c", WATCHER, tmp_path]
    watcher = subprocess.Popen(words, cwd=processes.ROOT, env=processes.environment())
    files = [tmp_path / name for name in ("tool", "program")]
    for _ in range(2000):
        if all(file.exists() and file.read_text().endswith("\n") for file in files):
            break
        time.sleep(0.01)
    pids = [int(file.read_text()) for file in files]
    watcher.send_signal(signal.SIGKILL)
    watcher.wait()
    assert [gone(pid) for pid in pids] == [True, True]
