"""PyTorch's spans and recorded steps: rows of recorded event lists, and replays that move parameters as steps do."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from macro.frameworks import find
from macro.networks.base import chain
from tests.conftest import load
from tests.macro.agent.conftest import CORE, FOLDER
from tests.macro.models import asked

TRACES = Path(__file__).parents[1] / "traces"
LAYERS = ("fc1", "fc2", "fc3", "out")


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """A module of the worker's by its name, as the worker sees it: beside the loop."""
    monkeypatch.syspath_prepend(str(CORE))
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    yield lambda name: __import__(name)
    for name in set(sys.modules) - before:
        if name in ("recorder", "torch_rows", "torch_trace", "torch_record"):
            del sys.modules[name]


@pytest.fixture
def built(worker: Callable[[str], ModuleType], tmp_path: Path) -> Callable[..., tuple[ModuleType, Any]]:
    """`built(**knobs)`: the adapter, and its model of a small network."""
    pytest.importorskip("torch", reason="no torch: pip install torch")

    def build(hidden: str = "sigmoid", momentum: float = 0.9, **knobs: Any) -> tuple[ModuleType, Any]:
        network = chain("tiny", "a test", 8, (6, 8, 5, 3), 0.1, momentum, hidden=hidden)
        adapter = load(find("pytorch").path)
        return adapter, adapter.build(asked("pytorch", network, tmp_path, knobs=knobs))

    return build


def aligned(worker: Callable[[str], ModuleType], file: str) -> list[tuple[str, list[str], str | None]]:
    """Name, rows and column of each event of a kept trace."""
    kept = json.loads((TRACES / file).read_text("utf-8"))
    words = ("name", "start", "end", "sequence", "shapes")
    events = worker("torch_trace").nested([dict(zip(words, event, strict=True)) for event in kept["events"]])
    told = worker("torch_rows").align(events, kept["batch"], kept["layers"], kept["parameters"])
    return [(event["name"], *one) for event, one in zip(events, told, strict=True)]


def rows_of(told: list[tuple[str, list[str], str | None]], *names: str) -> list[str]:
    return [" + ".join(rows) for name, rows, _ in told if name in names]


def test_each_product_of_a_step_has_its_row(worker: Callable[[str], ModuleType]) -> None:
    """fc2's and fc3's gradients have all the same shapes: order alone tells them."""
    told = aligned(worker, "pytorch-plain.json")
    assert rows_of(told, "aten::addmm") == [f"{name} forward" for name in LAYERS]
    assert rows_of(told, "aten::mm") == [
        "out dgrad",
        "out wgrad",
        "fc3 dgrad",
        "fc3 wgrad",
        "fc2 dgrad",
        "fc2 wgrad",
        "fc1 wgrad",
    ]
    assert {column for name, _, column in told if name in ("aten::mm", "aten::addmm")} == {"gemm"}


def test_what_is_not_a_product_has_its_row(worker: Callable[[str], ModuleType]) -> None:
    told = aligned(worker, "pytorch-plain.json")
    assert rows_of(told, "aten::sum") == [f"{name} bias gradient" for name in reversed(LAYERS)]
    assert rows_of(told, "aten::sigmoid") == [f"{name} activation" for name in LAYERS[:-1]]
    assert rows_of(told, "aten::sigmoid_backward") == [f"{name} activation gradient" for name in reversed(LAYERS[:-1])]
    assert set(rows_of(told, "aten::_log_softmax", "aten::nll_loss_backward", "NllLossBackward0")) == {"loss"}
    assert rows_of(told, "Optimizer.zero_grad#SGD.zero_grad") == ["free gradients"]
    assert set(rows_of(told, "torch::autograd::AccumulateGrad", "Optimizer.step#SGD.step")) == {"framework"}
    assert all(rows for _, rows, _ in told)


def test_updates_are_told_by_the_order_of_parameters(worker: Callable[[str], ModuleType]) -> None:
    told = aligned(worker, "pytorch-plain.json")
    updates = [rows for name, rows, column in told if column == "update"]
    assert updates == [[f"{name} update"] for name in LAYERS for _ in range(6)]  # weight and bias, three each
    fused = [rows for name, rows, _ in aligned(worker, "pytorch-fused.json") if name == "aten::_fused_sgd_"]
    assert fused == [[f"{name} update" for name in LAYERS]]


