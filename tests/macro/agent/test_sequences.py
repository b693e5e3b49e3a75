"""Layers of sequences: every framework gives what NumPy gives, and NumPy what PyTorch gives."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.catalog import find as find_variant
from kernels.ops.recurrent import lengths
from macro.equality import proof
from macro.frameworks import find, home, interpreter, names, remedy
from macro.networks.base import Network, from_data
from macro.networks.layers import Dense, Dropout, Embedding, Mean, Recurrent
from macro.processes.job import Setting
from tests.macro.models import asked, assert_same, build, started

TABLE, OUT = Embedding(name="table", rows=50, width=6), Dense(name="out", outputs=11)


def net(name: str, *layers: Any, **more: Any) -> Network:
    return Network(name, "a test", 5, layers, **{"rate": 0.5, "input": (9,), **more})


LSTM = net("lstm", TABLE, Recurrent(name="r", hidden=7), Recurrent(name="s", hidden=8), OUT)
NETWORKS = {
    x.name: x
    for x in (
        LSTM,
        net("two biases", TABLE, Recurrent(name="r", hidden=7, biases=2, last=True), OUT),
        net("forget bias", TABLE, Recurrent(name="r", hidden=7, forget=1.0, last=True), OUT),
        net(
            "both directions",
            TABLE,
            Recurrent(name="r", hidden=7, bidirectional=True),
            Recurrent(name="s", hidden=8, bidirectional=True, last=True),
            Dense(name="out", outputs=1),
            loss="binary",
        ),
        net("hidden of 1", TABLE, Recurrent(name="r", hidden=1, last=True), OUT, input=(1,)),
        net("gru", TABLE, Recurrent(name="r", hidden=7, cell="gru", biases=2, last=True), OUT),
        net(
            "carried",
            TABLE,
            Recurrent(name="r", hidden=7, carried=True),
            Recurrent(name="s", hidden=8, cell="gru", biases=2, carried=True),
            OUT,
        ),
        net("rnn", Recurrent(name="r", hidden=7, cell="rnn"), Mean(name="mean"), OUT, input=(9, 4)),
        net(
            "masked",
            TABLE,
            Recurrent(name="r", hidden=7),
            Mean(name="mean", after=("r", "input")),
            Dropout(name="drop"),
            Dense(name="out", outputs=2),
        ),
        net("numbers", TABLE, Mean(name="mean", activation="tanh"), OUT, loss="squared", targets="numbers"),
        net(
            "tied",
            Dense(name="in", outputs=5),
            Dense(name="out", outputs=9, tied="in"),
            loss="squared",
            targets="input",
        ),
        net("tied table", TABLE, Recurrent(name="r", hidden=6), Dense(name="out", outputs=50, tied="table")),
        net("itself", Dense(name="in", outputs=5), Dense(name="out", outputs=9), loss="squared", targets="input"),
    )
}
BEFORE = net("reset before", TABLE, *(Recurrent(name=x, hidden=7, cell="gru-before", last=x == "s") for x in "rs"), OUT)


def assert_numpys(framework: str, network: Network, folder: Path, threads: int = 1, **knobs: object) -> None:
    """Assert that a framework does NumPy's work, dropout apart."""
    network = replace(network, layers=tuple(x for x in network.layers if not isinstance(x, Dropout)))
    ours, theirs = build("numpy", network, folder), build(framework, network, folder, threads=threads, knobs=knobs)
    for of in ("parameters", "batch"):
        assert ours.work()[of] == theirs.work()[of]
    for model in (ours, theirs):
        model.step()
    assert theirs.loss() == pytest.approx(ours.loss(), rel=1e-5)
    assert_same(theirs.gradients(), ours.gradients(), atol=1e-6)
    assert_same(theirs.state(), ours.state(), atol=1e-6)
    assert_same(theirs.parameters(), ours.parameters(), atol=1e-6)


@pytest.mark.usefixtures("with_torch", "own_state")
@pytest.mark.parametrize("name", list(NETWORKS))
def test_pytorch_and_numpy_are_the_same(name: str, tmp_path: Path) -> None:
    assert_numpys("pytorch", NETWORKS[name], tmp_path)


FORMS = {
    "loop": ("lstm", "two biases", "forget bias", "both directions", "gru", "rnn", "carried"),
    "sequence": ("lstm",),  # in place of a loop
    "time_major": ("lstm", "both directions", "rnn", "masked", "carried"),
    "packed": ("masked",),
}


@pytest.mark.usefixtures("with_torch", "own_state")
@pytest.mark.parametrize(("form", "name"), [(form, name) for form, names in FORMS.items() for name in names])
def test_forms_of_pytorchs_layers_are_the_same(form: str, name: str, tmp_path: Path) -> None:
    network = NETWORKS[name]
    if form in ("loop", "sequence"):
        layers = (replace(x, unrolled=True) if isinstance(x, Recurrent) else x for x in network.layers)
        network = replace(network, layers=tuple(layers))
    assert_numpys("pytorch", network, tmp_path, **{} if form == "loop" else {form: True})


@pytest.mark.usefixtures("beside", "own_state")
@pytest.mark.parametrize(
    "network", [*(x for x in NETWORKS.values() if x.name != "carried"), BEFORE], ids=lambda x: x.name
)
def test_kernels_only_and_numpy_are_the_same(network: Network, tmp_path: Path) -> None:
    for threads in (1, 2):
        assert_numpys("kernels-only", network, tmp_path, threads)


