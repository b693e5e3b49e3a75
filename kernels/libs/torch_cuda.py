"""PyTorch on a GPU: its operators on the stream of the caller, on memory that is not its own."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

from kernels.libs import cuda
from kernels.libs import torch as torch_library


def missing() -> str | None:
    """Why PyTorch's CUDA operators cannot be called here, told without importing it."""
    reason = cuda.driver_missing() or torch_library.missing()
    if reason:
        return reason
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.origin is not None
    told = (Path(spec.origin).parent / "version.py").read_text("utf-8")
    line = next((x for x in told.splitlines() if x.startswith("cuda")), "None")
    return "this torch is built without CUDA: install the build for your driver" if "None" in line else None


def load(device: Any) -> Any:
    """The module, its current stream that of `device`. Raises Unavailable."""
    torch = torch_library.load()
    index = int(device.name.partition(":")[2])
    torch.cuda.set_stream(torch.cuda.ExternalStream(device.stream.ptr, device=index))
    torch.set_grad_enabled(False)
    return torch


def tensor(torch: Any, view: Any) -> Any:
    """The tensor of a CuPy array, without a copy; uint16 is bfloat16."""
    if view.dtype.str[1:] == "u2":
        return torch.from_dlpack(view.view("i2")).view(torch.bfloat16)
    return torch.from_dlpack(view)


def kernel() -> tuple[str | None, str | None]:
    """Its version, and the CUDA it is built for."""
    torch = torch_library.load()
    return f"torch {torch.__version__}, CUDA {torch.version.cuda}", None
