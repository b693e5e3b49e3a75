"""Recording files NAME.kg: JSON lines with a `kind` each; a reader skips kinds that it does not know.

Kinds in order: `program` (with the format), a `process` for each watched process, `started` (plain steps on the
initial heap), `called` (operations with their shapes), `ended`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernels.errors import UsageError
from macro.watching.packed import Packed, packed, unpacked
from macro.watching.recording import Called, Event, Recording, Watched

FORMAT = 1
SUFFIX = ".kg"


def beside(run_file: Path, number: int, count: int) -> Path:
    """Return the path of the recording beside a run file; with two recordings, the name ends in -a or -b."""
    side = f"-{'ab'[number]}" if count > 1 else ""
    return run_file.with_name(f"{run_file.stem}{side}{SUFFIX}")


def write(recording: Recording, path: Path) -> None:
    """Write a recording, atomically replacing an existing file. Raises UsageError if it cannot be written."""
    import msgspec

    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as stream:
            for line in _lines(recording):
                stream.write(msgspec.json.encode(line) + b"\n")
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UsageError(f"-o {path}: {error.strerror}: name another file") from None


def _lines(recording: Recording) -> Iterator[dict[str, Any]]:
    yield {"kind": "program", "format": FORMAT, **recording.program}
    for process in recording.processes:
        yield {"kind": "process", "watched": asdict(packed(process)), "events": _columns(process.events)}
    if recording.started is not None:
        yield {"kind": "started", "watched": asdict(packed(recording.started))}
    if recording.called:
        rest = [list(call[1:]) for call in recording.called]
        yield {"kind": "called", "events": _columns([call.event for call in recording.called]), "inputs": rest}
    yield {"kind": "ended", "words": recording.ended}


def _columns(events: Sequence[Event]) -> dict[str, list[Any]]:
    """Return events as columns: names as indices into `names`, start times delta-coded, ends as durations."""
    names: dict[str, int] = {}
    columns: dict[str, list[Any]] = {field: [] for field in Event._fields}
    before = 0
    for event in events:
        columns["name"].append(names.setdefault(event.name, len(names)))
        columns["start"].append(event.start - before)
        columns["end"].append(event.end - event.start)
        for field, value in zip(Event._fields[3:], event[3:], strict=True):
            columns[field].append(value)
        before = event.start
    return {**columns, "names": list(names)}


def _events(columns: dict[str, list[Any]]) -> list[Event]:
    events, at = [], 0
    for name, start, lasted, *rest in zip(*(columns[field] for field in Event._fields), strict=True):
        at += start
        events.append(Event(columns["names"][name], at, at + lasted, *rest))
    return events


def read(path: Path) -> Recording:
    """Read a recording. Raises UsageError if the file is not a recording or holds no steps."""
    import msgspec

    recording = Recording({})
    try:
        with path.open("rb") as stream:
            for line in stream:
                _take(recording, msgspec.json.decode(line))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except (msgspec.DecodeError, msgspec.ValidationError, LookupError, TypeError, ValueError) as error:
        raise UsageError(f"{path} is not a recording of `macro explain SCRIPT`: {error}") from None
    if not recording.program or not any(process.levels.get("P0") for process in recording.processes):
        raise UsageError(f"{path} holds no steps: record the script again")
    return recording


def _take(recording: Recording, line: dict[str, Any]) -> None:
    """Add the content of a line to the recording. Raises ValueError for a later format."""
    kind = line.pop("kind")
    if kind == "program":
        if line.pop("format") > FORMAT:
            raise ValueError("a later version's format: update this suite")
        recording.program = line
    elif kind == "process":
        recording.processes.append(_watched(line))
    elif kind == "started":
        recording.started = _watched(line)
    elif kind == "called":
        events = _events(line["events"])
        recording.called = [Called(event, *rest) for event, rest in zip(events, line["inputs"], strict=True)]
    elif kind == "ended":
        recording.ended = line["words"]


def _watched(line: dict[str, Any]) -> Watched:
    import msgspec

    watched = unpacked(msgspec.convert(line["watched"], Packed))
    watched.events = _events(line["events"]) if "events" in line else []
    return watched
