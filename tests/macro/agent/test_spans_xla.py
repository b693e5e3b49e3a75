"""Rows of JAX's and TensorFlow's operations in recorded programs of 784-512-256-10; a trace's tasks and threads."""

from __future__ import annotations

import json
import os
import struct
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from macro.networks.base import chain

TRACES = Path(__file__).parents[1] / "traces"
BATCH = 64
LAYERS = chain("x", "", 1, (784, 512, 256, 10), 0.1).plan()["layers"]
LATER = LAYERS[1:]
PRODUCTS = {f"{layer['name']} {what}" for layer in LAYERS for what in ("forward", "wgrad")} | {
    f"{layer['name']} dgrad" for layer in LATER
}
MICROSECOND = 1_000_000  # picoseconds


pytestmark = pytest.mark.usefixtures("beside")


def program(framework: str) -> dict[str, tuple[list[str], str | None]]:
    """Rows and column of every instruction that runs, by name."""
    import hlo  # type: ignore[import-not-found]

    text = (TRACES / f"{framework}.hlo").read_text()
    if "jax" in framework:
        import jax_trace  # type: ignore[import-not-found]

        told = hlo.rows(text, lambda one: jax_trace.row(one, LAYERS, BATCH, "keras" in framework))
    else:
        import tf_rows  # type: ignore[import-not-found]

        told = hlo.rows(text, lambda one: tf_rows.row(one.op_name, LAYERS))
    main = list(hlo.computations(text).values())[-1]
    return {name: told[name] for name in main if main[name].opcode not in hlo.FREE - {"copy"}}


@pytest.mark.parametrize("framework", ["jax", "tensorflow"])
def test_every_instruction_of_a_program_has_its_rows(framework: str) -> None:
    told = program(framework)
    assert all(rows for rows, _ in told.values())
    alone = {rows[0] for rows, column in told.values() if len(rows) == 1 and column == "gemm"}
    assert alone == PRODUCTS
    assert {rows[0] for rows, column in told.values() if column == "update"} == {
        f"{layer['name']} update" for layer in LAYERS
    }
    assert {tuple(rows) for name, (rows, _) in told.items() if name.startswith("copy.")} == {("parameter copy",)}
    assert (["fc1 activation", "fc1 forward"], "element-wise") in told.values()  # the bias and the sigmoid
    assert (["fc2 activation gradient"], "element-wise") in told.values()
    assert (["loss"], "softmax") in told.values()
    assert not [rows for rows, _ in told.values() if len(rows) > 2]


def test_a_program_of_keras_has_the_same_rows() -> None:
    """Its layers' scopes hold their activations, its loss has parts, and its metrics have no scope at all."""
    told = program("keras-jax")
    every = {row for rows, _ in told.values() for row in rows}
    assert every >= PRODUCTS | {f"{layer['name']} update" for layer in LAYERS} | {"loss", "parameter copy"}
    alone = {rows[0] for rows, column in told.values() if len(rows) == 1 and column == "gemm"}
    assert alone == PRODUCTS
    assert (["fc1 activation", "fc1 forward"], "element-wise") in told.values()
    assert (["fc1 activation gradient"], "element-wise") in told.values()
    assert (["fc1 bias gradient"], "reduction") in told.values()
    assert (["loss"], "softmax") in told.values()


def test_the_name_of_a_program_is_no_scope() -> None:
    """A function called `loss`, or as a layer is."""
    import jax_trace

    def told(op_name: str) -> str | None:
        one = SimpleNamespace(op_name=op_name, opcode="add")
        return jax_trace.row(one, LAYERS, BATCH)  # type: ignore[no-any-return]

    assert told("jit(loss)/jvp(fc1)/dot_general") == "fc1 forward"
    assert told("jit(fc1)/copy") is None
    assert told("jit(f)/loss/sub") == "loss"


def test_what_is_free_in_a_fusion_merges_no_rows() -> None:
    """A reduction with the update's constant in it is the bias gradient alone; with its sum it is both."""
    import hlo
    import jax_trace

    text = """HloModule m
%f () {{
  %p = f32[64,512]{{1,0}} parameter(0)
  %c = f32[] constant(0.9), metadata={{op_name="jit(f)/fc1 update/mul"}}
  %b = f32[512]{{0}} broadcast(%c), dimensions={{}}, metadata={{op_name="jit(f)/fc1 update/mul"}}
  {root}%r = f32[512]{{0}} reduce(%p, %c), to_apply=%g, metadata={{op_name="jit(f)/transpose(jvp(fc1))/reduce_sum"}}
{more}}}
ENTRY %main () {{
  %x = f32[64,512]{{1,0}} parameter(0)
  ROOT %fusion = f32[512]{{0}} fusion(%x), kind=kLoop, calls=%f
}}
"""
    more = '  ROOT %a = f32[512]{0} add(%r, %b), metadata={op_name="jit(f)/fc1 update/add"}\n'
    for more_, wanted in (("", ["fc1 bias gradient"]), (more, ["fc1 bias gradient", "fc1 update"])):
        text_ = text.format(root="" if more_ else "ROOT ", more=more_)
        rows, column = hlo.rows(text_, lambda one: jax_trace.row(one, LAYERS, BATCH))["fusion"]
        assert (rows, column) == (wanted, "reduction")


