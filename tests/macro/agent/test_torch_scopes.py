"""Rows of PyTorch's operations in the network of all kinds; and what a model reports of its knobs."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from macro import networks
from macro.explaining.rows import rows
from macro.frameworks import find
from macro.processes.job import Setting
from macro.timing.entry import Entry, Plan, begin
from tests.conftest import load
from tests.macro.models import ALL_KINDS as NET
from tests.macro.models import asked

KNOWN = rows(NET, NET.batch)


@pytest.fixture
def adapter(with_torch: None) -> ModuleType:
    return load(find("pytorch").path)


@pytest.fixture
def model(adapter: ModuleType, tmp_path: Path) -> Any:
    return adapter.build(asked("pytorch", NET, tmp_path))


def test_all_that_a_step_does_is_in_rows_of_the_network(adapter: ModuleType, model: Any) -> None:
    model.step()
    told = adapter.trace(model, model.step)
    served = {row for span in told for row in span["rows"]}
    wanted = {name for name, row in KNOWN.items() if row.layer}
    assert served >= wanted, wanted - served
    assert served <= set(KNOWN), served - set(KNOWN)


def test_what_is_called_has_the_kind_of_its_layer(adapter: ModuleType, model: Any) -> None:
    model.step()
    kinds: dict[str, set[str | None]] = {}
    for span in adapter.trace(model, model.step):
        if span["name"].startswith("aten::"):
            for row in span["rows"]:
                kinds.setdefault(row, set()).add(span["column"])
    assert "convolution" in kinds["conv2 forward"] and "convolution" in kinds["conv3 wgrad"]
    assert "pooling" in kinds["pool1 forward"] and "pooling" in kinds["pool1 gradient"]
    assert "normalization" in kinds["norm forward"] and "normalization" in kinds["norm gradient"]
    assert "gemm" in kinds["fc forward"] and "gemm" in kinds["fc wgrad"] and kinds["fc bias gradient"] == {"reduction"}
    assert "element-wise" in kinds["pool1 gradient sum"] | kinds["sum gradient sum"]


def test_a_recorded_step_is_made_again(adapter: ModuleType, model: Any) -> None:
    """Its calls in order do the step's work, each with its row."""
    import torch

    model.step()
    before = {name: own.detach().clone() for name, (own, _) in model.arrays.items()}
    calls = adapter.record(model, model.step)
    moved = {name: own.detach().clone() for name, (own, _) in model.arrays.items()}
    with torch.no_grad():
        for name, (own, _) in model.arrays.items():
            own.copy_(before[name])
    assert {row for served, _, _ in calls for row in served} >= {"conv1 forward", "conv2 dgrad", "norm gradient"}
    assert any(not torch.equal(moved[name], before[name]) for name in moved)


PLAIN = {
    "optimizer": "default",
    "update": "by the optimizer",
    "input_gradient": False,
    "layout": "contiguous",
    "compile": False,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("framework", "network", "knobs", "made"),
    [
        ("pytorch", "alexnet-r", {}, {}),
        ("pytorch", "alexnet-r", {"optimizer": "fused"}, {"optimizer": "fused"}),
        ("pytorch", "alexnet-r", {"optimizer": "foreach"}, {"optimizer": "foreach"}),
        (
            *("pytorch", "alexnet-r", {"input_gradient": True, "channels_last": True}),
            {"input_gradient": True, "layout": "channels_last"},
        ),
        ("pytorch", "alexnet-r", {"update": "in wgrad"}, {"update": "in wgrad"}),
        ("pytorch-compile", "fcn-r", {}, {"compile": True}),
    ],
)
def test_a_knob_shows_in_what_it_made(
    framework: str, network: str, knobs: dict[str, Any], made: dict[str, Any], tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    plan = Plan(networks.find(network), 2, "step", 1.0, 1)
    entry = Entry(find(framework), Setting(knobs=knobs))
    with ExitStack() as stack:
        begin(plan, entry, entry.setting, tmp_path, stack)
    assert entry.built["made"] == {**PLAIN, **made}
