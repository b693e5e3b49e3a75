"""What is called right of an explanation of a known difference; and that an injection changes time, not results."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

from macro import networks
from macro.frameworks import find
from macro.networks.base import chain
from macro.processes import job
from reports import attribution
from reports.explanation import Bar, Cell, Explanation
from tests.conftest import load
from tests.reports.made_gap import cell, told
from tests.soak import causes, injected_graphs, injected_numpy, injections, kept, scripts
from tests.soak.causes import KINDS, Kind, Named
from tests.soak.conftest import Macro
from tests.soak.injections import Injection

MORE = ("OS memory", 0.1, True)
EQUAL = Kind("it against itself", [("it", "it")], pairs=20)
HEAP = Kind("heap default against keep", [("it", "it")], "OS memory")
SLEEP = Injection("numpy", "fcn-r", "sleep", "fc2", 0.2)
AGAIN = Injection("jax", "alexnet-r", "operation again", "conv2", 1)
COPY = scripts.Injection("mlp", "fc1", "extra copy", 60, ("copy",))


def explained(*cells: Cell, gap: float = 0.1, named: bool = True, **changes: Any) -> Explanation:
    """Return an explanation of steps of 0.5 s and less: a difference is worth a word from 5 ms on."""
    fields = {"step": {"a": 0.5, "b": 0.5 - gap}, "gap": gap, "interval": (gap, gap), "resolution": 0.005}
    return told([*cells], **{**fields, "named": cells[:1] if named else (), **changes})


Given: TypeAlias = "tuple[str, float, bool]"


def bars(*of_causes: Given, layers: tuple[Given, ...] = ()) -> Explanation:
    """Return an explanation with these bars: name, gap, whether it is certain."""
    by_kind = {"cause": of_causes, "layer": layers, "phase": ()}
    made = {
        kind: tuple(Bar(name, 0.2 + x, 0.2, x - 0.001, x + 0.001, sure) for name, x, sure in of)
        for kind, of in by_kind.items()
    }
    return explained(bars=made)


@pytest.mark.parametrize(
    ("kind", "explanation", "words"),
    [
        (HEAP, bars(MORE, ("gemm", 0.02, False)), "OS memory +100 ms for certain: right"),
        (HEAP, bars(MORE, ("gemm", -0.02, True)), "OS memory +100 ms, gemm −20.0 ms for certain: right"),
        (HEAP, bars(("OS memory", -0.1, True)), "OS memory −100 ms for certain: WRONG"),
        (HEAP, bars(("OS memory", 0.0049, True)), "nothing for certain: MISSED"),
        (EQUAL, bars(("gemm", 0.02, False)), "nothing for certain: right"),
        (EQUAL, bars(("gemm", -0.02, True)), "gemm −20.0 ms for certain: WRONG"),
        (EQUAL, bars(layers=(("fc2", 0.02, True),)), "layer fc2 for certain: WRONG"),
    ],
)
def test_causes_are_right_by_name_and_sign(kind: Kind, explanation: Explanation, words: str) -> None:
    assert causes.line(kind, causes.certain(explanation)) == words


GEMM, MEMORY, NONE = (Named(seconds, ()) for seconds in ({"gemm": 1.0}, {"OS memory": 1.0}, {}))
BOTH, TAKEN = Named({"OS memory": 1.0, "gemm": -1.0}), Named({}, (), 0.5)
PACKED = Named({"gemm": 1.0, "packing": 0.5}, ())


@pytest.mark.usefixtures("own_state")
@pytest.mark.parametrize(
    ("kind", "seen", "text", "held", "busy"),
    [
        (HEAP, [MEMORY] * 7 + [BOTH] * 2 + [NONE], "OS memory is certain in 9 of 10; wrong: gemm in 2", True, False),
        (HEAP, [MEMORY] * 8 + [GEMM] + [NONE], "OS memory is certain in 8 of 10; wrong: gemm in 1", False, False),
        (HEAP, [NONE] * 4 + [TAKEN] * 6, "OS memory is certain in 0 of 10; wrong: nothing", False, True),
        (HEAP, [NONE] * 6 + [TAKEN] * 4, "OS memory is certain in 0 of 10; wrong: nothing", False, False),
        (KINDS["twice"], [PACKED] * 10, "gemm is certain in 10 of 10; wrong: nothing", True, False),
        (EQUAL, [NONE] * 19 + [GEMM], "1 of 20 name anything; wrong: gemm in 1", True, False),
        (EQUAL, [NONE] * 18 + [GEMM, MEMORY], "2 of 20 name anything; wrong: gemm in 1, OS memory in 1", False, False),
    ],
)
def test_a_kind_is_held_by_its_share(kind: Kind, seen: list[Named], text: str, held: bool, busy: bool) -> None:
    figure = causes.together(kind, seen)
    assert (figure.value, figure.held, figure.busy is not None) == (text, held, busy)
    assert (figure.busy or "others had the cores for 50% of the time; ").startswith("others had the cores for 50% of")


@pytest.mark.parametrize("name", ["jax", "tensorflow"])
def test_an_injected_graph_defines_what_its_adapter_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(injected_graphs.FRAMEWORKS.parent / "worker")
    assert {"KINDS", "LOSSES", "OPTIMIZERS", "build"} <= injected_graphs.exported({"adapter": name}).keys()


def test_time_that_others_took_is_of_the_side_that_had_least() -> None:
    closure: dict[str, dict[str, float | None]] = {"a": {"threads": 0.9}, "b": {"threads": 0.7}}
    assert causes.certain(replace(bars(), closure=closure)).taken == pytest.approx(0.3)


def test_every_pair_of_a_kind_is_measured(macro: Macro) -> None:
    stems = macro(lambda stem, again: [attribution.note(bars(MORE))])
    first, *pairs, last = causes.figures("heap")
    assert stems == [f"heap-{number:02}" for number in range(1, 11)] and len(pairs) == 10
    assert first.value.startswith("10 of 10 are to be measured, about 16 min")
    assert last.held and last.value == "OS memory is certain in 10 of 10; wrong: nothing"
    asked = [KINDS["equal"].question(number) for number in (1, 2)]
    forms = {tuple(words[4 : words.index("--runs")]) for words in asked}
    assert len(forms) == len(causes.FORMS) and all(words[2] == words[3] for words in asked)


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
    for number, injection in enumerate(injections.graph_injections()):
        assert injection.what in injected_graphs.EXPECTED
        assert injection.layer in {node.name for node in networks.find(injection.network).nodes}
        injection.write(tmp_path / f"{number}.py")
        assert find(f"{tmp_path / str(number)}.py:plugin").recipe["environment"] in ("jax", "tensorflow")
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


@pytest.mark.parametrize("hook", ["twice", "copied"])
def test_a_hook_keeps_pytorch_s_results(
    hook: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, beside: None
) -> None:
    pytest.importorskip("torch")
    network = chain("tiny", "a test", 8, (6, 9, 7, 3), 0.1)
    framework = find(f"{kept.ROOT / causes.HOOKS}:{hook}")
    files = job.write_arrays(network, network.batch, tmp_path)
    asked = json.loads(job.write(framework, network, network.batch, job.Setting(), files, tmp_path).read_text("utf-8"))
    adapter, shapes = load(framework.path), list[tuple[int, ...]]()
    hooked = adapter.HOOKS[hook]
    seen = lambda layer, *of: (shapes.append(tuple(layer.weight.shape)), hooked(layer, *of))[1]  # noqa: E731
    monkeypatch.setitem(adapter.HOOKS, hook, seen)
    model, plain = adapter.build(asked), adapter.plain.build(asked)
    model.step()
    plain.step()
    assert shapes == [(7, 9)], "the largest layer, in each forward pass"
    for name, array in plain.parameters().items():
        np.testing.assert_array_equal(array, model.parameters()[name], err_msg=name)


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


def test_equal_scripts_that_name_a_cell_are_counted(macro: Macro) -> None:
    named, nothing = (explained(cell("net.fc1 forward", "copy", 0.2 + gap, 0.2)) for gap in (0.1, 1e-3))
    macro(lambda stem, again: [attribution.note(named if stem in ("equal-02", "equal-05") else nothing)])
    *_, last = scripts.equal()
    assert (last.value, last.held) == ("2 of 20", False)
