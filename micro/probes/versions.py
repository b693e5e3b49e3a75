"""What is installed, which copies are loaded, what steers them."""

from __future__ import annotations

import ctypes
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from typing import Any

from kernels.libs import cuda
from kernels.libs.cupti import mapped
from micro.probing import processes, programs
from micro.probing.facts import Facts, need, package

QUESTION = "Which versions of what are here, which copies of cuDNN and CUPTI are loaded, what steers them?"
LIMIT = 55.0
PART = 1
RANK = 20
PACKAGES = re.compile(
    "nvidia|cuda|cupy|cudnn|cupti|nvmath|torch|jax|triton|numba|llvmlite|numpy|scipy|mpi|fftw|pynvml|mako"
    "|pytools|tensor|opencl|setuptools|pip$|kernelgap"
)
STEERING = re.compile("CUDA|CUDNN|CUBLAS|CUPY|NVIDIA|NCCL|TORCH|JAX|XLA|OMP_|MKL|LD_LIBRARY|LD_PRELOAD|NVCC|NUMBA")
SECRET = re.compile("KEY|TOKEN|SECRET|PASS|CREDENTIAL")
PROGRAMS = (
    ("nvcc", "--version"),
    ("ncu", "--version"),
    ("compute-sanitizer", "--version"),
    ("gcc", "--version"),
    ("mpiexec", "--version"),
    (
        "nvidia-smi",
        "--query-gpu=name,driver_version,vbios_version,mig.mode.current,persistence_mode,"
        "power.limit,clocks.sm,clocks.max.sm,clocks.mem,compute_cap,memory.total,ecc.mode.current",
        "--format=csv",
    ),
    ("nvidia-smi", "topo", "-m"),
)


def ask() -> dict[str, Any]:
    need()
    facts = Facts()
    facts.note("python", sys.version)
    facts.ask("packages", packages)
    facts.note(
        "environment", {k: v for k, v in sorted(os.environ.items()) if STEERING.search(k) and not SECRET.search(k)}
    )
    for command in PROGRAMS:
        facts.ask(" ".join(command[:2]).partition("=")[0], partial(said, command))
    facts.ask("driver", driver)
    facts.ask("nvml", nvml)
    for name in ("cudart", "cublas", "cublasLt", "cudnn", "cufft", "cusparse", "nccl", "nvrtc", "cupti"):
        facts.ask(f"lib{name}", partial(where, name))
    facts.ask("cupy", cupy)
    facts.ask("cupti", cupti)
    facts.ask("cudnn frontend", frontend)
    facts.ask("cuda.core", lambda: module("cuda.core"))
    facts.ask("torch", torch)
    facts.ask("mapped", lambda: mapped("^lib(cu|nv|nccl)"))
    return facts.found


def where(name: str) -> str:
    return str(cuda.load(name)._name)


def packages() -> dict[str, str]:
    named = {str(x.metadata["Name"]): x.version for x in importlib.metadata.distributions()}
    return {name: named[name] for name in sorted(named) if PACKAGES.search(name.lower())}


def said(command: tuple[str, ...]) -> str:
    if not shutil.which(command[0]):
        return "not here"
    ran = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=15, check=False)
    return (ran.stdout or ran.stderr).strip()[-3000:] if not ran.returncode else processes.last(ran.stderr + ran.stdout)


def driver() -> int:
    number = ctypes.c_int()
    ctypes.CDLL(cuda.DRIVER).cuDriverGetVersion(ctypes.byref(number))
    return number.value


def nvml() -> dict[str, Any]:
    pynvml = package("pynvml")

    pynvml.nvmlInit()
    handle = pynvml.nvmlDeviceGetHandleByIndex(0)
    return {
        "driver": pynvml.nvmlSystemGetDriverVersion(),
        "name": pynvml.nvmlDeviceGetName(handle),
        "sm clock": pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM),
        "most": pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM),
        "reasons": pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle),
    }


def cupy() -> dict[str, Any]:
    import cupy as cp

    facts = cp.cuda.runtime.getDeviceProperties(0)
    return {
        "version": cp.__version__,
        "driver": cp.cuda.runtime.driverGetVersion(),
        "runtime": cp.cuda.runtime.runtimeGetVersion(),
        "device": {
            k: v.decode() if isinstance(v, bytes) and k == "name" else v for k, v in facts.items() if k != "uuid"
        },
    }


def cupti() -> dict[str, Any]:
    client = package("cupti.cupti")

    return {"timestamp": client.get_timestamp(), "mapped": mapped("libcupti")}


def frontend() -> dict[str, Any]:
    cudnn = package("cudnn")

    return {"version": cudnn.__version__, "cuDNN": cudnn.backend_version(), "mapped": mapped("libcudnn")}


def module(name: str) -> dict[str, Any]:
    loaded = package(name)
    return {"version": getattr(loaded, "__version__", None), "names": [x for x in dir(loaded) if x[0] != "_"]}


def torch() -> dict[str, Any]:
    loaded = package("torch")

    return {
        "version": loaded.__version__,
        "cuda": loaded.version.cuda,
        "cuDNN": loaded.backends.cudnn.version(),
        "available": loaded.cuda.is_available(),
        "capability": loaded.cuda.get_device_capability(0),
        "rounding": programs.rounding(loaded),
    }
