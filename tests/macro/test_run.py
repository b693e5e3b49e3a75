"""A run of frameworks: twins, the ceiling in its rounds, what does other work; and what a file keeps of rounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kernels.errors import UsageError
from macro import command as macro_command
from macro import run
from macro.frameworks import find
from macro.processes.job import Setting
from macro.timing import groups, ratios, results, resume, turns
from macro.timing.entry import FEWEST, Entry, Plan, Taken
from macro.timing.resume import Round, Row
from reports import stats, store
from reports.record import Note, Run
from tests.conftest import Ran
from tests.macro.conftest import SMALL
from tests.simulated import frameworks

PLAN = Plan(SMALL, SMALL.batch, "step", 30.0, 3)


@pytest.fixture
def command(
    small: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], in_process: Callable[..., Ran]
) -> Iterator[Callable[..., Ran]]:
    """`command("--runs", "1")`: `python -m macro run` of a small network, in this process, into run.jsonl."""
    words = [str(small), "--budget", "0.1s", "-q", "-o", str(tmp_path / "run.jsonl")]
    yield lambda *more: in_process(capsys, run.main, [*words, *more])


def test_a_framework_named_twice_is_compared_with_itself(command: Callable[..., Ran], tmp_path: Path) -> None:
    told = command("--frameworks", "numpy,numpy", "--runs", "2")
    assert told.code == 0 and "numpy~b / " in told.out
    read = store.read(tmp_path / "run.jsonl")
    first, second = read.results
    assert (first.variant, second.variant) == ("numpy", "numpy~b")
    assert second.repeat.startswith(f"python -m macro run {tmp_path}/small.json --frameworks 'numpy~b' ")
    assert macro_command.frameworks("numpy~b")[0].name == "numpy~b"
    (compared,) = read.comparisons
    assert compared.ratio is not None and compared.scope == "within process"


@pytest.mark.slow
def test_batches_and_phases_are_contests_of_one_file(command: Callable[..., Ran], tmp_path: Path) -> None:
    told = command("--frameworks", "numpy", "--runs", "1", "--batch", "4,8", "--phase", "forward,step")
    assert told.code == 0
    read = store.read(tmp_path / "run.jsonl")
    steps = [(batch, phase) for batch in (4, 8) for phase in ("forward", "step")]
    assert [(r.problem["batch"], r.problem["phase"]) for r in read.results] == steps
    assert "batch 4: " in told.out and "batch 8: " in told.out
    head = next(line for line in told.out.splitlines() if "samples/s" in line)
    assert head.split()[:3] == ["framework", "batch", "phase"] and "memory" in head


def test_an_option_that_went_says_what_to_type_instead(command: Callable[..., Ran]) -> None:
    told = command("--division", "tuned")
    assert told.code == 2
    assert "--division was removed: use python -m macro advise NETWORK FRAMEWORK --shell FILE" in told.err


def test_a_run_keeps_peaks_and_variables_that_its_repeat_line_sets(command: Callable[..., Ran], tmp_path: Path) -> None:
    assert command("--frameworks", "numpy", "--runs", "1", "--set", "OMP_WAIT_POLICY=active").code == 0
    (result,) = store.read(tmp_path / "run.jsonl").results
    assert result.identity is not None and result.identity["variables"]["OMP_WAIT_POLICY"] == "active"
    assert result.repeat.endswith(" --set OMP_WAIT_POLICY=active")
    assert result.axes == {}, "null is an older file's"
    assert result.canary is not None and 0 < (result.percent_of_ceiling or 0) < 100
    looks = result.canary["1 GFLOP of multiply-adds"]  # in every round
    assert len(looks) == len(result.samples) >= FEWEST and all(x > 0 for x in looks)


def test_a_finished_run_is_left_as_it_is_by_other_commands_too(command: Callable[..., Ran], tmp_path: Path) -> None:
    numpy = ("--frameworks", "numpy", "--runs", "1")
    command(*numpy)
    before = (tmp_path / "run.jsonl").read_bytes()
    assert command(*numpy, "--resume").code == 0
    for words, why in (
        (("--frameworks", "numpy,numpy"), r"of other frameworks or settings, from .*: name another file$"),
        ((*numpy, "--batch", "4"), r"it holds other contests, from `.*`; this command is `.*`: name another file$"),
        ((*numpy, "--set", "OMP_WAIT_POLICY=passive"), r"of other frameworks or settings, from .*: name another file$"),
    ):
        with pytest.raises(UsageError, match=why):
            command(*words, "--resume")
    assert (tmp_path / "run.jsonl").read_bytes() == before


@pytest.mark.parametrize(
    ("stop", "code"), [pytest.param(KeyboardInterrupt(), 130, marks=pytest.mark.slow), (SystemExit(143), 143)]
)
def test_a_stopped_run_says_what_it_has_kept(
    command: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: BaseException, code: int
) -> None:
    def stopped(plan: Plan, taken: Taken, starting: float) -> Iterator[str]:
        if taken.number == 1:
            raise stop
        yield ""

    monkeypatch.setattr(turns, "_progress", stopped)
    told = command("--frameworks", "numpy", "--runs", "1")
    assert (told.code, told.out) == (code, "")
    kept = f"kept in {tmp_path}/run.jsonl, --resume continues"
    assert told.err == f"macro run: interrupted after 2 rounds: {kept}\n"


@pytest.mark.slow
def test_what_a_step_sleeps_is_in_its_time(command: Callable[..., Ran], tmp_path: Path) -> None:
    sleeping = frameworks.write(tmp_path, "sleeping", frameworks.SLEEPING)
    assert command("--frameworks", str(sleeping.path), "--runs", "1").code == 0
    (result,) = store.read(tmp_path / "run.jsonl").results
    assert result.clock == "cpu" and result.step is not None and result.step["blocked"] > 0.02
    assert min(result.samples) > 0.02


def test_where_the_system_tells_no_queueing_steps_are_timed_by_the_wall(
    command: Callable[..., Ran], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = groups.begin

    def begin(plan: Plan, entry: Entry, *rest: Any) -> Any:
        process = begun(plan, entry, *rest)
        entry.identity["run_delay"] = False
        return process

    monkeypatch.setattr(groups, "begin", begin)
    command("--frameworks", "numpy", "--runs", "1")
    (result,) = store.read(tmp_path / "run.jsonl").results
    assert result.clock == "wall" and not result.wall_samples
    assert result.warnings[-1] == "this system does not report how long a process is queued: times are wall time"


@pytest.mark.slow
def test_the_peak_of_memory_is_the_process_own(command: Callable[..., Ran], tmp_path: Path) -> None:
    large = bytearray(600 << 20)
    large[:: 1 << 12] = b"x" * len(large[:: 1 << 12])
    command("--frameworks", "numpy", "--runs", "1")
    (result,) = store.read(tmp_path / "run.jsonl").results
    assert len(large) and result.step is not None and 5 << 20 < result.step["peak"] < 500 << 20


# What a file keeps of rounds

STEP = {**dict.fromkeys(resume.BLOCK, 1.0), "blocked": 0.0}


def entry(blocks: int = 0) -> Entry:
    made = Entry(find("numpy"), Setting(), count=3, setup=[1.0])
    made.blocks = [(0, i, STEP) for i in range(blocks)]
    return made


def taken(*generations: tuple[int, bool]) -> list[Round]:
    """Rounds of generations of so many, a second each, the last of which ended or not."""
    return [
        Round(g, i, i + 1.0, ended and i == count - 1, "x", {"a": Row("ok", None, 3, (1.0,), {"cpu": 1.0 + i})})
        for g, (count, ended) in enumerate(generations)
        for i in range(count)
    ]


@pytest.mark.parametrize(
    ("rounds", "spent", "first", "generations"),
    [
        ([], 0.0, 0, 3),
        ([(10, True)], 10.0, 1, 2),
        ([(10, True), (7, False)], 17.0, 2, 2),
        ([(10, True), (5, False)], 10.0, 2, 2),
        ([(7, False), (10, True), (10, True)], 27.0, 3, 1),
        ([(10, True)] * 3, 30.0, 3, 0),
        ([(40, False)], 40.0, 1, 3),
    ],
)
def test_what_is_left_of_a_killed_run(
    rounds: list[tuple[int, bool]], spent: float, first: int, generations: int
) -> None:
    found = resume.left(PLAN, taken(*rounds))
    assert resume.spent(taken(*rounds)) == spent
    assert (found.first, found.generations) == (first, generations)
    assert found.seconds == max(0.0, PLAN.seconds - spent)
    places = [found.place(first + i) for i in range(generations)]  # a killed one is measured again: they are no more
    assert places == [f"generation {i} of 3" for i in range(4 - generations, 4)]


@pytest.mark.parametrize(
    ("seconds", "number", "spent", "rounds", "whole"),
    [
        (30.0, 9, 8.0, "10 rounds, 8 of 10 s", ""),
        (30.0, 6, 12.0, "7 rounds, 12 of 10 s", ""),
        (30.0, 5, 123.0, "6 of 6 rounds, 123 s", ""),
        (0.0, 5, 123.0, "6 of 6 rounds, 123 s", ""),
        (30.0, 0, 3.0, "1 round, 3 of 10 s", "18 s, longer than their share of the budget: about 59 s more"),
        (0.0, 0, 20.0, "1 of 6 rounds, 20 s", "120 s, but the budget is spent: about 348 s more"),
    ],
)
def test_progress_names_what_ends_a_generation(
    seconds: float, number: int, spent: float, rounds: str, whole: str
) -> None:
    """Its share of the budget, or where that is too small its fewest rounds."""
    plan = replace(PLAN, seconds=seconds, generations=3)
    first, *more = turns._progress(plan, Taken(0, number, spent, False), 4.0)
    assert first == f"generation 1 of 3: {rounds}"
    assert more == [f"the required 6 rounds take about {whole}; --runs 1 or a smaller --batch takes less"] * bool(whole)


def test_an_entry_is_what_it_was(tmp_path: Path) -> None:
    class File:
        run = Run(None)  # type: ignore[arg-type]

        def append(self, note: object) -> None:
            self.run = Run(None, notes=(*self.run.notes, note))  # type: ignore[arg-type]

    file, well, failed = File(), entry(2), entry(1)
    failed.status, failed.reason = "failed", "it died"
    resume.keep(file, "x", {"a": well, "b": failed}, Taken(0, 1, 2.0, False))  # type: ignore[arg-type]
    assert resume.rounds(file.run, "another") == []
    (one,) = resume.rounds(file.run, "x")
    again, other = entry(), entry()
    resume.restore({"a": again, "b": other}, [one])
    assert again.blocks == [(0, 1, STEP)] and (again.count, again.setup) == (3, [1.0])
    assert (other.status, other.reason, other.blocks) == ("failed", "it died", [])


def test_a_generation_cut_short_is_compared_with_nothing() -> None:
    a, b = entry(), entry()
    for made in (a, b):
        made.blocks = [(g, i, STEP) for g, n in ((0, 3), (1, 8), (2, stats.FEWEST)) for i in range(n)]
    found = ratios.compare([results.by_round(x, "cpu") for x in (a, b)], 1, 0, 0.01)
    assert found.generations == 2 and found.judged.rounds == 8 + stats.FEWEST


@pytest.mark.parametrize("block", [{"cpu": 1.0}, {}, {name: x for name, x in STEP.items() if name != "wall"}])
def test_rounds_of_an_older_protocol_are_refused(block: dict[str, float]) -> None:
    row = {"status": "ok", "reason": None, "count": 1, "setup": [], "block": block}
    told = {"contest": "x", "generation": 0, "number": 0, "seconds": 1.0, "ended": True, "entries": {"a": row}}
    run = Run(None, notes=(Note("round", told),))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="are of an older version: name another file"):
        resume.rounds(run, "x")
    assert resume.rounds(run, "another") == []
    run = Run(None, notes=(Note("round", {}), Note("round", {"contest": "x", "generation": "first"})))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"^-o: the file's rounds of x cannot be read \(.*\): name another file$"):
        resume.rounds(run, "x")


def test_a_block_is_kept_whole() -> None:
    numbers = {key: [1] for key in ("wall_ns", "cpu_ns", "blocked_ns", "system_ns")}
    counts = {key: [0] for key in ("faults", "voluntary", "involuntary")}
    block = turns._block({**numbers, **counts, "foreign": 0.0, "canary": 1.0, "peak_bytes": 1})
    assert {*block, "fma"} >= resume.BLOCK


def test_that_a_round_was_the_last_adds_none_of_it() -> None:
    row = Row("ok", None, 3, (1.0,), STEP)
    one = Round(0, 5, 1.0, False, "x", {"a": row})
    again = entry()
    resume.restore({"a": again}, [one, replace(one, ended=True)])
    assert again.blocks == [(0, 5, STEP)]
