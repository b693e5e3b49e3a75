"""The commands `whatif` and `advise` on a small network, in this process; nobody may be left of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernels.devices.cpu import instruction_sets
from macro.__main__ import main
from macro.changes import _alone
from macro.changes.base import Ratio
from macro.watching import perf, rounds
from micro.planning.options import Outputs
from reports.prediction import UNDECIDED
from tests import processes
from tests.conftest import Ran

PERF = pytest.mark.skipif(perf.missing() is not None, reason=str(perf.missing()))
OWN = """
from macro.changes.base import Change, Effect, Forecast
CHANGE = Change("mine", "a test", lambda step, value: None, lambda step, value: step.with_knob("shares", 1.5),
    lambda before, after: Effect(True, "seen"), lambda asked: Forecast(why="who knows"))
"""
BREAKS = OWN.replace('"shares", 1.5', '"order", ["no", "order"]')


@pytest.fixture
def run(
    small: Path, capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Ran]:
    monkeypatch.setattr(rounds, "BLOCK", 0.02)
    return lambda command, *more: in_process(capsys, main, [command, str(small), *more])


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_changes_may_stand_behind_options() -> None:
    from macro import whatif

    asked = whatif.request(["fcn-s", "numpy", "--heap", "keep", "isa=avx2", "--budget", "3s", "batch=8"])
    assert [one.words for one in asked.changes] == ["isa=avx2", "batch=8"] and asked.seconds == 3.0


@pytest.mark.parametrize(("options", "made"), [([], ["a", "b", "a+b"]), (["--apart"], ["a", "b"])])
def test_several_are_made_all_at_once_too_but_apart(
    monkeypatch: pytest.MonkeyPatch, options: list[str], made: list[str]
) -> None:
    from macro import whatif
    from macro.predicting import forecast

    asked = whatif.request(["fcn-s", "numpy", "isa=avx2", "batch=8", "-q", *options])
    named = [
        SimpleNamespace(words=words, there=True, changes=[one]) for words, one in zip("ab", asked.changes, strict=True)
    ]
    foreseer = SimpleNamespace(
        step=asked.step,
        look=lambda changes: None,
        each=lambda changes: named,
        both=lambda told: SimpleNamespace(words="a+b", there=True),
    )
    taken, not_timed = list[str](), list[str]()

    def make(step: object, told: list[Any]) -> list[Any]:
        taken.extend(one.words for one in told)
        figures = {"b": SimpleNamespace(measured=None, reason="numpy failed: it died")}
        fine = SimpleNamespace(measured=1.0, reason=None)
        return [SimpleNamespace(words=one.words, prediction=figures.get(one.words, fine)) for one in told]

    foreseer.turns = make
    monkeypatch.setattr(forecast, "Predictor", lambda *of: foreseer)
    monkeypatch.setattr(whatif, "seeded", lambda step, file: step)
    whatif._measure(asked, not_timed, None)  # type: ignore[arg-type]
    assert taken == made and not_timed == ["b"]


def test_without_a_change_all_are_listed(run: Callable[..., Ran]) -> None:
    ran = run("whatif", "numpy")
    assert ran.code == 0 and "heap-keep" in ran.out
    fit, _, others = ran.out.partition("Not applicable:")
    assert "heap-keep" in fit and "heap-keep" not in others and "the products of numpy do not run in MKL" in others
    assert "To time a change: python -m macro whatif " in fit and " numpy heap-" in fit


@pytest.mark.slow
@PERF
def test_a_prediction_stands_in_the_file_before_the_change_is_timed(
    run: Callable[..., Ran], small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # By the clock a kernel of a microsecond has now and then no interval, and what it is part of no prediction.
    ratio = Ratio(4.0, 3.9, 4.1)
    monkeypatch.setattr(_alone, "ratios", lambda xs, how, seconds: dict.fromkeys(xs, ratio))
    path, document = tmp_path / "run.jsonl", tmp_path / "run.json"
    words = ("numpy", "batch=64", "heap-keep", "--budget", "3s", "-o", str(path), "--json", str(document), "-q")
    ran = run("whatif", *words)
    assert ran.code in (0, 1), ran.err  # its heap may have nothing to keep
    kinds = [line["kind"] for line in lines(path)]
    first, timed = kinds.index("prediction"), min(i for i, x in enumerate(lines(path)) if x.get("topic") == "round")
    assert first < timed < kinds.index("contest")
    told = json.loads(document.read_text())["predictions"]
    batch = next(x for x in told if x["change"] == "batch=64")
    assert batch["predicted"]["low"] <= batch["predicted"]["seconds"] <= batch["predicted"]["high"]
    assert batch["measured"]["low"] <= batch["measured"]["seconds"] <= batch["measured"]["high"]
    assert batch["predicted"]["seconds"] > 0 and batch["resolution"] > 0
    # On a busy machine three seconds may leave it open; that is a reason, and no verdict.
    assert batch["verdict"] in ("confirmed", "refuted", "below resolution") or batch["reason"] == UNDECIDED
    assert "64 samples before" not in batch["effect"] and "64 with it" in batch["effect"]
    results = {x["name"].rpartition("/")[2]: x for x in lines(path)[kinds.index("contest")]["results"]}
    assert results["change:batch=64"]["repeat"].startswith(f"python -m macro whatif {small} numpy batch=64 --batch 8")
    assert results["change:unchanged"]["repeat"].startswith("python -m macro run ")
    other = run("whatif", *words, "--resume", "--batch", "16")
    assert other.code == 2 and "name another file" in other.err
    again = run("whatif", *words, "--resume")
    assert again.code == ran.code and [line["kind"] for line in lines(path)].count("contest") == 1
    assert not processes.left(tmp_path)


@PERF
@pytest.mark.parametrize(
    ("change", "reason"),
    [(OWN, "does other work than the reference"), pytest.param(BREAKS, "TypeError", marks=pytest.mark.slow)],
)
def test_a_change_that_does_other_work_or_breaks_is_told_and_not_timed(
    run: Callable[..., Ran], tmp_path: Path, change: str, reason: str
) -> None:
    (tmp_path / "mine.py").write_text(change)
    path = tmp_path / "run.jsonl"
    ran = run("whatif", "numpy", str(tmp_path / "mine.py"), "--budget", "2s", "-o", str(path), "-q")
    assert ran.code == 1
    *_, told = (line for line in lines(path) if line["kind"] == "prediction")
    assert reason in told["reason"] and told["measured"] is None
    assert "contest" not in [line["kind"] for line in lines(path)] and reason in ran.out


@pytest.mark.slow
@PERF
def test_advice_is_of_all_changes_that_apply(
    run: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from macro import changes

    monkeypatch.setattr(changes, "names", lambda: ["compile", "heap-keep", "isa"])
    path, shell = tmp_path / "run.jsonl", tmp_path / "best.sh"
    ran = run("advise", "numpy", "--budget", "4s", "-o", str(path), "--shell", str(shell), "-q")
    assert ran.code == 0, ran.err
    (note,) = (line["data"] for line in lines(path) if line.get("topic") == "advice")
    apply = {"heap-keep", *(["isa=avx2"] if "avx2" in instruction_sets()[:-1] else [])}
    assert note["applied"] == len(apply) and set(note["tried"]) <= apply
    assert {x["change"] for x in lines(path) if x["kind"] == "prediction"} >= apply
    assert shell.read_text() == note["shell"] and note["shell"].startswith("#")
    assert run("advise", "numpy", "--shell", str(shell)).code == 2


FAULTS = """
from kernelgap import step
while True:
    with step():
        bytearray(b"1") * (1 << 26)
