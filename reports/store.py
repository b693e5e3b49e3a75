"""Run files: JSON lines, the environment first, then a line for each finished contest."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from reports.record import FORMAT, Contest, Environment, Note, Prediction, Run

BEGINNING = b'{"digest":"'
# Fields without which a result cannot be shown, by its role: the first commits of 1.0 did not write them.
NEEDED = {"measured": "axes", "ceiling": "ceiling"}
LONGEST = 256 << 20  # bytes of a line; more is no record of ours


class Unreadable(Exception):
    """A file that is no run file, or cannot be written; its text is the reason and the remedy."""


class Unwritable(Exception):
    """A record that could not be written; those before it are complete in the file."""


class RunFile:
    """A run file to which records are appended; each is on disk when `append` returns.

    If `path` is None the run is only kept in memory. A file belongs to one run at a time, and one that holds a run
    already is only opened to `resume` it: its records are kept, a last line cut short is dropped. Raises Unreadable."""

    def __init__(self, path: Path | None, environment: Environment, resume: bool = False) -> None:
        self.run = Run(environment)
        self.path = path
        self._stream: IO[bytes] | None = None
        if path is None:
            return
        try:
            # Unbuffered: what could not be written must not be tried again when the file is closed.
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._stream = os.fdopen(handle, "r+b", buffering=0)
            self._regular = stat.S_ISREG(os.fstat(handle).st_mode)
        except OSError as error:
            raise Unreadable(f"-o {path}: {error.strerror}; name a file in a folder that is there") from None
        try:
            self._begin(path, environment, resume)
        except Exception:
            self.close()
            raise

    def _begin(self, path: Path, environment: Environment, resume: bool) -> None:
        assert self._stream is not None
        if self._regular:
            _lock(self._stream, path)
            if resume and _cut_at_once(path):
                os.truncate(self._stream.fileno(), 0)
        if not self._regular or not os.fstat(self._stream.fileno()).st_size:
            self._write(environment)
        elif resume:
            self._resume(path, environment)
        else:
            raise Unreadable(
                f"-o {path}: there is something in it already: name another file; --resume goes on with a run, where "
                "the command has it"
            )

    def _resume(self, path: Path, environment: Environment) -> None:
        """Resume the run in the file. Raises Unreadable."""
        from reports.compare import environments

        assert self._stream is not None
        self.run = read(path)
        if self.run.environment.digest != environment.digest:
            changed = "; ".join(environments(self.run.environment, environment)) or "its digest"
            raise Unreadable(f"-o {path}: its run was made in another environment ({changed}): name another file")
        end, last = 0, b"\n"
        with path.open("rb") as stream:
            for _, last in _lines(stream):
                if last.endswith(b"\n") or _decoded(last) is not None:
                    end += len(last)
        os.truncate(self._stream.fileno(), end)
        self._stream.seek(end)
        if not last.endswith(b"\n") and _decoded(last) is not None:
            self._stream.write(b"\n")

    def append(self, record: Contest | Note | Prediction) -> None:
        """Append a record.

        Raises Unwritable; the file then ends with the record before. The record is in `run` all the same."""
        if isinstance(record, Contest):
            self.run = replace(self.run, contests=_current((*self.run.contests, record)))
        elif isinstance(record, Prediction):
            self.run = replace(self.run, predictions=_with(self.run.predictions, record))
        else:
            self.run = replace(self.run, notes=(*self.run.notes, record))
        self._write(record)

    def _write(self, record: object) -> None:
        if self._stream is None:
            return
        import msgspec

        rest = memoryview(msgspec.json.encode(record) + b"\n")
        start = self._stream.tell() if self._regular else 0
        try:
            while rest:
                rest = rest[self._stream.write(rest) :]
            if self._regular:
                os.fsync(self._stream.fileno())
        except OSError as error:
            if self._regular:
                with suppress(OSError):
                    os.truncate(self._stream.fileno(), start)
            finished = sum(not contest.interrupted for contest in self.run.contests if contest is not record)
            kept = f"{finished} finished contests are in it: make room and go on with --resume"
            remedy = kept if finished else "make room, or name another file"
            raise Unwritable(f"-o {self.path}: {error.strerror}; {remedy}") from None

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()


def _cut_at_once(path: Path) -> bool:
    """Return whether a kill left nothing but the beginning of the first line."""
    with path.open("rb") as stream:
        start = stream.readline(LONGEST)
    return BEGINNING.startswith(start[: len(BEGINNING)]) and not start.endswith(b"\n")


def _lock(stream: IO[bytes], path: Path) -> None:
    """Lock a file while its stream is open. A file system without locks is trusted. Raises Unreadable."""
    try:
        import fcntl

        fcntl.flock(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        return
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise Unreadable(f"-o {path}: another run is writing it; name another file") from None


def _lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield numbered lines, none longer than a record can be."""
    number = 0
    stream.seek(0)
    while line := stream.readline(LONGEST):
        number += 1
        yield number, line
        if len(line) == LONGEST and not line.endswith(b"\n"):
            return


