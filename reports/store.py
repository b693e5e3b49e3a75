"""Run files: JSON lines, the environment first, then a line for each finished contest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import IO, Any

from reports.record import FORMAT, Contest, Environment, Note, Run


class Unreadable(Exception):
    """A file that is no run file; says what it is instead and what to do."""


class RunFile:
    """Appends records; each is on disk when `append` returns. Without a path it only keeps the run."""

    def __init__(self, path: Path | None, environment: Environment) -> None:
        self.run = Run(environment)
        self._stream: IO[bytes] | None = None
        if path is not None:
            try:
                self._stream = path.open("wb")
            except OSError as error:
                raise Unreadable(
                    f"-o {path}: {error.strerror}; name a file in a folder that is there"
                ) from None
            self._write(environment)

    def append(self, record: Contest | Note) -> None:
        from dataclasses import replace

        if isinstance(record, Contest):
            self.run = replace(self.run, contests=(*self.run.contests, record))
        else:
            self.run = replace(self.run, notes=(*self.run.notes, record))
        self._write(record)

    def _write(self, record: object) -> None:
        if self._stream is None:
            return
        import msgspec

        self._stream.write(msgspec.json.encode(record) + b"\n")
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()


def read(path: Path) -> Run:
    """A run file's records; unknown kinds are passed over. Raises Unreadable."""
    import msgspec

    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror}") from None
    if not lines:
        raise Unreadable(f"{path} is empty: no run was written to it")
    try:
        head = msgspec.json.decode(lines[0])
        if not isinstance(head, dict) or head.get("kind") != "environment":
            raise Unreadable(f"{path} is no run file: its first line is not an environment record")
        if not isinstance(head.get("format"), int):
            raise Unreadable(f"{path} is no run file: its environment record names no format")
        if head["format"] > FORMAT:
            raise Unreadable(
                f"{path} has format {head['format']}, this version reads up to {FORMAT}: update it"
            )
        run = Run(msgspec.convert(head, Environment))
        return _collect(run, path, lines[1:])
    except (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
        raise Unreadable(f"{path} is no run file: {error}") from None


def _collect(run: Run, path: Path, lines: list[bytes]) -> Run:
    import msgspec

    contests: list[Contest] = []
    notes: list[Note] = []
    for number, line in enumerate(lines, start=2):
        try:
            record: dict[str, Any] = msgspec.json.decode(line)
        except msgspec.DecodeError:
            if number == len(lines) + 1:
                break  # cut short by a kill: the contest in flight
            raise Unreadable(f"{path}, line {number}: not JSON; the file is damaged") from None
        if not isinstance(record, dict):
            raise Unreadable(f"{path}, line {number}: not a record; the file is damaged")
        if record.get("kind") == "contest":
            contests.append(msgspec.convert(record, Contest))
        elif record.get("kind") == "note":
            notes.append(msgspec.convert(record, Note))
    return Run(run.environment, tuple(contests), tuple(notes))
