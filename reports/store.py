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
# Fields that showing a result requires, by its role: the first commits of 1.0 did not write them.
NEEDED = {"measured": "axes", "ceiling": "ceiling"}
LONGEST = 256 << 20  # bytes of a line; a longer line is not a record


class Unreadable(Exception):
    """A file is not a run file or cannot be opened; the message has the reason and the remedy."""


class Unwritable(Exception):
    """A record could not be written; earlier records are complete in the file."""


class RunFile:
    """A run file to which records are appended; each is written when `append` returns.

    If `path` is None, the run is kept only in memory. A file is locked by one run at a time. A file that holds a run is
    opened only to `resume` it: it keeps its records but an incomplete last line. Raises Unreadable."""

    def __init__(self, path: Path | None, environment: Environment, resume: bool = False) -> None:
        self.run = Run(environment)
        self.path = path
        self._stream: IO[bytes] | None = None
        if path is None:
            return
        try:
            # Unbuffered: closing the file must not retry a failed write.
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._stream = os.fdopen(handle, "r+b", buffering=0)
            self._regular = stat.S_ISREG(os.fstat(handle).st_mode)
        except OSError as error:
            raise Unreadable(f"-o {path}: {error.strerror}; name a file in an existing folder") from None
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
                f"-o {path}: file is not empty: name another file, or continue its run with --resume, if the command "
                "has this option"
            )

    def _resume(self, path: Path, environment: Environment) -> None:
        """Resume the run in the file. Raises Unreadable."""
        from reports.compare import environments

        assert self._stream is not None
        self.run = read(path)
        if self.run.environment.digest != environment.digest:
            changed = "; ".join(environments(self.run.environment, environment)) or "its digest"
            raise Unreadable(
                f"-o {path}: the file's run was made in another environment ({changed}): name another file"
            )
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
        """Append a record to the file and to `run`.

        Raises Unwritable; the file then ends with the previous record, but `run` contains the new record."""
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
            kept = f"{finished} finished contests are kept: free space and continue with --resume"
            remedy = kept if finished else "free space, or name another file"
            raise Unwritable(f"-o {self.path}: {error.strerror}; {remedy}") from None

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()


def _cut_at_once(path: Path) -> bool:
    """Return whether the file holds only an incomplete first line, as left by a kill."""
    with path.open("rb") as stream:
        start = stream.readline(LONGEST)
    return BEGINNING.startswith(start[: len(BEGINNING)]) and not start.endswith(b"\n")


def _lock(stream: IO[bytes], path: Path) -> None:
    """Lock a file while its stream is open, if the file system has locks. Raises Unreadable if locked."""
    try:
        import fcntl

        fcntl.flock(stream.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except ImportError:
        return
    except OSError as error:
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            raise Unreadable(f"-o {path}: another run is writing this file; name another file") from None


def _lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield line numbers and lines; end after a line longer than any record."""
    number = 0
    stream.seek(0)
    while line := stream.readline(LONGEST):
        number += 1
        yield number, line
        if len(line) == LONGEST and not line.endswith(b"\n"):
            return


def _decoded(line: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a line, or None if the line is damaged."""
    import msgspec

    try:
        record = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return record if isinstance(record, dict) else None


def read(path: Path | str) -> Run:
    """Read a run file, skipping unknown kinds of records.

    Damaged lines are skipped too, and listed in `damaged`. Raises Unreadable."""
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
        raise Unreadable(f"{path} is not a run file: {error}") from None


def _head(path: Path, line: bytes) -> dict[str, Any]:
    head = _decoded(line) if len(line) < LONGEST else None
    if head is None or head.get("kind") != "environment":
        raise Unreadable(f"{path} is not a run file: its first line is not an environment record")
    if not isinstance(head.get("format"), int):
        raise Unreadable(f"{path} is not a run file: its environment record has no format")
    if head["format"] > FORMAT:
        raise Unreadable(f"{path} has format {head['format']}, this version reads up to {FORMAT}: update this suite")
    return head


def _with(predictions: Sequence[Prediction], prediction: Prediction) -> tuple[Prediction, ...]:
    """Return the predictions with this one added, or in place of the earlier prediction of its id."""
    return tuple({**{x.id: x for x in predictions}, prediction.id: prediction}.values())


def _current(contests: Sequence[Contest]) -> tuple[Contest, ...]:
    """Drop interrupted contests that a later record of the same name replaces."""
    last = {contest.contest: contest for contest in contests}
    return tuple(contest for contest in contests if not contest.interrupted or contest is last[contest.contest])


def _refuse_without_needed(contest: dict[str, Any], path: Path, commit: str) -> None:
    """Raise Unreadable, naming the commit that wrote the contest, if a result lacks a needed field."""
    results = contest.get("results")
    for result in results if isinstance(results, list) else ():
        needed = NEEDED.get(str(result.get("role"))) if isinstance(result, dict) else None
        if needed and result.get(needed) is None:
            raise Unreadable(
                f"{path} was written by commit {commit}, whose results have no `{needed}`: "
                "measure again, or read the file with that commit"
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
            break  # incomplete last line: a kill during the write
        try:
            if record is None:
                damaged.append(f"{path}, line {number}: not a record; skipped")
            elif record.get("kind") == "contest":
                _refuse_without_needed(record, path, run.commit)
                contests.append(msgspec.convert(record, Contest))
            elif record.get("kind") == "note":
                notes.append(msgspec.convert(record, Note))
            elif record.get("kind") == "prediction":
                predictions = _with(predictions, msgspec.convert(record, Prediction))
        except msgspec.ValidationError as error:
            damaged.append(f"{path}, line {number}: {error}; skipped")
    collected = replace(run, contests=_current(contests), notes=tuple(notes))
    return replace(collected, predictions=predictions, damaged=tuple(damaged))
