"""What memory costs: the plan, names and commands that lead back, machines that lack something, the fake device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernels.catalog import find
from kernels.devices import open_device
from kernels.errors import Unavailable, UsageError
from kernels.ops.chase.problem import Chase
from kernels.ops.pages import variants as pages
from kernels.ops.pages.problem import HUGE_PAGE, SMALL_PAGE, Pages
from kernels.ops.saxpy.problem import Saxpy
from kernels.setting import Setting
from micro import memory
from micro.command.line import main
from micro.contests import memory as contests
from micro.planning.benchmark import Request
from micro.planning.contest import Contest
from reports import store
from tests.conftest import Ran

KIB, MIB = 1 << 10, 1 << 20
BUILDERS: dict[str, Callable[[Request], list[Contest]]] = {
    name: question.build for name, question in memory.QUESTIONS.items()
}


def asked(**axes: Any) -> Request:
    sweep = memory.BENCHMARK.sweep | axes
    return Request("pages", sweep, ("c",), (Setting(),), frozenset(), frozenset(axes))


@pytest.fixture
def huge(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the system gave huge pages to whoever asks."""
    for module in ("pages", "chase"):
        monkeypatch.setattr(f"kernels.ops.{module}.variants.huge_pages", lambda: "madvise")


# The plan


@pytest.mark.parametrize(
    ("given", "pages", "waits"),
    [
        ({}, [HUGE_PAGE], [0, 3]),
        ({"pause": (0.0, 1.0, 3.0)}, [HUGE_PAGE], [0, 1, 3]),
        ({"page": (SMALL_PAGE, HUGE_PAGE)}, [SMALL_PAGE, HUGE_PAGE], [0, 3]),
    ],
)
def test_idle_memory_waits_none_and_three_seconds(
    huge: None, given: dict[str, Any], pages: list[int], waits: list[float]
) -> None:
    found = contests.idle(asked(**given))
    assert [vars(x.cases[0].problem)["page"] for x in found] == pages
    for contest in found:
        problems = [vars(case.problem) for case in contest.cases]
        assert ([x["pause"] for x in problems], contest.differs) == (waits, "pause")
        assert {x["memory"] for x in problems} == {"fresh"}


@pytest.mark.parametrize(("mode", "size"), [("never", 16 * MIB), ("madvise", MIB)])
def test_idle_memory_is_of_small_pages_where_there_are_no_others(
    monkeypatch: pytest.MonkeyPatch, mode: str, size: int
) -> None:
    monkeypatch.setattr("kernels.ops.pages.variants.huge_pages", lambda: mode)
    (contest,) = contests.idle(asked(size=(size,)))
    assert {getattr(case.problem, "page", 0) for case in contest.cases} == {SMALL_PAGE}


def test_words_that_threads_hand_each_other_are_a_gpus_question() -> None:
    """By the spread against the best one; on a processor each case says where it can be measured."""
    on_gpu = replace(asked(), settings=(Setting(device="fake:cuda"),))
    load, shared, everywhere, swap = contests.exchange(on_gpu)
    spreads = [[case.problem.spread for case in x.cases] for x in (load, shared, everywhere)]  # type: ignore[attr-defined]
    cores = open_device("fake:cuda").limits().cores
    assert spreads == [[1, 2, 4, 8, 16, 32], [1024, 32, 1], [1024 * cores, 1024, 32, 1]]
    assert [case.problem.how for case in swap.cases] == ["load", "shuffle"]  # type: ignore[attr-defined]
    every = [case for x in (load, shared, everywhere, swap) for case in x.cases]
    assert not [case.skip for case in every if case.skip]
    assert all("--device cuda:0" in str(case.skip) for x in contests.exchange(asked()) for case in x.cases)


def test_words_that_are_timed_are_whole_numbers_too(
    own_state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran]
) -> None:
    """Their sums are exact: of any other numbers a right one would be called wrong while it is timed."""
    path = tmp_path / "run.jsonl"
    words = ["--exchange", "--device", "fake:cuda", "--budget", "2s", "-q", "-o", str(path)]
    ran = in_process(capsys, main, memory.BENCHMARK, "memory", words)
    assert ran.code == 0, ran.err
    assert {result.status for result in store.read(path).results} == {"ok"}


def test_a_size_or_page_that_is_named_is_kept_to() -> None:
    for build in BUILDERS.values():
        for case in (case for contest in build(asked(size=(65536,))) for case in contest.cases):
            sizes = [getattr(case.problem, x, 0) for x in ("size", "working_set", "vector")]
            assert max(sizes) <= 65536
        for case in (case for contest in build(asked(page=(SMALL_PAGE,))) for case in contest.cases):
            assert getattr(case.problem, "page", SMALL_PAGE) == SMALL_PAGE


