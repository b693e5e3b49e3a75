"""The table of mechanisms: whole, each test planned and found among its contests, each verdict where it belongs."""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from micro.answers.mechanisms import NOT_YET, SOURCES, Mechanism, Trial, mechanisms
from micro.planning.contest import Contest
from reports import store
from tests import build
from tests.conftest import Ran
from tests.micro import plans
from tests.processes import python

COUNTS = {"G": 13, "C": 18, "E": 12, "R": 15, "H": 14, "M": 13, "P": 12, "K": 15}
IDS = [f"{letter}{i}" for letter, count in COUNTS.items() for i in range(1, count + 1)]
EVERY = mechanisms()
TESTS = [one for one in EVERY if one.test]
HEAVY = {"numpy", "scipy", "torch", "numba", "rich", "matplotlib", "psutil", "threadpoolctl"}

pytestmark = pytest.mark.usefixtures("four_cores")


def contests(test: Trial) -> tuple[Contest, ...]:
    """What the command would measure; on a GPU that plays where it is for one."""
    module, *words = shlex.split(test.command)
    if test.gpu:
        words = [word.replace("cuda:0", "fake:cuda") for word in words]
        words += [] if "--device" in words else ["--device", "fake:cuda"]
    return plans.contests(module.partition(".")[2], *words)


def meant(test: Trial) -> set[tuple[str, str]]:
    """Contests and pairs of the command that are meant."""
    found = set()
    for contest in contests(test):
        for first, second in contest.comparisons if re.match(test.contest, contest.name) else ():
            pair = f"{contest.cases[second].name} / {contest.cases[first].name}"
            if re.search(test.pair, pair):
                found.add((contest.name, pair))
    return found


def test_each_has_a_test_or_a_reason() -> None:
    assert [one.id for one in EVERY] == IDS and len(IDS) == 112
    for one in EVERY:
        assert [bool(one.test), bool(one.why_not), bool(one.later)].count(True) == 1, one.id
        assert one.what and "" not in (one.claim, one.why_not, one.later)
        for source in one.source.split(", "):
            assert source in SOURCES or source.removesuffix("r") in SOURCES, source
        if one.later:  # names what it will belong to
            assert re.match(rf"{NOT_YET}(micro|macro)[. ]", one.later), one.id


@pytest.mark.parametrize("one", TESTS, ids=lambda one: one.id)
def test_its_command_plans_what_is_meant(one: Mechanism) -> None:
    """By a pattern that begins where a name begins: names that end like those they repeat answer nothing."""
    assert one.test is not None
    assert meant(one.test), f"no pair of {one.test.command} is meant; see --list"
    for name, _ in meant(one.test):
        for before in ("selftest/identical/0/", "ab/"):
            assert not re.match(one.test.contest, before + name)


def test_mechanisms_of_one_contest_say_what_else() -> None:
    found = {one.id: {name for name, _ in meant(one.test)} for one in TESTS if one.test}
    for a, b in itertools.combinations(TESTS, 2):
        assert a.test and b.test
        assert not found[a.id] & found[b.id] or a.test.arm != b.test.arm, f"{a.id} and {b.id}"


G1 = build.run(build.transposed(64, "openblas", value=3.0), build.transposed(8, "openblas", value=1.0))


def written(path: Path, run: Any, started: str = "2026-11-21T16:00:00") -> Path:
    file = store.RunFile(path, replace(run.environment, started=started))
    for contest in run.contests:
        file.append(contest)
    file.close()
    return path


Table = Callable[..., Ran]


