"""PyTorch on a CPU, through Python alone, because its MKL and oneDNN are linked statically."""

from __future__ import annotations

import ctypes
import itertools
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from kernels import state
from kernels.errors import Unavailable, summary
from kernels.libs import _optional, onednn
from kernels.provider import Provider

T = TypeVar("T")
EVENT = "[memory]"  # profiler event of an allocation in bytes, or with a minus of a release
LEVEL, SILENT = "KINETO_LOG_LEVEL", "9"  # otherwise PyTorch's profiler writes two lines to stderr


def peak(torch: Any, call: Callable[[], object]) -> int:
    """Return the peak bytes that PyTorch's CPU allocator holds for allocations made during `call`."""
    os.environ.setdefault(LEVEL, SILENT)
    with torch.autograd.profiler.profile(profile_memory=True) as profile:
        call()
    events = [event for event in profile.kineto_results.events() if event.name() == EVENT]
    sizes = (int(event.nbytes()) for event in sorted(events, key=lambda event: event.start_ns()))
    return max(itertools.accumulate(sizes, initial=0))


def without_onednn(torch: Any, call: Callable[..., T]) -> Callable[..., T]:
    """Return `call` with oneDNN off."""
    switch, on = torch._C._set_mkldnn_enabled, torch.backends.mkldnn.enabled

    def off(*given: Any) -> T:
        switch(False)
        try:
            return call(*given)
        finally:
            switch(on)

    return off


VARIABLES = ("ONEDNN_VERBOSE", "DNNL_VERBOSE")  # by which a user turns the log on


def executed(torch: Any, call: Callable[[], object]) -> list[tuple[str, str]]:
    """Return the oneDNN primitives that `call` executes, in order, each with its implementation's name."""
    fields = (line.split(",") for line in _logged(torch, call))
    return [(line[5], line[6]) for line in fields if line[2:4] == ["primitive", "exec"]]


def named(torch: Any, call: Callable[[], object], *kinds: str) -> tuple[str | None, str | None] | None:
    """Return a variant's `kernel` by oneDNN's implementation of the last primitive of these kinds.

    The number of reorders is included. None if no such primitive ran, because other kernels log nothing."""
    primitives = executed(torch, call)
    names = [name or kind for kind, name in primitives if kind in kinds]
    reorders = sum(kind == "reorder" for kind, _ in primitives)
    return onednn.named(f"torch {torch.__version__}, oneDNN", names[-1], reorders) if names else None


def _logged(torch: Any, call: Callable[[], object]) -> list[str]:
    """Return the lines that C functions of this process print during `call`, with oneDNN's log on."""
    import tempfile  # imported here because plans do not need it

    set_level = torch._C._verbose.mkldnn_set_verbose
    flush = ctypes.CDLL(None).fflush
    sys.stdout.flush()
    flush(None)
    with tempfile.TemporaryFile() as file:
        stdout = os.dup(1)
        try:
            os.dup2(file.fileno(), 1)
            set_level(1)
            call()
        finally:
            set_level(int(any(os.environ.get(name, "0") != "0" for name in VARIABLES)))
            flush(None)
            os.dup2(stdout, 1)
            os.close(stdout)
        file.seek(0)
        return file.read().decode(errors="replace").splitlines()


missing = partial(_optional.missing, "torch", " (for the CPU build see README)")


def load() -> Any:
    """Import PyTorch. Raises Unavailable if it is half-installed."""
    return _optional.load("torch", lambda torch: (torch.mm, torch.from_numpy))


def on_threads(threads: int) -> Any:
    """Import PyTorch, set its number of threads, and turn gradients off. Raises Unavailable."""
    torch = load()
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    return torch


def tensor(torch: Any, array: Any) -> Any:
    """Return a NumPy array as a tensor, without a copy; uint16 holds bfloat16 bits."""
    if array.dtype.str[1:] == "u2":
        return torch.from_numpy(array.view("i2")).view(torch.bfloat16)
    return torch.from_numpy(array)


def kernel() -> tuple[str | None, str | None]:
    """Return PyTorch's version, and no instruction set: its MKL reports none."""
    return f"torch {load().__version__}, MKL inside", None


CAPABILITY = {
    "AVX512": "avx512",
    "AVX2": "avx2",
    "DEFAULT": "sse4.2",
}  # PyTorch's word for the instruction set of its loops, and --isa's


def loops() -> tuple[str | None, str | None]:
    """Return PyTorch's version, and the instruction set that it reports for its vectorized loops."""
    torch = load()
    word = torch.backends.cpu.get_cpu_capability()
    return f"torch {torch.__version__}, its own {word} loops", CAPABILITY.get(word)


TORCH = Provider("torch", missing=missing, kernel=kernel, python=True)


def compiled(torch: Any, function: Callable[..., Any], first: Callable[[Callable[..., Any]], object]) -> Any:
    """Return torch.compile of a function, compiled by its first call, which `first` makes. Raises Unavailable."""
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(state.folder() / "inductor"))
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # no pool of processes beside the measurement
    fast = torch.compile(function, fullgraph=True, dynamic=False)
    try:
        first(fast)
    except Exception as error:  # whatever its compilers raise
        raise Unavailable(f"torch.compile fails ({summary(error)}): apt-get install g++") from None
    return fast