def test_a_step_of_keras_has_its_rows(worker: Callable[[str], ModuleType]) -> None:
    """Product and bias are two operations there, weights inputs × outputs, updates lists of all parameters."""
    told = aligned(worker, "keras-torch.json")
    products = [name for name, _, column in told if column == "gemm"]
    assert rows_of(told, "aten::mm") == [f"{name} forward" for name in LAYERS] + [
        "out wgrad",
        "out dgrad",
        "fc3 wgrad",
        "fc3 dgrad",
        "fc2 wgrad",
        "fc2 dgrad",
        "fc1 wgrad",
    ]
    assert products == ["aten::mm"] * 11
    sums = [" + ".join(rows) for name, rows, _ in told if name == "aten::sum" and rows != ["framework"]]
    assert sums == [f"{name} bias gradient" for name in reversed(LAYERS)]
    biases = [rows for name, rows, column in told if name == "aten::add" and rows[0].endswith(" forward")]
    assert biases == [[f"{name} forward"] for name in LAYERS]
    every = " + ".join(f"{name} update" for name in LAYERS)
    assert rows_of(told, "aten::_foreach_mul_", "aten::_foreach_add_") == [every] * 3
    assert set(rows_of(told, "aten::add_", "aten::mul_")) == {f"{name} update" for name in LAYERS}
    assert all(rows for _, rows, _ in told)


def test_what_a_compiler_reorders_is_a_group(worker: Callable[[str], ModuleType]) -> None:
    told = aligned(worker, "pytorch-compiled.json")
    kernels = [(rows, column) for name, rows, column in told if "cpp_fused" in name]
    assert kernels[:3] == [([f"{name} activation"], "element-wise") for name in LAYERS[:-1]]
    assert kernels[3:5] == [(["loss"], "softmax")] * 2
    assert kernels[5:] == [
        *[([f"{x} activation gradient", f"{x} bias gradient"], "element-wise") for x in reversed(LAYERS[:-1])],
        (["out bias gradient"], "element-wise"),
    ]
    given = {row for rows in rows_of(told, "aten::mm") for row in rows.split(" + ")}
    assert given == {f"{x} wgrad" for x in LAYERS} | {f"{x} dgrad" for x in LAYERS[1:]}
    lone = [rows for rows in rows_of(told, "aten::mm") if " + " not in rows]
    assert len(lone) == len(set(lone)), "two products have the same row"


@pytest.mark.parametrize("file", ["pytorch-plain.json", "pytorch-compiled.json"])
def test_a_step_makes_each_product_once(worker: Callable[[str], ModuleType], file: str) -> None:
    """Where shapes leave several gradients to choose from, as in a compiled one, each of them is a part."""
    made: dict[str, float] = {}
    for name, rows, _ in aligned(worker, file):
        for row in rows:
            made[row] = made.get(row, 0.0) + worker("torch_rows").product(name, rows)
    products = {f"{x} {role}" for x in LAYERS for role in ("forward", "dgrad", "wgrad")} - {"fc1 dgrad"}
    assert {row: times for row, times in made.items() if times} == pytest.approx(dict.fromkeys(products, 1.0))


def test_a_product_made_twice_is_its_layers(worker: Callable[[str], ModuleType]) -> None:
    """As a hook of the user's does it; the layers after it keep their names, in the next step too."""
    layers = [("fc1", 5, 3), ("fc2", 3, 6), ("out", 6, 2)]
    events = [
        {"name": "aten::linear", "within": None, "sequence": -1, "shapes": [[4, i], [o, i], [o]]}
        for i, o in ((5, 3), (3, 6), (3, 6), (6, 2)) * 2
    ]
    told = worker("torch_rows").align(events, 4, layers, [])
    assert [rows for rows, _ in told] == [[f"{x} forward"] for x in ("fc1", "fc2", "fc2", "out")] * 2


def test_a_product_of_other_shapes_has_no_row(worker: Callable[[str], ModuleType]) -> None:
    node = "autograd::engine::evaluate_function: AddmmBackward0"
    events = [
        {"name": "aten::addmm", "within": None, "sequence": 7, "shapes": [[3], [4, 5], [5, 3]]},
        {"name": node, "within": None, "sequence": 7, "shapes": []},
        {"name": "aten::mm", "within": 1, "sequence": -1, "shapes": [[9, 9], [9, 9]]},
        {"name": node, "within": None, "sequence": 99, "shapes": []},
        {"name": "aten::mm", "within": 3, "sequence": -1, "shapes": [[3, 4], [4, 5]]},
    ]
    told = worker("torch_rows").align(events, 4, [("fc1", 5, 3)], [("fc1", (3, 5)), ("fc1", (3,))])
    assert [rows for rows, _ in told] == [["fc1 forward"], ["framework"], [], ["framework"], []]


