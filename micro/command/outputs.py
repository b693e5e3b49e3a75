"""Output of a command: progress, documents, pictures, and the text that a person reads."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import IO

from kernels.errors import UsageError
from micro.planning.options import Outputs
from reports import documents, formats
from reports.record import Run

Output = tuple[str, Callable[[], None], IO[str]]  # option, writer, stream


def open_outputs(outputs: Outputs, stack: ExitStack) -> dict[str, IO[str]]:
    """Open all documents before anything is measured, so that a wrong path costs nothing. Raises UsageError."""
    opened: dict[str, IO[str]] = {}
    for kind, path in outputs.documents.items():
        if path == "-":
            if any(stream is sys.stdout for stream in opened.values()):
                raise UsageError(f"--{kind} -: another format already uses stdout; name a file")
            opened[kind] = _utf8(sys.stdout)
            continue
        document = Path(path).resolve()
        if reason := documents.refused(document, formats.endings(kind)):
            raise UsageError(f"--{kind} {document.name}: {reason}")
        try:
            opened[kind] = documents.opened(document, stack)
        except OSError as error:
            raise UsageError(f"--{kind} {path}: {error.strerror}; name a file in an existing folder") from None
    if outputs.figures is not None:
        try:
            outputs.figures.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"--figures {outputs.figures}: {error.strerror}; name a folder") from None
    return opened


def _utf8(stream: IO[str]) -> IO[str]:
    """Set a stream's encoding to UTF-8, whatever the terminal's is."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(encoding="utf-8")
    return stream


def for_people(outputs: Outputs) -> IO[str]:
    """Return the stream of text for people: stdout, or stderr if a document is written to stdout."""
    return sys.stderr if "-" in outputs.documents.values() else sys.stdout


def say(run: Run, outputs: Outputs, opened: Mapping[str, IO[str]]) -> int:
    """Write report, exports and pictures; return 1 if any of them cannot be written."""
    people = for_people(outputs)

    def text() -> None:
        formats.write("text", run, people, verbose=outputs.verbose)
        people.flush()

    def export(kind: str, stream: IO[str]) -> None:
        formats.write(kind, run, stream)
        documents.finish(stream)

    wanted: list[Output] = [("stdout", text, people)]
    wanted += [(f"--{kind}", partial(export, kind, stream), stream) for kind, stream in opened.items()]
    return written(wanted, run, outputs)


def written(wanted: Sequence[Output], run: Run, outputs: Outputs) -> int:
    """Write each output, then the pictures, then the run file's path; return 1 if any cannot be written.

    A broken pipe is raised as BrokenPipeError after all other outputs are written."""
    people, code = for_people(outputs), 0
    broken: BrokenPipeError | None = None

    def draw(folder: Path) -> None:
        from reports import figures

        for path in figures.draw(run, folder):
            print(f"picture: {path}", file=people)

    folder = outputs.figures
    pictures: list[Output] = [(f"--figures {folder}", partial(draw, folder), people)] if folder else []
    for option, write, stream in (*wanted, *pictures):
        try:
            write()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())  # what is still buffered goes nowhere
            if isinstance(error, BrokenPipeError):
                broken = error
            else:
                print(f"{option}: {error.strerror}", file=sys.stderr)
                code = 1
    if outputs.output:
        print(f"run file: {outputs.output}", file=people)
    if broken:
        raise broken
    return code


class Progress:
    """A display of progress on stderr: `begin` names a contest, `say` shows its state on a terminal."""

    def __init__(self, contests: int, quiet: bool) -> None:
        self.contests, self._quiet = contests, quiet
        self._number = 0
        self._name = ""
        self._terminal = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        if self._terminal and not self._quiet:
            from rich.console import Console

            self._status = Console(stderr=True).status("starting", refresh_per_second=2)
            self._status.start()
        return self

    def begin(self, name: str) -> None:
        self._number += 1
        self._name = f"[{self._number}/{self.contests}] {name}"
        if not self._quiet and not self._terminal:
            print(self._name, file=sys.stderr, flush=True)

    def tell(self, text: str) -> None:
        """Print a line that later states do not overwrite."""
        if not self._quiet:
            print(text, file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        if self._terminal and not self._quiet:
            from rich.markup import escape

            self._status.update(escape(f"{self._name}: {text}"))

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if self._terminal and not self._quiet:
            self._status.stop()