def test_products_of_a_backward_pass_by_shape_and_by_what_they_sum() -> None:
    import hlo

    def dot(shape: str, left: str, dims: str) -> Any:
        text = f"%c () {{\n  %a = f32[{left}]{{1,0}} parameter(0)\n  %b = f32[9,9]{{1,0}} parameter(1)\n"
        text += f"  ROOT %d = f32[{shape}]{{1,0}} dot(%a, %b), lhs_contracting_dims={{{dims}}}\n}}\n"
        return hlo.computations(text)["c"]["d"]

    assert hlo.product(LATER[0], dot("64,512", "64,256", "1"), BATCH) == "dgrad"
    assert hlo.product(LATER[0], dot("512,256", "64,512", "0"), BATCH) == "wgrad"
    assert hlo.product(LATER[0], dot("256,512", "64,256", "0"), BATCH) == "wgrad"
    square = {"name": "fc2", "kind": "dense", "inputs": 64, "outputs": 64}
    assert hlo.product(square, dot("64,64", "64,64", "0"), BATCH) == "wgrad"
    assert hlo.product(square, dot("64,64", "64,64", "1"), BATCH) == "dgrad"


def test_operations_of_a_graph_by_their_names() -> None:
    import tf_rows

    told = {}
    for event in json.loads((TRACES / "tensorflow-graph.json").read_text()):
        what = tf_rows.operation(event, {})
        told[event] = tf_rows.tell({}, LAYERS, what)
    assert all(rows for rows, _ in told.values())
    assert told["fc2/Sigmoid:_MklNativeFusedMatMul"] == (["fc2 activation", "fc2 forward"], None)
    assert told["gradient_tape/fc1/MatMul/MatMul:_MklMatMul"] == (["fc1 wgrad"], None)
    assert told["gradient_tape/fc2/MatMul/MatMul:_MklMatMul"] == (["fc2 dgrad"], None)
    products = [x for x in told if tf_rows.multiplies(tf_rows.operation(x, {}))]
    assert sorted(row for x in products for row in told[x][0] if "activation" not in row) == sorted(
        f"{x['name']} {role}"
        for x in LAYERS
        for role in ("forward", "wgrad", "dgrad")
        if x is not LAYERS[0] or role != "dgrad"
    )
    assert told["gradient_tape/fc2/MatMul/MatMul_1:_MklMatMul"] == (["fc2 wgrad"], None)
    assert told["Momentum/update__3/ResourceApplyMomentum:ResourceApplyMomentum"] == (["fc2 update"], "update")
    assert told["gradient_tape/fc1/BiasAdd/BiasAddGrad:BiasAddGrad"] == (["fc1 bias gradient"], "reduction")
    assert tf_rows.operation("ExecutorState::Process", {}) is None
    assert tf_rows.operation("__inference__step_224:__inference__step_224", {}) is None
    assert tf_rows.module("a_inference__step_2__XlaMustCompile_true_executor_type_11_.9") == ("a_inference__step_2__.9")


def test_operations_of_a_graph_of_keras_by_their_names() -> None:
    """A model's scope is around its layers'; scopes entered twice are counted; updates are single operations."""
    import tf_rows

    told = {}
    for event in json.loads((TRACES / "keras-tensorflow.json").read_text()):
        told[event] = tf_rows.tell({}, LAYERS, tf_rows.operation(event, {}))
    assert all(rows for rows, _ in told.values())
    assert told["sequential_1/fc1_1/Sigmoid:_MklNativeFusedMatMul"] == (["fc1 activation", "fc1 forward"], None)
    assert told["gradient_tape/sequential_1/fc2_1/MatMul/MatMul_1:_MklMatMul"] == (["fc2 wgrad"], None)
    assert told["gradient_tape/sequential_1/fc2_1/MatMul/MatMul:_MklMatMul"] == (["fc2 dgrad"], None)
    assert told["gradient_tape/sequential_1/fc1_1/MatMul/MatMul:_MklMatMul"] == (["fc1 wgrad"], None)
    assert told["gradient_tape/sequential_1/fc1_1/Sigmoid/SigmoidGrad:SigmoidGrad"] == (
        ["fc1 activation gradient"],
        "element-wise",
    )
    assert told["sgd/fc2.update_1/Mul_1:Mul"] == (["fc2 update"], "update")
    assert told["sgd/fc2.update/AssignAddVariableOp:AssignAddVariableOp"] == (["fc2 update"], "update")
    assert told["compile_loss/sparse_categorical_crossentropy/Sum:Sum"] == (["loss"], "softmax")
    assert told["div_no_nan:DivNoNan"] == (["framework"], None)  # a metric


