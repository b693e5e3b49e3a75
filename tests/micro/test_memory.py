"""What memory and calls cost: plans, reasons for what is missing, the commands on the fake device."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from kernels.catalog import find
from kernels.devices import open_device
from kernels.errors import Unavailable, UsageError
from kernels.libs import cffi, numba, torch
from kernels.ops.chase.problem import Chase
from kernels.ops.launch import libraries
from kernels.ops.launch.problem import Calls
from kernels.ops.pages import variants as pages
from kernels.ops.pages.problem import HUGE_PAGE, SMALL_PAGE, Pages
from kernels.ops.saxpy.problem import Saxpy
from kernels.setting import Setting
from micro import launch, memory
from micro.command.line import main
from micro.contests import memory as built
from micro.planning.benchmark import NothingWritten, Request
from micro.planning.contest import Contest
from reports import store
from tests.conftest import Ran
from tests.micro.plans import contests

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
    found = built.idle(asked(**given))
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
    (contest,) = built.idle(asked(size=(size,)))
    assert {getattr(case.problem, "page", 0) for case in contest.cases} == {SMALL_PAGE}


def test_words_that_threads_hand_each_other_are_a_gpus_question() -> None:
    """By the spread against the best one; on a processor each case says where it can be measured."""
    on_gpu = replace(asked(), settings=(Setting(device="fake:cuda"),))
    load, shared, everywhere, swap = built.exchange(on_gpu)
    spreads = [[case.problem.spread for case in x.cases] for x in (load, shared, everywhere)]  # type: ignore[attr-defined]
    cores = open_device("fake:cuda").limits().cores
    assert spreads == [[1, 2, 4, 8, 16, 32], [1024, 32, 1], [1024 * cores, 1024, 32, 1]]
    assert [case.problem.how for case in swap.cases] == ["load", "shuffle"]  # type: ignore[attr-defined]
    every = [case for x in (load, shared, everywhere, swap) for case in x.cases]
    assert not [case.skip for case in every if case.skip]
    assert all("--device cuda:0" in str(case.skip) for x in built.exchange(asked()) for case in x.cases)


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
    monkeypatch.setattr(built, "open_device", lambda name: device)
    for build in (built.bandwidth, built.loads):
        problems: list[Any] = [case.problem for c in build(asked()) for case in c.cases]
        largest = max(x.footprint for x in problems)
        assert 16 * MIB - built.GRAIN <= largest <= 32 * MIB + 2 * HUGE_PAGE


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
        (Pages("clear", "default", 4096), "--size 262144"),
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
    with pytest.raises(Unavailable, match=r"instead of 32 pages of 2097152 bytes, the system mapped \d{4,} smaller"):
        pages.VARIANTS[0].prepare(problem, open_device("cpu"), Setting())


# The command on the fake device


def test_a_scripted_clock_says_nothing_of_this_machine(
    command: Callable[..., Ran], huge: None, own_state: Path
) -> None:
    ran = command("memory", "--device", "fake", "-q", "--faults", "--size", "2097152", "--budget", "1s")
    assert ran.code == 0, ran.err
    assert "Cross-checks" not in ran.out


CPU = open_device("cpu")
KERNELS = ("gemm", "empty")


def launch_asked(given: tuple[str, ...] = (), rungs: tuple[str, ...] = (), **axes: Any) -> Request:
    more = ("variant",) if rungs else ()
    sweep = launch.BENCHMARK.sweep | axes
    return Request("launch", sweep, rungs, (Setting(),), frozenset(), frozenset((*given, *axes, *more)))


def pretend(monkeypatch: pytest.MonkeyPatch, *missing: str) -> None:
    """As if these packages were not installed, and all others were."""
    known = importlib.util.find_spec
    found = importlib.util.find_spec("json")
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name in missing else found if name in ("cffi", "numba", "torch") else known(name),
    )


# The plan


def test_a_gpus_own_clock_is_asked_of_a_stream_and_of_a_graph() -> None:
    every = contests("launch", "--gaps", "--device", "fake:cuda")
    assert [[case.variant for case in x.cases] for x in every] == [["cuda-c", "cuda-graph"]] * 2
    assert not any(case.problem.on_host or case.skip for x in every for case in x.cases)
    other = find("launch", "cupy-kernel")
    assert (
        "--clock caller" in str(other.accepts(Calls("empty", 1, "device"))) and other.accepts(Calls("empty", 1)) is None
    )
    with pytest.raises(NothingWritten):
        contests("launch", "--gaps")


def test_axes_and_rungs_that_are_named_are_kept_to() -> None:
    found = launch.ladder(launch_asked(rungs=("ctypes", "c"), kernel=("gemm",), chain=(2, 8)))
    assert [contest.name for contest in found] == [
        "ladder/launch/kernel:gemm/chain:2",
        "ladder/launch/kernel:gemm/chain:8",
        "floor/nothing",
        "floor/nothing-python",
        "chain/kernel:gemm/variant:ctypes",
        "chain/kernel:gemm/variant:c",
    ]
    assert [case.variant for case in found[0].cases] == ["ctypes", "c"]
    assert [case.problem.chain for case in found[-1].cases] == [2, 8]  # type: ignore[attr-defined]
    assert not [x for x in launch.ladder(launch_asked(chain=(1,))) if x.name.startswith("chain/")]


def test_a_call_has_the_same_work_in_every_chain() -> None:
    assert Calls("gemm", 1).flops == Calls("gemm", 64).flops == 1024
    assert Calls("empty", 64).flops == Calls("empty", 64).bytes == 0
    for kernel, chain in (("sgemm", 1), ("gemm", 0)):
        with pytest.raises(UsageError, match=r"--kernel sgemm|--chain 0"):
            Calls(kernel, chain)


# What is not here

OPTIONAL = {"numba": numba, "cffi": cffi, "torch": torch}


@pytest.mark.parametrize("name", OPTIONAL)
def test_a_missing_package_is_one_line(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    pretend(monkeypatch, name)
    case = launch_asked().case(Calls("gemm", 1), name)
    assert case.skip is not None and f"pip install {name}" in case.skip and "\n" not in case.skip
    assert launch_asked().case(Calls("gemm", 1), next(x for x in OPTIONAL if x != name)).skip is None


@pytest.mark.parametrize("name", OPTIONAL)
def test_half_a_package_is_one_line(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Also where its import raises ImportError."""
    for module in (ModuleType(name), *([None] if name != "torch" else [])):
        monkeypatch.setitem(sys.modules, name, module)
        with pytest.raises(Unavailable, match=f"^{name} is installed but cannot be used .*--force-reinstall {name}$"):
            find("launch", name).prepare(Calls("gemm", 1), CPU, Setting())


