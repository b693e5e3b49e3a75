"""Our .cu files under ThreadSanitizer: threads.h makes a program of one, which takes its launches from a file."""

from __future__ import annotations

import functools
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernels.dtypes import STORED, decode, encode
from kernels.nvcc import Geometry
from kernels.problem import Operand
from tests.simulated import launcher

if TYPE_CHECKING:
    from kernels.problem import Arrays

HEADER = Path(__file__).with_name("threads.h")
# A compiler's own vectors are overlooked: a g++ that is Clang makes some at -O1.
VECTORS = ("-fno-tree-vectorize", "-fno-tree-slp-vectorize")
FLAGS = (*launcher.PLAIN, "-g1", "-no-pie", "-fsanitize=thread", *VECTORS)
PROBE = "int main() { return 0; }"
RACE = 66  # the status of a program in which TSan has found one
OPTIONS = f"halt_on_error=1:exitcode={RACE}:report_thread_leaks=0:atexit_sleep_ms=0"
REPORT = "WARNING: ThreadSanitizer: data race"
# Addresses more random than TSan can do with, and a system that does not let them be fixed: another time they may fit.
REFUSED = re.compile(r"unexpected memory mapping|memory layout is incompatible|personality|disable ASLR")
TRIES = 50
CALLER = re.compile(r" +#[1-9](?!.*kernels\.cu)")  # in a call stack of the report: who called the kernel
GUARD = 64  # bytes of NaN behind each operand


class Race(launcher.LaunchFailed):
    """Two accesses that nothing orders: TSan's report."""


class Refused(Exception):
    """TSan does not start in this system, or not this time."""


@dataclass(frozen=True)
class Run:
    """The launches of one problem, and what `launcher.launch` takes besides."""

    name: str
    geometries: Sequence[Geometry]
    operands: Sequence[Operand]
    x: Arrays
    align: int = 4
    backward: bool = False


@functools.cache
def missing() -> str | None:
    """Why nothing can be run here: no compiler, no TSan, or a system in which TSan does not start."""
    if why := launcher.missing():
        return why
    try:
        probe = compiled(PROBE)
        with tempfile.TemporaryDirectory() as folder:
            told = start(_written(folder, probe), [])
    except AssertionError as error:
        return f"g++ -fsanitize=thread makes no program: {_first(str(error))}"
    except Refused as error:
        return str(error)
    return f"a program of g++ -fsanitize=thread fails: {_first(told.stderr)}" if told.returncode else None


def _first(text: str) -> str:
    return text.strip().partition("\n")[0]


@functools.cache
def compiled(text: str) -> bytes:
    """The program that C++ makes, as a file's contents."""
    return launcher.compiled(text, FLAGS).read_bytes()


def _written(folder: str, program: bytes) -> Path:
    path = Path(folder, "program")
    path.write_bytes(program)
    path.chmod(0o700)
    return path


def start(program: Path, arguments: Sequence[Path]) -> subprocess.CompletedProcess[str]:
    """Runs it at fixed addresses where the system lets us, and else until its addresses fit."""
    for _ in range(TRIES):
        told = subprocess.run(
            [*_fixed(), program, *arguments],
            capture_output=True,
            text=True,
            check=False,
            env=os.environ | {"TSAN_OPTIONS": OPTIONS},
        )
        if not (told.returncode and REFUSED.search(told.stderr)):
            return told
    raise Refused(f"ThreadSanitizer does not start here: {_first(told.stderr)}")


@functools.cache
def _fixed() -> tuple[str, ...]:
    """What runs a program at fixed addresses. A container may forbid it."""
    command = ("setarch", platform.machine(), "-R")
    if shutil.which(command[0]) is None:
        return ()
    return command if subprocess.run([*command, "true"], capture_output=True).returncode == 0 else ()


def launch(source: str, runs: Sequence[Run]) -> list[dict[str, np.ndarray[Any, Any]]]:
    """Return every operand of each run as its launches left it; raise LaunchFailed, such as Race, or Refused."""
    names = launcher.names(source)
    places, size = _places(runs)
    image = np.full(size // 4, np.nan, np.float32)
    rows = [_fill(image, run, at) for run, at in zip(runs, places, strict=True)]
    plan = [sum(len(run.geometries) for run in runs)]
    for number, (run, at) in enumerate(zip(runs, places, strict=True)):
        for geometry in run.geometries:
            plan += [number, int(run.backward), names.index(geometry.kernel), *_words(geometry, at)]
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, "plan"), Path(folder, "image")]
        np.array(plan, np.uint64).tofile(files[0])
        image.tofile(files[1])
        told = start(_written(folder, _program(source)), files)
        if told.returncode:
            raise _failure(told, runs)
        image[:] = np.fromfile(files[1], np.float32)
    return [
        {name: decode(array) if array.dtype == np.uint16 else array.copy() for name, array in row.items()}
        for row in rows
    ]


def _failure(told: subprocess.CompletedProcess[str], runs: Sequence[Run]) -> launcher.LaunchFailed:
    """What went wrong, and in which run: the program tells the number of each when it begins."""
    kind = Race if told.returncode == RACE and REPORT in told.stderr else launcher.LaunchFailed
    where = runs[int(told.stdout.split()[-1])].name if told.stdout else "before the first launch"
    lines = [line for line in told.stderr.splitlines() if line and not CALLER.match(line)]
    return kind("\n".join([f"{where}: status {told.returncode}", *lines]))


def _program(source: str) -> bytes:
    names = launcher.names(source)
    entries = "\n".join(f"ENTRY({name})" for name in names)
    table = ", ".join(f"launch_{name}" for name in names)
    main = f"int main(int, char **files) {{ return threads::program(files, {{{table}}}); }}"
    return compiled(
        f'#include "{HEADER}"\n#line 1 "kernels.cu"\n{launcher.with_ptx(source)}\n'
        f'#line 1 "entries"\n{entries}\n{main}\n'
    )


def _places(runs: Sequence[Run]) -> tuple[list[dict[str, int]], int]:
    """Where in the image each operand of each run lies, its workspace as "", and the image's size."""
    places: list[dict[str, int]] = []
    size = 0
    for run in runs:
        spaces = [value for g in run.geometries for kind, value in g.arguments if kind == "workspace"]
        places.append({})
        for name, extent in [*((x.name, x.nbytes) for x in run.operands), ("", max(spaces, default=0))]:
            begin = -(-size // 16) * 16 + run.align % 16
            places[-1][name], size = begin, begin + int(extent) + GUARD
    return places, size


def _fill(image: np.ndarray[Any, Any], run: Run, places: dict[str, int]) -> dict[str, np.ndarray[Any, Any]]:
    """The operands' elements in the image, without their padding; inputs have their values."""
    rows = {}
    for one in run.operands:
        begin = places[one.name] // 4
        whole = image[begin : begin + one.nbytes // 4].view(STORED[one.dtype]).reshape(-1, one.ld)
        rows[one.name] = whole[:, : one.shape[-1]]
        if one.role != "out":
            rows[one.name][...] = encode(run.x[one.name].reshape(rows[one.name].shape), one.dtype)
    return rows


def _words(geometry: Geometry, places: dict[str, int]) -> list[int]:
    """Grid, block and arguments as the program reads them."""
    words = [*geometry.grid, *geometry.block, len(geometry.arguments)]
    for kind, value in geometry.arguments:
        if kind in ("operand", "workspace"):
            words += [1, places[str(value) if kind == "operand" else ""]]
        else:
            words += [0, int.from_bytes(bytes(launcher.NUMBERS[kind](value)), "little")]
    return words
