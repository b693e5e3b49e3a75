"""A library that the driver loads into any CUDA process, compiled here: does it see the kernels, at what cost?"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from kernels.errors import BuildError, Unavailable
from micro.probing import processes, tracing
from micro.probing.facts import Facts, need

QUESTION = "Does a library under CUDA_INJECTION64_PATH see the kernels of an unmodified process?"
LIMIT = 100.0
PART = 3
RANK = 150
SOURCE = Path(__file__).with_name("injection.c")
LAUNCHES = 20_000


def ask() -> dict[str, Any]:
    need("cupy")
    facts = Facts()
    with tempfile.TemporaryDirectory() as folder:
        library, log = Path(folder) / "injection.so", Path(folder) / "kernels.txt"
        facts.note("compiled", compile_to(library))
        settings = {"CUDA_INJECTION64_PATH": str(library), "KERNELS_FILE": str(log)}
        for turn in (1, 2):  # in turn, as the machine may drift
            for what, given in (("plain", {}), ("injected", settings)):
                question = partial(processes.inside, "launches", LAUNCHES, seconds=30, **given)
                facts.ask(f"{what} {turn}", question)
        facts.ask("seen", lambda: tracing.summary(lines(log.read_text("utf-8", "replace"))))
    return facts.found


def lines(text: str) -> list[tuple[str, int]]:
    """What the library wrote: kernels and their nanoseconds."""
    parts = (line.partition(" ") for line in text.splitlines())
    return [(name, int(number)) for number, _, name in parts if number.isdigit() and name]


def homes() -> list[tuple[Path, Path]]:
    """CUPTI's headers and its library: the wheel's, which frameworks load, before the toolkit's."""
    pairs = []
    spec = importlib.util.find_spec("nvidia")
    for root in (spec and spec.submodule_search_locations) or ():
        wheels = sorted(Path(root).glob("*/lib/libcupti.so*"))
        pairs += [(library.parents[1] / "include", library) for library in wheels]
    nvcc = shutil.which("nvcc")
    toolkits = [Path("/usr/local/cuda"), *([Path(nvcc).resolve().parents[1]] if nvcc else [])]
    for headers in [home / name for home in toolkits for name in ("include", "extras/CUPTI/include")]:
        pairs += [(headers, library) for _, library in pairs[:1]]  # a wheel without headers
        for home in toolkits:
            for name in ("lib64", "lib", "extras/CUPTI/lib64"):
                pairs += [(headers, library) for library in sorted((home / name).glob("libcupti.so*"))]
    return [(headers, library) for headers, library in pairs if (headers / "cupti.h").exists()]


def compile_to(target: Path) -> dict[str, Any]:
    """Raises Unavailable without CUPTI or a compiler, BuildError with the compiler's complaint."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        raise Unavailable("no C compiler")
    complaint = "no cupti.h: install a CUDA toolkit, or the wheel nvidia-cuda-cupti"
    for headers, library in homes():
        includes = [f"-I{headers}", f"-I{headers.parents[1] / 'include'}", "-I/usr/local/cuda/include"]
        ran = subprocess.run(
            [
                compiler,
                "-shared",
                "-fPIC",
                "-O2",
                *includes,
                str(SOURCE),
                "-o",
                str(target),
                str(library),
                f"-Wl,-rpath,{library.parent}",
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        if not ran.returncode:
            return {"headers": str(headers), "library": str(library)}
        complaint = processes.last("\n".join(x for x in ran.stderr.splitlines() if "error" in x) or ran.stderr)
    raise BuildError(complaint) if homes() else Unavailable(complaint)
