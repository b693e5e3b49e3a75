"""Run files: what is written is read back, damage is skipped or refused, a run goes on where it was cut."""

from __future__ import annotations

import json
import resource
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reports import store
from reports.record import REASONED, TIMED, Result, Run, Seconds
from tests.reports.runs import CONTEST, ENVIRONMENT, NOTE, OK, PASSED_OVER, PLANNED, REFUSED, RUN, damaged, written


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return written(tmp_path / "run.jsonl")


def test_what_is_written_is_read_back(path: Path) -> None:
    assert store.read(path) == RUN


def test_a_run_is_kept_without_a_file() -> None:
    file = store.RunFile(None, ENVIRONMENT)
    for record in (CONTEST, NOTE, replace(CONTEST, contest="d")):
        file.append(record)
    file.close()
    assert file.run == RUN and len(file.run.comparisons) == 2
    assert file.run.results == (*RUN.contests[0].results, *RUN.contests[1].results)


def test_a_record_is_on_disk_when_append_returns(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    file = store.RunFile(path, ENVIRONMENT, resume=True)  # which is not there yet
    assert store.read(path) == Run(ENVIRONMENT)
    file.append(CONTEST)
    assert store.read(path) == Run(ENVIRONMENT, (CONTEST,))
    file.close()


def test_no_number_is_written_that_json_does_not_know(tmp_path: Path) -> None:
    file = store.RunFile(tmp_path / "run.jsonl", ENVIRONMENT)
    odd = replace(OK, error=float("nan"), error_bound=float("inf"))
    file.append(replace(CONTEST, results=(odd,)))
    file.close()
    (read,) = store.read(tmp_path / "run.jsonl").results
    assert (read.error, read.error_bound) == (None, None)
    text = (tmp_path / "run.jsonl").read_text()
    assert "NaN" not in text and "Infinity" not in text


def test_fields_and_kinds_that_came_later_are_passed_over(path: Path) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["kind"] for line in lines] == ["environment", "contest", "note", "contest"]
    lines[0]["later"] = 1
    lines[1]["later"] = {"x": 1}
    lines[1]["results"][0]["later"] = [1]
    lines[2:2] = [{"kind": kind, "data": [1, 2]} for kind in ("attribution", "what comes later", None, 5)]
    path.write_text("\n".join(map(json.dumps, lines)))
    assert store.read(path) == RUN


def test_fields_that_were_not_there_yet_have_their_defaults(path: Path) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for name in ("interpreter", "canary", "workspace", "warnings"):
        for result in lines[1]["results"]:
            del result[name]
    path.write_text("\n".join(map(json.dumps, lines)))
    first = store.read(path).contests[0].results[1]
    assert first == replace(OK, canary=None, warnings=())


@pytest.mark.parametrize(("role", "needed"), [("measured", "axes"), ("ceiling", "ceiling")])
@pytest.mark.parametrize("missing", [True, False])
def test_a_file_without_a_needed_field_names_its_commit(path: Path, role: str, needed: str, missing: bool) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["facts"]["commit"] = "57dc0b5"
    result = lines[1]["results"][1]
    result |= {"role": role, "axes": {}, "ceiling": "FMA avx2"}
    path.write_text("\n".join(map(json.dumps, lines)))
    assert store.read(path).contests[0].results[1].role == role
    if missing:
        del result[needed]
    else:
        result[needed] = None
    path.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(store.Unreadable) as refusal:
        store.read(path)
    assert str(refusal.value) == (
        f"{path} was written by commit 57dc0b5, whose results have no `{needed}`: "
        "measure again, or read the file with that commit"
    )


def test_a_line_cut_short_anywhere_costs_that_line_alone(path: Path) -> None:
    whole = path.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    for end in [*range(start, len(whole) - 1, 5), len(whole) - 2]:
        path.write_bytes(whole[:end])
        assert store.read(path) == replace(RUN, contests=RUN.contests[:1])
    path.write_bytes(whole[:-1])
    assert store.read(path) == RUN


@pytest.mark.parametrize("how", REFUSED)
def test_a_damaged_file_is_refused_by_name(path: Path, how: str) -> None:
    path.write_bytes(damaged(path.read_bytes(), how))
    with pytest.raises(store.Unreadable) as told:
        store.read(path)
    assert str(path) in str(told.value)
    assert len(str(told.value).splitlines()) == 1


