"""Kinds and amounts of operations: of calls made by hand, and of models against PyTorch's own count of FLOP."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kernels.ops.conv.problem import Conv
from kernels.ops.gemm.problem import Gemm
from macro.explaining.called import LOW_RANK
from macro.explaining.kinds import OPERATIONS, TABLES, known, of_operation
from macro.explaining.modules import MODULE, NODE
from macro.explaining.operation_call import Amount, Call
from macro.explaining.operation_work import Work, alone, amount, precision, work_of
from macro.watching.recording import Called, Event

KINDS = json.loads(Path(__file__).with_name("kinds.json").read_text("utf-8"))
BIG, ALL = (64, 100), 25600  # a tensor, and its bytes
IMAGE, FILTERS, RESULT = (4, 6, 9, 11), (8, 3, 3, 5), (4, 8, 5, 5)  # two groups
SETTINGS = ([1, 1], [2, 2], [1, 1], 2)


def call(name: str, *inputs: Any, types: Mapping[int, str] | None = None, strides: Any = ()) -> Call:
    """Of inputs as they are: a tensor's shape as a tuple, a list of tensors as a list of tuples, else a value."""
    told = []
    for i, x in enumerate(inputs):
        if isinstance(x, tuple):
            told.append(([*x], (types or {}).get(i, "float"), None))
        elif isinstance(x, list) and x and isinstance(x[0], tuple):
            told.append(([[*one] for one in x], "TensorList", None))
        else:
            told.append(([], "" if x is None else "ScalarList" if isinstance(x, list) else "Scalar", x))
    shapes, of, arguments = zip(*told, strict=True) if told else ((), (), ())
    return Call(name if ":" in name else f"aten::{name}", shapes, of, arguments, strides)


@pytest.mark.parametrize(
    ("of", "dtype"),
    [
        (call("mm", (3, 4), (4, 5), types={0: "c10::BFloat16", 1: "c10::BFloat16"}), "bfloat16"),
        (call("addmm", (5,), (3, 4), (4, 5), types={1: "double", 2: "double"}), "float64"),
        (call("onednn::qlinear_pointwise", (3, 4), 1.0, 0, (4, 5), types={0: "unsigned char"}), "int8"),
        (call("mkldnn_convolution", IMAGE, FILTERS, types={0: "c10::Half"}), "float16"),
        (call("bmm", (2, 3, 4), (2, 4, 5), types={0: "c10::complex<float>"}), "complex<float>"),
    ],
    ids=lambda x: "" if isinstance(x, Call) else x,
)
def test_a_product_is_computed_in_the_type_of_its_factors(of: Call, dtype: str) -> None:
    assert precision(of) == dtype


def test_no_name_has_two_kinds() -> None:
    assert len(OPERATIONS) == sum(len(names.split()) for names in TABLES["operations"].values()) > 400


@pytest.mark.parametrize(("name", "of"), KINDS["operation of PyTorch, kind"])
def test_a_leaf_has_a_kind(name: str, of: str) -> None:
    assert (of_operation(name), known(name)) == (of, True)


@pytest.mark.parametrize(
    "name", ["linear", "conv2d", "_convolution", "dropout", "to", "_to_copy", "zeros", "fft_rfft", "slice_backward"]
)
def test_a_composite_is_known_and_has_no_kind(name: str) -> None:
    assert (of_operation(f"aten::{name}"), known(f"aten::{name}")) == (None, True)
    assert amount(call(name, BIG, BIG)) is None


@pytest.mark.parametrize("name", ["aten::no_such_thing", "mine::mm", "aten::no_such_thing_backward", "linear"])
def test_another_name_is_unknown(name: str) -> None:
    assert (of_operation(name), known(name), amount(call(name, BIG))) == (None, False, None)


def test_a_node_of_autograd_is_no_operation_of_its_own() -> None:
    for name in ("AddmmBackward0", "autograd::engine::evaluate_function: AddmmBackward0"):
        assert (of_operation(name), known(name)) == (None, True)


