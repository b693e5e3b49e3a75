"""ncnn, from its wheel: a network given as text and weights, with options that allow algorithms."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from kernels.errors import Unavailable
from kernels.libs import _optional
from kernels.provider import Provider

RAW = b"\0\0\0\0"  # tag before the weights: raw single precision
# Options of coarser arithmetic, or of another processor.
COARSE = (
    *("use_fp16_packed", "use_fp16_storage", "use_fp16_arithmetic", "use_bf16_storage", "use_bf16_packed"),
    *("use_int8_inference", "use_vulkan_compute"),
)

missing = partial(_optional.missing, "ncnn")


def load() -> Any:
    """Import ncnn. Raises Unavailable if it is half-installed."""
    return _optional.load("ncnn", lambda ncnn: (ncnn.Net, ncnn.Mat))


def version() -> str:
    """Return ncnn's name and version."""
    return f"ncnn {load().__version__}"


def net(text: str, weights: bytes, options: Mapping[str, bool], threads: int) -> Any:
    """Return a network, loaded from ncnn's `text` and `weights`. Raises Unavailable if ncnn refuses it."""
    network = load().Net()
    network.opt.num_threads = threads
    for name, value in {**dict.fromkeys(COARSE, False), **options}.items():
        if hasattr(network.opt, name):  # some came with later versions
            setattr(network.opt, name, value)
    with tempfile.TemporaryDirectory() as folder:  # from memory it would refer to bytes that are Python's
        param, model = Path(folder, "param"), Path(folder, "bin")
        param.write_text(text, "ascii")
        model.write_bytes(RAW + weights)
        if network.load_param(str(param)) or network.load_model(str(model)):
            raise Unavailable(f"{version()} does not support this layer")
    return network


def run(network: Any, image: Any) -> Any:
    """Run a network on `image`, the blob `x`; return the blob `y` in ncnn's memory, empty on failure."""
    extractor, result = network.create_extractor(), load().Mat()
    extractor.input("x", image)
    extractor.extract("y", result)
    return result


NCNN = Provider("ncnn", missing=missing, python=True)
