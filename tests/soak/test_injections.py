"""What is called right of an explanation of a known difference; and that an injection changes time, not results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from macro import networks
from macro.frameworks import find
from macro.networks.base import chain
from macro.processes import job
from reports import attribution
from reports.explanation import Cell, Explanation
from tests.conftest import load
from tests.explanations import cell, explanation
from tests.soak import injected_graphs, injected_numpy, injections, kept, scripts
from tests.soak.conftest import Macro
from tests.soak.injections import Injection

SLEEP = Injection("numpy", "fcn-r", "sleep", "fc2", 0.2)
AGAIN = Injection("jax", "alexnet-r", "operation again", "conv2", 1)
COPY = scripts.Injection("mlp", "fc1", "extra copy", 60, ("copy",))


def explained(*cells: Cell, gap: float = 0.1, named: bool = True, **changes: Any) -> Explanation:
    """Return an explanation of steps of 0.5 s and less: a difference is worth a word from 5 ms on."""
    fields = {"step": {"a": 0.5, "b": 0.5 - gap}, "gap": gap, "interval": (gap, gap), "resolution": 0.005}
    return explanation([*cells], **{**fields, "named": cells[:1] if named else (), **changes})


@pytest.mark.parametrize("name", ["jax", "tensorflow", "pytorch"])
def test_an_injected_graph_defines_what_its_adapter_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(injected_graphs.FRAMEWORKS.parent / "agent/core")
    monkeypatch.syspath_prepend(injected_graphs.FRAMEWORKS.parent / "agent")
    assert {"KINDS", "LOSSES", "OPTIMIZERS", "build"} <= injected_graphs.exported({"adapter": name}).keys()


@pytest.mark.parametrize(
    ("row", "column", "size", "named", "right"),
    [
        ("fc2 wgrad", "waiting", 0.109, True, True),
        ("fc2 wgrad", "waiting", 0.112, True, False),
        ("fc3 wgrad", "waiting", 0.1, True, False),
        ("fc2 wgrad", "gemm", 0.1, True, False),
        ("fc2 wgrad", "waiting", 0.1, False, False),
    ],
)
def test_row_column_and_size_are_right_in_numpy(row: str, column: str, size: float, named: bool, right: bool) -> None:
    found = explained(cell(row, column, 0.3 + size, 0.3), gap=0.2, named=named, identity=({"injected": 0.1}, {}))
    assert injections.named_in_numpy(SLEEP, found) is right


@pytest.mark.parametrize(
    ("row", "column", "size", "rest", "compiled", "right"),
    [
        ("conv2 forward", "convolution", 0.102, 0.0, 3, True),
        ("pool1 activation; conv2 forward + activation", "convolution", 0.1, 0.0, 3, True),
        ("conv2 forward", "convolution", 0.06, 0.04, 3, True),
        ("conv2 forward", "convolution", 0.06, 0.0, 3, False),
        ("conv2 forward", "gemm", 0.1, 0.0, 3, False),
        ("conv1 forward", "convolution", 0.1, 0.0, 3, False),
        ("conv2 forward", "convolution", 0.1, 0.0, 0, False),
    ],
)
def test_kind_layer_and_size_are_right_in_graphs(
    row: str, column: str, size: float, rest: float, compiled: int, right: bool
) -> None:
    found = explained(cell(row, column, 0.3 + size, 0.3), cell("conv2 wgrad", "OS memory", rest, 0.0))
    assert injections.named_in_graph(AGAIN, found, compiled) is right


def test_injections_and_empty_runs_are_counted(macro: Macro, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(injections, "DRAWS", 2)
    monkeypatch.setattr(injections, "EMPTY", 3)
    first, *_ = injections.numpy_injections()
    right = explained(cell(f"{first.layer} wgrad", "waiting", 0.4, 0.3))
    stems = macro(lambda stem, again: [attribution.note(right if stem < "03" else explained())])
    _, *drawn, named, quiet = injections.in_numpy()
    assert [figure.value.rpartition(": ")[2] for figure in drawn] == ["right", "WRONG", "right", "right", "right"]
    assert (named.value, named.held, quiet.value, quiet.held) == ("1 of 2", False, "3 of 3", True)
    plugin = kept.folder("soak-numpy") / "02.py"
    plugin.write_text(plugin.read_text("utf-8") + "# of an older table\n", "utf-8")
    list(injections.in_numpy())
    assert stems[5:] == ["02"], "another injection's run is not taken for it"


def test_graph_injections_exist_and_are_of_known_kinds(tmp_path: Path) -> None:
    for number, injection in enumerate([*injections.graph_injections(), *injections.sequence_injections()]):
        assert injection.what in injected_graphs.EXPECTED
        assert injection.layer in {node.name for node in networks.find(injection.network).nodes}
        injection.write(tmp_path / f"{number}.py")
        assert (
            find(f"{tmp_path / str(number)}.py:plugin").recipe["environment"] in injected_graphs.ENVIRONMENTS.values()
        )
        assert injection.framework != "jax" or injection.what not in injections.CANNOT


@pytest.mark.parametrize("what", [None, *injected_numpy.EXPECTED])
def test_an_injection_keeps_numpy_s_results(what: str | None, tmp_path: Path, beside: None) -> None:
    net = chain("small", "a test", 8, (6, 5, 4, 3), rate=0.1, momentum=0.9)
    Injection("numpy", "small", what, "fc2", 0.0).write(tmp_path / "plugin.py")
    plugin = load(tmp_path / "plugin.py")
    asked = {"network": net.plan(), "threads": 1, "batch": net.batch, **job.write_arrays(net, net.batch, tmp_path)}
    want = load(find("numpy").path).build(asked | {"knobs": {}})
    got = plugin.build(asked | {"knobs": plugin.ROWS["plugin"]})
    for model in (want, got):
        model.step()
        model.step()
    for name, array in want.parameters().items():
        np.testing.assert_allclose(got.parameters()[name], array, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("cells", "fault"),
    [
        ((("net.fc1 forward", "copy", 0.08), ("net.fc1 forward", "malloc", 0.015)), "right"),
        ((("net.fc1 forward", "gemm", 0.09), ("net.fc1 forward", "copy", 0.01)), "WRONG kind"),
        ((("net.fc2 forward", "copy", 0.1),), "WRONG module, size"),
        ((("net.fc1 forward", "copy", 0.05),), "WRONG size"),
        ((), "MISSED"),
    ],
)
def test_kind_module_and_size_are_right_in_scripts(cells: tuple[tuple[str, str, float], ...], fault: str) -> None:
    right, text = scripts.judged(COPY, explained(*(cell(row, column, 0.2 + x, 0.2) for row, column, x in cells)))
    assert right is (fault == "right") and fault in text