PRODUCTS: list[tuple[Call, float, float]] = [
    (call("mm", (3, 4), (4, 5)), 120, 4 * (12 + 20 + 15)),
    (call("addmm", (5,), (3, 4), (4, 5), 1, 1), 120, 4 * (12 + 20 + 15)),
    (call("bmm", (2, 3, 4), (2, 4, 5)), 240, 4 * 2 * (12 + 20 + 15)),
    (call("addbmm", (3, 5), (2, 3, 4), (2, 4, 5), 1, 1), 240, 4 * (24 + 40 + 15)),
    (call("addmv_", (3,), (3, 4), (4,), 1, 1), 24, 4 * (12 + 4 + 3)),
    (call("mm", (3, 4), (4, 5), types={0: "c10::BFloat16", 1: "c10::BFloat16"}), 120, 2 * (12 + 20 + 15)),
    (call("mm", (3, 4), (4, 5), strides=([0, 1], [5, 1])), 120, 4 * (4 + 20 + 15)),
    (call("mkldnn::_linear_pointwise", (2, 3, 4), (5, 4), (5,), "none", [], ""), 240, 4 * (24 + 20 + 30)),
    (call("mkldnn::_linear_pointwise", (6, 4), (6, 5), (5, 4), (5,), "add"), 240, 4 * (24 + 20 + 30)),
    (call("mkldnn_convolution", IMAGE, FILTERS, (8,), *SETTINGS), 2 * 4 * 25 * 360, 4 * (2376 + 360 + 800)),
    (call("mkldnn_convolution", (4, 6, 9), (8, 6, 3), (8,), [1], [1], [2], 1), 2 * 4 * 7 * 144, 4 * (216 + 144 + 224)),
    (
        call("mkldnn::_convolution_pointwise", IMAGE, RESULT, FILTERS, (8,), *SETTINGS, "add"),
        2 * 4 * 25 * 360,
        4 * (2376 + 360 + 800),
    ),
    (
        call("_scaled_dot_product_flash_attention_for_cpu", (2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4), 0.0, False),
        4 * 2 * 3 * 5 * 7 * 4,
        4 * 6 * (20 + 28 + 28 + 20),
    ),
    (
        call(
            "_scaled_dot_product_flash_attention_for_cpu_backward", *[(2, 3, 5, 4)] * 2, *[(2, 3, 7, 4)] * 2, 0.0, False
        ),
        10 * 2 * 3 * 5 * 7 * 4,
        2 * 4 * 6 * (20 + 28 + 28 + 20),
    ),
]


@pytest.mark.parametrize(("of", "flops", "size"), PRODUCTS, ids=lambda x: x.name if isinstance(x, Call) else "")
def test_work_of_products(of: Call, flops: float, size: float) -> None:
    assert amount(of) == Amount(flops, size)


@pytest.mark.parametrize(
    ("mask", "times"), [([True, True, True], 2), ([False, True, True], 1), ([True, False, False], 1)]
)
def test_a_convolution_backward_is_as_many_as_are_wanted(mask: list[bool], times: int) -> None:
    back = call("convolution_backward", RESULT, IMAGE, FILTERS, [8], [2, 2], [1, 1], [1, 1], False, [0, 0], 2, mask)
    assert amount(back) == Amount(times * 2 * 4 * 25 * 360, times * 4 * (2376 + 360 + 800))
    told = alone(back)
    assert told is not None and told[1]["direction"] == ("dgrad" if mask[0] else "wgrad")
    assert Conv(**told[1]).flops == 2 * 4 * 25 * 360


