"""NVIDIA's checkers and profilers around a program that launches our own kernels."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels import nvcc, suite
from kernels.errors import Unavailable
from micro.probing import processes

TOOLKIT = Path("/usr/local/cuda")
NSIGHT = Path("/opt/nvidia/nsight-compute")


@dataclass(frozen=True)
class Ran:
    """What a tool and its program said, how they ended, and the kernels that were launched until then."""

    words: str
    end: str
    kernels: list[dict[str, Any]]

    def names(self) -> list[str]:
        """Of the kernels whose launch came back."""
        return [x["kernel"] for x in self.kernels if "error" not in x]

    def faults(self) -> dict[str, str]:
        return {x["kernel"]: x["error"] for x in self.kernels if "error" in x}


def find(name: str) -> str:
    """A tool on PATH, beside nvcc or where toolkits have it. Raises Unavailable."""
    for place in (name, *(str(folder / name) for folder in _folders())):
        if path := shutil.which(place):
            return path
    raise Unavailable(f"no {name}: it comes with the CUDA toolkit, {nvcc.REMEDY}")


def _folders() -> Iterator[Path]:
    if compiler := nvcc.find():
        yield compiler.resolve().parent
    yield TOOLKIT / "bin"
    yield TOOLKIT / "compute-sanitizer"
    yield from sorted(NSIGHT.glob("*"), reverse=True)


def version(path: str) -> str:
    """What it says of itself, its last line."""
    ran = subprocess.run([path, "--version"], capture_output=True, text=True, errors="replace", timeout=15, check=False)
    return processes.last(ran.stdout + ran.stderr)


def architecture() -> str:
    """Of the first device, as sm_90; no context is made."""
    import cupy

    facts = cupy.cuda.runtime.getDeviceProperties(0)
    return f"sm_{facts['major']}{facts['minor']}"


def run(command: Sequence[str], size: str, kernels: Sequence[str], seconds: float) -> Ran:
    """The tool on `own-kernels` of `programs.py`; neither outlives `seconds`, nor this process."""
    with tempfile.TemporaryDirectory() as folder:
        log, words = Path(folder) / "kernels", Path(folder) / "words"
        log.touch()
        program = suite.child("micro.probing.programs", "own-kernels", os.getpid(), log, size)
        with words.open("wb") as stream:
            process = subprocess.Popen(
                processes.leashed([*command, *program, *kernels]),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                process_group=0,
                env=processes.path(),
                cwd=processes.ROOT,
            )
            code = processes.outlast(process, seconds)
        end = f"no end within {seconds:.0f} s" if code is None else processes.end(code)
        return Ran(words.read_text("utf-8", "replace"), end, processes.lines(log))
