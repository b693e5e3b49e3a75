"""Which explanations of an injection are right; and that what is injected changes a step's time and not its result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from macro import networks
from macro.frameworks import find
from macro.networks.base import chain
from macro.processes import job
from reports import attribution
from reports.explanation import Explanation
from tests.conftest import load
from tests.reports.made_gap import cell, told
from tests.soak import causes, injected_graphs, injected_numpy, injections, kept
from tests.soak.injections import Injection

SLEEP = Injection("numpy", "fcn-r", "sleep", "fc2", 0.2)
AGAIN = Injection("jax", "alexnet-r", "operation again", "conv2", 1)


def explained(row: str, column: str, more: float, gap: float, named: bool = True, **changes: Any) -> Explanation:
    """Return an explanation: a cell that is named first, another of `conv2` with the rest, the gap of plain steps."""
    cells = [cell(row, column, 0.3 + more, 0.3), cell("conv2 wgrad", "OS memory", changes.pop("rest", 0.0), 0.0)]
    return told(cells, gap=gap, resolution=0.005, named=tuple(cells[:1]) if named else (), **changes)


@pytest.mark.parametrize(
    ("row", "column", "size", "right"),
    [
        ("fc2 wgrad", "waiting", 0.109, True),
        ("fc2 wgrad", "waiting", 0.112, False),
        ("fc3 wgrad", "waiting", 0.1, False),
        ("fc2 wgrad", "gemm", 0.1, False),
    ],
)
def test_row_column_and_size_are_right_in_numpy(row: str, column: str, size: float, right: bool) -> None:
    identity = ({"injected": 0.1}, {})
    assert injections.named_in_numpy(SLEEP, explained(row, column, size, 0.2, identity=identity)) is right
    assert not injections.named_in_numpy(SLEEP, explained(row, column, size, 0.2, named=False, identity=identity))


@pytest.mark.parametrize(
    ("explanation", "compiled", "right"),
    [
        (explained("conv2 forward", "convolution", 0.102, 0.1), 3, True),
        (explained("pool1 activation; conv2 forward + activation", "convolution", 0.1, 0.1), 3, True),
        (explained("conv2 forward", "convolution", 0.06, 0.1, rest=0.04), 3, True),
        (explained("conv2 forward", "convolution", 0.06, 0.1), 3, False),
        (explained("conv2 forward", "gemm", 0.1, 0.1), 3, False),
        (explained("conv1 forward", "convolution", 0.1, 0.1), 3, False),
        (explained("conv2 forward", "convolution", 0.1, 0.1, named=False), 3, False),
        (explained("conv2 forward", "convolution", 0.1, 0.1), 0, False),
    ],
)
def test_kind_layer_and_size_are_right_in_graphs(explanation: Explanation, compiled: int, right: bool) -> None:
    assert injections.named_in_graph(AGAIN, explanation, compiled) is right


def test_injections_and_empty_runs_are_counted(macro: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first kind, `sleep`, is named and the second is not; nothing is named in an empty run."""
    monkeypatch.setattr(injections, "DRAWS", 2)
    monkeypatch.setattr(injections, "EMPTY", 3)
    first, *_ = injections.numpy_injections()
    first_is_right = explained(f"{first.layer} wgrad", "waiting", 0.1, 0.1)
    nothing = explained("fc2 wgrad", "waiting", 0.1, 0.1, named=False)
    stems = macro(lambda stem, again: [attribution.note(first_is_right if stem < "03" else nothing)])
    _, *drawn, named, quiet = injections.in_numpy()
    assert [figure.value.rpartition(": ")[2] for figure in drawn] == ["right", "WRONG"] and len(stems) == 5
    assert (named.value, named.held, quiet.value, quiet.held) == ("1 of 2", False, "3 of 3", True)
    plugin = kept.folder("soak-numpy") / "02.py"
    plugin.write_text(plugin.read_text("utf-8") + "# of an older table\n", "utf-8")
    list(injections.in_numpy())
    assert stems[5:] == ["02"], "another injection's run is not taken for it"


def test_graph_injections_exist_and_are_of_known_kinds(tmp_path: Path) -> None:
    drawn = injections.graph_injections()
    assert len(drawn) == 12
    for number, injection in enumerate(drawn):
        assert injection.what in injected_graphs.EXPECTED
        assert injection.layer in {node.name for node in networks.find(injection.network).nodes}
        injection.write(tmp_path / f"{number}.py")
        assert find(f"{tmp_path / str(number)}.py:plugin").recipe["environment"] in ("jax", "tensorflow")
        assert injection.framework != "jax" or injection.what not in injections.CANNOT


NET = chain("small", "a test", 8, (6, 5, 4, 3), rate=0.1, momentum=0.9)


@pytest.mark.parametrize("what", [None, *injected_numpy.EXPECTED])
def test_an_injection_keeps_numpy_s_results(what: str | None, tmp_path: Path, beside: None) -> None:
    Injection("numpy", "small", what, "fc2", 0.0).write(tmp_path / "plugin.py")
    plugin = load(tmp_path / "plugin.py")
    asked = {"network": NET.plan(), "threads": 1, "batch": NET.batch, **job.write_arrays(NET, NET.batch, tmp_path)}
    want = load(find("numpy").path).build(asked | {"knobs": {}})
    got = plugin.build(asked | {"knobs": plugin.ROWS["plugin"]})
    for model in (want, got):
        model.step()
        model.step()
    for name, array in want.parameters().items():
        np.testing.assert_allclose(got.parameters()[name], array, rtol=1e-5, atol=1e-6)
    assert all(callable(vars(plugin)[name]) for name in ("available", "identity", "trace", "record"))


@pytest.mark.parametrize("hook", ["twice", "copied"])
def test_a_hook_keeps_pytorch_s_results(
    hook: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, beside: None
) -> None:
    """It is called after the largest layer in each forward pass."""
    pytest.importorskip("torch")
    network = chain("tiny", "a test", 8, (6, 9, 7, 3), 0.1)
    framework = find(f"{kept.ROOT / causes.HOOKS}:{hook}")
    files = job.write_arrays(network, network.batch, tmp_path)
    asked = json.loads(job.write(framework, network, network.batch, job.Setting(), files, tmp_path).read_text("utf-8"))
    adapter = load(framework.path)
    added: list[Any] = []
    plain_hook = adapter.HOOKS[hook]
    monkeypatch.setitem(
        adapter.HOOKS, hook, lambda *given: (added.append(given[0].weight.shape), plain_hook(*given))[1]
    )
    model, plain = adapter.build(asked), adapter.plain.build(asked)
    for _ in range(2):
        model.step()
        plain.step()
    assert [tuple(shape) for shape in added] == [(7, 9)] * 2
    for name, array in plain.parameters().items():
        np.testing.assert_array_equal(array, model.parameters()[name], err_msg=name)
