"""Every deliberate exception of the suite.

SuiteError
├── UsageError      the person asked for something impossible: one line, exit code 2
├── Unavailable     a device, library or package is not here; the message says what installs it
│   └── NoRoom          there is not so much memory free
└── KernelError     a kernel is at fault: the case gets a status and a reason
    ├── BuildError      its source does not compile
    ├── LaunchError     it crashed, hung or raised
    └── WrongResult     its answer is not the operation's answer
        └── LeftRunning     it is still at work in its process, in whose time its rivals would be measured
"""

from collections.abc import Iterable
from typing import Any


class SuiteError(Exception):
    """Base of all below; its text is one line for a person."""


class UsageError(SuiteError):
    """Names the option and the remedy."""


class Unavailable(SuiteError):
    """Names what is missing and the command that installs it."""


class NoRoom(Unavailable):
    """There is not so much memory free."""


class KernelError(SuiteError):
    """A kernel is at fault."""


class BuildError(KernelError):
    """A source does not compile; carries the compiler's first complaint."""


class LaunchError(KernelError):
    """A kernel crashed, hung or raised."""


class WrongResult(KernelError):
    """A kernel's answer is wrong; says in which way. `evidence` is what was compared, where something was."""

    evidence: Any = None


class LeftRunning(WrongResult):
    """Threads of a kernel run on after its call; their process is no place for others."""


def choice(word: str, choices: Iterable[str], most: int | None = None) -> str:
    """What to say beside a word that is none of those known: the one that it is nearest to, or all. `most`: of many so
    many, the nearest first."""
    import difflib

    names = list(choices)
    if near := difflib.get_close_matches(word, names, 1):
        return f"did you mean {near[0]}?"
    if most is None or len(names) <= most:
        return f"there are {', '.join(names)}"
    names.sort(key=lambda name: -difflib.SequenceMatcher(None, word, name).ratio())
    return f"there are {', '.join(names[:most])} and {len(names) - most} more"


def summary(error: BaseException) -> str:
    """What a stranger's code raised, on one line."""
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"