def _decoded(line: bytes) -> dict[str, Any] | None:
    """Return the record of a line, or None if there is none."""
    import msgspec

    try:
        record = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return record if isinstance(record, dict) else None


def read(path: Path | str) -> Run:
    """Read a run file; unknown kinds of records are passed over.

    Raises Unreadable. Damaged lines are passed over too, and listed in `damaged`."""
    import msgspec

    path = Path(path)
    try:
        with path.open("rb") as stream:
            lines = _lines(stream)
            _, first = next(lines, (1, b""))
            if not first:
                raise Unreadable(f"{path} is empty: no run was written to it")
            run = Run(msgspec.convert(_head(path, first), Environment))
            return _collect(run, path, lines)
    except OSError as error:
        raise Unreadable(f"{path}: {error.strerror}") from None
    except msgspec.ValidationError as error:
        raise Unreadable(f"{path} is no run file: {error}") from None


def _head(path: Path, line: bytes) -> dict[str, Any]:
    head = _decoded(line) if len(line) < LONGEST else None
    if head is None or head.get("kind") != "environment":
        raise Unreadable(f"{path} is no run file: its first line is not an environment record")
    if not isinstance(head.get("format"), int):
        raise Unreadable(f"{path} is no run file: its environment record names no format")
    if head["format"] > FORMAT:
        raise Unreadable(f"{path} has format {head['format']}, this version reads up to {FORMAT}: update it")
    return head


def _with(predictions: Sequence[Prediction], prediction: Prediction) -> tuple[Prediction, ...]:
    """Return the last line of each change, in the order in which they were predicted."""
    return tuple({**{x.id: x for x in predictions}, prediction.id: prediction}.values())


def _current(contests: Sequence[Contest]) -> tuple[Contest, ...]:
    """Drop interrupted contests that were measured anew."""
    last = {contest.contest: contest for contest in contests}
    return tuple(contest for contest in contests if not contest.interrupted or contest is last[contest.contest])


def _refuse_without_needed(contest: dict[str, Any], path: Path, commit: str) -> None:
    """Raise Unreadable for a contest of a version that did not write all that is needed; name that version."""
    results = contest.get("results")
    for result in results if isinstance(results, list) else ():
        needed = NEEDED.get(str(result.get("role"))) if isinstance(result, dict) else None
        if needed and result.get(needed) is None:
            raise Unreadable(
                f"{path} was written by commit {commit}, whose results have no `{needed}`: "
                "measure again, or read it with that commit"
            )


def _collect(run: Run, path: Path, lines: Iterator[tuple[int, bytes]]) -> Run:
    import msgspec

    contests: list[Contest] = []
    notes: list[Note] = []
    predictions: tuple[Prediction, ...] = ()
    damaged: list[str] = []
    for number, line in lines:
        record = _decoded(line)
        if record is None and not line.endswith(b"\n") and len(line) < LONGEST:
            break  # cut short by a kill: the contest in flight
        try:
            if record is None:
                damaged.append(f"{path}, line {number}: not a record; passed over")
            elif record.get("kind") == "contest":
                _refuse_without_needed(record, path, run.commit)
                contests.append(msgspec.convert(record, Contest))
            elif record.get("kind") == "note":
                notes.append(msgspec.convert(record, Note))
            elif record.get("kind") == "prediction":
                predictions = _with(predictions, msgspec.convert(record, Prediction))
        except msgspec.ValidationError as error:
            damaged.append(f"{path}, line {number}: {error}; passed over")
    collected = replace(run, contests=_current(contests), notes=tuple(notes))
    return replace(collected, predictions=predictions, damaged=tuple(damaged))
