"""The command `explain`: what it refuses, and real runs with perf and without."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from macro.watching import perf
from reports import store
from tests.conftest import Ran
from tests.simulated import frameworks

NEEDS_PERF = pytest.mark.skipif(perf.missing() is not None, reason=str(perf.missing()))
SILENT = "del trace, record\n"


def identities(told: dict[str, Any]) -> None:
    """What holds of every document, whatever was measured."""
    assert told["gap"] == told["step"]["a"] - told["step"]["b"]
    rest = told["residual"]["a"] - told["residual"]["b"]
    assert sum(x["a"] - x["b"] for x in told["cells"]) + rest == pytest.approx(told["gap"], abs=1e-12)
    for x in told["cells"]:
        assert (x["work"] is None) == (x["rate"] is None)
        if x["work"] is not None:
            assert x["work"] + x["rate"] == pytest.approx(x["a"] - x["b"], abs=1e-12)
            assert x["column"] != "idle"
        assert {"row", "column", "a", "b", "low", "high"} <= set(x)
    for bars in told["bars"].values():
        assert sum(x["a"] - x["b"] for x in bars) == pytest.approx(told["gap"], abs=1e-12)
    for bars in told["waterfall"].values():
        assert sum(x for _, x in bars) == pytest.approx(sum(x["a"] - x["b"] for x in told["cells"]), abs=1e-12)


# What is refused


# Real runs


@NEEDS_PERF
@pytest.mark.slow
def test_a_run_with_samples_keeps_its_identities(explain: Callable[..., Ran], tmp_path: Path) -> None:
    file, run = tmp_path / "x.json", tmp_path / "x.jsonl"
    page = tmp_path / "x.md"
    documents = ("--json", str(file), "--markdown", str(page))
    ran = explain("numpy", "kernels-only", "--budget", "2s", *documents, "-o", str(run))
    assert ran.code == 0, ran.err
    assert page.read_text("utf-8").startswith("```text\nA step of small, batch 16, takes ")
    assert ran.out.startswith("A step of small, batch 16, takes ")
    told = json.loads(file.read_text("utf-8"))
    identities(told)
    assert (told["a"], told["b"], told["runs"], told["threads"]) == ("numpy", "kernels-only", 1, 1)
    assert ("fc3 forward", "gemm") in {(x["row"], x["column"]) for x in told["cells"]}
    for name in "ab":
        closed = told["closure"][name]
        assert all(closed[x] is not None and closed[x] > 0 for x in ("sampling", "span", "naming", "replay"))
        assert closed["naming"] <= 1 and {"P1", "P2", "P3", "P0'"} == set(told["levels"][name])
    assert {x["verdict"] for x in told["agreement"]} <= {"agree", "disagree", "cannot tell", "one witness"}
    assert not any("no samples" in x for x in told["conditions"])
    (note,) = [x for x in store.read(run).notes if x.topic == "attribution"]
    assert note.data["cells"] == told["cells"]


@pytest.mark.slow
def test_without_perf_spans_alone_are_enough(explain: Callable[..., Ran], without_perf: None, tmp_path: Path) -> None:
    ran = explain("numpy", "numpy", "--heap", "default,keep", "--budget", "1s", "--json", "-")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    identities(told)
    assert (told["a"], told["b"]) == ("numpy heap default", "numpy heap keep")
    assert any(x.startswith("no samples: perf is not installed (Debian: apt-get install") for x in told["conditions"])
    assert "no samples: perf is not installed" in ran.err
    closed = told["closure"]["a"]
    assert closed["sampling"] is None and closed["naming"] is None and 0 < closed["span"] <= 1
    own = {"gemm", "element-wise", "reduction", "softmax and loss", "optimizer"}
    assert {x["column"] for x in told["cells"]} <= own
    assert "P2" not in told["levels"]["a"]


@pytest.mark.slow
@NEEDS_PERF
def test_a_framework_that_tells_no_spans_has_categories_alone(
    explain: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    silent = frameworks.write(tmp_path, "silent", SILENT)
    ran = explain(str(silent.path), "numpy", "--phase", "forward", "--budget", "1s", "--json", "-")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    identities(told)
    assert f"{silent.path} has no tracer spans: only causes, no rows, for both sides" in told["conditions"]
    assert {x["row"] for x in told["cells"] if x["column"] != "idle"} == {"in no span"}
    (products,) = [x for x in told["cells"] if x["column"] == "gemm"]
    assert products["a"] and products["b"] and products["work"] == 0  # the same, all of them
    assert told["phase"] == "forward" and not any("wgrad" in x["row"] for x in told["cells"])
    assert told["closure"]["a"]["span"] is None and told["closure"]["a"]["replay"] is None
    assert not (tmp_path / ".debug").exists()  # perf would copy every library there


def test_neither_spans_nor_samples_is_one_line(explain: Callable[..., Ran], without_perf: None, tmp_path: Path) -> None:
    silent = frameworks.write(tmp_path, "silent", SILENT)
    told = explain(str(silent.path), "numpy", "--budget", "1s")
    assert told.code == 2 and len(told.err.strip().splitlines()) == 1
    assert "silent.py: the framework reports no spans, and samples require perf: perf is not" in told.err


@pytest.mark.parametrize(
    "spans",
    [
        "[{'start': 1, 'end': 2, 'rows': 'x', 'column': None}]",
        *(pytest.param(x, marks=pytest.mark.slow) for x in ("[{'start': 1}]", "'words'", "7")),
    ],
)
def test_a_trace_that_is_none_is_one_line(explain: Callable[..., Ran], tmp_path: Path, spans: str) -> None:
    text = f"def trace(model, run):\n    run()\n    return {spans}\n"
    odd = frameworks.write(tmp_path, "odd", text)
    told = explain(str(odd.path), "numpy", "--budget", "0.1s")
    assert told.code == 1 and told.err.startswith(
        f"macro explain: {odd.path}: the framework's trace has an invalid span: "
    )
    assert len(told.err.strip().splitlines()) == 1


@NEEDS_PERF
@pytest.mark.slow
def test_two_threads_close_too(explain: Callable[..., Ran]) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one core")
    ran = explain("numpy", "numpy", "--threads", "2", "--budget", "1s", "--json", "-")
    assert ran.code == 0, ran.err
    told = json.loads(ran.out)
    identities(told)
    assert (told["threads"], told["clock"]) == (2, "wall")
    assert told["closure"]["a"]["threads"] <= 1.05