def test_a_layer_whose_name_ends_in_a_number_is_itself() -> None:
    import tf_rows

    layers = [dict(layer, name=f"fc_{i}") for i, layer in enumerate(LAYERS, 1)]
    assert tf_rows.rows("sequential/fc_2/MatMul", "MatMul", layers) == ["fc_2 forward"]
    assert tf_rows.rows("sequential_1/fc_2_1/MatMul", "MatMul", layers) == ["fc_2 forward"]


@pytest.mark.parametrize("shapes", [True, False])
@pytest.mark.parametrize("phase", ["step", "gradient", "forward"])
def test_eager_operations_by_shape_and_order(phase: str, shapes: bool) -> None:
    import tf_rows

    calls = json.loads((TRACES / "tensorflow-eager.json").read_text())
    end = {"step": len(calls), "gradient": -2 * len(LAYERS), "forward": [x[0] for x in calls].index("Shape")}
    calls = [(kind, tuple(shape) if shape and shapes else None) for kind, shape in calls][: end[phase]]
    told = tf_rows.in_order(2 * calls, LAYERS, BATCH)
    assert told[: len(calls)] == told[len(calls) :]  # a step begins where the last ended
    products = [rows[0] for (kind, _), rows in zip(calls, told, strict=False) if kind == "MatMul"]
    forward = ["fc1 forward", "fc2 forward", "out forward"]
    backward = ["out dgrad", "out wgrad", "fc2 dgrad", "fc2 wgrad", "fc1 wgrad"]
    assert products == (forward if phase == "forward" else forward + backward)
    rows = [row for rows in told[: len(calls)] for row in rows]
    assert ("loss" in rows) == (phase != "forward")
    assert rows.count("fc2 update") == (2 if phase == "step" else 0)
    assert rows.count("fc1 activation gradient") == (phase != "forward")


def test_the_shape_goes_before_the_order() -> None:
    import tf_rows

    calls = [("MatMul", None)] * 3 + [("BiasAddGrad", None), ("MatMul", (256, 10)), ("MatMul", (64, 256))]
    assert tf_rows.in_order(calls, LAYERS, BATCH)[-2:] == [["out wgrad"], ["out dgrad"]]


def varint(value: int) -> bytes:
    told = b""
    while value > 127:
        told, value = told + bytes([value & 127 | 128]), value >> 7
    return told + bytes([value])


def message(*fields: tuple[int, int | bytes | str | float]) -> bytes:
    """Of protobuf's wire."""
    told = b""
    for number, value in fields:
        if isinstance(value, float):
            told += varint(number << 3 | 1) + struct.pack("<d", value)
        elif isinstance(value, int):
            told += varint(number << 3) + varint(value)
        else:
            data = value.encode() if isinstance(value, str) else value
            told += varint(number << 3 | 2) + varint(len(data)) + data
    return told


def recorded(threads: dict[int, list[tuple[str, int, int, dict[str, int]]]]) -> bytes:
    """An xplane file of events (name, start, microseconds it took, numbers) by thread, each line's clock at 5 µs."""
    names = sorted({name for events in threads.values() for name, _, _, _ in events})
    kinds = ["_p", "_c", "hlo_op"]
    lines = []
    for thread, events in threads.items():
        own = []
        for name, start, took, numbers in events:
            stats = [(4, message((1, kinds.index(k)), (3, v))) for k, v in numbers.items()]
            if name.startswith("op"):
                stats.append((4, message((1, 2), (5, name))))
            own.append((4, message((1, names.index(name)), (2, start * MICROSECOND), (3, took * MICROSECOND), *stats)))
        lines.append((3, message((1, thread), (2, "tf_Compute"), (3, 5000), *own)))
    entries = [(4, message((1, i), (2, message((1, i), (2, name))))) for i, name in enumerate(names)]
    entries += [(5, message((1, i), (2, message((1, i), (2, name))))) for i, name in enumerate(kinds)]
    return message((1, message((2, "/host:CPU"), *lines, *entries)))


