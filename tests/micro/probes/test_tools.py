"""compute-sanitizer and Nsight Compute in the place of which programs stand that say what they say.

Each takes the real command, launches nothing, and writes the lines of kernels that the program would have written.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernels import nvcc
from kernels.errors import Unavailable
from micro.probes import ncu, sanitizer
from micro.probing import own_kernels, processes, tools
from tests.processes import gone

BANNER = "========= COMPUTE-SANITIZER\n"
CLEAN = BANNER + "========= ERROR SUMMARY: 0 errors\n"
RACE = """========= COMPUTE-SANITIZER
========= Error: Race reported between Write access at transpose_tiled+0x140 in transpose.cu:40
=========     and Read access at transpose_tiled+0xe0 in transpose.cu:46 [4 hazards]
=========
========= RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)
"""
UNWRITTEN = """========= COMPUTE-SANITIZER
========= Uninitialized __global__ memory read of size 4 bytes
=========     at softmax_index+0x130
=========     by thread (0,0,0) in block (0,0,0)
=========     Address 0x7f3c7ec000fc
=========
========= Uninitialized __global__ memory read of size 4 bytes
=========     at softmax_index+0x150
=========     by thread (31,0,0) in block (1,0,0)
=========     Address 0x7f3c7ec001fc
=========
========= Host API memory access error at host access to 0x1303fd1400 of size 25600 bytes
=========     Uninitialized access at 0x1303fd4600 on access by cudaMemcpy source.
=========
========= ERROR SUMMARY: 3 errors
"""
REFUSED = """========= COMPUTE-SANITIZER
========= Error: Device not supported
=========
========= Target application returned an error
========= ERROR SUMMARY: 1 error
"""
HEAD = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
    '"Device","CC","dram__bytes_read.sum","dram__bytes_write.sum","gpu__time_duration.sum"\n'
    '"","","","","","","","","","","","byte","byte","ns"\n'
)
PLACE = '"1234","python3.12","127.0.0.1"'
GRID = '"1","7","(256, 1, 1)","(1056, 1, 1)","0","9.0"'
BEFORE = """==PROF== Connected to process 1234 (/usr/bin/python3.12)
==PROF== Profiling "stream_read" - 0: 0%....50%....100% - 1 pass
{"launched": 8}
==PROF== Disconnected from process 1234
"""
NO_RIGHT = """==PROF== Connected to process 1234 (/usr/bin/python3.12)
==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters on the target device 0.
==PROF== Disconnected from process 1234
==WARNING== No kernels were profiled.
"""  # noqa: E501  as it says it
NOT_LOADED = "Failed to initialize the profiler: LibraryNotLoaded. Check that a compatible driver library is loaded.\n"

Write = Callable[[str, str], None]


@pytest.fixture
def program(here: pytest.MonkeyPatch, tmp_path: Path) -> Write:
    """`program("ncu", text)`: a shell script on PATH that begins by telling what it was given: $tool or $kernels,
    $told and $size; `launched` writes the lines of the kernels."""
    folder = tmp_path / "bin"
    folder.mkdir()
    here.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    here.setattr(own_kernels, "compiled", lambda arch: 8)
    here.setattr(tools, "architecture", lambda: "sm_90")

    def write(name: str, text: str) -> None:
        kernels = {
            size: " ".join(x.kernel for x in some)
            for size, some in (("small", own_kernels.SMALL), ("large", own_kernels.LARGE))
        }
        (folder / name).write_text(f"""#!/bin/sh
[ "$1" = --version ] && echo "{name} by NVIDIA" && echo "Version 2025.3.0.0" && exit
echo "$@" >>"{tmp_path}/asked"
tool=$2
while [ "$1" != own-kernels ]; do shift; done
told=$3 size=$4
shift 4
if [ "$size" = large ]; then all="{kernels["large"]}"; else all="{kernels["small"]}"; fi
kernels="${{*:-$all}}"
launched() {{ for k in $kernels; do echo "{{\\"kernel\\": \\"$k\\"$1}}" >>"$told"; done; }}
{text}
""")
        (folder / name).chmod(0o755)

    return write


def said(text: str) -> str:
    return f"cat <<'END'\n{text}END\n"


# compute-sanitizer


def test_errors_are_told_kernel_by_kernel(program: Write, tmp_path: Path) -> None:
    program(
        "compute-sanitizer",
        f"""launched ', "right": true'