def test_a_recurrent_layer_is_all_its_steps() -> None:
    weights = ((20, 6), (20, 5), (20,), (20,))
    layer = call("mkldnn_rnn_layer", (7, 3, 6), *weights, (3, 5), (3, 5), False, [], 2, 5, 1, True, False, False, True)
    flops, size = 2 * 7 * 3 * 20 * 11, 4 * (126 + 120 + 100 + 40 + 21 * (5 + 20))
    assert amount(layer) == Amount(flops, size)
    back = Call("aten::mkldnn_rnn_layer_backward", layer.shapes, layer.types, layer.arguments)
    assert amount(back) == Amount(2 * flops, 2 * size)


PARAMETERS = [(3, 4), (5,)]
PASSES: list[tuple[Call, float]] = [
    (call("add", BIG, (100,), 1), 2 * ALL + 400),
    (call("add_", BIG, BIG, 1), 3 * ALL),
    (call("mul", BIG, (64, 1), strides=([0, 0], [1, 1])), ALL + 256 + 4),
    (call("eq", BIG, 0), ALL + 6400),
    (call("where", BIG, BIG, (), types={0: "bool"}), 6400 + 2 * ALL + 4),
    (call("glu", BIG, -1), 1.5 * ALL),
    (call("_foreach_mul_", PARAMETERS, 0.9), 2 * 68),
    (call("_foreach_addcmul_", PARAMETERS, PARAMETERS, PARAMETERS, 0.1), 4 * 68),
    (call("sum", BIG, [1], True, None), ALL),
    (call("cumsum", BIG, 1, None), 2 * ALL),
    (call("copy_", BIG, BIG, False, types={0: "c10::BFloat16"}), 1.5 * ALL),
    (call("cat", [BIG, BIG], 0), 4 * ALL),
    (call("index_select", BIG, 0, (3,), types={2: "long int"}), 3 * 8 + 2 * 3 * 400),
    (call("gather", BIG, 1, (64, 2), False, types={2: "long int"}), 128 * 8 + 2 * 128 * 4),
    (call("scatter_add_", BIG, 1, (64, 2), (64, 2), types={2: "long int"}), 128 * 8 + 2 * 128 * 4),
    (call("zero_", BIG), ALL),
    (call("normal_", BIG, 0.0, 1.0, None), ALL),
    (call("to_mkldnn", BIG, None), 2 * ALL),
    (call("quantize_per_tensor", BIG, 0.1, 0, 12), 1.25 * ALL),
    (call("dequantize", BIG, types={0: "c10::qint8"}), 5 * 6400),
    (call("native_layer_norm", BIG, [100], (100,), (100,), 1e-5), 3 * ALL),
    (call("native_layer_norm_backward", BIG, BIG, [100], (64, 1), (64, 1), (100,), (100,)), 4 * ALL),
    (call("native_batch_norm", IMAGE, (6,), (6,), (6,), (6,), False, 0.1, 1e-5), 2 * 4 * 2376),
    (call("native_batch_norm", IMAGE, (6,), (6,), (6,), (6,), True, 0.1, 1e-5), 3 * 4 * 2376),
    (call("_softmax", BIG, 1, False), 2 * ALL),
    (call("_log_softmax_backward_data", BIG, BIG, 1, 6), 3 * ALL),
    (call("nll_loss_forward", BIG, (64,), None, 1, -100, types={1: "long int"}), 64 * 12),
    (call("nll_loss_backward", (), BIG, (64,), None, 1, -100, (), types={2: "long int"}), 64 * 8 + ALL),
    (call("embedding", BIG, (2, 3), -1, False, False, types={1: "long int"}), 2 * 6 * 400),
    (call("embedding_dense_backward", (2, 3, 100), (2, 3), 64, -1, False, types={1: "long int"}), 2 * 6 * 400 + ALL),
    (call("max_pool2d_with_indices", IMAGE, [2, 2], [], [0, 0], [1, 1], False), 4 * 2376 + 24 * 20 * 12),
    (call("max_pool2d_with_indices", IMAGE, [2, 2], [2, 2], [0, 0], [1, 1], True), 4 * 2376 + 24 * 30 * 12),
    (call("avg_pool2d", IMAGE, [3, 3], [4, 4], [1, 1], True, True, None), 4 * (2376 + 24 * 9)),
    (call("_adaptive_avg_pool2d", IMAGE, [3, 2]), 4 * (2376 + 24 * 6)),
    (call("upsample_nearest2d_backward", (1, 2, 8, 8), [8, 8], [1, 2, 4, 4], None, None), 4 * (128 + 32)),
    (call("_fused_adam_", *[PARAMETERS] * 4, [], [(), ()], 1e-3), 7 * 68),
    (call("_fused_adamw_", *[PARAMETERS] * 5, [(), ()], 1e-3), 9 * 68),
    (call("_fused_sgd_", *[PARAMETERS] * 2, [], 0.0, 0.0, 0.1), 3 * 68),
    (call("_fused_sgd_", *[PARAMETERS] * 3, 0.0, 0.9, 0.1), 5 * 68),
    (call("view", BIG, [6400]), 0),
]


