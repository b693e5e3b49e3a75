"""What PyTorch's model says that its knobs made, by its own objects."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from macro import networks
from macro.frameworks import find
from macro.processes import job
from macro.processes.job import Setting
from macro.timing.entry import Entry, Plan, begin

pytest.importorskip("torch")
PLAIN = {
    "optimizer": "default",
    "update": "by the optimizer",
    "input_gradient": False,
    "layout": "contiguous",
    "compile": False,
}
KNOBS: tuple[tuple[dict[str, Any], dict[str, Any]], ...] = (
    ({}, {}),
    ({"optimizer": "fused"}, {"optimizer": "fused"}),
    ({"optimizer": "foreach"}, {"optimizer": "foreach"}),
    ({"input_gradient": True, "channels_last": True}, {"input_gradient": True, "layout": "channels_last"}),
    ({"update": "in wgrad"}, {"update": "in wgrad"}),
)


@pytest.mark.slow
@pytest.mark.parametrize(("knobs", "made"), KNOBS, ids=lambda x: "-".join(x) or "plain")
def test_a_knob_shows_in_what_it_made(knobs: dict[str, Any], made: dict[str, Any], tmp_path: Path) -> None:
    network = networks.find("alexnet-r")
    plan, entry = Plan(network, 2, "step", 1.0, 1), Entry(find("pytorch"), Setting(knobs=knobs))
    with ExitStack() as stack:
        begin(plan, entry, entry.setting, job.write_arrays(network, 2, tmp_path), tmp_path, stack)
    assert entry.built["made"] == {**PLAIN, **made}


@pytest.mark.slow
def test_a_compiled_model_says_so(tmp_path: Path) -> None:
    network = networks.find("fcn-r")
    plan, entry = Plan(network, 2, "step", 1.0, 1), Entry(find("pytorch-compile"), Setting())
    with ExitStack() as stack:
        begin(plan, entry, entry.setting, job.write_arrays(network, 2, tmp_path), tmp_path, stack)
    assert entry.built["made"] == {**PLAIN, "compile": True}