@pytest.mark.parametrize("knobs", [{}, {"optimizer": "fused"}, {"optimizer": "foreach"}])
@pytest.mark.parametrize("hidden", ["sigmoid", "relu"])
def test_a_replayed_step_is_a_step(
    built: Callable[..., tuple[ModuleType, Any]], hidden: str, knobs: dict[str, str]
) -> None:
    import numpy as np

    adapter, real = built(hidden, **knobs)
    _, other = built(hidden, **knobs)
    calls = adapter.record(other, other.step)  # which makes two
    for _ in range(3):
        for _, _, call in calls:
            call()
    for _ in range(5):
        real.step()
    for name, array in real.parameters().items():
        np.testing.assert_array_equal(array, other.parameters()[name], err_msg=name)
    real.step()
    other.step()  # it is whole afterwards
    for name, array in real.parameters().items():
        np.testing.assert_array_equal(array, other.parameters()[name], err_msg=name)


def test_gradients_are_freed_and_made_afresh(built: Callable[..., tuple[ModuleType, Any]]) -> None:
    import weakref

    import torch

    adapter, model = built()
    calls = adapter.record(model, model.gradient)
    assert calls[0][:2] == (["free gradients"], "free")
    assert all(p.grad is None for p in model.net.parameters()), "the calls own them"
    alive = [weakref.ref(x) for x in _tensors(calls)]
    assert len(alive) == 6
    calls[0][2]()
    assert not any(x() is not None for x in alive)
    for _, _, call in calls[1:]:
        call()
    assert sorted(tuple(x.shape) for x in _tensors(calls)) == [(3,), (3, 5), (5,), (5, 8), (8,), (8, 6)]
    assert torch.is_grad_enabled() and not any(x.requires_grad for x in _tensors(calls))


def _tensors(calls: list[Any]) -> list[Any]:
    """What the first call of a recording would let go."""
    (slots,) = [cell.cell_contents for cell in calls[0][2].__closure__]
    return [slot.value for slot in slots]


@pytest.mark.parametrize("phase", ["forward", "gradient", "step"])
def test_traced_and_recorded_have_the_same_rows(built: Callable[..., tuple[ModuleType, Any]], phase: str) -> None:
    adapter, model = built("relu")
    spans = adapter.trace(model, getattr(model, phase))
    calls = adapter.record(model, getattr(model, phase))
    assert {row for span in spans for row in span["rows"]} | {"framework"} == {
        row for rows, _, _ in calls for row in rows
    } | {"framework"}
    assert all(span["end"] >= span["start"] >= spans[0]["start"] for span in spans)
    assert spans[0]["rows"] == ["framework"] and spans[0]["end"] == max(span["end"] for span in spans)


def surplus(recorded: list[dict[str, Any]], traced: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Operations, and how many more of each a recorded step has than a traced one."""
    names, expected = [x["name"] for x in recorded if x["name"].startswith("aten::")], [x["name"] for x in traced]
    counts = [(name, names.count(name) - expected.count(name)) for name in sorted(set(names))]
    return [(name, count) for name, count in counts if count > 0]


def test_what_only_the_recording_does_is_found(
    worker: Callable[[str], ModuleType], built: Callable[..., tuple[ModuleType, Any]]
) -> None:
    """Gradients of a tensor used three times are added in place, afresh while recorded; no network here has such."""
    import torch

    x = torch.randn(16, 16, requires_grad=True)

    def step() -> None:
        y = x * 2
        (y.sin() + y.cos() + y.exp()).sum().backward()
        x.grad = None

    record, trace = worker("torch_record"), worker("torch_trace")
    made = record.Recording(step)
    found = surplus(made.events, trace.profiled(step)[0])
    assert ("aten::add", 2) in found, found
    _, model = built()
    model.step()
    made = record.Recording(model.step)
    assert {name for name, _ in surplus(made.events, trace.profiled(model.step)[0])} <= {"aten::detach"}