@pytest.mark.parametrize(("of", "size"), PASSES, ids=lambda x: x.name if isinstance(x, Call) else "")
def test_passes_have_bytes_alone(of: Call, size: float) -> None:
    assert amount(of) == Amount(0.0, size)


def test_what_was_recorded_without_shapes_has_no_amount() -> None:
    for name in ("mm", "mkldnn_convolution", "add", "sum", "embedding", "copy_", "index", "arange", "randn"):
        assert amount(call(name)) is None
    assert amount(call("index", BIG, None)) is None  # no index's shape is told
    assert amount(call("arange", 64)) is None


@pytest.mark.parametrize(
    ("of", "options"),
    [
        (call("mm", (3, 4), (4, 5)), {}),
        (call("mm", (3, 4), (4, 5), strides=([4, 1], [5, 1])), {"trans": "nn"}),
        (call("addmm", (5,), (3, 4), (4, 5), 1, 1, strides=([1], [4, 1], [1, 4], [], [])), {"trans": "nt"}),
        (call("mm", (3, 4), (4, 5), strides=([1, 3], [5, 1])), {"trans": "tn"}),
        (call("mm", (3, 4), (4, 5), strides=([1, 3], [1, 4])), {"trans": "tt"}),
        (call("mm", (3, 4), (4, 5), types={0: "c10::BFloat16", 1: "c10::BFloat16"}), {"dtype": "bf16"}),
        (call("mkldnn::_linear_pointwise", (1, 3, 4), (5, 4), (5,), "none", [], ""), {"trans": "nt"}),
    ],
)
def test_a_product_alone_is_one_of_micros(of: Call, options: dict[str, Any]) -> None:
    assert alone(of) == ("gemm", {"m": 3, "n": 5, "k": 4} | options)
    assert amount(of) == Amount(Gemm(m=3, n=5, k=4, **options).flops, Gemm(m=3, n=5, k=4, **options).bytes)


def test_a_row_times_a_matrix_is_not_transposed_for_its_strides() -> None:
    told = alone(call("mm", (1, 4), (4, 1), strides=([1, 1], [1, 1])))
    assert told is not None and told[1]["trans"] == "nn"