def test_a_compiler_that_fails_is_one_line(monkeypatch: pytest.MonkeyPatch, own_state: Path) -> None:
    def refuses(*x: Any) -> None:
        raise RuntimeError("InvalidCxxCompiler: none\nand a page more")

    fake = SimpleNamespace(
        compile=lambda body, **how: refuses,
        zeros=lambda shape: None,
        set_num_threads=lambda n: None,
        set_grad_enabled=lambda on: None,
    )
    monkeypatch.setattr(torch, "load", lambda: fake)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "x")
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", "1")
    with pytest.raises(Unavailable, match=r"^torch.compile fails \(.*none\): apt-get install g\+\+$"):
        libraries.compiled(Calls("gemm", 1), CPU, Setting())


# The command on the fake device


def test_the_command_tells_the_ladder(command: Callable[..., Ran]) -> None:
    ran = command("launch", "--device", "fake", "-q", "--budget", "6s", "--json", "-")
    assert ran.code == 0
    assert ran.err.startswith(
        "What does one call cost through each interface?\n  launch kernel:gemm chain:512, relative to c: "
    )
    document = json.loads(ran.out)
    rows = [x for x in document["results"] if x["role"] == "measured"]
    assert {x["status"] for x in rows} <= {"ok", "contended", "skipped"}
    timed = [x for x in rows if x["seconds"]]
    assert {x["problem"]["kernel"] for x in timed} == set(KERNELS)
    for x in timed:  # what does nothing has a time, and nothing that bounds it
        works = x["problem"]["kernel"] == "gemm"
        assert (x["percent_of_ceiling"] is not None) == (x["ceiling"] is not None) == works
        assert bool(x["flops_per_second"]) == bool(x["bytes_per_second"]) == works
    assert {x["work_ratio"] for x in document["comparisons"]} == {1.0}, "against no work there is no ratio of it"


def test_without_the_optional_packages_their_rungs_are_skipped(
    monkeypatch: pytest.MonkeyPatch, command: Callable[..., Ran]
) -> None:
    pretend(monkeypatch, *OPTIONAL)
    monkeypatch.setattr("kernels.libs.mkl._path", lambda: None)
    ran = command("launch", "--list")
    for name in (*OPTIONAL, "mkl"):
        assert f"variant:{name}/threads:1  skipped: {name} is not installed: pip install {name}" in ran.out
    assert ran.out.count("skipped") == ran.out.count("is not installed")
