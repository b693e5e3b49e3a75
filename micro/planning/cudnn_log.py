"""Convolutions in cuDNN's log (CUDNN_LOGLEVEL_DBG=3), from calls of its first API and from its graphs.

Graphs are built by its C API and by its frontend. The log of an execution does not name its graph, so convolutions
are taken where a graph is built, once for many executions, and executions are counted apart. The C API's descriptors
name each other by address alone: they are read where tensors have the identifiers x, w and y, as those of PyTorch
and XLA have."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from kernels.errors import UsageError
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.taps import Line
from micro.planning.benchdnn import Layer, NotTaken

CALL = re.compile(r"I! CuDNN \(v.*?\) function cudnn(\w+)\(\) called")
ARGUMENT = re.compile(r"i!( *)(\S+): type=([^;]*?):?(?:; val=(.*?);?)?$")
SETTING_UP = re.compile(r"Backend|Create|Destroy|Set|Get|Find|Query|Derive|Restore|Copy|Save|Init|Build|.*VersionCheck")
CALLED = {  # function of the first API: the pass, and the names of image and filter
    "ConvolutionForward": ("forward", "xDesc", "wDesc"),
    "ConvolutionBiasActivationForward": ("forward", "xDesc", "wDesc"),
    "ConvolutionBackwardData": ("dgrad", "dxDesc", "wDesc"),
    "ConvolutionBackwardFilter": ("wgrad", "xDesc", "dwDesc"),
}
IN_GRAPH = {  # the frontend's tag: the pass, and the names of image and filter
    "CONV_FPROP": ("forward", "X", "W"),
    "CONV_DGRAD": ("dgrad", "DX", "W"),
    "CONV_WGRAD": ("wgrad", "X", "DW"),
}
BUILT = {  # descriptor of the C API, and the pass
    "CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR": "forward",
    "CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR": "dgrad",
    "CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR": "wgrad",
}
SPACING = ("PRE_PADDINGS", "POST_PADDINGS", "FILTER_STRIDES", "DILATIONS")
ATTRIBUTE = re.compile(rf"CUDNN_ATTR_CONVOLUTION_({'|'.join(SPACING)})\b")
TENSOR = "CUDNN_BACKEND_TENSOR_DESCRIPTOR"
GRAPH = '{"context":'

What: TypeAlias = "Conv | str | None"  # a convolution, why it is not measured, or None for all other functions
Arguments: TypeAlias = dict[str, tuple[str, str]]  # by path, `xDesc.dimA`: type and value


@dataclass(frozen=True)
class Tensor:
    """Element type and extents of a tensor; of images batch, channels, rows, columns."""

    dtype: str
    sizes: list[int]


# Image and filter; padding before and after, stride, dilation.
Described: TypeAlias = "tuple[Sequence[Tensor], Sequence[list[int]]]"


@dataclass(frozen=True)
class Backend:
    """Attributes that the C API's descriptors had last: tensors by identifier, padding and strides."""

    tensors: dict[str, Tensor] = field(default_factory=dict)
    spacing: dict[str, list[int]] = field(default_factory=dict)


def calls(lines: Sequence[str]) -> Iterator[tuple[int, str, What]]:
    """Yield line number, name and convolution of each call."""
    backend = Backend()
    for number, text in enumerate(lines):
        if call := CALL.search(text):
            arguments = _arguments(lines, number + 1)
            if "status" in arguments:  # the same call again, as it returns
                continue
            yield from ((number, name, what) for name, what in _call(call[1], arguments, backend))
        elif GRAPH in text:
            yield from ((number, name, what) for name, what in _graph(text[text.index(GRAPH) :]))


def _arguments(lines: Sequence[str], first: int) -> Arguments:
    """Parse the arguments of a call, one a line from `first` on, nested ones further in."""
    arguments: Arguments = {}
    path: list[tuple[int, str]] = []
    for number in range(first, len(lines)):
        text = lines[number]
        if not text.startswith("i!"):
            break
        if match := ARGUMENT.match(text.rstrip()):
            depth = len(match[1])
            path = [*((at, name) for at, name in path if at < depth), (depth, match[2])]
            arguments[".".join(name for _, name in path)] = match[3], match[4] or ""
    return arguments