@pytest.mark.parametrize(
    ("of", "options"),
    [
        (call("mkldnn_convolution", IMAGE, FILTERS, (8,), *SETTINGS), {"stride": 2, "pad": 1, "groups": 2}),
        (call("mkldnn_convolution", IMAGE, FILTERS, None, [0, 2], [1, 1], [2, 2], 2), {"pad_left": 2, "dilation": 2}),
        (
            call("mkldnn_convolution", (4, 6, 9), (8, 3, 3), None, [1], [2], [2], 2),
            {"h": 1, "stride": 2, "pad_right": 1},
        ),
        (
            call("mkldnn_convolution", (4, 6, 1, 9), (8, 6, 1, 3), None, [0, 0], [1, 2], [1, 2], 1),
            {"stride": 2, "r": 1},
        ),
        (
            call("mkldnn_convolution", IMAGE, FILTERS, None, *SETTINGS, strides=([594, 1, 66, 6], *[[]] * 6)),
            {"layout": "nhwc"},
        ),
        (call("mkldnn_convolution", (4, 6, 1, 1), (8, 6, 1, 1), None, [0, 0], [2, 2], [1, 1], 1), {"stride": 2}),
        (call("_slow_conv2d_forward", IMAGE, (8, 6, 3, 5), [3, 5], None, [2, 2], [1, 1]), {"groups": 1, "stride": 2}),
    ],
)
def test_a_convolution_alone_is_one_of_micros(of: Call, options: dict[str, Any]) -> None:
    name, told = alone(of) or ("", {})
    assert name == "conv" and told | options == told
    assert ("layout" in told) == ("layout" in options)
    problem = Conv(**told)
    assert amount(of) == Amount(problem.flops, problem.bytes)


@pytest.mark.parametrize(
    "of",
    [
        call("bmm", (2, 3, 4), (2, 4, 5)),
        call("mm", (3, 4), (4, 5), types={0: "double", 1: "double"}),
        call("mm", (0, 4), (4, 5)),
        call("mkldnn_convolution", IMAGE, FILTERS, None, [1, 1], [2, 1], [1, 1], 2),
        call("mkldnn_convolution", IMAGE, FILTERS, None, [1, 1], [1, 1], [2, 1], 2),
        call("mkldnn_convolution", IMAGE, FILTERS, None, *SETTINGS, types={0: "double", 1: "double"}),
        call("mkldnn_convolution", (1, 6, 4, 9), (8, 6, 3, 3), None, [0, 0], [2, 1], [1, 1], 1),
        call("mkldnn_convolution", (1, 6, 9, 9), (8, 6, 1, 1), None, [0, 0], [4, 3], [1, 1], 1),  # as many, elsewhere
        call("mkldnn_convolution", (1, 2, 5, 5, 5), (4, 2, 3, 3, 3), None, [0] * 3, [1] * 3, [1] * 3, 1),
        call("convolution_overrideable", IMAGE, FILTERS, None, [2, 2], [1, 1], [1, 1], True, [0, 0], 2),
        call("add", BIG, BIG, 1),
    ],
    ids=lambda x: x.name,
)
def test_what_micro_does_not_have_is_not_measured_alone(of: Call) -> None:
    assert alone(of) is None


def step(torch: Any, model: str) -> Callable[[], None]:
    """Forward and backward pass of a small model."""
    nn, x = torch.nn, torch.randn(4, 3, 16, 14)
    loss, truth = nn.CrossEntropyLoss(), torch.randint(5, (4,))
    convolutions = [nn.Conv2d(3, 8, (3, 5), stride=2, padding=1), nn.Conv2d(8, 8, 3, padding=2, dilation=2)]
    middle = [nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2, ceil_mode=True)]
    cnn = nn.Sequential(
        convolutions[0], *middle, convolutions[1], nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5)
    )
    mlp = nn.Sequential(
        nn.Flatten(), nn.Linear(672, 32), nn.GELU(), nn.Linear(32, 16), nn.Dropout(0.1), nn.Linear(16, 5)
    )
    encoder = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    lstm, words = nn.LSTM(6, 5, 2), torch.randn(7, 3, 6)
    update = torch.optim.AdamW(mlp.parameters(), fused=True).step
    return {
        "cnn": lambda: loss(cnn(x), truth).backward(),
        "mlp": lambda: (loss(mlp(x), truth).backward(), update())[1],
        "encoder": lambda: encoder(torch.randn(2, 7, 16)).sum().backward(),
        "lstm": lambda: lstm(words)[0].sum().backward(),
    }[model]