@pytest.fixture
def table(
    capsys: pytest.CaptureFixture[str], in_process: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Table:
    """`table(*files)`: `python -m micro --mechanisms FILE…` in an empty folder, without the runs kept here."""
    from micro.__main__ import main

    monkeypatch.chdir(tmp_path)
    return lambda *files: in_process(capsys, main, ["--mechanisms", *map(str, files)])


def rows(text: str) -> dict[str, str]:
    """The lines of each id, as one."""
    found: dict[str, list[str]] = {}
    for line in text.partition("\n\n")[0].splitlines()[2:]:
        if line[0] != " ":
            last = line.split()[0]
        found.setdefault(last, []).append(line)
    return {name: " ".join(" ".join(lines).split()) for name, lines in found.items()}


def test_the_table_names_every_id_and_a_verdict(table: Table, tmp_path: Path) -> None:
    on_gpu = replace(
        G1,
        contests=tuple(replace(x, results=tuple(replace(y, device="cuda:0") for y in x.results)) for x in G1.contests),
    )
    for made, where in ((G1, "made.jsonl"), (on_gpu, "made.jsonl, cuda:0")):
        (tmp_path / "made.jsonl").unlink(missing_ok=True)
        ran = table(written(tmp_path / "made.jsonl", made))
        assert (ran.code, ran.err) == (0, "")
        found = rows(ran.out)
        assert list(found) == IDS and max(map(len, ran.out.splitlines())) <= 120
        assert all(words in found["G1"] for words in ("slower 3.00 [2.85, 3.15]", "2 pairs", where))
        assert {name for name, row in found.items() if "made.jsonl" in row} == {"G1"}
        assert "none in these files" in found["G2"]
    summary = " ".join(ran.out.partition("\n\n")[2].split())
    for field, count, words in (
        ("test", 1, "with a command but no verdict in these files: run the command"),
        ("why_not", 0, "without a command: the row gives the reason"),
        ("later", 0, "whose benchmark is not implemented yet: the row names it"),
    ):
        assert f" {sum(bool(getattr(one, field)) for one in EVERY) - count} {words}" in summary
    assert "112 mechanisms: 1 with a verdict, from the run files read (1; by default" in summary


def test_the_latest_run_with_a_ratio_speaks(table: Table, tmp_path: Path) -> None:
    older = written(tmp_path / "older.jsonl", G1, "2026-11-20T16:00:00")
    faster = build.run(build.transposed(64, value=0.5, verdict="faster"))
    newer = written(tmp_path / "newer.jsonl", faster, "2026-11-21T16:00:00")
    without = build.run(build.transposed(64, value=None, verdict="not comparable", reason="no MKL here"))
    newest = written(tmp_path / "newest.jsonl", without, "2026-11-22T16:00:00")
    assert "faster 0.50" in rows(table(newer, older, newest).out)["G1"]
    assert "newer.jsonl" in rows(table(older, newer).out)["G1"]
    assert "not comparable: no MKL here" in rows(table(newest).out)["G1"]


def test_contests_that_repeat_others_say_nothing(table: Table, tmp_path: Path) -> None:
    repeated = build.transposed(64)
    repeated = replace(repeated, contest=f"ab/{repeated.contest}")
    assert "none in these files" in rows(table(written(tmp_path / "ab.jsonl", build.run(repeated))).out)["G1"]


def test_without_files_it_reads_those_that_are_here(table: Table, tmp_path: Path) -> None:
    every = rows(table().out)
    for one in EVERY:
        start = "not implemented yet: " if one.later else "no command: "
        assert (f"python -m {one.test.command.split()[0]}" if one.test else start) in every[one.id], one.id
    (tmp_path / "runs").mkdir()
    written(tmp_path / "runs/of-mine.jsonl", G1)
    (tmp_path / "runs/torn.jsonl").write_text("no run file\n")
    ran = table()
    assert ran.code == 0
    assert "of-mine.jsonl" in rows(ran.out)["G1"]
    for path in (tmp_path / "missing.jsonl", tmp_path / "runs/torn.jsonl"):
        ran = table(path)
        assert ran.code == 2 and str(path) in ran.err


def test_the_table_is_light() -> None:
    """Of the runs kept here; msgspec alone reads them."""
    ran = python("-X", "importtime", "-m", "micro", "--mechanisms", "reports/reference")
    assert ran.returncode == 0, ran.stderr[-500:]
    assert list(rows(ran.stdout)) == IDS
    modules = {line.rpartition("|")[2].strip() for line in ran.stderr.splitlines() if "import time:" in line}
    assert "argparse" in modules, "the trace was not understood"
    assert not {name for name in modules if name.partition(".")[0] in HEAVY}
    assert "none in these files" not in rows(ran.stdout)["G1"], "reports/reference was not read"
