"""PyTorch on a GPU: its operators on the caller's stream, on memory that PyTorch does not own."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from kernels.libs import cuda
from kernels.libs import torch as torch_library
from kernels.provider import Provider


def missing() -> str | None:
    """Return why PyTorch's CUDA operators cannot be called here, or None if they can; import nothing."""
    reason = cuda.driver_missing() or torch_library.missing()
    if reason:
        return reason
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.origin is not None
    source = (Path(spec.origin).parent / "version.py").read_text("utf-8")
    line = next((x for x in source.splitlines() if x.startswith("cuda")), "None")
    return "this torch is built without CUDA: install the build for your driver" if "None" in line else None


def load(device: Any) -> Any:
    """Import PyTorch, set its stream to `device`'s, and turn gradients off. Raises Unavailable."""
    torch = torch_library.load()
    index = int(device.name.partition(":")[2])
    torch.cuda.set_stream(torch.cuda.ExternalStream(device.stream.ptr, device=index))
    torch.set_grad_enabled(False)
    return torch


def arithmetic(torch: Any, dtype: str = "fp32") -> Callable[[], None]:
    """Return a call that sets the arithmetic of fp32 products: TF32 if `dtype` is "tf32", else fp32.

    The switch is process-wide, and variants of both kinds share a process, so each timed call must set it, at the cost
    of one attribute. torch 2.9 gave the switch a new name, and warns if the old name is used."""
    switch = torch.backends.cuda.matmul
    if hasattr(switch, "fp32_precision"):
        return partial(setattr, switch, "fp32_precision", "tf32" if dtype == "tf32" else "ieee")
    return partial(setattr, switch, "allow_tf32", dtype == "tf32")


def tensor(torch: Any, view: Any) -> Any:
    """Return a CuPy array as a tensor, without a copy; uint16 holds bfloat16 bits."""
    if view.dtype.str[1:] == "u2":
        return torch.from_dlpack(view.view("i2")).view(torch.bfloat16)
    return torch.from_dlpack(view)


def kernel() -> tuple[str | None, str | None]:
    """Return the versions of PyTorch and of its CUDA, and no instruction set."""
    torch = torch_library.load()
    return f"torch {torch.__version__}, CUDA {torch.version.cuda}", None


TORCH_CUDA = Provider("torch", "cuda", missing, kernel, python=True)
