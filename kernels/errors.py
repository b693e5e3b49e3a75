"""All deliberate exceptions of the suite.

SuiteError
├── UsageError      an impossible request: one line, exit code 2
├── Unavailable     a device, library or package is missing; the message names what installs it
│   └── NoRoom          too little memory is free
└── KernelError     a kernel is at fault: the case gets a status and a reason
    ├── BuildError      its source does not compile
    ├── LaunchError     it crashed, hung or raised
    └── WrongResult     its answer is not the operation's answer
        └── LeftRunning     it still runs in its process and would slow the kernels measured next"""

from collections.abc import Iterable
from typing import Any


class SuiteError(Exception):
    """Base of all exceptions of the suite; the text is one line for a user."""


class UsageError(SuiteError):
    """An impossible request; the text names the option and the remedy."""


class Unavailable(SuiteError):
    """A missing device, library or package; the text names the command that installs it."""


class NoRoom(Unavailable):
    """A lack of free memory."""


class KernelError(SuiteError):
    """A fault of a kernel, which becomes its case's status and reason."""


class BuildError(KernelError):
    """A source that does not compile; the text is the compiler's first error."""


class LaunchError(KernelError):
    """A kernel that crashed, hung or raised."""


class WrongResult(KernelError):
    """A wrong answer of a kernel; the text describes the error."""

    evidence: Any = None  # the comparison, if there was one


class LeftRunning(WrongResult):
    """Threads of a kernel that run on after its call and would disturb other kernels of the process."""


def choice(word: str, choices: Iterable[str], most: int | None = None) -> str:
    """Return a hint for an unknown word: a close match, else all `choices`, or the `most` nearest."""
    import difflib

    names = list(choices)
    if near := difflib.get_close_matches(word, names, 1):
        return f"did you mean {near[0]}?"
    if most is None or len(names) <= most:
        return f"choose from {', '.join(names)}"
    names.sort(key=lambda name: -difflib.SequenceMatcher(None, word, name).ratio())
    return f"choose from {', '.join(names[:most])} and {len(names) - most} more"


def summary(error: BaseException) -> str:
    """Return an exception's type and first line on one line."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"


def stop_code(stop: BaseException) -> int:
    """Return the exit code of a command that an interrupt or a signal stopped."""
    return int(str(stop.code)) if isinstance(stop, SystemExit) else 130
