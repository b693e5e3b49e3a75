"""A run file made by hand, ways in which it is damaged, and what the formats and the command make of a run."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reports import formats, store
from reports.__main__ import main
from reports.record import FORMAT, Note, Result, Run, Seconds
from tests import build
from tests.conftest import Ran

SMALL = Path(__file__).with_name("transpose.jsonl")

FACTS = {"cores": 2, "device": {"model": "µ"}}
ENVIRONMENT = build.environment(digest="0123", facts=FACTS, state={"load": [0.5, 1.0]}, command="python -m x")
PLANNED = build.result("gemm/m:8", problem={"m": 8, "trans": "nt", "beta": 0.0}, status="planned")
OK = replace(
    PLANNED,
    name="gemm/m:9",
    status="ok",
    seconds=Seconds(1e-6, None, 2.5e-6, 0.95),
    cold=("a", "b"),
    clock="wall",
    samples=(1e-6, 1.1e-6),
    rounds=(0, 1),
    placements=(64, 128),
    rejected=(1,),
    work={"flops": 2.0, "bytes": 3.0},
    canary={"fma": [1e-5]},
    warnings=("ü\n",),
    error=1e-8,
    launches=3,
    percent_of_ceiling=50.0,
)
WRONG = replace(PLANNED, name="gemm/m:10", status="wrong", reason="returns zeros")
COMPARISON = build.comparison("gemm/m:8", "gemm/m:9", low=None, high=2.0, notes=("n",))
SPENT = {"measuring": 1.0, "setup": 2.0}
CONTEST = build.contest(PLANNED, OK, WRONG, question="which?", comparisons=(COMPARISON,), seconds=SPENT)
NOTE = Note("answer", {"sentences": ["It does."]})
RUN = Run(ENVIRONMENT, (CONTEST, replace(CONTEST, contest="d")), (NOTE,))


def called(capsys: pytest.CaptureFixture[str], *words: object) -> Ran:
    """What `python -m reports` does with these words, in this process."""
    code: object
    try:
        code = main([str(word) for word in words])
    except SystemExit as end:
        code = end.code
    streams = capsys.readouterr()
    return Ran(code, streams.out, streams.err)


def formatted(kind: str, run: Run, *, verbose: bool = False) -> str:
    stream = io.StringIO()
    formats.write(kind, run, stream, verbose=verbose)
    return stream.getvalue()


def strict(text: str) -> Any:
    """JSON without the numbers that JSON does not know."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def changed(run: Run, change: Callable[[Result], Result]) -> Run:
    """The run with other results."""
    return replace(run, contests=tuple(replace(x, results=tuple(map(change, x.results))) for x in run.contests))


def written(path: Path) -> Path:
    """A run file of two contests and a note between them."""
    file = store.RunFile(path, ENVIRONMENT)
    for record in (CONTEST, NOTE, replace(CONTEST, contest="d")):
        file.append(record)
    file.close()
    return path


def _damages(whole: bytes) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Return a run file as it should not be: ways in which it is refused, and those that cost a line."""
    head, first, *rest = whole.splitlines(keepends=True)
    changed = json.loads(head)
    refused = {
        "empty": b"",
        "one empty line": b"\n",
        "junk": b"\x00\x93NUMPY\xff\xfe" * 20,
        "text": b"Dear reader,\n",
        "a number": b"5\n",
        "a list": b"[1]\n",
        "another kind first": first + head,
        "head cut short": head[:20],
        "head lacks its digest": json.dumps({"kind": "environment"}).encode(),
        "future format": json.dumps(changed | {"format": FORMAT + 1}).encode() + b"\n" + first,
        "format is a word": json.dumps(changed | {"format": "two"}).encode() + b"\n" + first,
        "format is null": json.dumps(changed | {"format": None}).encode() + b"\n" + first,
    }
    passed_over = {
        "middle line cut short": b"".join((head, first[:50] + b"\n", *rest)),
        "middle line not UTF-8": b"".join((head, b'{"kind": "\xff"}\n', *rest)),
        "a result without a name": head + first.replace(b'"name":', b'"nam":'),
        "an ok result without a time": head + first.replace(b'"status":"planned"', b'"status":"ok"'),
        "a status nobody knows": head + first.replace(b'"planned"', b'"fine"'),
        "a line that is a list": b"".join((head, b"[1]\n", first)),
        "a line that is a number": b"".join((head, b"5\n", first)),
    }
    return refused, passed_over


REFUSED, PASSED_OVER = map(tuple, _damages(b"{}\n{}\n"))


def damaged(whole: bytes, how: str) -> bytes:
    refused, passed_over = _damages(whole)
    return (refused | passed_over)[how]