@pytest.mark.usefixtures("beside", "own_state")
@pytest.mark.parametrize("name", ["lstm", "forget bias", "both directions", "rnn"])
def test_onednn_in_two_launches_is_the_same(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import suite_products  # of macro/agent

    if reason := find_variant("recurrent", "onednn").missing():
        pytest.skip(reason)
    monkeypatch.setitem(suite_products.CANDIDATES, "recurrent", ("onednn",))
    assert_numpys("kernels-only", NETWORKS[name], tmp_path)
    assert "onednn" in suite_products.USED.values()


ENVIRONMENTS = home()


@pytest.mark.slow
@pytest.mark.parametrize("name", [x for x in names() if x not in ("numpy", "pytorch-compile")])
def test_every_framework_does_equal_work(name: str, own_state: Path, tmp_path: Path) -> None:
    if ENVIRONMENTS.is_dir():
        (own_state / "environments").symlink_to(ENVIRONMENTS)
    framework, lacks = find(name), list[str]()
    if interpreter(framework) is None:
        pytest.skip(f"no environment for {name}: {remedy(framework)}")
    for number, network in enumerate((*NETWORKS.values(), BEFORE)):
        (folder := tmp_path / str(number)).mkdir()
        (verdict,) = proof.prove(network, network.batch, [(framework, Setting())], folder, lambda text: None)
        if not verdict.compared:
            lacks.append(network.name)
        else:
            assert verdict.equal, (network.name, verdict.why)
    assert set(lacks) <= {"carried", "tied", "tied table", "two biases", "forget bias", "gru", "reset before"}


@pytest.mark.slow
def test_layers_of_keras_on_pytorch_have_their_rows(own_state: Path, tmp_path: Path) -> None:
    if ENVIRONMENTS.is_dir():
        (own_state / "environments").symlink_to(ENVIRONMENTS)
    framework = find("keras-torch")
    if interpreter(framework) is None:
        pytest.skip(f"no environment for keras-torch: {remedy(framework)}")
    with started(framework, LSTM, tmp_path) as process:
        process.expect("hello")
        process.expect("built")
        traced = process.ask(60.0, "traced", do="trace", phase="step", count=1, fifos=None, spans=True)
    columns: dict[str, set[str]] = {}
    for span in traced["spans"]:
        for row in span["rows"]:
            columns.setdefault(row, set()).add(span["column"])
    for row in ("r forward", "r gradient", "s forward", "s gradient"):
        assert "recurrent cell" in columns[row], row
    assert "gemm" in columns["out forward"] & columns["out wgrad"] and "loss" in columns


def test_inputs_are_ids_and_padding_is_behind(tmp_path: Path) -> None:
    network = replace(NETWORKS["masked"], batch=200, input=(99,))
    with np.load(asked("numpy", network, tmp_path)["data"]) as data:
        ids, labels = data["x"], data["labels"]
    real = ids != 0
    assert ids.max() < 50 and (np.sort(real)[:, ::-1] == real).all() and labels.shape == (200,)
    assert set(real.sum(axis=1)) <= set(lengths.every())
    with np.load(asked("numpy", LSTM, (tmp_path / "words").mkdir() or tmp_path / "words")["data"]) as data:
        assert data["x"].min() >= 0 and data["labels"].shape == (5, 9)


@pytest.mark.parametrize(
    ("layers", "more", "why"),
    [
        ((Recurrent(name="r", hidden=7, cell="lstn"), OUT), {}, "r: a recurrent layer requires a sequence"),
        (
            (TABLE, Recurrent(name="r", hidden=7, carried=True, bidirectional=True), OUT),
            {},
            "r: carried: requires one direction",
        ),
        ((TABLE, Recurrent(name="r", hidden=7, cell="lstn"), OUT), {}, "r: cell lstn: choose from lstm, gru"),
        ((TABLE, Recurrent(name="r", hidden=7, cell="gru"), OUT), {}, "r: biases 1: the cell gru has 2"),
        ((TABLE, Recurrent(name="r", hidden=7, biases=3), OUT), {}, "r: biases 3: must be 1 or 2"),
        ((TABLE, Recurrent(name="r", hidden=7, biases=2, forget=1.0), OUT), {}, "r: forget 1: must be finite, and"),
        ((TABLE, Dense(name="d", outputs=3, after=("input",)), OUT), {}, "d: cannot take the input, which table takes"),
        (
            (Dense(name="d", outputs=3), Embedding(name="e", rows=2, width=1, after=("d",))),
            {},
            "requires the network's",
        ),
        (
            (TABLE, Dense(name="d", outputs=3, tied="table")),
            {},
            r"the weights of table are \(50, 6\), but must be \(3, 6\)",
        ),
        (
            (Dense(name="d", outputs=3, tied="e"),),
            {},
            "d: tied names e, which is no earlier dense layer or embedding with weights of its own",
        ),
        ((TABLE, Mean(name="m", after=("table", "table")), OUT), {}, "m: a mean over 9 steps masks by as many ids"),
        ((Dense(name="d", outputs=3), OUT), {"targets": "labels "}, "targets labels : choose from labels, input"),
        ((Dense(name="d", outputs=3), OUT), {"targets": "input"}, "targets input: loss softmax requires labels"),
        ((Dense(name="d", outputs=3), OUT), {"targets": "input", "loss": "squared"}, "out must output as many numbers"),
    ],
)
def test_what_does_not_fit_is_refused(layers: Any, more: dict[str, Any], why: str) -> None:
    with pytest.raises(ValueError, match=why):
        net("x", *layers, **more)


@pytest.mark.parametrize("name", list(NETWORKS))
def test_there_and_back(name: str) -> None:
    assert from_data(json.loads(json.dumps(NETWORKS[name].data()))) == NETWORKS[name]
