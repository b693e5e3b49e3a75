"""Compilers and perf: their paths and versions, and whether the C compiler compiles a line of C."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kernels import build
from kernels.doctor.part import Part, absent, run, summary
from kernels.errors import Unavailable
from kernels.nvcc import find as find_nvcc

TRIAL = "#include <math.h>\n#include <stdint.h>\n#include <stdio.h>\ndouble f(double x) { return exp(x); }\n"
INSTALL = {  # by ID and ID_LIKE of /etc/os-release; else Debian's
    "ubuntu": ("apt install", {"cc": "gcc libc6-dev", "c++": "g++", "perf": "linux-tools-generic"}),
    "debian": ("apt install", {"cc": "gcc libc6-dev", "c++": "g++", "perf": "linux-perf"}),
    "fedora": ("dnf install", {"cc": "gcc", "c++": "gcc-c++", "perf": "perf"}),
    "suse": ("zypper install", {"cc": "gcc", "c++": "gcc-c++", "perf": "perf"}),
    "arch": ("pacman -S", {"cc": "gcc", "c++": "gcc", "perf": "perf"}),
    "alpine": ("apk add", {"cc": "gcc musl-dev", "c++": "g++", "perf": "perf"}),
}


def install(tool: str) -> str:
    """Return the command that installs a tool on this system."""
    if tool == "nvcc":
        return "pip install nvidia-cuda-nvcc"
    try:
        release = platform.freedesktop_os_release()
    except (OSError, ValueError):
        release = {}
    ids = [release.get("ID", ""), *release.get("ID_LIKE", "").split()]
    family = next((name for name in ids if name in INSTALL), None)
    command, packages = INSTALL[family or "debian"]
    return f"{command} {packages[tool]}" + ("" if family else " (on Debian)")


def c_compiler() -> Part:
    """Return the compiler that `kernels.build` takes, present only if it builds with the flags used there."""
    try:
        path, version = build.compiler()
    except Unavailable:
        return absent("no C compiler; $CC may name one", install("cc"))
    try:
        complaint = _trial(path)
    except (OSError, subprocess.TimeoutExpired) as error:
        complaint = summary(error)
    if complaint:
        return Part(False, version or None, f"{path} does not compile: {complaint}", install("cc"))
    return Part(True, version)


def _trial(path: str) -> str | None:
    """Return the compiler's complaint about a line of C, or None."""
    with tempfile.TemporaryDirectory(prefix="kernelgap-") as folder:
        target = str(Path(folder) / "trial.so")
        command = [path, *build.FLAGS, *build.SHARED, "-x", "c", "-", "-o", target, "-lm"]
        compilation = run(command, TRIAL)
        if compilation.returncode == 0 and os.path.exists(target):
            return None
    lines = compilation.stderr.splitlines() or [f"exit code {compilation.returncode}"]
    return next((line for line in lines if "error" in line), lines[0])


def cpp_compiler() -> Part:
    return _asked("c++", (os.environ.get("CXX"), "c++", "g++", "clang++"))


def nvcc() -> Part:
    """Return the nvcc that `kernels.nvcc` takes."""
    path = find_nvcc()
    return _asked("nvcc", (str(path),) if path else ())


def perf() -> Part:
    return _asked("perf", ("perf",))


def _asked(tool: str, names: Sequence[str | None]) -> Part:
    """Return the first of `names` that is present, with its version if it reports one."""
    path = next((program for name in names if name and (program := shutil.which(name))), None)
    if path is None:
        return absent("not found", install(tool))
    try:
        reply = run([path, "--version"])
    except (OSError, subprocess.TimeoutExpired) as error:
        return absent(f"{path} does not run: {summary(error)}", install(tool))
    lines = [line.strip() for line in (reply.stdout + reply.stderr).splitlines() if line.strip()]
    if reply.returncode or not lines:
        # Ubuntu's perf is a script that finds no perf for the running kernel.
        return absent(f"{path} does not run: {(lines or ['no answer'])[0]}", install(tool))
    version = next((line for line in lines if "release" in line), lines[0])  # nvcc's, after its copyright
    return Part(True, version.removeprefix("Cuda compilation tools, ").removeprefix("perf version "))
