"""A table of the literature: what is measured of it, what its text says, and that a stopped one goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernels.devices.cpu import cores
from kernels.errors import UsageError
from macro import table as command
from macro import tables
from macro.equality import gate
from macro.running import session
from macro.tables import Line, Seen, Table, _text
from macro.timing.entry import FEWEST, Entry
from reports import formats, store
from tests.conftest import Ran
from tests.macro.timing.test_results import step
from tests.processes import MARK, left
from tests.reports.test_figures_steps import steps_of
from tests.simulated import frameworks

ROOT = Path(__file__).parents[2]
LACKS = "def available():\n    return 'it lacks a library'\n"


def tiny(network: str) -> Table:
    seen = Seen("a re-run", "a card", {"Torch": 0.026})
    line = Line("Small", network, 8, (4, 8), "Torch > Theano", (seen,), ("two networks of one name",))
    rows, passes = {"pytorch": "Torch", "numpy": "Theano"}, ("numpy",)
    return Table(
        *("tiny", "a text, table 1", (1, 64), "a processor", ("a card",), "without numbers"),
        *(rows, passes, "its prints", (line,)),
    )


@pytest.fixture
def measured(
    small: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    in_process: Callable[..., Ran],
) -> Iterator[Callable[..., Ran]]:
    """`measured("--runs", "1")`: of a table of one small network, into run.jsonl."""
    monkeypatch.setattr(tables, "find", lambda name: tiny(str(small)))
    words = ["tiny", "--budget", "0.1s", "-q", "-o", str(tmp_path / "run.jsonl"), "--threads", "1", "--runs", "1"]
    yield lambda *more: in_process(capsys, command.main, [*words, *more])


@pytest.mark.slow
def test_its_own_batch_has_passes_the_others_steps_alone(measured: Callable[..., Ran], tmp_path: Path) -> None:
    told = measured("--frameworks", "numpy,numpy", "--batches", "all")
    assert told.code == 0
    read = store.read(tmp_path / "run.jsonl")
    assert [(r.problem["batch"], r.problem["phase"], r.variant) for r in read.results] == [
        (4, "step", "numpy"),
        (4, "step", "numpy~b"),
        (8, "step", "numpy"),
        (8, "step", "numpy~b"),
        (8, "forward", "numpy"),
        (8, "gradient", "numpy"),
    ]


@pytest.mark.slow
def test_what_a_framework_is_is_found_out_once_for_all_its_passes(
    measured: Callable[..., Ran], small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing = frameworks.write(tmp_path, "missing", LACKS).path
    monkeypatch.setattr(tables, "find", lambda name: replace(tiny(str(small)), passes=("numpy", str(missing))))
    ask, asked = gate._ask, list[str]()

    def counted(entries: Sequence[Entry], *rest: object) -> None:
        asked.extend(entry.framework.name for entry in entries)
        ask(entries, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(gate, "_ask", counted)
    measured("--frameworks", f"numpy,{missing}")
    assert asked == ["numpy", str(missing)]
    read = store.read(tmp_path / "run.jsonl")
    assert [(r.problem["phase"], r.status) for r in read.results if r.variant == str(missing)] == [
        (phase, "skipped") for phase in ("step", "forward", "gradient")
    ]


@pytest.mark.slow
def test_its_text_has_what_was_said_then_beside(measured: Callable[..., Ran], tmp_path: Path) -> None:
    missing = frameworks.write(tmp_path, "missing", LACKS).path
    told = measured("--frameworks", f"numpy,{missing}").out
    assert told.startswith(
        "a text, table 1, measured again. Published on: a processor; a card; without numbers. Not included: its prints."
    )
    for line in (
        "Small, batch 8: 269 parameters",
        f"Empty, {missing}: it lacks a library",
        f"Empty, 64 threads: this process may use {cores()} core",
        "Empty, a card: this table is measured on CPUs only",
        "Published, fastest first: Torch > Theano",
        "Now, same tools: Theano (medians; 1 thread)",
        "Published seconds: Torch 0.026 (a card; a re-run)",
        "Not comparable: two networks of one name",
        "–: not requested; forward and gradient are timed separately for numpy",
        "Equal work proven beforehand against NumPy at batch 8",
    ):
        assert line in told
    assert "Ratios of time" not in told
    with (tmp_path / "table.md").open("w") as stream:
        formats.write("markdown", store.read(tmp_path / "run.jsonl"), stream)
    assert "Published, fastest first: Torch > Theano" in (tmp_path / "table.md").read_text()


@pytest.mark.slow
def test_killed_within_a_cell_it_goes_on_with_its_rounds(small: Path, tmp_path: Path) -> None:
    """The rounds that had ended count; processes are others."""
    path = tmp_path / "run.jsonl"
    program = (
        "import sys; from macro import tables; from macro.timing import groups; groups.BLOCK = 0.001; "
        f"from tests.macro.test_table import tiny; tables.find = lambda name: tiny({str(small)!r}); "
        "import macro.__main__ as m; sys.exit(m.main())"
    )
    words = ("table", "tiny", "--frameworks", "numpy,numpy", "--threads", "1", "--runs", "1", "-q", "-o", str(path))
    begun = subprocess.Popen(
        [sys.executable, "-c", program, *words, "--budget", "600s"], cwd=ROOT, env=os.environ | {MARK: str(tmp_path)}
    )
    while begun.poll() is None and len(_rounds(path)) < 2 * FEWEST:
        time.sleep(0.01)
    begun.kill()
    assert begun.wait() < 0 and not left(tmp_path)
    kept = _rounds(path)
    gone_on = [sys.executable, "-c", program, *words, "--budget", "0.1s", "--resume"]
    again = subprocess.run(gone_on, cwd=ROOT, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    read = store.read(path)
    assert [x.results[0].problem["phase"] for x in read.contests] == ["step", "forward", "gradient"]
    first = read.results[0]
    assert len(first.samples) >= len(kept) and len(set(first.processes)) == 2
    assert _rounds(path)[: len(kept)] == kept


def _rounds(path: Path) -> list[dict[str, Any]]:
    if not path.exists() or b"\n" not in path.read_bytes():
        return []
    return [note.data for note in store.read(path).notes if note.topic == "round"]


@pytest.mark.slow
def test_it_goes_on_where_it_was_stopped(
    measured: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contest, done = session.contest, list[str]()

    def counted(plan: command.Plan, *rest: object) -> None:  # type: ignore[name-defined]
        done.append(plan.phase)
        if len(done) == 2:
            raise KeyboardInterrupt
        contest(plan, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(session, "contest", counted)
    told = measured("--frameworks", "numpy")
    assert told.code == 130 and "--resume continues" in told.err
    assert measured("--frameworks", "numpy", "--resume").code == 0
    assert done == ["step", "forward", "forward", "gradient"]
    read = store.read(tmp_path / "run.jsonl")
    assert [r.problem["phase"] for r in read.results] == ["step", "forward", "gradient"]
    assert measured("--frameworks", "numpy", "--resume").code == 0
    assert len(store.read(tmp_path / "run.jsonl").notes) == len(read.notes)
    with pytest.raises(UsageError, match=r"of other frameworks or settings, from .*: name another file"):
        measured("--frameworks", "numpy,numpy", "--resume")


def test_of_the_first_text_all_rows_have_steps_and_three_have_passes() -> None:
    asked = command.request(["shi7"])
    assert [x.plan.network.name for x in asked.cells[::3]] == [line.network for line in asked.table.lines]
    assert [x.plan.batch for x in asked.cells[::3]] == [64, 16, 16, 1024, 1024, 128, 128]
    counts = [count for count in asked.table.threads if count <= cores()]
    steps, *passes = asked.cells[:3]
    assert len(steps.entries) == 13 * len(counts) and steps.plan.phase == "step"
    assert [x.plan.phase for x in passes] == ["forward", "gradient"]
    assert {x.framework.name for x in passes[0].entries} == {"pytorch", "jax", "tensorflow-graph"}
    assert all(row in {x.framework.name for x in steps.entries} for row in asked.table.rows)


def test_threads_named_twice_are_asked_once() -> None:
    asked = command.request(["shi7", "--networks", "fcn-r", "--threads", "1,1", "--frameworks", "pytorch"])
    assert [len(cell.entries) for cell in asked.cells] == [1, 1, 1]


def test_a_forecast_grows_with_the_work() -> None:
    few, many = (command.request(["shi7", "--networks", "alexnet-r", "--runs", runs]).cells[0] for runs in "12")
    assert 0 < few.seconds < many.seconds
    larger = replace(few, plan=replace(few.plan, batch=2 * few.plan.batch))
    assert larger.seconds > few.seconds


def test_who_is_below_what_should_be_the_floor_is_said_with_what_differs() -> None:
    """On each number of threads, the fastest first; a row without a time has its reason in all cells."""
    of: dict[str, Any] = {"network": "fcn-s", "batch": 64, "phase": "step"}
    seen = {"kernels-only": (0.4, 0.6), "numpy": (0.3, 0.9), "pytorch": (0.35, 0.9), "jax": (0.5, 0.6)}
    results = [
        replace(step(name, t), problem=of, threads=2, step={"system": t / 4, "utilization": busy})
        for name, (t, busy) in seen.items()
    ]
    results.append(replace(results[0], name="gone", variant="gone", status="skipped", reason="no room", seconds=None))
    text = _text.text(tables.find("shi7"), steps_of(*results), 2)
    (below,) = [line for line in text.splitlines() if line.startswith("Below kernels-only")]
    assert below.startswith(
        "Below kernels-only, 2 threads: numpy 0.75, pytorch 0.87 times it; numpy has 12.5 ms less in "
    )
    assert "and 1.80 busy cores against 1.20 of kernels-only. Why: python -m macro explain fcn-s kernels-only" in below
    (gone,) = [line for line in text.splitlines() if line.startswith("gone ")]
    assert gone.split() == ["gone", "skipped", "skipped", "–", "–", *["skipped"] * 3]
