"""Run files: what is written is read back; what is damaged is refused or passed over, never a traceback."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from reports import store
from reports.__main__ import main
from reports.record import (
    FORMAT,
    REASONED,
    TIMED,
    Comparison,
    Contest,
    Environment,
    Note,
    Result,
    Run,
    Seconds,
)
from tests.conftest import Ran

ENVIRONMENT = Environment(
    "0123", {"cores": 2, "device": {"model": "µ"}}, {"load": [0.5, 1.0]}, "python -m x", "now"
)
PLANNED = Result(
    "gemm/m:8", "c", "measured", "gemm", {"m": 8, "trans": "nt", "beta": 0.0}, "v", "cpu", 1, "planned"
)
OK = replace(
    PLANNED, name="gemm/m:9", status="ok", seconds=Seconds(1e-6, None, 2.5e-6, 0.95), cold=("a", "b"), clock="wall",
    samples=(1e-6, 1.1e-6), rounds=(0, 1), placements=(64, 128), rejected=(1,), work={"flops": 2.0, "bytes": 3.0},
    canary={"fma": [1e-5]}, warnings=("ü\n",), error=1e-8, launches=3, percent_of_ceiling=50.0,
)  # fmt: skip
WRONG = replace(PLANNED, name="gemm/m:10", status="wrong", reason="answers zeros")
COMPARISON = Comparison(
    "c", "variant", "gemm/m:8", "gemm/m:9", 1.5, None, 2.0, 0.95, "slower", None, 0.01, 0.01, notes=("n",)
)
CONTEST = Contest(
    "c", "which?", "variant", (PLANNED, OK, WRONG), (COMPARISON,), {"measuring": 1.0, "setup": 2.0}
)
NOTE = Note("answer", {"sentences": ["It does."]})
RUN = Run(ENVIRONMENT, (CONTEST, replace(CONTEST, contest="d")), (NOTE,))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A run file of two contests and a note between them."""
    file = store.RunFile(tmp_path / "run.jsonl", ENVIRONMENT)
    for record in (CONTEST, NOTE, replace(CONTEST, contest="d")):
        file.append(record)
    file.close()
    return tmp_path / "run.jsonl"


def test_what_is_written_is_read_back(path: Path) -> None:
    assert store.read(path) == RUN


def test_a_run_is_kept_without_a_file() -> None:
    file = store.RunFile(None, ENVIRONMENT)
    for record in (CONTEST, NOTE, replace(CONTEST, contest="d")):
        file.append(record)
    file.close()
    assert file.run == RUN
    assert file.run.results == (*RUN.contests[0].results, *RUN.contests[1].results)
    assert len(file.run.comparisons) == 2


def test_each_record_is_one_line_that_says_its_kind(path: Path) -> None:
    kinds = [json.loads(line)["kind"] for line in path.read_text().splitlines()]
    assert kinds == ["environment", "contest", "note", "contest"]


