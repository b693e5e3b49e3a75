"""ONNX Runtime's convolution, forward alone: a model of one node whose filter is a constant, ordered when it is loaded,
channels in blocks; and one whose filter is an input, by im2col and a product."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kernels.launch import Launch
from kernels.libs import onnxruntime
from kernels.ops.conv import kept as kept_of
from kernels.ops.conv import onnx_model
from kernels.ops.conv.problem import Conv
from kernels.variant import DEFAULT, Variant

if TYPE_CHECKING:
    from kernels.launch import Bind
    from kernels.problem import Array
    from kernels.setting import Setting


def constant(problem: Conv, device: Any, setting: Setting) -> Bind:
    """The filter is a constant of the model."""
    kept_of.refuse_cold(setting)
    zeros = bytes(problem.operands()[1].nbytes)
    kernel = _named(onnx_model.model(problem, zeros), "all")
    held = kept_of.Held()

    def bind(buffers: Sequence[Array]) -> Launch:
        x, w, y = buffers
        own: list[Any] = [None, None]  # the session that is bound to these, and how

        def make() -> object:
            return onnxruntime.session(onnx_model.model(problem, w.tobytes()), setting.threads, "all")

        def run() -> None:
            if own[0] is not held.made:
                own[:] = held.made, _bound(held.made, {"x": x}, y)
            own[0].run_with_iobinding(own[1])

        return Launch(kept_of.keeping(w, make, [run], held), kernel=(kernel, None))

    return bind


def given(problem: Conv, device: Any, setting: Setting) -> Bind:
    """The filter is an input."""
    model = onnx_model.model(problem, None)
    session, kernel = onnxruntime.session(model, setting.threads, "basic"), _named(model, "basic")

    def bind(buffers: Sequence[Array]) -> Launch:
        x, w, y = buffers
        binding = _bound(session, {"x": x, "w": w}, y)

        def call(keep: object = buffers) -> None:
            session.run_with_iobinding(binding)

        return Launch(call, kernel=(kernel, None))

    return bind


def _bound(session: Any, inputs: dict[str, Array], y: Array) -> Any:
    """To the operands where they lie."""
    import numpy as np

    binding = session.io_binding()
    for name, array in inputs.items():
        binding.bind_input(name, "cpu", 0, np.float32, array.shape, array.ctypes.data)
    binding.bind_output("y", "cpu", 0, np.float32, y.shape, y.ctypes.data)
    return binding


def _named(model: bytes, level: str) -> str:
    """By the operations of the model that is run."""
    text = onnxruntime.optimized(model, level)
    copies = [name for name in ("ReorderInput", "ReorderOutput") if name.encode() in text]
    how = ", ".join(["channels in blocks (NCHWc)", *copies]) if copies else "Conv of plain images"
    return f"onnxruntime {onnxruntime.load().__version__}, {how}"


def accepts(problem: Conv) -> str | None:
    """Why it cannot do it."""
    if problem.direction != "forward":
        return "it has a forward pass alone: --direction forward"
    if problem.layout != "nchw":
        return "it has no such layout: --layout nchw"
    return None


def _row(name: str, prepare: Callable[[Conv, Any, Setting], Bind], **more: Any) -> Variant[Conv]:
    return Variant(
        name, "cpu", "onnxruntime", prepare, accepts=accepts, missing=onnxruntime.missing, python=True, **more
    )


ROWS: tuple[Variant[Conv], ...] = (
    _row("onnxruntime", constant, work=Conv.direct_work, constant=("w",), roles=(DEFAULT,)),
    _row("onnxruntime-im2col", given, roles=()),
)
