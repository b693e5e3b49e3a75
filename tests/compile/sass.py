"""Machine code of our kernels as nvdisasm prints it: instructions, and the loops among them."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from kernels import nvcc

TOOLKIT = Path("/usr/local/cuda/bin/nvdisasm")
REMEDY = "pip install nvidia-cuda-nvdisasm"
FUNCTION = re.compile(r"\.text\.(\w+):")
LABEL = re.compile(r"(\.L\w+):")
INSTRUCTION = re.compile(r"/\*[0-9a-f]+\*/\s+(?P<text>[^;]+?)\s*;")
BACK = re.compile(r"\bBRA\b.*?`\((\.L\w+)\)")
Code = list[str]  # instructions, and labels as `.L_x_1:`


def find() -> Path | None:
    """On PATH, in a toolkit, or in NVIDIA's wheel, as nvcc is found."""
    return next((Path(found) for place in _places() if (found := shutil.which(place))), None)


def _places() -> Iterator[str | Path]:
    yield "nvdisasm"
    for home in (os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH")):
        if home:
            yield Path(home, "bin/nvdisasm")
    yield TOOLKIT
    wheel = find_spec("nvidia")
    for folder in (wheel and wheel.submodule_search_locations) or ():
        yield from sorted(Path(folder).glob("*/bin/nvdisasm"))


def missing() -> str | None:
    """Why no machine code can be looked at here, and the remedy."""
    return nvcc.missing() or (None if find() else f"no nvdisasm: {REMEDY}")


@functools.cache
def kernels(source: Path, arch: str) -> dict[str, Code]:
    """The code of each kernel of a CUDA file, with what it calls."""
    path, cubin = find(), nvcc.cubin(source, arch)
    assert path is not None
    there = cubin.with_suffix(f".{path.stat().st_mtime_ns}.sass")
    if not there.exists():
        told = subprocess.run([path, "-c", cubin], capture_output=True, text=True, check=True).stdout
        with tempfile.TemporaryDirectory(dir=there.parent) as folder:  # whole or not there, as the cubin is
            (made := Path(folder) / "made").write_text(told)
            made.replace(there)
    return read(there.read_text())


def read(told: str) -> dict[str, Code]:
    """What nvdisasm printed."""
    found: dict[str, Code] = {}
    for line in map(str.strip, told.splitlines()):
        if function := FUNCTION.match(line):
            current = found[function[1]] = []
        elif found and (label := LABEL.match(line)):
            current.append(f"{label[1]}:")
        elif found and (instruction := INSTRUCTION.match(line)):
            current.append(instruction["text"])
    return found


def loops(code: Code) -> list[Code]:
    """Return the instructions from each label to a jump back to it, the longest first; not a lone jump to itself."""
    at, made, found = {}, [], []
    for line in code:
        if line.endswith(":"):
            at[line[:-1]] = len(made)
            continue
        made.append(line)
        if (back := BACK.search(line)) and at.get(back[1], len(made)) < len(made) - 1:
            found.append(made[at[back[1]] :])
    return sorted(found, key=len, reverse=True)


def opcodes(code: Code) -> Counter[str]:
    """How often each instruction occurs, `LDG.E.128.CONSTANT`, without its predicate."""
    words = (line.split() for line in code if not line.endswith(":"))
    return Counter(word[1 if word[0].startswith("@") else 0] for word in words)


def count(code: Code, name: str, *parts: str) -> int:
    """How many of an instruction there are, of those with all these parts: `LDG`, `128`."""
    return sum(n for op, n in opcodes(code).items() if (x := op.split("."))[0] == name and {*parts} <= {*x})
