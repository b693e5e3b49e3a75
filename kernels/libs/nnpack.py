"""NNPACK inside PyTorch's own library, which exports its functions without promising to."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

from kernels.errors import Unavailable
from kernels.libs import torch as torch_library

ALGORITHMS = {"ft8x8": 1, "ft16x16": 2, "wt8x8": 3}  # nnp_convolution_algorithm
TILES = {"ft8x8": 8, "ft16x16": 16, "wt8x8": 8}

missing = torch_library.missing


@functools.cache
def function() -> int:
    """The address of nnp_convolution_output. Raises Unavailable."""
    torch = torch_library.load()
    try:
        library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        initialize, output = library["nnp_initialize"], library["nnp_convolution_output"]
    except (OSError, AttributeError):
        raise Unavailable(f"torch {torch.__version__} exports no NNPACK") from None
    if status := initialize():
        raise Unavailable(f"NNPACK does not run on this processor: status {status}")
    place = ctypes.cast(output, ctypes.c_void_p).value
    assert place is not None
    return place


def kernel() -> tuple[str | None, str | None]:
    """It has no version; of instructions it has AVX2's alone."""
    return f"NNPACK of torch {torch_library.load().__version__}", "avx2"
