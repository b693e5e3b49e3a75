"""Runs of `macro run`: their words, what they say together, what is kept of it; and the stand-in frameworks."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels import state
from macro.frameworks import find
from macro.networks.base import from_data
from reports import next_run
from reports.record import Comparison, Contest
from tests.soak import generations, injected_numpy
from tests.soak.conftest import Answer

FEW = generations.Command("few", "", ("a.py:one", "a.py:two", "a.py:three"), ("--batch", "8"), 1, 6)


def contest(number: int) -> Contest:
    """Return what `macro run` writes for three frameworks; its ratios change from run to run."""
    ratio = 1.2 + 0.01 * (number % 3)
    pair = Comparison(
        "step", "framework", "one", "two", ratio, ratio - 0.001, ratio + 0.001, 0.95, "slower", None, 0.01, 0.01
    )
    pair = replace(pair, path=(next_run.GENERATIONS,))
    return Contest("step", "?", "framework", (), (pair, replace(pair, contender="three", path=("wall",))))


@pytest.fixture
def stems(macro: Callable[[Answer], list[str]], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The run files that were asked for, of a campaign of one command."""
    monkeypatch.setattr(generations, "CAMPAIGNS", {"spread": (FEW,), "itself": (FEW,)})
    return macro(lambda stem, again: [contest(int(stem[-2:]))])


def test_every_run_counts_that_took_its_path(stems: list[str]) -> None:
    first, spread, *_ = figures = list(generations.figures("spread"))
    assert first.value.startswith("6 of 6 are to be measured") and len(set(stems)) == 6
    assert spread.name == "between runs, generations" and spread.value.startswith("sd 0.7")
    assert "worst few two/one" in spread.value, "the other pair took another path"
    assert figures[-1].value.startswith("no: run python -m micro.selftest")


def test_the_spread_is_kept_with_the_self_test(stems: list[str]) -> None:
    file = f"selftest/{generations._machine()}.json"
    kernels = {"wall": {"sd": 0.01, "degrees": 95.0}}
    path = state.write(file, json.dumps({"started": "now", "figures": [], "between": kernels}))
    list(generations.figures("spread"))
    kept = json.loads(path.read_bytes())
    assert kept["between"]["wall"] == kernels["wall"] and kept["between"]["generations"]["degrees"] == 5
    better = {"sd": 0.5, "degrees": 80.0}
    state.write(file, json.dumps(kept | {"between": {"generations": better}}))
    list(generations.figures("spread"))
    assert json.loads(path.read_bytes())["between"] == {"generations": better}, "it is known better from before"


@pytest.mark.parametrize(
    ("ratios", "held", "text"),
    [
        ([(1.005, 0.01)] * 18 + [(1.02, 0.01)] * 2, True, "18 of 20 intervals hold 1, median half-width 1.00%"),
        ([(1.005, 0.01)] * 17 + [(1.02, 0.01)] * 3, False, "17 of 20"),
        ([(1.0, 0.04)] * 20, False, "median half-width 4.00%"),
        ([(1.0, 0.01)] * 9 + [(None, 0.0)], True, "9 of 10"),
    ],
)
def test_a_framework_against_itself(ratios: list[tuple[float | None, float]], held: bool, text: str) -> None:
    (one_pair, *_), seen = contest(0).comparisons, []
    for ratio, half in ratios:
        ends = (ratio - half, ratio + half) if ratio else (None, None)
        seen.append(replace(one_pair, ratio=ratio, low=ends[0], high=ends[1]))
    figure = generations.against_itself("it against itself", seen)
    assert figure.held is held and text in figure.value


@pytest.mark.usefixtures("own_state")
def test_the_stubs_and_their_network_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(generations.kept.ROOT)
    assert [find(name).name for name in generations.STUBS.frameworks] == list(generations.STUBS.frameworks)
    assert len(generations.STUBS.pairs) == 5 and generations.STUBS.pairs[0] == "stubs halves/plain"
    document: dict[str, Any] = json.loads(Path(generations.STUBS.words()[1]).read_text("utf-8"))
    wanted = [(x["name"], x["inputs"], x["outputs"], x["activation"], x["first"]) for x in document["layers"]]
    nodes = from_data(document).nodes
    assert [(x.name, x.inputs[0][0], x.output[0], x.activation, x.first) for x in nodes] == wanted


@pytest.mark.parametrize("how", injected_numpy.HOW)
@pytest.mark.parametrize("layout", ["plain", "left", "right"])
def test_a_stub_makes_the_product(how: str, layout: str) -> None:
    """Gradients have transposed operands."""
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(6, 5)).astype("f4"), rng.normal(size=(5, 4)).astype("f4")
    left = np.ascontiguousarray(a.T).T if layout == "left" else a
    right = np.ascontiguousarray(b.T).T if layout == "right" else b
    out = np.full((6, 4), np.nan, np.float32)
    injected_numpy.HOW[how](left, right, out)
    assert np.allclose(out, a @ b, atol=1e-5)


def test_every_stub_but_the_plain_one_has_its_way() -> None:
    assert [knobs.get("how") for knobs in injected_numpy.ROWS.values()] == [None, *injected_numpy.HOW]
