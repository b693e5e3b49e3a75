"""Devices of PyTorch: the CPU, a GPU, or the CPU as a simulated GPU (`fake`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import device_clocks  # beside this file


def place(job: dict[str, Any]) -> Any:
    """Return the device on which arrays are allocated."""
    name = job.get("device", "cpu")
    return "cpu" if name == "fake" else name


def configure(torch: Any, job: dict[str, Any]) -> None:
    """Switch TF32 off on a GPU: the suite compares single precision, and cuDNN's default is TF32."""
    if place(job) != "cpu":
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False


def check(torch: Any, job: dict[str, Any]) -> None:
    """Select the job's GPU, if any. Raises NotImplementedError if it is missing."""
    if place(job) == "cpu":
        return
    if not torch.cuda.is_available():
        raise NotImplementedError(f"PyTorch {torch.__version__} finds no GPU")
    index = torch.device(place(job)).index or 0
    if index >= torch.cuda.device_count():
        raise NotImplementedError(f"PyTorch finds {torch.cuda.device_count()} GPUs, from cuda:0 on")
    torch.cuda.set_device(index)


def facts(torch: Any) -> dict[str, Any]:
    """Return PyTorch's version, build, libraries, instruction set and threads."""
    lines = [line.strip(" -") for line in torch.__config__.show().splitlines()]
    return {
        "version": torch.__version__,
        "build": torch.version.git_version,
        "blas": next((x for x in lines if "Math Kernel" in x), None),
        "dnn": next((x for x in lines if "DNN" in x), None),
        "dispatch": torch.backends.cpu.get_cpu_capability(),  # instruction set of PyTorch's kernels
        "threads": {"intra-op": torch.get_num_threads(), "inter-op": torch.get_num_interop_threads()},
    }


def identity(torch: Any, job: dict[str, Any]) -> dict[str, Any]:
    """Return a GPU's libraries and name, {} for a CPU. Raises RuntimeError if TF32 is on."""
    if place(job) == "cpu":
        return {}
    major, minor = torch.cuda.get_device_capability()
    tf32 = {"matmul": torch.backends.cuda.matmul.allow_tf32, "cudnn": torch.backends.cudnn.allow_tf32}
    if any(tf32.values()):
        raise RuntimeError("PyTorch computes in TF32 in {}".format(" and ".join(x for x in sorted(tf32) if tf32[x])))
    return {
        "blas": f"cuBLAS of CUDA {torch.version.cuda}",
        "dnn": f"cuDNN {torch.backends.cudnn.version()}",
        "dispatch": f"{torch.cuda.get_device_name()}, sm_{major}{minor}",
        "tf32": tf32,
    }


def profile(torch: Any, call: Callable[..., Any], count: int, path: str) -> None:
    """Write a trace of `count` calls on a GPU, by PyTorch's profiler, after FIRST warm-up calls."""
    activity = torch.profiler.ProfilerActivity
    with torch.profiler.profile(activities=[activity.CPU, activity.CUDA]) as profiler:
        for _ in range(device_clocks.FIRST):
            call()
        torch.cuda.synchronize()
        with torch.profiler.record_function(device_clocks.STEPS):
            for _ in range(count):
                call()
            torch.cuda.synchronize()
    profiler.export_chrome_trace(path)


def clock(torch: Any, job: dict[str, Any]) -> Any:
    """Return the device's clock; None for a CPU, where a step is done when its call returns."""
    if job.get("device") == "fake":
        return device_clocks.Played()
    return None if place(job) == "cpu" else device_clocks.Events(torch)