def test_working_sets_leave_half_of_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    device = SimpleNamespace(limits=lambda: SimpleNamespace(memory=512 * MIB))
    monkeypatch.setattr(contests, "open_device", lambda name: device)
    for build in (contests.bandwidth, contests.loads):
        problems: list[Any] = [case.problem for c in build(asked()) for case in c.cases]
        largest = max(x.footprint for x in problems)
        assert 16 * MIB - contests.GRAIN <= largest <= 32 * MIB + 2 * HUGE_PAGE


# What is mapped is declared, and what is impossible refused


def test_footprints_hold_what_is_mapped() -> None:
    assert Pages("clear", "fresh", 16 * MIB).footprint == 16 * MIB + 16
    assert Pages("copy", "fresh", 16 * MIB, HUGE_PAGE).footprint == 2 * (16 * MIB + HUGE_PAGE) + 16
    assert Chase(64 * MIB).footprint >= 64 * MIB
    assert Saxpy(262144, "swept").footprint - Saxpy(262144, "flushed").footprint == 256 * MIB


def test_impossible_problems_are_refused() -> None:
    refused: dict[tuple[Any, ...], str] = {
        (Pages, "clear", "fresh", 4096, 8192): "--page 8192",
        (Pages, "clear", "fresh", 5000): "--size 5000",
        (Pages, "clear", "fresh", 4096, 4096, -1.0): "--pause",
        (Chase, 1000): "--working-set 1000",
        (Chase, 1030): "--working-set 1030",
        (Chase, 4096, 1): "--page 1",
    }
    for (kind, *values), option in refused.items():
        with pytest.raises(UsageError, match=option):
            kind(*values)


@pytest.mark.parametrize("mode", ["never", None])
@pytest.mark.parametrize("problem", [Pages("clear", "fresh", HUGE_PAGE, HUGE_PAGE), Chase(4096, HUGE_PAGE)])
def test_a_machine_without_huge_pages_says_so(monkeypatch: pytest.MonkeyPatch, mode: str | None, problem: Any) -> None:
    monkeypatch.setattr(f"kernels.ops.{problem.op}.variants.huge_pages", lambda: mode)
    case = asked().case(problem, "c")
    assert case.skip is not None and "echo madvise > " in case.skip and "\n" not in case.skip


def test_what_contradicts_itself_is_skipped(huge: None) -> None:
    for problem, why in (
        (Pages("clear", "touched", 4096, 4096, 1.0), "--memory fresh"),
        (Pages("map", "fresh", 4096), "--memory mapped"),
        (Pages("clear", "fresh", 4096, HUGE_PAGE), "multiple"),
        (Pages("clear", "default", 4096), "--size of 262144"),
    ):
        assert why in (pages.accepts(problem) or "")


@pytest.mark.parametrize("problem", [Pages("clear", "fresh", MIB), Chase(MIB)])
def test_more_than_half_of_what_is_free_is_not_taken(monkeypatch: pytest.MonkeyPatch, problem: Any) -> None:
    from kernels.devices.base import Limits

    most = Limits(2 * problem.footprint - 1, 1, (1,))
    monkeypatch.setattr("kernels.devices.cpu.Cpu.limits", lambda self: most)
    with pytest.raises(Unavailable, match="more than half"):
        find(problem.op, "c").prepare(problem, open_device("cpu"), Setting())


def test_pages_that_the_system_does_not_give_are_told(monkeypatch: pytest.MonkeyPatch, huge: None) -> None:
    """Small pages where huge ones were asked for: memory in pieces, or a container that forbids them."""
    region = pages.Region

    def small(**fields: Any) -> Any:
        return region(**(fields | {"page": SMALL_PAGE}))

    monkeypatch.setattr(pages, "Region", small)
    problem = Pages("clear", "fresh", 32 * HUGE_PAGE, HUGE_PAGE)
    with pytest.raises(Unavailable, match=r"asked for 32 pages of 2097152 bytes, the system gave \d{4,} smaller"):
        pages.VARIANTS[0].prepare(problem, open_device("cpu"), Setting())


# The command on the fake device


def test_a_scripted_clock_says_nothing_of_this_machine(
    command: Callable[..., Ran], huge: None, own_state: Path
) -> None:
    ran = command("memory", "--device", "fake", "-q", "--faults", "--size", "2097152", "--budget", "1s")
    assert ran.code == 0, ran.err
    assert not (own_state / "faults.json").exists()
