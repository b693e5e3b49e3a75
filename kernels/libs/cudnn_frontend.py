"""cuDNN's engines and plans through `nvidia-cudnn-frontend` 1.18 to 1.26: graphs of one convolution."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from kernels.errors import LaunchError
from kernels.libs.convolutions import Shape

READS = {"fprop": ("x", "w"), "dgrad": ("y", "w"), "wgrad": ("x", "y")}
WRITES = {"fprop": "y", "dgrad": "x", "wgrad": "w"}
MODES = ("A", "B", "FALLBACK")  # of the heuristics


@dataclass(frozen=True)
class Graph:
    """`tensors`: of what is read and of what is written, under x, w, y."""

    graph: Any
    tensors: dict[str, Any]

    def plan(self, index: int) -> dict[str, Any]:
        """Build a listed plan: its workspace and notes."""
        self.graph.build_plan_at_index(index)
        notes = self.graph.get_behavior_notes_for_plan_at_index(index)
        return {
            "workspace": self.graph.get_workspace_size_plan_at_index(index),
            "notes": [getattr(note, "name", str(note)) for note in notes],
        }

    def names(self) -> list[str]:
        return [self.graph.get_plan_name_at_index(i) for i in range(self.graph.get_execution_plan_count())]


def graph(cudnn: Any, op: str, shape: Shape, **where: Any) -> Graph:
    """`where`: handle=… on a device, device_property=… without one."""
    single = cudnn.data_type.FLOAT
    pygraph = cudnn.pygraph(io_data_type=single, intermediate_data_type=single, compute_data_type=single, **where)
    tensors = {
        name: pygraph.tensor(name=name, dim=list(shape.dims[name]), stride=packed(shape.dims[name]))
        for name in READS[op]
    }
    first, second = (tensors[name] for name in READS[op])
    pads = {"pre_padding": [shape.pad] * 2, "post_padding": [shape.pad] * 2}
    how: dict[str, Any] = {**pads, "stride": [1, 1], "dilation": [1, 1]}
    if op == "fprop":
        out = pygraph.conv_fprop(image=first, weight=second, **how)
    elif op == "dgrad":
        out = pygraph.conv_dgrad(loss=first, filter=second, **how)
    else:
        out = pygraph.conv_wgrad(image=first, loss=second, **how)
    dims = shape.dims[WRITES[op]]
    out.set_output(True).set_dim(list(dims)).set_stride(packed(dims))
    pygraph.validate()
    pygraph.build_operation_graph()
    return Graph(pygraph, {**tensors, WRITES[op]: out})


def packed(dims: tuple[int, ...]) -> list[int]:
    """Strides of rows that follow one another, the last dimension innermost."""
    strides = [1]
    for size in reversed(dims[1:]):
        strides.insert(0, strides[0] * size)
    return strides


def plans(cudnn: Any, op: str, shape: Shape, mode: str, strict: bool = False, **where: Any) -> Graph:
    """A graph with the plans that one heuristic ranks. `strict`: those that round inputs to TF32 do not build."""
    convolution = graph(cudnn, op, shape, **where)
    convolution.graph.create_execution_plans([getattr(cudnn.heur_mode, mode)])
    if strict:  # before the plans are made it would have no effect
        notes = cudnn.numerical_note
        convolution.graph.deselect_numeric_notes([notes.TENSOR_CORE, notes.DOWN_CONVERT_INPUTS])
    return convolution


def engine(cudnn: Any, op: str, shape: Shape, index: int, **where: Any) -> tuple[Graph, dict[str, Any]]:
    """One engine with its own choice of knobs, built. Raises what says that it is not for this problem."""
    convolution = graph(cudnn, op, shape, **where)
    convolution.graph.create_execution_plan(index, {})
    if not convolution.graph.get_execution_plan_count():
        raise LaunchError("no plan")
    return convolution, {"name": convolution.graph.get_plan_name_at_index(0), **convolution.plan(0)}


def number(name: str) -> int:
    """Of the engine, from a plan's name, as eng38_k2=0_k13=2; -1 where it says none."""
    match = re.match(r"eng(\d+)", name)
    return int(match[1]) if match else -1


def told(fault: str) -> str:
    """The middle of what cuDNN says, which is long and ends in the reason."""
    line = " ".join(fault.split())
    return line if len(line) < 200 else line[:60] + " … " + line[-130:]