@pytest.mark.parametrize("how", PASSED_OVER)
def test_a_damaged_line_costs_itself_and_is_told(path: Path, how: str) -> None:
    whole = path.read_bytes()
    path.write_bytes(damaged(whole, how) + whole.splitlines(keepends=True)[-1])
    run = store.read(path)
    assert run.contests[-1] == RUN.contests[1]
    (told,) = run.damaged
    assert told.startswith(f"{path}, line 2: ") and told.endswith("skipped")


def test_what_follows_a_line_no_record_can_be_is_given_up(path: Path, monkeypatch: Any) -> None:
    """A gigantic file that is no run is refused at once."""
    monkeypatch.setattr(store, "LONGEST", max(1 << 16, path.stat().st_size))
    (junk := path.with_name("junk")).touch()
    for file in (path, junk):
        with file.open("r+b") as stream:
            stream.truncate(1 << 40)
    run = store.read(path)
    assert run.contests == RUN.contests
    assert "line 5: not a record" in run.damaged[0]
    with pytest.raises(store.Unreadable, match="not a run file"):
        store.read(junk)


def test_a_full_disk_leaves_whole_records(path: Path) -> None:
    """A limit on the size of files fails a write as a full disk does."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    file = store.RunFile(path, ENVIRONMENT, resume=True)
    before = path.stat().st_size
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before + 100, limit[1]))
        with pytest.raises(store.Unwritable, match=r"2 finished contests are kept: .*--resume"):
            file.append(replace(CONTEST, contest="e"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert len(file.run.contests) == 3  # it can still be printed
    file.close()
    assert path.stat().st_size == before
    assert store.read(path) == RUN


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    for name in ("missing.jsonl", ".", "missing/run.jsonl"):
        with pytest.raises(store.Unreadable):
            store.read(tmp_path / name)
    with pytest.raises(store.Unreadable, match=r"-o .*name a file in an existing folder"):
        store.RunFile(tmp_path / "missing" / "run.jsonl", ENVIRONMENT)
    store.RunFile(Path("/dev/null"), ENVIRONMENT).close()
    with pytest.raises(store.Unwritable, match="No space left"):
        store.RunFile(Path("/dev/full"), ENVIRONMENT)


@pytest.mark.parametrize("status", ["planned", "skipped", "built", "ran", *TIMED, "wrong", "failed"])
def test_only_what_was_timed_has_a_time_and_what_failed_has_a_reason(status: Any) -> None:
    seconds = Seconds(1.0, None, None, 0.95)
    right = seconds if status in TIMED else None
    made = replace(PLANNED, status=status, seconds=right, reason="because")
    assert made.status == status
    with pytest.raises(ValueError, match="a time"):
        replace(made, seconds=None if right else seconds)
    if status in REASONED:
        with pytest.raises(ValueError, match="without its reason"):
            replace(made, reason=None)


def test_every_field_of_a_result_goes_round() -> None:
    """Not only those of the examples above: each with a value that is not its default."""
    other: dict[str, Any] = {"int": 7, "float": 0.5, "str": "x", "dict[str, str]": {"x": "y"}, "dict": {"x": 1.0}}
    other |= {"tuple[str": ("x",), "tuple[int": (7,)}
    for field in fields(Result):
        value = next((v for name, v in other.items() if str(field.type).startswith(name)), None)
        if field.name not in ("status", "seconds") and value is not None:
            made = replace(OK, **{field.name: value})
            assert msgspec.json.decode(msgspec.json.encode(made), type=Result) == made, field.name


def test_a_file_that_holds_something_is_not_written_over(path: Path) -> None:
    whole = path.read_bytes()
    with pytest.raises(
        store.Unreadable,
        match=r"file is not empty: name another file, or continue .* with --resume, if the command has this option$",
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
    with pytest.raises(store.Unreadable, match="another run is writing this file"):
        store.RunFile(path, ENVIRONMENT, resume=True)
    first.close()
    store.RunFile(path, ENVIRONMENT, resume=True).close()