case $tool in
racecheck) {said(RACE)}
;; initcheck) {said(UNWRITTEN)}
;; *) {said(CLEAN)}
;; esac""",
    )
    found = sanitizer.ask()
    assert found["version"] == "Version 2025.3.0.0" and found["trial"] == "exit code 0"
    everyone = {own.kernel: 0 for own in own_kernels.SMALL}
    count = len(everyone)
    for tool in sanitizer.TOOLS:
        assert found[tool]["launched"] == f"{count} of {count}" and found[tool]["end"] == "exit code 0"
    assert found["memcheck"]["errors"] == found["synccheck"]["errors"] == everyone
    assert found["racecheck"]["errors"] == everyone | {"transpose_tiled": 1}
    assert "Write access at transpose_tiled+0x140" in found["racecheck"]["first"]["transpose_tiled"]
    assert found["racecheck"]["summary"] == ["RACECHECK SUMMARY: 1 hazard displayed (1 error, 0 warnings)"]
    assert found["initcheck"]["errors"] == everyone | {"softmax_index": 2, "elsewhere": 1}
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line.split()[1] for line in asked] == ["memcheck", *sanitizer.TOOLS]
    assert [line.endswith(f" small {sanitizer.FIRST}") for line in asked] == [True] + 4 * [False]
    assert [" --padding 512 " in line for line in asked] == [True, True, False, False, False]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            f"""launched ', "error": "CUDARuntimeError: cudaErrorUnknown"'\n{said(REFUSED)}exit 1""",
            "Error: Device not supported; CUDARuntimeError: cudaErrorUnknown; exit code 1",
        ),
        (said(CLEAN), "========= ERROR SUMMARY: 0 errors; exit code 0"),  # it ran nothing, and says so of that
        (
            "echo 'libsanitizer-collection.so: cannot open shared object file' >&2; exit 127",
            "libsanitizer-collection.so: cannot open shared object file; exit code 127",
        ),
        ("sleep 60", "without a word; no end within 3 s"),
    ],
    ids=["refuses", "runs nothing", "a library is missing", "hangs"],
)
def test_a_sanitizer_that_does_not_work_ends_the_probe(
    program: Write, here: pytest.MonkeyPatch, tmp_path: Path, text: str, reason: str
) -> None:
    here.setattr(sanitizer, "TRIAL", 3.0 if text == "sleep 60" else 20.0)
    program("compute-sanitizer", text)
    with pytest.raises(Unavailable, match=re.escape(f"compute-sanitizer does not work here: {reason}")):
        sanitizer.ask()
    assert len((tmp_path / "asked").read_text().splitlines()) == 1


def test_what_was_not_launched_or_not_right_is_told() -> None:
    kernels = [
        {"kernel": "sgemm_naive", "right": True},
        {"kernel": "sgemm_tiled", "right": False},
        {"kernel": "transpose_naive", "error": "illegal address"},
    ]
    found = sanitizer.findings(tools.Ran(BANNER, "no end within 9 s", kernels))
    assert found["launched"] == f"3 of {len(own_kernels.SMALL)}"
    assert found["errors"] == {"sgemm_naive": 0, "sgemm_tiled": 0}
    assert (found["wrong"], found["failed"]) == (["sgemm_tiled"], {"transpose_naive": "illegal address"})
    assert (found["end"], found["summary"]) == ("no end within 9 s", [])


# Nsight Compute


def table(counted: dict[str, list[tuple[str, str, str]]]) -> str:
    lines = [
        f'"{i}",{PLACE},"{name}",{GRID},"{a}","{b}","{c}"'
        for name, some in counted.items()
        for i, (a, b, c) in enumerate(some)
    ]
    return BEFORE + HEAD + "\n".join(lines) + "\n"


COUNTED = {
    own.kernel: [(f"{own.problem.bytes / 2:,.0f}", f"{own.problem.bytes / 4:,.0f}", "100,000")]
    for own in own_kernels.LARGE
}


def test_bytes_against_those_of_the_problem(program: Write, tmp_path: Path) -> None:
    both = {"stream_read": [("268,435,456", "4224", "90,000"), ("4224", "32", "2,000")]}
    program("ncu", f"launched\n{said(table(COUNTED | both))}")
    found = ncu.ask()
    copy = found["stream_copy"]
    assert (copy["nominal"], copy["read"], copy["written"]) == (2**29, 2**28, 2**27)
    assert (copy["measured over nominal"], copy["us"], copy["launches"]) == (0.75, 100.0, 1)
    assert copy["nominal GB/s"] == round(2**29 / 1e-4 / 1e9, 1)
    read = found["stream_read"]
    assert (read["launches"], read["us"], read["read"], read["written"]) == (2, 92.0, 2**28 + 4224, 4256)
    assert {own.kernel for own in own_kernels.LARGE} <= set(found)
    tried, all_of_them = (tmp_path / "asked").read_text().splitlines()
    assert "--csv --page raw " in all_of_them and " --clock-control none " in all_of_them
    assert " --kernel-name regex:^(softmax_index)$ " in tried and tried.endswith(" small softmax_index")
    assert all(own.kernel in all_of_them for own in own_kernels.LARGE)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"launched\n{said(NO_RIGHT)}exit 1", "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"),
        (f"{said(NOT_LOADED)}exit 9", NOT_LOADED.strip() + "; exit code 9"),
        (
            """launched ', "error": "no kernel"'\necho '==WARNING== No kernels were profiled.'""",
            "==WARNING== No kernels were profiled.; no kernel; exit code 0",
        ),
        ("exit 3", "without a word; exit code 3"),
    ],
    ids=["no right", "no library", "no kernels", "silent"],
)
def test_a_profiler_that_does_not_work_ends_the_probe(program: Write, tmp_path: Path, text: str, reason: str) -> None:
    program("ncu", text)
    with pytest.raises(Unavailable, match=re.escape(f"ncu does not work here: {reason}")):
        ncu.ask()
    assert len((tmp_path / "asked").read_text().splitlines()) == 1


def test_a_kernel_that_is_not_counted_is_tried_alone(program: Write, tmp_path: Path) -> None:
    """And says why it has no count then."""
    some = {name: x for name, x in COUNTED.items() if name not in ("optimizer_adam", "stream_triad")}
    alone = {"stream_triad": COUNTED["stream_triad"]}
    program(
        "ncu",
        f"""case $kernels in
