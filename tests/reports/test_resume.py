"""A run goes on where it was cut, and no file is lost or written by two."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from reports import store
from reports.record import Run
from tests.reports.runs import CONTEST, ENVIRONMENT, REFUSED, RUN, damaged, written


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return written(tmp_path / "run.jsonl")


def test_a_file_that_holds_something_is_not_written_over(path: Path) -> None:
    whole = path.read_bytes()
    with pytest.raises(
        store.Unreadable, match=r"name another file; --resume goes on with a run, where the command has it$"
    ):
        store.RunFile(path, ENVIRONMENT)
    assert path.read_bytes() == whole


def test_resuming_keeps_what_is_there(path: Path) -> None:
    file = store.RunFile(path, replace(ENVIRONMENT, command="another", state={}), resume=True)
    assert file.run == RUN
    file.append(replace(CONTEST, contest="e"))
    file.close()
    read = store.read(path)
    assert [contest.contest for contest in read.contests] == ["c", "d", "e"]
    assert read.environment == ENVIRONMENT


def test_resuming_begins_a_file_that_is_not_there_yet(tmp_path: Path) -> None:
    file = store.RunFile(tmp_path / "run.jsonl", ENVIRONMENT, resume=True)
    file.append(CONTEST)
    file.close()
    assert store.read(tmp_path / "run.jsonl") == Run(ENVIRONMENT, (CONTEST,))


def test_resuming_after_a_kill_at_any_byte(path: Path) -> None:
    """Whatever was cut is measured again; nothing that was whole is lost, nothing is there twice."""
    whole = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    for end in [*range(ends[0] + 1), *range(ends[0], len(whole) + 1, 31), *(e - 1 for e in ends), *ends]:
        path.write_bytes(whole[:end])
        kept = store.read(path).contests if end >= ends[0] - 1 else ()
        file = store.RunFile(path, ENVIRONMENT, resume=True)
        assert file.run.contests == kept
        file.append(replace(CONTEST, contest="e"))
        file.close()
        read = store.read(path)
        assert (read.contests, read.damaged) == ((*kept, replace(CONTEST, contest="e")), ()), end


def test_resuming_elsewhere_is_refused_and_the_difference_named(path: Path) -> None:
    whole = path.read_bytes()
    other = replace(ENVIRONMENT, digest="4567", facts=ENVIRONMENT.facts | {"cores": 3})
    with pytest.raises(store.Unreadable, match=r"another environment \(cores: 2 → 3\): name another file"):
        store.RunFile(path, other, resume=True)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("how", [how for how in REFUSED if how not in ("empty", "head cut short")])
def test_resuming_what_is_no_run_leaves_it_alone(path: Path, how: str) -> None:
    path.write_bytes(junk := damaged(path.read_bytes(), how))
    with pytest.raises(store.Unreadable):
        store.RunFile(path, ENVIRONMENT, resume=True)
    assert path.read_bytes() == junk


def test_a_file_belongs_to_one_run_at_a_time(path: Path) -> None:
    first = store.RunFile(path, ENVIRONMENT, resume=True)
    with pytest.raises(store.Unreadable, match="another run is writing it"):
        store.RunFile(path, ENVIRONMENT, resume=True)
    first.close()
    store.RunFile(path, ENVIRONMENT, resume=True).close()