def test_a_record_is_on_disk_when_append_returns(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    file = store.RunFile(path, ENVIRONMENT)
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


@pytest.mark.parametrize("kind", ["attribution", "prediction", "equal", "what comes later", None, 5])
def test_unknown_kinds_are_passed_over(path: Path, kind: object) -> None:
    lines = path.read_text().splitlines()
    lines.insert(2, json.dumps({"kind": kind, "data": [1, 2]}))
    path.write_text("\n".join(lines) + "\n")
    assert store.read(path) == RUN


def test_fields_that_came_later_are_passed_over(path: Path) -> None:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines[0]["later"] = 1
    lines[1]["later"] = {"x": 1}
    lines[1]["results"][0]["later"] = [1]
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


def test_a_line_cut_short_anywhere_costs_that_line_alone(path: Path) -> None:
    whole = path.read_bytes()
    start = whole.rindex(b"\n", 0, -1) + 1
    for end in range(start, len(whole) - 1):
        path.write_bytes(whole[:end])
        assert store.read(path) == replace(RUN, contests=RUN.contests[:1])
    path.write_bytes(whole[:-1])
    assert store.read(path) == RUN


def damaged(whole: bytes, how: str) -> bytes:
    """A run file as it should not be."""
    head, first, *rest = whole.splitlines(keepends=True)
    changed = json.loads(head)
    return {
        "empty": b"",
        "one empty line": b"\n",
        "junk": b"\x00\x93NUMPY\xff\xfe" * 20,
        "text": b"Dear reader,\n",
        "a number": b"5\n",
        "a list": b"[1]\n",
        "another kind first": first + head,
        "head cut short": head[:20],
        "head lacks its digest": json.dumps({"kind": "environment"}).encode(),
        "middle line cut short": b"".join((head, first[:50] + b"\n", *rest)),
        "middle line not UTF-8": b"".join((head, b'{"kind": "\xff"}\n', *rest)),
        "a result without a name": head + first.replace(b'"name":', b'"nam":'),
        "an ok result without a time": head + first.replace(b'"status":"planned"', b'"status":"ok"'),
        "a status nobody knows": head + first.replace(b'"planned"', b'"fine"'),
        "future format": json.dumps(changed | {"format": FORMAT + 1}).encode() + b"\n" + first,
        "format is a word": json.dumps(changed | {"format": "two"}).encode() + b"\n" + first,
        "format is null": json.dumps(changed | {"format": None}).encode() + b"\n" + first,
        "a line that is a list": b"".join((head, b"[1]\n", first)),
        "a line that is a number": b"".join((head, b"5\n", first)),
    }[how]


SOUND = (
    "empty", "one empty line", "junk", "text", "a number", "a list", "another kind first", "head cut short",
    "head lacks its digest", "middle line cut short", "middle line not UTF-8", "a result without a name",
    "an ok result without a time", "a status nobody knows", "future format",
)  # fmt: skip
DAMAGE = (
    *SOUND,
    *(
        pytest.param(how)
        for how in ("format is a word", "format is null", "a line that is a list", "a line that is a number")
    ),
)


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_file_is_refused_by_name(path: Path, how: str) -> None:
    path.write_bytes(damaged(path.read_bytes(), how))
    with pytest.raises(store.Unreadable) as told:
        store.read(path)
    assert str(path) in str(told.value)
    assert len(str(told.value).splitlines()) == 1


def test_the_line_of_the_damage_is_named(path: Path) -> None:
    path.write_bytes(damaged(path.read_bytes(), "middle line cut short"))
    with pytest.raises(store.Unreadable, match="line 2: "):
        store.read(path)


@pytest.mark.parametrize("name", ["missing.jsonl", ".", "missing/run.jsonl"])
def test_what_is_no_file_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(store.Unreadable):
        store.read(tmp_path / name)


def test_a_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(store.Unreadable, match=r"-o .*name a file in a folder that is there"):
        store.RunFile(tmp_path / "missing" / "run.jsonl", ENVIRONMENT)


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
    other = {"int": 7, "float": 0.5, "str": "x", "dict": {"x": 1.0}, "tuple[str": ("x",), "tuple[int": (7,)}
    for field in fields(Result):
        kind = str(field.type)
        value = next((v for name, v in other.items() if kind.startswith(name)), None)
        if field.name not in ("status", "seconds") and value is not None:
            made = replace(OK, **{field.name: value})
            assert msgspec.json.decode(msgspec.json.encode(made), type=Result) == made, field.name


Show = Callable[..., Ran]


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Show:
    """`show(FILE)`: the command `python -m reports show FILE`, in this process."""

    def run(*argv: object) -> Ran:
        code: object
        try:
            code = main(["show", *map(str, argv)])
        except SystemExit as end:
            code = end.code
        told = capsys.readouterr()
        return Ran(code, told.out, told.err)

    return run


@pytest.mark.parametrize("how", DAMAGE)
def test_show_refuses_a_damaged_file_with_one_line(show: Show, path: Path, how: str) -> None:
    path.write_bytes(damaged(path.read_bytes(), how))
    ran = show(path)
    assert (ran.code, ran.out) == (2, "")
    assert len(ran.err.splitlines()) == 1


@pytest.mark.parametrize("name", ["/dev/null", "missing.jsonl", "."])
def test_show_refuses_what_is_no_file(show: Show, tmp_path: Path, name: str) -> None:
    ran = show(tmp_path / name)
    assert (ran.code, ran.out) == (2, "")
    assert len(ran.err.splitlines()) == 1


def test_show_prints_nothing_of_any_file_when_one_is_damaged(show: Show, path: Path) -> None:
    ran = show(path, "/dev/null")
    assert (ran.code, ran.out) == (2, "")


def test_show_reads_what_a_kill_left(show: Show, path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])
    ran = show(path)
    assert (ran.code, ran.err) == (0, "")
    assert "answers zeros" in ran.out


def test_show_of_two_files_names_them(show: Show, path: Path) -> None:
    ran = show(path, path)
    assert ran.out.splitlines().count(str(path)) == 2


@pytest.mark.parametrize("argv", [[], ["show"], ["banana"], ["show", "--banana", "x"]])
def test_usage(capsys: pytest.CaptureFixture[str], argv: list[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(argv)
    told = capsys.readouterr()
    assert (end.value.code, told.out) == (2, "")
    assert len(told.err.splitlines()) <= 6