optimizer_adam) launched ', "error": "OutOfMemoryError: 1 GB"'; echo '==WARNING== No kernels were profiled.'; exit 1
;; stream_triad) {said(table(alone))}
;; *) {said(table(some))}
;; esac""",
    )
    found = ncu.ask()
    assert found["stream_triad"]["measured over nominal"] == 0.75
    assert found["optimizer_adam"] == {
        "error": "LaunchError: ==WARNING== No kernels were profiled.; OutOfMemoryError: 1 GB; exit code 1"
    }
    asked = (tmp_path / "asked").read_text().splitlines()
    assert [line.rpartition(" ")[2] for line in asked[2:]] == ["stream_triad", "optimizer_adam"]


def test_units_and_what_is_no_number() -> None:
    text = HEAD.replace('"byte","byte","ns"', '"Mbyte","Kbyte","us"')
    text += f'"0",{PLACE},"softmax_index(const float *, int)",{GRID},"1.5","2,500","10.25"\n'
    ((name, row),) = ncu.rows(text).items()
    assert name == "softmax_index"
    assert (row[ncu.READ], row[ncu.WRITTEN], row[ncu.DURATION]) == pytest.approx((1.5e6, 2.5e6, 10.25e-6))
    assert str(ncu.rows(text.replace('"1.5"', '"n/a"'))["softmax_index"][ncu.READ]) == "nan"
    assert ncu.rows("no table\n") == {}


# Where they are, and how they end


def test_a_tool_is_found_beside_nvcc_and_where_toolkits_have_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(nvcc, "find", lambda: tmp_path / "a/nvcc")
    monkeypatch.setattr(tools, "TOOLKIT", tmp_path / "b")
    monkeypatch.setattr(tools, "NSIGHT", tmp_path / "c")
    with pytest.raises(Unavailable, match="no ncu: it comes with the CUDA toolkit"):
        tools.find("ncu")
    for folder in ("c/2025.1", "c/2025.3", "b/compute-sanitizer", "b/bin", "a"):
        path = tmp_path / folder / "ncu"
        path.parent.mkdir(parents=True)
        path.touch(0o755)
        assert tools.find("ncu") == str(path)


@pytest.mark.slow
def test_neither_a_tool_nor_what_it_started_outlives_its_time(program: Write, tmp_path: Path) -> None:
    program("ncu", f"launched\nsleep 60 &\necho $$ $! >{tmp_path}/pids\necho begun\nwait")
    ran = tools.run(["ncu", "x"], "small", ["fma_chains10"], 3.0)
    assert (ran.words, ran.end, ran.names()) == ("begun\n", "no end within 3 s", ["fma_chains10"])
    assert all(gone(int(pid)) for pid in (tmp_path / "pids").read_text().split())


PROBE = """
import os, sys
from micro.probing import tools
start = f"echo $$ >tool; {sys.executable} program.py {os.getpid()} & exec sleep 60"
tools.run(["sh", "-c", f"cd {sys.argv[1]}; {start}"], "small", [], 60.0)
"""
PROGRAM = """
import os, sys, time
from micro.probing import processes
open("program", "w").write(f"{os.getpid()}\\n")
processes.follow(int(sys.argv[1]))
time.sleep(60)
"""


def test_a_tool_and_its_program_end_with_a_probe_that_is_killed(tmp_path: Path) -> None:
    """The program is no child of the probe, and the tool does not end it."""
    (tmp_path / "program.py").write_text(PROGRAM)
    probe = subprocess.Popen([sys.executable, "-c", PROBE, tmp_path], cwd=processes.ROOT, env=processes.path())
    files = [tmp_path / name for name in ("tool", "program")]
    for _ in range(2000):
        if all(file.exists() and file.read_text().endswith("\n") for file in files):
            break
        time.sleep(0.01)
    pids = [int(file.read_text()) for file in files]
    probe.send_signal(signal.SIGKILL)
    probe.wait()
    assert [gone(pid) for pid in pids] == [True, True]


def test_the_program_follows_the_probe_and_says_what_it_lacks(program: Write) -> None:
    """Run by a tool that does nothing but start it; without a GPU, or without CuPy, it says so."""
    python: Any = sys.executable
    ran = tools.run([python, "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"], "small", [], 60)
    if ran.names():
        pytest.skip("a GPU is here")
    assert ran.end == "exit code 1" and re.search("cupy|CUDA|driver", processes.last(ran.words))
