"""cuDNN's engines and plans through `nvidia-cudnn-frontend` 1.18 to 1.26: graphs of one convolution."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from kernels.errors import Unavailable
from kernels.libs import _optional, cuda
from kernels.libs.cudnn import Layer
from kernels.provider import Provider

RELEASES = (1, 18), (1, 26)  # the first and the last whose graphs list engines
PACKAGE = "nvidia-cudnn-frontend"
INSTALL = f"pip install '{PACKAGE}>=1.18,<1.27'"
# Numerical notes of plans that round inputs to half precision, which overflows at 65,504 (inferred from the name).
HALF = ("DOWN_CONVERT_INPUTS",)
COARSE = ("TENSOR_CORE", *HALF)  # notes of plans that round inputs to TF32 or half precision
REFUSALS = ("NOT_SUPPORTED", "Deselecting execution plan", "No valid engine configs", "No valid execution plans")
READS = {"fprop": ("x", "w"), "dgrad": ("y", "w"), "wgrad": ("x", "y")}
WRITES = {"fprop": "y", "dgrad": "x", "wgrad": "w"}
MODES = ("A", "B", "FALLBACK")  # cuDNN's heuristics


@dataclass(frozen=True)
class Graph:
    """A cuDNN graph of one convolution, and its tensors by operand: x, w, y."""

    graph: Any
    tensors: dict[str, Any]

    def plan(self, index: int) -> dict[str, Any]:
        """Build the plan at `index` and return its workspace in bytes and its behavior notes."""
        self.graph.build_plan_at_index(index)
        notes = self.graph.get_behavior_notes_for_plan_at_index(index)
        return {
            "workspace": self.graph.get_workspace_size_plan_at_index(index),
            "notes": [getattr(note, "name", str(note)) for note in notes],
        }

    def names(self) -> list[str]:
        return [self.graph.get_plan_name_at_index(i) for i in range(self.graph.get_execution_plan_count())]


def missing() -> str | None:
    """Return why the frontend cannot be used here, or None if it can; does not import it."""
    return cuda.libraries_missing() or cuda.package("cudnn", INSTALL)


def load() -> Any:
    """Import the frontend. Raises Unavailable, also for a release whose graphs list no engines."""
    try:
        cudnn = _optional.load("cudnn", lambda module: module.backend_version())
    except Unavailable as error:
        raise Unavailable(str(error).replace("--force-reinstall cudnn", f"--force-reinstall {PACKAGE}")) from None
    version = str(cudnn.__version__)
    release = tuple(int(word) for word in re.findall(r"\d+", version)[:2])
    if not RELEASES[0] <= release <= RELEASES[1]:
        raise Unavailable(f"{PACKAGE} {version} cannot list engines: {INSTALL}")
    return cudnn


@dataclass(frozen=True)
class Frontend:
    """The frontend's module, and a cuDNN handle on one stream."""

    cudnn: Any
    handle: int


def open_handle(stream: int) -> Frontend:
    """Open a handle on this stream. Raises Unavailable."""
    cudnn = load()
    handle = int(cudnn.create_handle())
    cudnn.set_stream(handle=handle, stream=stream)
    return Frontend(cudnn, handle)


def graph(cudnn: Any, op: str, layer: Layer, **where: Any) -> Graph:
    """Return a convolution's graph; `where`: handle=… on a device, device_property=… without a device."""
    single = cudnn.data_type.FLOAT
    pygraph = cudnn.pygraph(io_data_type=single, intermediate_data_type=single, compute_data_type=single, **where)
    dims = {"x": layer.x, "w": layer.w, "y": layer.y}
    strides = {name: packed(dims[name], layer.layout) for name in dims}
    tensors = {name: pygraph.tensor(name=name, dim=list(dims[name]), stride=strides[name]) for name in READS[op]}
    first, second = (tensors[name] for name in READS[op])
    pads = {"pre_padding": list(layer.pad), "post_padding": list(layer.pad)}
    how: dict[str, Any] = {**pads, "stride": [layer.stride] * 2, "dilation": [layer.dilation] * 2}
    if op == "fprop":
        out = pygraph.conv_fprop(image=first, weight=second, **how)
    elif op == "dgrad":
        out = pygraph.conv_dgrad(loss=first, filter=second, **how)
    else:
        out = pygraph.conv_wgrad(image=first, loss=second, **how)
    out.set_output(True).set_dim(list(dims[WRITES[op]])).set_stride(strides[WRITES[op]])
    pygraph.validate()
    pygraph.build_operation_graph()
    return Graph(pygraph, {**tensors, WRITES[op]: out})


def packed(dims: tuple[int, ...], layout: str = "nchw") -> list[int]:
    """Return the strides, in NCHW order, of a contiguous tensor whose layout is nchw or nhwc."""
    order = (0, 1, 2, 3) if layout == "nchw" else (0, 2, 3, 1)
    strides, apart = [0] * len(order), 1
    for axis in reversed(order):
        strides[axis] = apart
        apart *= dims[axis]
    return strides


def plans(cudnn: Any, op: str, layer: Layer, mode: str, without: tuple[str, ...] = (), **where: Any) -> Graph:
    """Return a graph with the plans that heuristic `mode` ranks; no plan with a note of `without` builds."""
    convolution = graph(cudnn, op, layer, **where)
    convolution.graph.create_execution_plans([getattr(cudnn.heur_mode, mode)])
    return _without(cudnn, convolution, without)


def engine(cudnn: Any, op: str, layer: Layer, index: int, without: tuple[str, ...] = (), **where: Any) -> Graph:
    """Return a graph whose only plan is engine `index` at default knobs.

    The plan does not build if it has a note of `without`. Raises Unavailable, or cuDNN's exception, if the engine does
    not support this problem."""
    convolution = graph(cudnn, op, layer, **where)
    if index >= (count := convolution.graph.get_engine_count()):
        raise Unavailable(f"this cuDNN release has only engines 0 to {count - 1} for this problem")
    convolution.graph.create_execution_plan(index, {})
    if not convolution.graph.get_execution_plan_count():
        raise Unavailable("this engine has no plan for this problem")
    return _without(cudnn, convolution, without)


def _without(cudnn: Any, convolution: Graph, notes: tuple[str, ...]) -> Graph:
    if notes:  # before the plans are made it would have no effect
        convolution.graph.deselect_numeric_notes([getattr(cudnn.numerical_note, note) for note in notes])
    return convolution


def refused(error: Exception) -> bool:
    """Return whether an error is cuDNN's refusal of a plan for this problem, GPU or deselected notes."""
    return "NotSupported" in type(error).__name__ or any(text in str(error) for text in REFUSALS)


def shortened(fault: str) -> str:
    """Return a cuDNN error on one line, cut in the middle if long, because the reason is at the end."""
    line = " ".join(fault.split())
    return line if len(line) < 200 else line[:60] + " … " + line[-130:]


CUDNN_FRONTEND = Provider("cudnn", "cuda", missing, python=True)
