"""Figures and text of every question on the fake device, as expected. `GOLDEN=write` rewrites both."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from micro.command.everything import benchmarks
from micro.command.line import main
from reports import store
from reports.record import Run
from tests.conftest import Ran, unsteered
from tests.golden.scripted import CLOCK, ScriptedHost
from tests.golden.sections import compare, sections

HERE = Path(__file__).parent / "questions"
BENCHMARKS = {name: benchmark for name, benchmark in benchmarks().items() if benchmark.questions}
SCOPES = {"fake": ("--device", "fake"), "cuda": ("--device", "fake:cuda"), "all": ("--all", "--device", "fake")}
SLOW = {"cuda", "all"}


def commands(name: str, scope: str) -> Iterator[list[str]]:
    """Yield the words of every question of a benchmark in a scope."""
    for flag, question in BENCHMARKS[name].questions.items():
        if scope != "all" or question.all:
            yield [f"--{flag.replace('_', '-')}", *SCOPES[scope]]


def figures(run: Run) -> Iterator[str]:
    """Yield a line for every contest, measured result and comparison, in the order of the run."""
    for contest in run.contests:
        yield f"{contest.contest}, differs: {contest.differs}"
        names = {result.name: i for i, result in enumerate(contest.results)}
        for result in contest.results:
            time = f"{result.seconds.median:.4g}" if result.seconds else result.reason
            if result.role == "measured":
                yield f"  {names[result.name]}: {result.status} {time} {result.name}"
        for comparison in contest.comparisons:
            numbers = [comparison.ratio, comparison.low, comparison.high]
            ratio = " ".join("-" if x is None else f"{x:.4f}" for x in numbers)
            yield f"  {names[comparison.contender]} / {names[comparison.baseline]}: {comparison.verdict} {ratio}"


@pytest.fixture(autouse=True)
def _one_machine(own_state: Path, light_fake: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same libraries, instruction sets and times on every machine."""
    monkeypatch.setattr("micro.worker.process.Host", ScriptedHost)
    monkeypatch.setattr("micro.measuring.rounds.time", CLOCK)
    monkeypatch.setattr("micro.measuring.runner.time", CLOCK)
    monkeypatch.setattr("kernels.devices.cpu._cpuinfo", lambda: {"flags": "sse2 avx avx2 fma"})
    monkeypatch.setattr("kernels.devices.cpu.quota", lambda: (None, None))
    for place in ("kernels.devices.cpu.memory", "micro.contests.transfer.memory"):
        monkeypatch.setattr(place, lambda: 64 << 30)
    monkeypatch.setattr("os.sched_getaffinity", lambda process: {0, 1})
    monkeypatch.setattr("kernels.libs.openblas.missing", lambda owner: None)
    unsteered(monkeypatch)


@pytest.mark.parametrize("scope", [pytest.param(x, marks=[pytest.mark.slow] * (x in SLOW)) for x in SCOPES])
@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_question_reports_as_before(
    name: str, scope: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran]
) -> None:
    for i, words in enumerate(commands(name, scope)):
        title, file = " ".join(words), tmp_path / f"{i}.jsonl"
        ran = in_process(capsys, main, BENCHMARKS[name], name, [*words, "-q", "-o", str(file)])
        lines = [line.rstrip() for line in (ran.err if ran.code else ran.out).splitlines()]
        lines = list(itertools.takewhile(lambda line: not line.startswith("scripted clock"), lines))  # its seconds
        numbers = list(figures(store.read(file))) if file.exists() else []
        for kind, content in (("figures", numbers), ("text", [f"exit code {ran.code}", *lines])):
            compare(HERE / f"{name}.txt", f"{title}, {kind}", "\n".join(content) + "\n")


def test_every_expected_section_belongs_to_a_question() -> None:
    expected = {(path.stem, title) for path in HERE.iterdir() for title in sections(path)}
    titles = [(name, " ".join(words)) for name in BENCHMARKS for scope in SCOPES for words in commands(name, scope)]
    assert expected == {(name, f"{title}, {kind}") for name, title in titles for kind in ("figures", "text")}
