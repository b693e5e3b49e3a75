"""`micro.selftest --soak causes`: what it says of explanations made by hand, and that what is finished is kept."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kernels import suite
from micro import selftest
from micro.command import soak, soak_causes, soak_runs
from micro.command.soak_causes import KINDS, Kind, Named
from reports import attribution
from reports.explanation import Bar, Explanation
from reports.record import Environment
from reports.store import RunFile
from tests.conftest import Ran, load
from tests.reports.made_gap import told

EQUAL = Kind("it against itself", [("it", "it")], pairs=20)
HEAP = Kind("heap default against keep", [("it", "it")], "OS memory")
Answer = Callable[[str, Sequence[str]], Explanation | int]


def bar(name: str, gap: float, sure: bool = True) -> Bar:
    return Bar(name, 0.2 + gap, 0.2, gap - 0.001, gap + 0.001, sure)


def explained(*causes: Bar, layers: Sequence[Bar] = ()) -> Explanation:
    """Of steps of 0.5 s and 0.4 s: a difference is worth a word from 5 ms on."""
    return told(
        [],
        step={"a": 0.5, "b": 0.4},
        gap=0.1,
        interval=(0.09, 0.11),
        bars={"cause": causes, "layer": tuple(layers), "phase": ()},
    )


@pytest.mark.parametrize(
    ("causes", "words"),
    [
        ([bar("OS memory", 0.1), bar("gemm", 0.02, sure=False)], "OS memory +100 ms for certain: right"),
        ([bar("OS memory", 0.1), bar("gemm", -0.02)], "OS memory +100 ms, gemm −20.0 ms for certain: right"),
        ([bar("OS memory", -0.1)], "OS memory −100 ms for certain: WRONG"),
        ([bar("OS memory", 0.1, sure=False)], "nothing for certain: MISSED"),
        ([bar("OS memory", 0.0049)], "nothing for certain: MISSED"),
        ([bar("gemm", 0.1)], "gemm +100 ms for certain: MISSED"),
        ([], "nothing for certain: MISSED"),
    ],
)
def test_a_cause_is_right_by_its_name_and_its_sign(causes: list[Bar], words: str) -> None:
    named = soak_causes.certain(explained(*causes, layers=[bar("fc2", 0.1)]))
    assert soak_causes.line(HEAP, named) == words
    assert named.right(HEAP) == words.endswith("right")


def test_of_equal_sides_nothing_may_be_certain() -> None:
    quiet = explained(bar("gemm", 0.02, sure=False), layers=[bar("fc2", 0.001)])
    assert soak_causes.line(EQUAL, soak_causes.certain(quiet)) == "nothing for certain: right"
    cause = explained(bar("gemm", -0.02))
    assert soak_causes.line(EQUAL, soak_causes.certain(cause)) == "gemm −20.0 ms for certain: WRONG"
    layer = explained(layers=[bar("fc2", 0.02)])
    assert soak_causes.line(EQUAL, soak_causes.certain(layer)) == "layer fc2 for certain: WRONG"


GEMM, MEMORY, BOTH, NONE = (
    Named(causes, ()) for causes in ({"gemm": 1.0}, {"OS memory": 1.0}, {"OS memory": 1.0, "gemm": -1.0}, {})
)


@pytest.mark.parametrize(
    ("kind", "seen", "found", "held"),
    [
        (HEAP, [MEMORY] * 10, "OS memory is certain in 10 of 10; wrong: nothing", True),
        (HEAP, [MEMORY] * 7 + [BOTH] * 2 + [NONE], "OS memory is certain in 9 of 10; wrong: gemm in 2", True),
        (HEAP, [MEMORY] * 8 + [GEMM] + [NONE], "OS memory is certain in 8 of 10; wrong: gemm in 1", False),
        (EQUAL, [NONE] * 19 + [GEMM], "1 of 20 name anything; wrong: gemm in 1", True),
        (EQUAL, [NONE] * 18 + [GEMM, MEMORY], "2 of 20 name anything; wrong: gemm in 1, OS memory in 1", False),
    ],
)
def test_a_kind_is_held_by_its_share(kind: Kind, seen: list[Named], found: str, held: bool) -> None:
    figure = soak_causes.together(kind, seen, "promised")
    assert (figure.found, figure.held) == (found, held)


@pytest.mark.usefixtures("own_state")
def test_what_is_missed_while_others_have_the_cores_is_not_judged() -> None:
    quiet, busy = (Named({}, (), taken) for taken in (0.05, 0.5))
    assert soak_causes.together(HEAP, [quiet] * 6 + [busy] * 4, "").busy is None
    figure = soak_causes.together(HEAP, [quiet] * 4 + [busy] * 6, "at least 9")
    assert figure.busy is not None and figure.busy.startswith("others had the cores for 50% of the time; empty ")
    fine = soak_causes.together(HEAP, [Named({"OS memory": 1.0}, (), 0.5)] * 10, "at least 9")
    assert fine.held and fine.busy is None


def test_the_share_of_others_is_that_of_the_worse_side() -> None:
    sides = explained()
    assert soak_causes.certain(sides).taken == 0.0
    closure: dict[str, dict[str, float | None]] = {"a": {"threads": 0.9}, "b": {"threads": 0.7}}
    assert soak_causes.certain(dataclasses.replace(sides, closure=closure)).taken == pytest.approx(0.3)


def test_what_a_product_packs_is_not_wrong() -> None:
    kind = KINDS["twice"]
    assert Named({"gemm": 1.0, "packing": 0.5}, ()).wrong(kind) == []
    assert Named({"gemm": 1.0, "packing": -0.5}, ()).wrong(kind) == ["packing"]
    assert Named({"gemm": 1.0, "copy": 0.5}, ("layer fc2",)).wrong(kind) == ["copy"]


@pytest.fixture
def macro(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Answer], list[str]]:
    """`macro(answer)`: what stands in for `python -m macro`, in a folder of its own; the files that it was asked for.
    An answer is an explanation, or the exit code of a command that fails."""

    def simulated(answer: Answer) -> list[str]:
        asked: list[str] = []

        def run(words: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
            assert words[:4] == suite.child("macro") and words[-2] == "-o"
            path = Path(words[-1])
            asked.append(path.stem)
            reply = answer(path.stem, words)
            if isinstance(reply, int):
                return subprocess.CompletedProcess(words, reply, stderr="starting it\nmacro explain: it is not here\n")
            write(path, " ".join(["python", *words[2:]]), reply)
            return subprocess.CompletedProcess(words, 0, stderr="")

        monkeypatch.setattr(soak_runs.subprocess, "run", run)
        monkeypatch.setattr(soak_runs.state, "folder", lambda: tmp_path)
        return asked

    return simulated


def write(path: Path, command: str, reply: Explanation) -> None:
    file = RunFile(path, Environment("", {}, {}, command, ""))
    file.append(attribution.note(reply))
    file.close()


def as_promised(name: str, words: Sequence[str]) -> Explanation:
    column = KINDS[name.partition("-")[0]].column
    return explained(bar(column, 0.1)) if column else explained()


def test_what_is_as_promised_is_held(macro: Callable[[Answer], list[str]]) -> None:
    asked = macro(as_promised)
    figures = list(soak_causes.figures())
    assert len(asked) == len(set(asked)) == 50
    judged = [figure for figure in figures if figure.promised]
    assert [figure.promised for figure in judged] == ["at least 9"] * 3 + ["at most 1"]
    assert all(figure.held for figure in figures)
    assert figures[0].found.startswith("50 of 50 are to be measured, about ")
    assert "heap, pair 1 of 10: OS memory +100 ms for certain: right" in [figure.say() for figure in figures]


def test_a_finished_pair_is_not_measured_again(macro: Callable[[Answer], list[str]]) -> None:
    """One is killed in flight, so it has begun a file; one is cut short; one answered another question."""

    def killed(name: str, words: Sequence[str]) -> Explanation:
        if name == "heap-04":
            Path(words[-1]).write_text('{"digest":"', "utf-8")
            raise KeyboardInterrupt
        return as_promised(name, words)

    asked = macro(killed)
    with pytest.raises(KeyboardInterrupt):
        list(soak_causes.figures("heap"))
    assert asked == ["heap-01", "heap-02", "heap-03", "heap-04"]
    cut = soak_causes.file("heap", 2)
    cut.write_bytes(cut.read_bytes()[:-20])
    other = soak_causes.file("heap", 3)
    other.write_text(other.read_text("utf-8").replace("--batch 16", "--batch 17"), "utf-8")
    asked = macro(as_promised)
    *_, together = soak_causes.figures("heap")
    assert asked == ["heap-02", "heap-03", *(f"heap-{i:02}" for i in range(4, 11))]
    assert together.held and "10 of 10" in together.found
    asked = macro(as_promised)
    first, *_ = soak_causes.figures("heap")
    assert asked == [] and first.found.startswith("0 of 10 are to be measured, about 0 min")


def test_equal_pairs_are_measured_as_unequal_ones_are(macro: Callable[[Answer], list[str]]) -> None:
    forms: set[tuple[str, ...]] = set()

    def remembered(name: str, words: Sequence[str]) -> Explanation:
        assert words[6] == words[7], "both sides are the same"
        forms.add(tuple(words[8 : words.index("--runs")]))
        return explained()

    macro(remembered)
    list(soak_causes.figures("equal"))
    unequal = {tuple(KINDS[name].question(1)[4:-3]) for name in ("twice", "copy")}  # but for budget and -q
    assert forms >= unequal and len(forms) == len(soak_causes.FORMS)


def test_where_the_framework_is_missing_its_kinds_are_skipped(macro: Callable[[Answer], list[str]]) -> None:
    asked = macro(lambda name, words: 2)
    _, *figures = soak_causes.figures("heap", "equal")
    assert asked == ["heap-01", "equal-01"]
    assert [figure.say() for figure in figures] == [
        "heap default against keep: skipped; promised at least 9: not judged: macro explain: it is not here",
        "PyTorch against itself: skipped; promised at most 1: not judged: macro explain: it is not here",
    ]


def test_a_pair_that_fails_ends_its_kind(macro: Callable[[Answer], list[str]]) -> None:
    macro(lambda name, words: 1 if name == "heap-02" else as_promised(name, words))
    *_, first, last = soak_causes.figures("heap")
    assert first.name == "heap, pair 1 of 10"
    assert not last.held and last.busy is None and last.found == "macro explain: it is not here"


def test_a_kind_is_a_part_of_its_own(
    macro: Callable[[Answer], list[str]], capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran]
) -> None:
    asked = macro(as_promised)
    ran = in_process(capsys, selftest.main, ["--soak", "causes:copy"])
    assert ran.code == 0 and asked == [f"copy-{i:02}" for i in range(1, 11)]
    assert ran.out.splitlines()[-1].endswith("copy is certain in 10 of 10; wrong: nothing; promised at least 9: held")
    ran = in_process(capsys, selftest.main, ["--soak", "causes:heat"])
    assert ran.code == 2 and "--soak causes:heat: there are rate" in ran.err and "causes:heap" in ran.err
    assert all(f"causes:{kind}" in soak.PIECES for kind in KINDS)


@pytest.mark.parametrize("hook", ["twice", "copied"])
def test_a_hook_throws_away_what_it_adds(hook: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It is called after the largest layer in each forward pass; gradients and steps are PyTorch's own."""
    pytest.importorskip("torch")
    import numpy as np

    monkeypatch.syspath_prepend(str(soak_runs.ROOT / "macro/worker"))
    from macro.frameworks import find
    from macro.networks.base import chain
    from macro.processes import job as job_files
    from macro.processes.job import Setting

    network = chain("tiny", "a test", 8, (6, 9, 7, 3), 0.1)
    framework = find(f"{soak_runs.ROOT / soak_causes.HOOKS}:{hook}")
    files = job_files.write_arrays(network, network.batch, tmp_path)
    job = job_files.write(framework, network, network.batch, Setting(), files, tmp_path)
    job_data = json.loads(job.read_text("utf-8"))
    adapter = load(framework.path)
    added: list[Any] = []
    own = adapter.HOOKS[hook]
    monkeypatch.setitem(adapter.HOOKS, hook, lambda *given: (added.append(given[0].weight.shape), own(*given))[1])
    model, plain = adapter.build(job_data), adapter.plain.build(job_data)
    for _ in range(2):
        model.step()
        plain.step()
    assert [tuple(shape) for shape in added] == [(7, 9)] * 2
    for name, array in plain.parameters().items():
        np.testing.assert_array_equal(array, model.parameters()[name], err_msg=name)
