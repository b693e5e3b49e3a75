"""What a session on a GPU needs, checked before it begins: each package imports, and computes, in a process of its
own, all at once.

    python -m micro.visit.preflight cupy

is one of them. Importing also brings a package from a cold disk into memory, where the steps that follow find it.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels import nvcc, suite
from kernels.libs import cuda
from micro.probing import facts as probing_facts
from micro.probing import processes

NEEDED = ("numpy", "scipy", "msgspec", "rich", "psutil", "threadpoolctl", "matplotlib", "cupy")
SECONDS = 45.0  # for all of them; torch takes most of it where its disk is cold
PATIENT = 3.0  # times as long for what nothing can be measured without: the driver, and CuPy
INSTALL = "`make wheels` where there is a network brings what a GPU's machine lacks, CuPy apart"


def missing(here: bool = True) -> str | None:
    """Why nothing can be measured, on a GPU that is `here` or on the fake device, on one line, told without importing
    any of them."""
    absent = [name for name in NEEDED if cuda.package(name) and (here or name != "cupy")]
    if absent and not here:
        return f"{', '.join(absent)} not installed: {INSTALL}, or pip install -e ."
    if absent:
        return f"an NVIDIA driver is here, {', '.join(absent)} not: {INSTALL}; --fake tests without a GPU"
    if here and (reason := driver()):
        return f"{reason}; --fake tests without a GPU"
    return None


def driver(seconds: float = PATIENT * SECONDS) -> str | None:
    """Why the driver finds no GPU, asked in a process of its own: one may crash at it, or not come back."""
    program = f"from {suite.PREFIX}kernels.libs import cuda; print(cuda.driver_missing() or '')"
    try:
        ran = subprocess.run(
            processes.leashed([sys.executable, "-c", program]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=seconds,
            check=False,
            text=True,
            errors="replace",
            env=processes.path(),
            cwd=processes.ROOT,
        )
    except subprocess.TimeoutExpired:
        return f"the NVIDIA driver is here and does not answer within {seconds:.0f} s: see nvidia-smi"
    if ran.returncode:
        return f"the NVIDIA driver is here and does not answer ({processes.end(ran.returncode)}): see nvidia-smi"
    return ran.stdout.strip() or None


def cupy() -> dict[str, Any]:
    """A sum on the device."""
    cp = importlib.import_module("cupy")
    assert float((cp.arange(1000, dtype="f4") * 2).sum()) == 999000.0
    facts = cp.cuda.runtime.getDeviceProperties(0)
    name = facts["name"]
    return {
        "version": cp.__version__,
        "device": name.decode() if isinstance(name, bytes) else name,
        "arch": f"sm_{facts['major']}{facts['minor']}",
    }


def torch() -> dict[str, Any]:
    """A product on the device, and what CuPy's context is to it."""
    loaded = importlib.import_module("torch")
    if not loaded.cuda.is_available():
        return {"version": loaded.__version__, "without": "CUDA"}
    x = loaded.ones(64, 64).cuda()
    assert float((x @ x).sum()) == 64.0**3
    return {"version": loaded.__version__, "built_for": loaded.version.cuda}


def numba() -> dict[str, Any]:
    """A kernel compiled and run."""
    import numpy as np

    from kernels.libs import numba as library

    module: Any = library.cuda()

    def twice(x: Any) -> None:
        x[module.threadIdx.x] *= 2

    x = module.to_device(np.ones(32, np.float32))
    module.jit(twice)[1, 32](x)
    assert float(x.copy_to_host().sum()) == 64.0
    return {"version": importlib.import_module("numba").__version__}


def library(name: str) -> Callable[[], dict[str, Any]]:
    """One of NVIDIA's, where our own binding finds it."""
    return lambda: {"version": importlib.import_module(f"{suite.PREFIX}kernels.libs.{name}").kernel()[0]}


def nvml() -> dict[str, Any]:
    """The driver's own counters."""
    api: Any = importlib.import_module("pynvml")
    api.nvmlInit()
    return {"driver": str(api.nvmlSystemGetDriverVersion())}


def compiler() -> dict[str, Any]:
    """nvcc; without it NVRTC compiles, which CuPy brings."""
    path = nvcc.find()
    return {"version": nvcc.version(path)} if path else {"without": str(nvcc.missing())}


def imported(name: str) -> Callable[[], dict[str, Any]]:
    return lambda: {"version": str(getattr(importlib.import_module(name), "__version__", "here"))}


CHECKS: dict[str, Callable[[], dict[str, Any]]] = {
    "cupy": cupy,
    "torch": torch,
    "numba": numba,
    "cublas": library("cublas"),
    "libcudnn": library("cudnn"),
    "cufft": library("cufft"),
    "cusparse": library("cusparse"),
    "nvml": nvml,
    "nvcc": compiler,
    **{name: imported(name) for name in ("pycuda", "skcuda", "cudnn", "cupti", "pytest")},
}


@dataclass(frozen=True)
class Told:
    """Of one package: facts of it where it works, else the reason."""

    name: str
    facts: dict[str, Any]
    reason: str | None
    seconds: float

    def line(self) -> str:
        outcome = self.reason or ", ".join(f"{key} {value}" for key, value in self.facts.items())
        return f"{self.name} ({self.seconds:.1f} s): {outcome}"


def asked(name: str) -> list[str]:
    """The command that checks one package."""
    return suite.child("micro.visit.preflight", name)


def check(say: Callable[[str], None], seconds: float = SECONDS) -> dict[str, Told]:
    """Every package, told as it answers."""
    began = time.monotonic()
    answers: dict[str, Told] = {}
    with tempfile.TemporaryDirectory(prefix="preflight-") as folder:
        running = {name: _asked(name, Path(folder, name)) for name in CHECKS}
        while running:
            for name, process in list(running.items()):
                limit = PATIENT * seconds if name == "cupy" else seconds
                if process.poll() is None and time.monotonic() - began <= limit:
                    continue
                del running[name]
                answers[name] = _answered(name, process, Path(folder, name), time.monotonic() - began)
                say(answers[name].line())
            time.sleep(0.02)
    return answers


def _asked(name: str, words: Path) -> subprocess.Popen[bytes]:
    """Its words go to a file, which no amount of them fills, as it would a pipe."""
    with words.open("wb") as stream:
        return subprocess.Popen(
            processes.leashed(asked(name)),
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
            process_group=0,
            env=processes.path(),
            cwd=processes.ROOT,
        )


def _answered(name: str, process: subprocess.Popen[bytes], words: Path, seconds: float) -> Told:
    code = processes.outlast(process, 0)
    if code is None:
        return Told(name, {}, f"no answer within {seconds:.0f} s", seconds)
    lines = [line for line in processes.lines(words) if isinstance(line, dict)]
    if code or not lines:
        return Told(name, {}, f"{processes.end(code)}: {processes.last(words.read_text(errors='replace'))}", seconds)
    return Told(name, {k: v for k, v in lines[-1].items() if k != "error"}, lines[-1].get("error"), seconds)


def answer(name: str) -> dict[str, Any]:
    """Its facts, or its error: the first of a chain, which a package may wrap into a page of advice."""
    try:
        return CHECKS[name]()
    except BaseException as error:  # one that exits is told, too
        first = error
        while first.__cause__:
            first = first.__cause__
        return {"error": probing_facts.reason(first)}


if __name__ == "__main__":
    told = json.dumps(answer(sys.argv[1]))
    sys.stdout.flush()
    os.write(1, f"\n{told}\n".encode())
    os._exit(0)  # what a library does at exit is no part of the answer