"""


@PERF
@pytest.mark.slow
def test_a_program_of_ones_own_is_timed_in_its_own_loop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran]
) -> None:
    (tmp_path / "train.py").write_text(FAULTS)
    path, script = tmp_path / "run.jsonl", str(tmp_path / "train.py")
    words = (script, "heap-keep", "threads=1", "--budget", "6s", "-o", str(path), "-q")
    ran = in_process(capsys, main, ["whatif", *words])
    assert ran.code == 1, ran.err  # the program's threads are its own: nothing shows that they changed
    keep, threads = (
        x for x in lines(path) if x["kind"] == "prediction" and (x["measured"] or "threads" in x["change"])
    )
    keep, threads = sorted((keep, threads), key=lambda x: str(x["change"]))
    assert keep["measured"]["seconds"] < 0 and keep["predicted"]["seconds"] < 0 and keep["batch"] == 0
    assert "not timed" in threads["reason"]
    (turns,) = (x["data"]["steps"] for x in lines(path) if x.get("topic") == "turns")
    assert set(turns) == {"as it is", "unchanged", "heap-keep"} and len({len(x) for x in turns.values()}) == 1
    kinds = [x.get("topic", x["kind"]) for x in lines(path)]
    assert kinds.index("prediction") < kinds.index("turns")
    assert not processes.left(tmp_path)


ENDS = """
import os
import time
from kernelgap import step
kept, begun = "MALLOC_MMAP_MAX_" in os.environ, time.monotonic()
while not kept or time.monotonic() < begun + 7:  # longer than it is looked at, shorter than the turns
    with step():
        sum(range(20_000))
"""


@PERF
@pytest.mark.slow
def test_a_changed_program_that_ends_by_itself_costs_its_own_figure_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran]
) -> None:
    (tmp_path / "train.py").write_text(ENDS)
    path = tmp_path / "run.jsonl"
    words = (str(tmp_path / "train.py"), "heap-keep", "huge-pages", "--budget", "20s", "-o", str(path))
    ran = in_process(capsys, main, ["whatif", *words])
    told = {x["change"]: x for x in lines(path) if x["kind"] == "prediction"}
    assert "heap-keep: the script ended by itself; its earlier rounds count" in ran.err, ran.err
    assert (told["heap-keep"]["measured"] is None) == (
        told["heap-keep"]["reason"] == "too few rounds: a longer --budget"
    )
    (turns,) = (x["data"]["steps"] for x in lines(path) if x.get("topic") == "turns")
    assert len(turns["as it is"]) == len(turns["unchanged"]) > len(turns["heap-keep"])


def test_an_interrupt_prints_predictions(own_state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from macro.predicting import judged
    from macro.running import session
    from tests.macro.predicting.test_judged import told

    def measure(file: Any) -> None:
        file.append(told())
        raise KeyboardInterrupt

    assert session.kept("whatif", Outputs(), ["whatif"], measure) == 130
    out, err = capsys.readouterr()
    assert "heap-keep" in out and "−200 ms" in out and judged.CHOOSING not in out
    assert err == "macro whatif: interrupted after 1 prediction: not kept without -o FILE\n"
