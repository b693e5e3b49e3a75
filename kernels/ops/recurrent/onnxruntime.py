"""ONNX Runtime's recurrent operators: a model of one node, whose constant weights are packed at load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernels.errors import Unavailable
from kernels.launch import Bind, Launch
from kernels.lazy import np
from kernels.libs import onnx_model, onnxruntime
from kernels.libs.onnxruntime import ONNXRUNTIME
from kernels.ops.recurrent.problem import Recurrent
from kernels.problem import Array
from kernels.setting import Setting
from kernels.variant import DEFAULT, Variant, row

SAMPLES = 64  # elements by which changed weights at the same address are detected
OPERATORS = {"lstm": "LSTM", "gru": "GRU", "gru-before": "GRU", "rnn": "RNN"}
ORDERS = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "gru-before": (1, 0, 2), "rnn": (0,)}  # of our gates, in ONNX's order


def model(problem: Recurrent, weights: Sequence[Array]) -> bytes:
    """Return the serialized model of a layer with constant w, r and b."""
    order, n = list(ORDERS[problem.cell]), problem.hidden
    w, r = (np.ascontiguousarray(x.reshape(-1, n, x.shape[-1])[order]) for x in weights[:2])
    b = weights[2].reshape(-1, n)
    second = np.zeros_like(b[: problem.gates])
    if problem.cell == "gru":
        second[2] = b[3]
    both = np.concatenate([b[order], second[order]])
    sizes = {"w": (1, problem.gates * n, problem.inputs), "r": (1, problem.gates * n, n), "b": (1, both.size)}
    arrays = {"w": w, "r": r, "b": both}
    constants = [onnx_model.constant(name, sizes[name], arrays[name].tobytes()) for name in sizes]
    axis = np.array([1], np.int64)
    constants.append(onnx_model.constant("axis", (1,), axis.tobytes(), onnx_model.INT64))
    more = {"linear_before_reset": 1} if problem.cell == "gru" else {}
    nodes = [
        onnx_model.node(OPERATORS[problem.cell], "x w r b", "all", hidden_size=n, **more),
        onnx_model.node("Squeeze", "all axis", "y"),
    ]
    inputs, outputs = (problem.sequence(features) for features in (problem.inputs, n))
    return onnx_model.model(nodes, constants, [onnx_model.value("x", inputs)], [onnx_model.value("y", outputs)])


def prepare(problem: Recurrent, device: Any, setting: Setting) -> Bind:
    """Prepare a model that is loaded again where its weights changed."""
    if setting.cold:
        raise Unavailable("its packed weights cannot be made cold: remove --cold")
    held: list[Any] = [None, None]  # the weights last seen, and the session with them

    def bind(buffers: Sequence[Array]) -> Launch:
        x, *weights, y = buffers
        some = [array.reshape(-1)[:: max(1, array.size // SAMPLES)] for array in weights]
        where = [array.ctypes.data for array in weights]
        binding: list[Any] = [None, None]  # the session that is bound, and its binding

        def run() -> None:
            seen = where, [array.tobytes() for array in some]
            if held[0] != seen:
                held[:] = seen, onnxruntime.session(model(problem, weights), setting.threads)
            if binding[0] is not held[1]:
                binding[:] = held[1], onnxruntime.bound(held[1], x, y)
            binding[0].run_with_iobinding(binding[1])

        return Launch(run)

    return bind


def accepts(problem: Recurrent) -> str | None:
    """Return why ONNX Runtime cannot do a problem, or None if it can."""
    if problem.lengths != "full":
        return "computes all steps here: --lengths full"
    if problem.step:
        return "supports only the forward pass: --want forward"
    return None if problem.layout == "tnc" else "layout not supported: --layout tnc"


ROWS: tuple[Variant[Recurrent], ...] = (
    row(
        ONNXRUNTIME,
        "onnxruntime",
        prepare,
        accepts=accepts,
        constant=("w", "r", "b"),
        roles=(DEFAULT, "formulation", "loop"),
    ),
)