def _call(function: str, arguments: Arguments, backend: Backend) -> Iterator[tuple[str, What]]:
    if function in CALLED:
        yield function, _first_api(function, arguments)
    elif function == "BackendExecute":
        yield function, "of which graph is not said"
    elif function == "BackendSetAttribute":
        name = arguments.get("attributeName", ("", ""))[1]
        if attribute := ATTRIBUTE.match(name):
            values = [arguments[f"[{i}]"][1] for i in range(len(arguments)) if f"[{i}]" in arguments]
            with suppress(ValueError):
                backend.spacing[attribute[1]] = list(map(int, values))
    elif function == "BackendFinalize":
        yield from _finalized(arguments, backend)
    elif not SETTING_UP.match(function):
        yield function, None


def _first_api(function: str, arguments: Arguments) -> What:
    """Parse a call of the first API, whose padding is the same on both sides."""
    direction, *names = CALLED[function]

    def described() -> Described:
        spacing = [json.loads(arguments[f"convDesc.{name}"][1]) for name in ("padA", "padA", "strideA", "dilationA")]
        return [_tensor(arguments, name, "dataType") for name in names], spacing

    return _problem(direction, described)


def _tensor(arguments: Arguments, name: str, dtype: str) -> Tensor:
    """Parse a tensor. Raises KeyError, ValueError. `dtype`: the name of the argument with its element type."""
    word = arguments[f"{name}.{dtype}"][1].partition(" ")[0]
    return Tensor(word.removeprefix("CUDNN_DATA_"), json.loads(arguments[f"{name}.dimA"][1]))


def _finalized(arguments: Arguments, backend: Backend) -> Iterator[tuple[str, What]]:
    """Remember a tensor, or yield an operation of a graph."""
    kind = arguments.get("descriptor", ("", ""))[0]
    if kind == TENSOR:
        with suppress(KeyError, ValueError):
            name = chr(int(arguments["descriptor.uid"][1]))
            backend.tensors[name] = _tensor(arguments, "descriptor", "type")
    elif kind in BUILT:

        def described() -> Described:
            return [backend.tensors[name] for name in "xw"], [backend.spacing[name] for name in SPACING]

        yield "graph with a convolution", _problem(BUILT[kind], described)


def _graph(text: str) -> Iterator[tuple[str, What]]:
    """Yield the operations of a graph as the frontend writes it."""
    with suppress(ValueError, KeyError, TypeError):
        graph = json.JSONDecoder().raw_decode(text)[0]
        for node in graph["nodes"]:
            yield f"graph with {node['tag']}", _node(node, graph) if node["tag"] in IN_GRAPH else None


def _node(node: Mapping[str, Any], graph: Mapping[str, Any]) -> What:
    direction, *names = IN_GRAPH[node["tag"]]

    def described() -> Described:
        edges = {**node["inputs"], **node["outputs"]}
        usual = graph["context"].get("io_data_type")
        tensors = [graph["tensors"][str(edges[name])] for name in names]
        spacing = [node[name] for name in ("pre_padding", "post_padding", "stride", "dilation")]
        return [Tensor(tensor["data_type"] or usual, tensor["dim"]) for tensor in tensors], spacing

    return _problem(direction, described)


def _problem(direction: str, described: Callable[[], Described]) -> Conv | str:
    """Return the problem, or why it is not measured."""
    try:
        return _convolution(direction, *described())
    except NotTaken as reason:
        return str(reason)
    except (KeyError, ValueError, TypeError, IndexError, UsageError):
        return "its sizes are not understood"


def _convolution(direction: str, tensors: Sequence[Tensor], spacing: Sequence[list[int]]) -> Conv:
    """Return the problem. Raises ValueError, TypeError, IndexError, UsageError."""
    image, filters = tensors
    if types := sorted({str(tensor.dtype).lower() for tensor in tensors} - {"float"}):
        raise NotTaken(", ".join(types))
    if len(image.sizes) != 4:
        raise NotTaken(f"{len(image.sizes) - 2}-d")
    before, after, stride, dilation = spacing
    down, across = (
        Line(image.sizes[2 + i], filters.sizes[2 + i], stride[i], before[i], after[i], dilation[i]) for i in range(2)
    )
    groups, rest = divmod(image.sizes[1], filters.sizes[1])
    if rest:
        raise ValueError("channels of an image are those of a filter, group by group")
    return Layer(image.sizes[0], image.sizes[1], filters.sizes[0], down, across, groups).problem(direction)
