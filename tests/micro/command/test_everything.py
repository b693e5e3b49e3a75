"""`python -m micro all`: its parts, what each of them says, and a run that is interrupted and taken up again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernels.devices import kind_of
from kernels.errors import UsageError
from micro import __main__
from micro.command import everything
from micro.command.everything import Part, answer, parts
from micro.command.session import answered
from micro.planning.contest import Case
from micro.planning.options import Outputs
from reports import store
from reports.record import Contest, Run
from tests import build
from tests.builds import share
from tests.conftest import Ran
from tests.processes import ROOT, interruptible

DEVICE = "fake:cuda"
FEW = ("gemm", "stream", "transpose")  # benchmarks enough for several parts
Command = Callable[..., Ran]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    known = everything.benchmarks()
    monkeypatch.setattr(everything, "benchmarks", lambda: {name: known[name] for name in FEW})


@pytest.fixture
def micro(
    capsys: pytest.CaptureFixture[str], own_state: Path, light_fake: None, in_process: Callable[..., Ran]
) -> Command:
    """`micro("all")`: the command `python -m micro all`, in this process."""
    return lambda *argv: in_process(capsys, __main__.main, argv)


# Parts


def test_every_benchmark_is_listed_with_its_questions(micro: Command) -> None:
    ran = micro()
    assert ran.code == 0
    for name, benchmark in everything.benchmarks().items():
        assert f"python -m micro.{name}\n" in ran.out
        assert all(f"  --{flag.replace('_', '-')}: " in ran.out for flag in benchmark.questions)


@pytest.mark.parametrize("device", ["fake", DEVICE])
@pytest.mark.parametrize("small", [True, False])
def test_the_useful_lines_are_planned_for_the_device_alone(few: None, device: str, small: bool) -> None:
    found = parts(device, small)
    assert {x.name for x in found} == set(FEW)
    assert len({x.title for x in found}) == len(found)
    for part in found:
        assert part.plan.contests
        assert {case.setting.device for x in part.plan.contests for case in x.cases} == {device}


def test_no_contest_stands_in_two_parts() -> None:
    for device in ("fake", DEVICE):
        names = [contest.name for part in parts(device) for contest in part.plan.contests]
        assert len(set(names)) == len(names)


@pytest.mark.parametrize("words", ["--device banana", "--device fake:xyz", "--budget 0", "--resume", "some"])
def test_what_cannot_be_run_is_refused(micro: Command, words: str) -> None:
    ran = micro(*(["all"] if words != "some" else []), *words.split())
    assert (ran.code, ran.out) == (2, "")
    assert "Traceback" not in ran.err and len(ran.err.splitlines()) <= 3


def test_a_gpu_that_is_not_here_is_one_line(micro: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernels.devices import cuda as gpu
    from kernels.libs import cuda

    for module in (gpu, cuda):
        monkeypatch.setattr(module, "missing", lambda: "the driver was eaten")
    ran = micro("all", "--device", "cuda:0", "--small")
    assert (ran.code, ran.out, ran.err) == (2, "", "micro: --device cuda:0: the driver was eaten\n")


def test_what_does_not_fit_is_left_out_and_said(
    few: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A card of which others hold most goes on with the rest."""
    found = parts("fake")
    device: Any = SimpleNamespace(name="fake", limits=lambda: SimpleNamespace(memory=memory))
    memory = 3 * sorted(max(c.problem.footprint for c in x.cases) for part in found for x in part.plan.contests)[0]
    kept = everything._fitting(found, device)
    assert 0 < sum(len(part.plan.contests) for part in kept) < sum(len(part.plan.contests) for part in found)
    assert " is left out: " in capsys.readouterr().err
    memory = 1
    with pytest.raises(UsageError, match="are free"):
        everything._fitting(found, device)


def test_lines_of_some_ranks_are_planned_alone(few: None) -> None:
    assert [part.rank for part in parts(DEVICE, ranks=range(20, 80))] == [20, 30, 40, 70]
    with pytest.raises(UsageError, match="--device fake: no benchmark supports this device yet"):
        parts("fake", ranks=range(20, 80))


