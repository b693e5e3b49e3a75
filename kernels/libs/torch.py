"""PyTorch on a processor; its MKL and oneDNN are linked in statically, so they are reached through Python only."""

from __future__ import annotations

from functools import partial
from typing import Any

from kernels.libs import _optional
from kernels.provider import Provider

missing = partial(_optional.missing, "torch", " (README: the CPU build)")


def load() -> Any:
    """The module. Raises Unavailable where it is there in part only."""
    return _optional.load("torch", lambda torch: (torch.mm, torch.from_numpy))


def tensor(torch: Any, array: Any) -> Any:
    """The tensor of a NumPy array, without a copy; uint16 is bfloat16."""
    if array.dtype.str[1:] == "u2":
        return torch.from_numpy(array.view("i2")).view(torch.bfloat16)
    return torch.from_numpy(array)


def kernel() -> tuple[str | None, str | None]:
    """Version, and the instruction set where torch tells it: its MKL does not."""
    return f"torch {load().__version__}, MKL inside", None


CAPABILITY = {"AVX512": "avx512", "AVX2": "avx2", "DEFAULT": "sse4.2"}  # its word of its own loops, and that of --isa


def loops() -> tuple[str | None, str | None]:
    """Of operators that are loops of its own, not of MKL or oneDNN: version, and the instruction set that it tells."""
    torch = load()
    word = torch.backends.cpu.get_cpu_capability()
    return f"torch {torch.__version__}, its own {word} loops", CAPABILITY.get(word)


TORCH = Provider("torch", missing=missing, kernel=kernel, python=True)
