"""What a session on a GPU needs, checked before it begins: each package is imported, and computes, in its own process.

    python -m tests.gpu.session.preflight cupy

checks one. Importing also brings a package from a cold disk into memory, where the steps that follow find it.
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
from kernels.errors import Unavailable, summary
from kernels.libs import cuda
from tests.gpu.session import processes

NEEDED = ("numpy", "scipy", "msgspec", "rich", "psutil", "threadpoolctl", "matplotlib", "cupy")
SECONDS = 45.0  # for all of them; torch takes most of it where its disk is cold
PATIENT = 3.0  # times as long for what nothing can be measured without: the driver, and CuPy
INSTALL = "`make wheels` where there is a network brings what a GPU's machine lacks, CuPy apart"


def missing(here: bool = True) -> str | None:
    """Return in one line why nothing can be measured on a GPU that is `here`, or on the fake device.

    Imports none of the packages.
    """
    absent = [name for name in NEEDED if cuda.package(name) and (here or name != "cupy")]
    if absent and not here:
        return f"{', '.join(absent)} not installed: {INSTALL}, or pip install -e ."
    if absent:
        return f"an NVIDIA driver is installed, {', '.join(absent)} not: {INSTALL}; --fake tests without a GPU"
    if here and (reason := driver()):
        return f"{reason}; --fake tests without a GPU"
    return None


def driver(seconds: float = PATIENT * SECONDS) -> str | None:
    """Return why the driver has no GPU. Another process asks it: it may crash at that, or not come back."""
    program = "from kernels.libs import cuda; print(cuda.driver_missing() or '')"
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
            env=processes.environment(),
            cwd=processes.ROOT,
        )
    except subprocess.TimeoutExpired:
        return f"the NVIDIA driver is installed but does not answer within {seconds:.0f} s: see nvidia-smi"
    if ran.returncode:
        return f"the NVIDIA driver is installed but does not answer ({processes.end(ran.returncode)}): see nvidia-smi"
    return ran.stdout.strip() or None


def cupy() -> dict[str, Any]:
    """Compute a sum on the device."""
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
    """Compute a product on the device."""
    module = importlib.import_module("torch")
    if not module.cuda.is_available():
        return {"version": module.__version__, "without": "CUDA"}
    x = module.ones(64, 64).cuda()
    assert float((x @ x).sum()) == 64.0**3
    return {"version": module.__version__, "built_for": module.version.cuda}


def numba() -> dict[str, Any]:
    """Compile a kernel and run it."""
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
    """Return the check of a library of NVIDIA's that the suite's own binding opens."""
    return lambda: {"version": importlib.import_module(f"kernels.libs.{name}").kernel()[0]}


def nvml() -> dict[str, Any]:
    """Ask NVML for the driver's version."""
    api: Any = importlib.import_module("pynvml")
    api.nvmlInit()
    return {"driver": str(api.nvmlSystemGetDriverVersion())}


def compiler() -> dict[str, Any]:
    """Look for nvcc; without it NVRTC compiles, which CuPy brings."""
    path = nvcc.find()
    return {"version": nvcc.version(path)} if path else {"without": str(nvcc.missing())}


def imported(name: str) -> Callable[[], dict[str, Any]]:
    """Return the check of a package that is only imported."""
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
    **{name: imported(name) for name in ("pycuda", "skcuda", "cudnn", "pytest")},
}


@dataclass(frozen=True)
class Outcome:
    """The check of one package: facts of it where it works, else the reason."""

    name: str
    facts: dict[str, Any]
    reason: str | None
    seconds: float

    def line(self) -> str:
        """Return the outcome in a line."""
        outcome = self.reason or ", ".join(f"{key} {value}" for key, value in self.facts.items())
        return f"{self.name} ({self.seconds:.1f} s): {outcome}"


def command(name: str) -> list[str]:
    """Return the command that checks a package."""
    return suite.child("tests.gpu.session.preflight", name)


def check(say: Callable[[str], None], seconds: float = SECONDS) -> dict[str, Outcome]:
    """Check every package at once; pass each outcome to `say` as it comes."""
    began = time.monotonic()
    outcomes: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="preflight-") as folder:
        running = {name: _start(name, Path(folder, name)) for name in CHECKS}
        while running:
            for name, process in list(running.items()):
                limit = PATIENT * seconds if name == "cupy" else seconds
                if process.poll() is None and time.monotonic() - began <= limit:
                    continue
                del running[name]
                outcomes[name] = _outcome(name, process, Path(folder, name), time.monotonic() - began)
                say(outcomes[name].line())
            time.sleep(0.02)
    return outcomes


def _start(name: str, output: Path) -> subprocess.Popen[bytes]:
    with output.open("wb") as stream:
        return processes.start(command(name), stream)


def _outcome(name: str, process: subprocess.Popen[bytes], output: Path, seconds: float) -> Outcome:
    code = processes.outlast(process, 0)
    if code is None:
        return Outcome(name, {}, f"no answer within {seconds:.0f} s", seconds)
    lines = processes.lines(output)
    if code or not lines:
        words = processes.last(output.read_text(errors="replace"))
        return Outcome(name, {}, f"{processes.end(code)}: {words}", seconds)
    return Outcome(name, {k: v for k, v in lines[-1].items() if k != "error"}, lines[-1].get("error"), seconds)


def answer(name: str) -> dict[str, Any]:
    """Return a package's facts, or its error: the first of a chain, which a package may wrap into a page of advice."""
    try:
        return CHECKS[name]()
    except BaseException as error:  # a package that exits is an outcome, too
        first = error
        while first.__cause__:
            first = first.__cause__
        line = " ".join((str(first) if isinstance(first, Unavailable) else summary(first)).split())[:600]
        return {"error": f"unavailable: {line}" if isinstance(first, Unavailable | ImportError) else line}


if __name__ == "__main__":
    text = json.dumps(answer(sys.argv[1]))
    sys.stdout.flush()
    os.write(1, f"\n{text}\n".encode())
    os._exit(0)  # what a library does at exit is no part of the answer