def test_a_removed_option_says_what_to_type_instead(micro: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for word in (("--part", "1"), ("--part=1",)):
        ran = micro("all", *word)
        assert ran.code == 2 and ran.err.count("\n") == 1
        assert ran.err.startswith("python -m micro: --part was removed: type python -m micro all --device")


def test_a_line_that_names_the_variants_of_another_device_is_left_out(
    few: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a second kind of device that is measured whole, what a GPU is asked by its libraries' names."""
    card = replace(kind_of(DEVICE), kernels="cpu")
    monkeypatch.setattr(everything, "kind_of", lambda name: card)
    with pytest.raises(UsageError, match="no benchmark supports this device yet"):
        parts(DEVICE, True)


# Answers, on records made by hand


def told(contest: str, first: Case, second: Case, verdict: str, ratio: float) -> Contest:
    rows = (build.timed(x, 1e-6, contest=contest, problem={}, device="fake:cuda") for x in (first, second))
    ends = {"contest": contest, "low": ratio, "high": ratio, "verdict": verdict}
    return build.contest(*rows, comparisons=(build.comparison(first.name, second.name, ratio, **ends),))


def of_plan(part: Part, verdict: Callable[[Any], tuple[str, float]]) -> list[Contest]:
    """All that it plans; a contest of one case compares nothing."""
    return [
        told(x.name, x.cases[0], x.cases[-1], *verdict(x.cases[0].problem))
        for x in part.plan.contests
        if len(x.cases) > 1
    ]


@pytest.fixture
def todo(few: None) -> list[Part]:
    return parts(DEVICE, small=True)


@pytest.fixture
def crossover(todo: list[Part]) -> int:
    (at,) = (i for i, part in enumerate(todo) if "--crossover" in part.words)
    assert 0 < at < len(todo) - 1
    return at


def whole(todo: list[Part], crossover: int) -> Run:
    """Each part's contests; after the crossover's the one it asked for: transposing first wins from 32 on."""
    contests: list[Contest] = []
    for i, part in enumerate(todo):
        if i != crossover:
            contests += of_plan(part, lambda problem: ("slower", 1.5))
            continue
        contests += of_plan(part, lambda problem: ("slower", 1.5) if problem.m <= 16 else ("faster", 0.5))
        case = part.plan.contests[0].cases
        fine = [replace(x, problem=replace(x.problem, m=32)) for x in case]  # type: ignore[call-arg]
        contests.append(told(f"crossover/{fine[0].problem.name}/fine", fine[0], fine[1], "faster", 0.9))
    return build.run(*contests)


def test_what_a_part_asked_for_afterwards_is_its_own(todo: list[Part], crossover: int) -> None:
    """Without its later contest it would say that it wins nowhere up to 8, which is all that small sizes ask."""
    said = answer(todo[crossover], todo, whole(todo, crossover))
    assert said == [
        "cublas: transposing first wins from somewhere between M = 8 and 32 on, by 2 verdicts; at "
        "32 it takes 0.9000 [0.9000, 0.9000] times as long."
    ]


def test_no_part_speaks_of_another_s_contests(todo: list[Part], crossover: int) -> None:
    run = whole(todo, crossover)
    for part in todo:
        own = {x.name for x in part.plan.contests}
        if part is not todo[crossover]:
            alone = Run(run.environment, tuple(x for x in run.contests if x.contest in own))
            assert answer(part, todo, run) == answer(part, todo, alone)
            assert bool(answer(part, todo, run)) == bool(alone.contests)


def test_what_failed_is_told_once_where_the_sentences_pass_over_it(todo: list[Part], crossover: int) -> None:
    """Also of a contest that compares nothing, and not again where a comparison's line tells it."""
    run, lost = whole(todo, crossover), {"status": "failed", "reason": "cublasCreate returned 14", "seconds": None}
    for asked in (todo[crossover], next(x for x in todo if x.name == "transpose")):
        failed = {
            x.contest: replace(x.results[0], **lost, name=f"{x.results[0].name}/{x.contest}")
            for x in _of(asked, todo, run).contests
        }
        assert len(failed) > 1
        more = [replace(x, results=(*x.results, failed[x.contest])) if x.contest in failed else x for x in run.contests]
        before, said = answer(asked, todo, run), answer(asked, todo, replace(run, contests=tuple(more)))
        (first, *others) = failed.values()
        assert said == [*before, f"{first.name} and {len(others)} more failed: cublasCreate returned 14"]
    assert not everything._broken(replace(run, contests=tuple(more)), ["x / y –, x failed: cublasCreate returned 14"])


def test_a_part_without_sentences_has_a_line_for_each_comparison(todo: list[Part], crossover: int) -> None:
    part = next(x for x in todo if x.name == "transpose")
    said = answer(part, todo, whole(todo, crossover))
    assert len(said) == len(part.plan.contests)
    assert all(line.startswith("transpose ") and line.endswith(" 1.5000 [1.5000, 1.5000], slower") for line in said)


# Runs

SMALL = ("all", "--device", DEVICE, "--small", "--budget", "1s")


def names(run: Run) -> list[str]:
    return [x.contest for x in run.contests]


def test_contests_of_other_parts_are_kept_from_a_part(
    todo: list[Part], monkeypatch: pytest.MonkeyPatch, own_state: Path, light_fake: None
) -> None:
    """Their time is not its own, and its answer and its further questions are of its own contests."""
    kept: list[frozenset[str]] = []
    monkeypatch.setattr(everything, "measure_plan", lambda at, plan, others, leaves: kept.append(others) or 0.0)
    assert [part for part, _ in everything.run(todo, DEVICE, 1.0, Outputs(quiet=True))] == todo
    planned = [{x.name for x in part.plan.contests} for part in todo]
    assert kept == [frozenset(set().union(*planned) - own) for own in planned]


def _of(part: Part, todo: list[Part], run: Run) -> Run:
    own = everything._names(part, todo, run)
    return replace(run, contests=tuple(x for x in run.contests if x.contest in own))


@pytest.mark.slow
def test_all_of_it_in_one_run_file(few: None, micro: Command, tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"
    ran = micro(*SMALL, "-o", str(file))
    found = parts(DEVICE, small=True)
    assert ran.code == 0, ran.err
    titles = [line for line in ran.out.splitlines() if line.startswith("[")]
    assert titles == [f"[{i}/{len(found)}] {x.title}" for i, x in enumerate(found, 1)]
    run = store.read(file)
    planned = {contest.name for part in found for contest in part.plan.contests}
    assert planned <= set(names(run)) and len(set(names(run))) == len(names(run))
    assert {x.partition("/")[0] for x in set(names(run)) - planned} <= {"crossover"}  # asked for afterwards
    for contest in run.contests:
        module = next((x.name for x in found if contest.contest in {y.name for y in x.plan.contests}), "gemm")
        lines = {x.repeat.split()[2] for x in contest.results if x.role == "measured"}
        assert lines == {f"micro.{module}"}
    spoken = [note.data["sentences"] for note in run.notes if note.topic == "answer"]
    assert spoken == [said for part in found if (said := answered(part.plan, _of(part, found, run)))]
    assert spoken
    again = micro(*SMALL, "-o", str(file), "--resume")
    assert again.code == 0
    assert [x for x in again.out.splitlines() if x[0] == "["] == titles
    assert store.read(file) == run
    assert micro(*SMALL, "-o", str(file)).code == 2  # there is something in it already


PROGRAM = f"""
import sys
from kernels.devices.base import Limits
from kernels.devices.fake import Fake
from micro import __main__; from micro.command import everything
known = everything.benchmarks()
everything.benchmarks = lambda: {{name: known[name] for name in {FEW!r}}}
Fake.limits = lambda self: Limits(memory=8 << 30, cores=2, caches=(32 << 10, 1 << 20, 2 << 20))
sys.exit(__main__.main(sys.argv[1:]))
"""


def lines(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines(keepends=True) if file.exists() else []


@pytest.mark.slow
@pytest.mark.parametrize(("number", "after"), [(signal.SIGINT, 3), (signal.SIGKILL, 9)])
def test_what_was_interrupted_is_taken_up_where_it_was(number: signal.Signals, after: int, tmp_path: Path) -> None:
    file = tmp_path / "run.jsonl"

    def started() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *SMALL, "-o", str(file), "--resume", "-q"],
            cwd=ROOT,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | {"KERNELGAP_STATE": str(share(tmp_path / "state"))},
            preexec_fn=interruptible,
        )

    with started() as process:
        while len(lines(file)) < after and process.poll() is None:
            time.sleep(0.005)
        process.send_signal(number)
        _, err = process.communicate(timeout=300)
    assert process.returncode == (128 + number if number != signal.SIGKILL else -number), err
    assert "Traceback" not in err
    kept = [x for x in lines(file) if x.endswith(b"\n")]
    done = names(store.read(file))
    with started() as process:
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    assert lines(file)[: len(kept)] == kept  # not measured again, nor written again
    run, found = store.read(file), [x for x in parts(DEVICE, small=True) if x.name in FEW]
    planned = [contest.name for x in found for contest in x.plan.contests]
    assert after <= len(kept) and len(done) < len(planned), "it was not interrupted"
    assert len(set(names(run))) == len(names(run)) and set(planned) <= set(names(run))
    assert out.count("\n[") + 1 == len(found)
