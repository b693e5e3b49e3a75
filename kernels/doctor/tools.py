"""Compilers and perf: their versions, and whether the C compiler compiles a line of C."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from kernels import build
from kernels.doctor.packages import Part
from kernels.errors import Unavailable, summary
from kernels.nvcc import find as find_nvcc

PATIENCE = 5.0  # seconds that a program may take
TRIAL = "#include <math.h>\n#include <stdint.h>\n#include <stdio.h>\ndouble f(double x) { return exp(x); }\n"
INSTALL = {
    "cc": "apt install gcc libc6-dev (on Debian)",
    "c++": "apt install g++ (on Debian)",
    "nvcc": "pip install nvidia-cuda-nvcc",
    "perf": "apt install linux-perf (on Debian; on Ubuntu linux-tools-generic)",
}


def tool(name: str) -> Part:
    """Return the part for a tool, present if the tool runs, with its version."""
    try:
        return TOOLS[name]()
    except Exception as error:  # whatever is broken here is a reason
        return Part(False, None, f"{name} does not run: {summary(error)}", INSTALL[name])


def c_compiler() -> Part:
    """Return the part for the compiler of `kernels.build`, present if it compiles with the flags there."""
    try:
        path, version = build.compiler()
    except Unavailable:
        return Part(False, None, "no C compiler; set $CC or install one", INSTALL["cc"])
    with tempfile.TemporaryDirectory(prefix="kernelgap-") as folder:
        target = str(Path(folder) / "trial.so")
        trial = _run([path, *build.FLAGS, *build.SHARED, "-x", "c", "-", "-o", target, "-lm"], TRIAL)
        if trial.returncode == 0 and os.path.exists(target):
            return Part(True, version)
    lines = trial.stderr.splitlines() or [f"exit code {trial.returncode}"]
    complaint = next((line for line in lines if "error" in line), lines[0])
    return Part(False, version or None, f"{path} does not compile: {complaint}", INSTALL["cc"])


def _run(command: Sequence[str], text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a program with English output. Raises OSError, subprocess.TimeoutExpired."""
    return subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=PATIENCE,
        env=os.environ | {"LC_ALL": "C"},
    )


def program(name: str, programs: Sequence[str | None]) -> Part:
    """Return the part for the first of `programs` on PATH, present if `--version` works."""
    path = next((place for x in programs if x and (place := shutil.which(x))), None)
    if path is None:
        return Part(False, None, "not found", INSTALL[name])
    reply = _run([path, "--version"])
    lines = [line.strip() for line in (reply.stdout + reply.stderr).splitlines() if line.strip()]
    if reply.returncode or not lines:
        # Ubuntu's perf is a script that finds no perf for the running kernel.
        return Part(False, None, f"{path} does not run: {(lines or ['no output'])[0]}", INSTALL[name])
    version = next((line for line in lines if "release" in line), lines[0])  # nvcc's, after its copyright
    return Part(True, version.removeprefix("Cuda compilation tools, ").removeprefix("perf version "))


TOOLS: dict[str, Callable[[], Part]] = {
    "cc": c_compiler,
    "c++": lambda: program("c++", (os.environ.get("CXX"), "c++", "g++", "clang++")),
    "nvcc": lambda: program("nvcc", (str(path),) if (path := find_nvcc()) else ()),
    "perf": lambda: program("perf", ("perf",)),
}
