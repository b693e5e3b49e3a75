"""ONNX Runtime on a CPU: a serialized model, run with all optimizations and a number of threads."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from kernels.lazy import np
from kernels.libs import _optional
from kernels.problem import Array
from kernels.provider import Provider

ERRORS = 3  # log level without warnings

missing = partial(_optional.missing, "onnxruntime")


def load() -> Any:
    """Import ONNX Runtime. Raises Unavailable if it is half-installed."""
    return _optional.load("onnxruntime", lambda ort: (ort.InferenceSession, ort.SessionOptions, ort.IOBinding))


def session(model: bytes, threads: int) -> Any:
    """Return a session of a serialized model on the CPU."""
    return load().InferenceSession(model, _options(threads), providers=["CPUExecutionProvider"])


def _options(threads: int) -> Any:
    ort = load()
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = ERRORS
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_ALL
    return options


def bound(session: Any, x: Array, y: Array) -> Any:
    """Return a binding of the session's input x and output y to operands in place."""
    binding = session.io_binding()
    binding.bind_input("x", "cpu", 0, np.float32, x.shape, x.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    return binding


def optimized(model: bytes) -> bytes:
    """Return the serialized model after all of ONNX Runtime's optimizations."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.onnx")
        options = _options(1)
        options.optimized_model_filepath = str(path)
        load().InferenceSession(model, options, providers=["CPUExecutionProvider"])
        return path.read_bytes()


ONNXRUNTIME = Provider("onnxruntime", missing=missing, python=True)