def test_tasks_of_a_pool_belong_to_the_operation_that_made_them() -> None:
    """Tasks on another thread, the second made by the first and ended by the next operation; one made by none."""
    import xplane  # type: ignore[import-not-found]

    pool = xplane.POOL
    data = recorded(
        {
            1: [("op one", 10, 20, {}), (f"{pool}Record", 12, 0, {"_p": 1}), (f"{pool}Record", 31, 0, {"_p": 3})],
            2: [
                (f"{pool}StartRegion", 40, 0, {"_c": 1}),
                (f"{pool}Record", 45, 0, {"_p": 2}),
                (f"{pool}StopRegion", 50, 0, {}),
                (f"{pool}StartRegion", 60, 0, {"_c": 2}),
                ("op two", 70, 5, {}),
                (f"{pool}StopRegion", 80, 0, {}),
                (f"{pool}StartRegion", 90, 0, {"_c": 3}),
                (f"{pool}StopRegion", 95, 0, {}),
            ],
        }
    )
    traced = list(xplane.lines(data))
    found = xplane.spans(traced, lambda name, stats: stats.get("hlo_op"))
    assert sorted((thread, start / 1e3 - 5, end / 1e3 - 5, *rest) for thread, start, end, *rest in found) == [
        (1, 10, 30, "op one", False),
        (2, 40, 50, "op one", True),
        (2, 60, 70, "op one", True),
        (2, 70, 75, "op two", False),
    ]


def test_a_task_that_outlives_its_operation_helps_the_only_other_one() -> None:
    """XLA says when an operation has ended; a pool's worker may go on with the next one's work by then."""
    import xplane

    pool = xplane.POOL
    data = recorded(
        {
            1: [
                ("op one", 10, 10, {"_p": 7}),
                (f"{pool}Record", 12, 0, {"_p": 1}),
                ("end: op one", 20, 0, {"_c": 7}),
                ("op two", 25, 30, {"_p": 8}),
                ("end: op two", 55, 0, {"_c": 8}),
            ],
            2: [(f"{pool}StartRegion", 15, 0, {"_c": 1}), (f"{pool}StopRegion", 60, 0, {})],
        }
    )
    found = xplane.spans(list(xplane.lines(data)), lambda name, stats: stats.get("hlo_op"))
    assert sorted((start / 1e3 - 5, end / 1e3 - 5, *rest) for thread, start, end, *rest in found if thread == 2) == [
        (15, 20, "op one", True),
        (25, 55, "op two", True),
    ]


def test_spans_are_on_the_monotonic_clock() -> None:
    import recorder  # type: ignore[import-not-found]
    import xplane

    data = recorded({7: [(recorder.CALIBRATE, 0, 2000, {}), ("op one", 3000, 10, {})]})
    found = xplane.spans(list(xplane.lines(data)), lambda name, stats: stats.get("hlo_op", name))
    tell = lambda what: (["fc1 forward"], None)  # noqa: E731
    (span,) = xplane.named(found, 1_000_000, tell, lambda what: False)
    assert span == {"start": 4_000_000, "end": 4_010_000, "name": "op one", "rows": ["fc1 forward"], "column": None}
    (span,) = xplane.named(found, 1_000_000, tell, lambda what: what == "op one")
    assert span["product"] == 1.0
    found = [(*one[:4], True) for one in found]
    (span,) = xplane.named(found, 1_000_000, tell, lambda what: True)
    assert span["part"] is True and "product" not in span  # counted with what it helps


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="clocks of threads as Linux makes them")
def test_a_thread_of_a_trace_is_told_by_its_hash() -> None:
    import xplane

    def murmur(key: int) -> int:
        """MurmurHash64A of eight bytes, as std::hash<std::thread::id> in libstdc++."""
        times, bits = 0xC6A4A7935BD1E995, xplane.BITS
        key = key * times & bits
        key = (key ^ key >> 47) * times & bits
        told = ((xplane.SEED ^ xplane.EIGHT) ^ key) * times & bits
        told = (told ^ told >> 47) * times & bits
        return told ^ told >> 47

    assert murmur(140436123179904) == 8438664393510230067  # as jaxlib 0.10.2 wrote it
    assert xplane.system_thread(murmur(threading.get_ident())) == threading.get_native_id()
    assert xplane.system_thread(murmur(1 << 46)) is None


def test_threads_that_run_programs_have_a_span_around_all_others() -> None:
    import jax_trace

    wait = threading.Event()
    thread = threading.Thread(target=wait.wait)
    thread.start()
    try:
        spans = jax_trace._runtime([{"start": 5, "end": 7}, {"start": 3, "end": 6}])
    finally:
        wait.set()
        thread.join()
    by_thread = {span["thread"]: span for span in spans}
    assert thread.native_id in by_thread and os.getpid() not in by_thread
    span = by_thread[thread.native_id]
    assert (span["start"], span["end"], span["rows"], span["background"]) == (3, 7, ["framework"], True)
    assert jax_trace._runtime([]) == []