def calls(torch: Any, work: Callable[[], None]) -> list[tuple[int, Call]]:
    """Of each event how many are around it, and the call."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True) as profiler:
        work()
    events = profiler.profiler.kineto_results.events()
    told: list[tuple[int, Call]] = []
    ends: list[int] = []
    for e in sorted(events, key=lambda e: (e.start_thread_id(), e.start_ns(), -e.end_ns())):
        ends = [end for end in ends if end >= e.end_ns()]
        inputs = e.structured_input_shapes(), e.dtypes(), e.concrete_inputs(), e.structured_input_strides()
        told.append((len(ends), Call(e.name(), *inputs)))
        ends.append(e.end_ns())
    return told


def outermost(told: list[tuple[int, Call]]) -> float:
    """FLOP of calls that lie in none that is counted."""
    total, inside = 0.0, None
    for depth, one in told:
        inside = None if inside is not None and depth <= inside else inside
        work = amount(one) if inside is None else None
        if work and work.flops:
            total, inside = total + work.flops, depth
    return total


@pytest.mark.parametrize("model", ["cnn", "mlp", "encoder", "lstm"])
def test_pytorch_counts_the_same_and_calls_nothing_unknown(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KINETO_LOG_LEVEL", "6")
    torch = pytest.importorskip("torch", reason="no torch: pip install torch")
    torch.set_num_threads(1)  # its pool's threads would spin in tests of what a process takes
    from torch.utils.flop_counter import FlopCounterMode

    work = step(torch, model)
    with FlopCounterMode(display=False) as counter:
        work()
    told = calls(torch, work)
    assert [one.name for _, one in told if not known(one.name)] == []
    # The counter leaves out what is fused on a CPU: attention, two products and five for the gradients; recurrent
    # layers, here two, and twice for the gradients. Of a convolution with groups it counts too much, so there is none.
    fused = {"_scaled_dot_product_flash_attention_for_cpu": 14 * 2 * 4 * 7 * 7 * 4}
    fused["mkldnn_rnn_layer"] = 3 * 2 * 7 * 3 * 20 * (6 + 5 + 5 + 5)
    by_hand = sum(fused.get(name.removeprefix("aten::"), 0) for name in {one.name for _, one in told})
    assert outermost(told) == pytest.approx(counter.get_total_flops() + by_hand, rel=1e-4)


def test_rounded_products_are_of_bfloat16() -> None:
    typed = {(("a",), "gemm"): {"float32": 3.0, "bfloat16": 1.0}, (("a",), "convolution"): {"float32": 2.0}}
    work = Work(typed=typed)
    work.round_products()
    assert [*work.typed.values()] == [{"bfloat16": 4.0}, {"float32": 2.0}]


@pytest.mark.parametrize(
    ("rank", "weight", "rows", "inside", "there"),
    [
        (8, (256, 512), 16, MODULE, True),
        (64, (256, 512), 16, MODULE, False),
        (8, (512, 256), 16, MODULE, False),
        (8, (256, 512), 200, MODULE, False),  # multiplying by the factors would cost more
        (8, (256, 512), 16, f"{NODE}AddmmBackward0 ", False),  # a weight's gradient is such a product, too
    ],
)
def test_a_weight_of_two_thin_factors_is_known(
    rank: int, weight: tuple[int, int], rows: int, inside: str, there: bool
) -> None:
    made, used = [[256, rank], [rank, 512]], [[rows, weight[1]], [*weight], []]
    names = [("aten::linear", 0, 9, 5, used), (f"{inside}net", 10, 20, 5, []), ("aten::mm", 11, 12, -1, made)]
    names = [
        (f"{MODULE}net", 0, 9, -1, []),
        *names,
        (f"{MODULE}net", 30, 40, -1, []),
        ("aten::linear", 31, 32, 6, used),
    ]
    called = [Called(Event(name, a, b, 1, n, 1, 1), shapes, [], ["float"] * 3, []) for name, a, b, n, shapes in names]
    assert (LOW_RANK in work_of(called).places.calls) is there
