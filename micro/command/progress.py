"""Progress on stderr: one moving line on a terminal, a plain line a contest in a pipe."""

from __future__ import annotations

import sys
from types import TracebackType


class Progress:
    """A display of progress: `begin` a contest, then show its state."""

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
        """Print a line that stays."""
        if not self._quiet:
            print(text, file=sys.stderr, flush=True)

    def say(self, text: str) -> None:
        if self._terminal and not self._quiet:
            from rich.markup import escape

            self._status.update(escape(f"{self._name}: {text}"))

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        if self._terminal and not self._quiet:
            self._status.stop()
