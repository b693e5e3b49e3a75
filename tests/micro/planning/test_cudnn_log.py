"""cuDNN's calls and graphs as it prints them, back into convolutions; what is none of ours is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kernels.ops.conv.problem import Conv
from micro.planning.library_log import Calls, read

LAYER = Conv(16, 96, 27, 27, 256, 5, 5, pad=2)


def convolutions(text: str) -> list[Conv]:
    return list(read(text).of(Conv))


def words(text: str) -> list[str]:
    return list(read(text).beside(Conv))


def tensor(name: str, kind: str, sizes: list[int], dtype: str = "FLOAT (0)") -> list[str]:
    return [
        f"i!     {name}: type=cudnn{kind}Descriptor_t:",
        f"i!         dataType: type=cudnnDataType_t; val=CUDNN_DATA_{dtype};",
        f"i!         nbDims: type=int; val={len(sizes)};",
        f"i!         dimA: type=int; val={json.dumps(sizes, separators=(',', ':'))};",
        f"i!     {name.removesuffix('Desc')}Data: location=dev; addr=0x7f1f48d80000;",
    ]


TAIL = [
    "i! Time: 2026-04-19T10:00:00.178637 (0d+0h+0m+2s since start)",
    "i! Process=391; Thread=391; GPU=0; Handle=0x55d3f6c0a2d0; StreamId=(nil) (defaultStream).",
    "",
]


def call(
    function: str, tensors: list[list[str]], pad: int = 2, stride: int = 1, dilation: int = 1, groups: int = 1
) -> str:
    """As cuDNN 7 to 9 print one."""
    return "\n".join(
        [
            f"I! CuDNN (v91200 46) function cudnn{function}() called:",
            "i!     handle: type=cudnnHandle_t; streamId=(nil) (defaultStream);",
            "i!     alpha: type=CUDNN_DATA_FLOAT; val=1.000000;",
            *(text for lines in tensors for text in lines),
            "i!     convDesc: type=cudnnConvolutionDescriptor_t:",
            "i!         mode: type=cudnnConvolutionMode_t; val=CUDNN_CROSS_CORRELATION (1);",
            "i!         mathType: type=cudnnMathType_t; val=CUDNN_DEFAULT_MATH (0);",
            "i!         arrayLength: type=int; val=2;",
            f"i!         padA: type=int; val=[{pad},{pad}];",
            f"i!         strideA: type=int; val=[{stride},{stride}];",
            f"i!         dilationA: type=int; val=[{dilation},{dilation}];",
            f"i!         groupCount: type=int; val={groups};",
            "i!     algo: type=cudnnConvolutionFwdAlgo_t; val=CUDNN_CONVOLUTION_FWD_ALGO_FFT (4);",
            *TAIL,
        ]
    )


X, W, Y = [16, 96, 27, 27], [256, 96, 5, 5], [16, 256, 27, 27]
FORWARD = call("ConvolutionForward", [tensor("xDesc", "Tensor", X), tensor("wDesc", "Filter", W)])
DGRAD = call("ConvolutionBackwardData", [tensor("wDesc", "Filter", W), tensor("dxDesc", "Tensor", X)])
WGRAD = call("ConvolutionBackwardFilter", [tensor("xDesc", "Tensor", X), tensor("dwDesc", "Filter", W)])
RETURNED = "\n".join(
    [
        "I! CuDNN (v91200 46) function cudnnConvolutionForward() called:",
        "i!     status: type=cudnnStatus_t; val=CUDNN_STATUS_SUCCESS (0);",
        *TAIL,
    ]
)


@pytest.mark.parametrize(("text", "direction"), [(FORWARD, "forward"), (DGRAD, "dgrad"), (WGRAD, "wgrad")])
def test_a_call_of_the_first_api(text: str, direction: str) -> None:
    assert read(text).of(Conv) == {Conv(16, 96, 27, 27, 256, 5, 5, pad=2, direction=direction): Calls(1, None)}


def test_groups_stride_and_dilation_of_a_call() -> None:
    sizes = [tensor("xDesc", "Tensor", [2, 8, 9, 11]), tensor("wDesc", "Filter", [6, 4, 3, 1])]
    (problem,) = convolutions(call("ConvolutionForward", sizes, 0, 2, 2, 2))
    assert problem == Conv(2, 8, 9, 11, 6, 3, 1, 2, dilation=2, groups=2)


def test_a_call_is_counted_once_though_its_return_is_logged_too() -> None:
    log = read(FORWARD + RETURNED + FORWARD + RETURNED)
    assert (log.of(Conv), log.beside(Conv)) == ({LAYER: Calls(2, None)}, {})


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (FORWARD.replace("DATA_FLOAT (0)", "DATA_HALF (2)"), "cuDNN ConvolutionForward (half)"),
        (
            call("ConvolutionForward", [tensor("xDesc", "Tensor", [1, 2, 3, 4, 5])] * 1),
            "(its sizes are not understood)",
        ),
        (
            call(
                "ConvolutionForward",
                [tensor("xDesc", "Tensor", [1, 2, 3, 4, 5]), tensor("wDesc", "Filter", [1, 2, 3, 3, 3])],
            ),
            "cuDNN ConvolutionForward (3-d)",
        ),
        ("I! CuDNN (v8005) function cudnnPoolingForward() called:\ni!     x: type=int; val=1;", "cuDNN PoolingForward"),
    ],
)
def test_other_calls_are_named(text: str, word: str) -> None:
    assert convolutions(text) == []
    (named,) = words(text)
    assert named.endswith(word)


def test_what_sets_a_call_up_is_none() -> None:
    names = ("SetTensor4dDescriptor", "CreateHandle", "GetConvolutionForwardAlgorithm_v7", "BackendSetAttribute")
    names += ("FindConvolutionForwardAlgorithmEx", "OpsInferVersionCheck", "DestroyFilterDescriptor")
    assert not read("\n".join(f"I! CuDNN (v8005) function cudnn{name}() called:" for name in names)).calls


def test_a_call_that_is_cut_off_is_never_another_convolution() -> None:
    for end in range(len(FORWARD)):
        assert convolutions(FORWARD[:end]) in ([], [LAYER]), FORWARD[:end]


def graph(tag: str = "CONV_FPROP", **changed: Any) -> str:
    """As the frontend writes it, CUDNN_FRONTEND_LOG_INFO=1, of a convolution with padding above and left alone."""
    edges = {"CONV_FPROP": ("X", "W", "Y"), "CONV_DGRAD": ("DX", "W", "DY"), "CONV_WGRAD": ("X", "DW", "DY")}[tag]
    names = dict(zip(edges, ("x", "w", "0::Y"), strict=True))
    node = {
        "compute_data_type": "FLOAT",
        "dilation": [1, 1],
        "inputs": {edge: names[edge] for edge in edges[:2]},
        "math_mode": "CROSS_CORRELATION",
        "name": "0",
        "outputs": {edges[2]: names[edges[2]]},
        "post_padding": [0, 0],
        "pre_padding": [1, 1],
        "stride": [2, 2],
        "tag": tag,
    }
    sizes = {"x": [1, 32, 416, 416], "w": [64, 32, 3, 3], "0::Y": [1, 64, 208, 208]}
    tensors = {name: {"data_type": "FLOAT", "dim": size, "name": name} for name, size in sizes.items()}
    context = {"compute_data_type": "FLOAT", "io_data_type": "FLOAT", "name": ""}
    whole = {"context": context, "cudnn_backend_version": "9.8.0", "nodes": [node | changed], "tensors": tensors}
    return "[cudnn_frontend] " + json.dumps(whole, separators=(",", ":"))


@pytest.mark.parametrize(
    ("tag", "direction"), [("CONV_FPROP", "forward"), ("CONV_DGRAD", "dgrad"), ("CONV_WGRAD", "wgrad")]
)
def test_a_graph_of_the_frontend(tag: str, direction: str) -> None:
    """Padding is of each side there."""
    assert convolutions(graph(tag)) == [Conv(1, 32, 416, 416, 64, 3, 3, 2, pad_top=1, pad_left=1, direction=direction)]


def test_what_of_a_graph_is_none_of_ours_is_named() -> None:
    assert words(graph(stride=[1, 2])) == ["cuDNN graph with CONV_FPROP (two strides)"]
    assert words(graph(tag="CONV_FPROP").replace('"data_type":"FLOAT","dim"', '"data_type":"HALF","dim"')) == [
        "cuDNN graph with CONV_FPROP (half)"
    ]
    assert words(graph().replace("CONV_FPROP", "SDPA_FWD")) == ["cuDNN graph with SDPA_FWD"]
    assert words(graph()[:300]) == []


def backend(kind: str, fields: list[str], function: str = "Finalize", attribute: str = "") -> str:
    inner = [f"i!         {one};" for one in fields]
    return "\n".join(
        [
            f"I! CuDNN (v91200 46) function cudnnBackend{function}() called:",
            f"i!     descriptor: type=CUDNN_BACKEND_{kind}_DESCRIPTOR:",
            *inner,
            *filter(None, attribute.split("\n")),
            *TAIL,
        ]
    )


def built(uid: str, sizes: list[int]) -> str:
    told = json.dumps(sizes, separators=(",", ":"))
    return backend(
        "TENSOR",
        [
            "type: type=cudnnDataType_t; val=CUDNN_DATA_FLOAT (0)",
            f"dimA: type=int; val={told}",
            f"uid: type=int64_t; val={ord(uid)}",
        ],
    )


def spacing(name: str, values: list[int]) -> str:
    lines = [f"i!     attributeName: type=cudnnBackendAttributeName_t; val=CUDNN_ATTR_CONVOLUTION_{name} (104);"]
    lines += [f"i!     [{i}]: type=int64_t; val={value};" for i, value in enumerate(values)]
    return backend("CONVOLUTION", [], "SetAttribute", "\n".join(lines))


def operation(kind: str = "FORWARD", after: int = 2) -> str:
    """As PyTorch builds it: tensors named x, w and y."""
    return "\n".join(
        [
            *(built(uid, sizes) for uid, sizes in (("x", X), ("y", Y), ("w", W))),
            spacing("PRE_PADDINGS", [2, 2]),
            spacing("POST_PADDINGS", [after, after]),
            spacing("FILTER_STRIDES", [1, 1]),
            spacing("DILATIONS", [1, 1]),
            backend(f"OPERATION_CONVOLUTION_{kind}", []),
        ]
    )


@pytest.mark.parametrize(
    ("kind", "direction"), [("FORWARD", "forward"), ("BACKWARD_DATA", "dgrad"), ("BACKWARD_FILTER", "wgrad")]
)
def test_a_graph_of_the_c_api(kind: str, direction: str) -> None:
    assert convolutions(operation(kind)) == [Conv(16, 96, 27, 27, 256, 5, 5, pad=2, direction=direction)]


def test_padding_after_an_image_is_its_own_there() -> None:
    sides = {"pad_top": 2, "pad_left": 2, "pad_bottom": 1, "pad_right": 1}
    assert convolutions(operation(after=1)) == [Conv(16, 96, 27, 27, 256, 5, 5, **sides)]


def test_executions_of_a_graph_are_counted_but_not_told_apart() -> None:
    execute = "I! CuDNN (v91200 46) function cudnnBackendExecute() called:\ni!     handle: type=cudnnHandle_t;\n"
    log = read(operation() + "\n" + execute * 5)
    assert log.of(Conv) == {LAYER: Calls(1, None)}
    assert log.beside(Conv) == {"cuDNN BackendExecute (of which graph is not said)": Calls(5, None)}


def test_tensors_without_names_are_not_guessed() -> None:
    text = operation().replace(f"val={ord('x')};", "val=7;")
    assert words(text) == ["cuDNN graph with a convolution (its sizes are not understood)"]
