"""The kinds of work that a step's time is told by: one table, the columns of every explanation.

Tracers of frameworks, and older run files, may say another of a kind's words for it.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

FLOP, BYTES, FAULTS, CALLS = "FLOP", "bytes", "page faults", "calls"  # units of work


@dataclass(frozen=True)
class Kind:
    """`unit` of its work, None where it has none; `cause`: what is to be said of a difference in it, where that does
    not follow from work and rate; `words`: others for it; `whole`: an operation of this kind has also the products
    and copies inside it; `renamed`: an operation's span names what its symbols alone say is of this kind."""

    name: str
    unit: str | None = CALLS
    cause: str | None = None
    words: tuple[str, ...] = ()
    inclusive: bool = False
    renamed: bool = False


KINDS = (
    Kind("gemm", FLOP, renamed=True),
    Kind("convolution", FLOP, inclusive=True, renamed=True),
    Kind("recurrent cell", FLOP, inclusive=True, renamed=True),
    Kind("attention", FLOP, inclusive=True, renamed=True),
    Kind("normalization", BYTES, renamed=True),
    Kind("pooling", BYTES, renamed=True),
    Kind("embedding", BYTES, renamed=True),
    Kind("element-wise", BYTES, renamed=True),
    Kind("reduction", BYTES, renamed=True),
    Kind("softmax and loss", BYTES, words=("softmax",), renamed=True),
    Kind("optimizer", BYTES, words=("update",), renamed=True),
    Kind("copy", BYTES, "a copy"),
    Kind("clear", BYTES, "filling an array with zeros"),
    Kind("cast", BYTES, "a change of type"),
    Kind("layout reorder", BYTES, "a change of layout"),
    Kind("packing", BYTES, "packing inside the library"),
    Kind("random numbers", CALLS, "random numbers"),
    Kind("OS memory", FAULTS, "memory policy"),
    Kind("malloc", CALLS, "memory policy"),
    Kind("OS other", CALLS, "the operating system"),
    Kind("dispatch", CALLS, "dispatch", words=("framework",)),
    Kind("interpreter", CALLS, "dispatch"),
    Kind("tracer", CALLS, "the framework's own profiler, which watched"),
    Kind("data", CALLS, "the data loader"),
    Kind("communication", CALLS, "communication"),
    Kind("waiting", None, "threads", words=("idle",)),
    Kind("spin", CALLS, "threads", words=("barrier and spin",)),
)
UNKNOWN = "unknown"  # how the name of what no rule tells begins; behind it, its module
BY_WORD = {word: kind for kind in KINDS for word in (kind.name, *kind.words)}


@functools.cache
def named(word: str) -> str:
    """A kind by any of its words; a word that is none, as `unknown: MODULE` or a user's own, is itself."""
    return BY_WORD[word].name if word in BY_WORD else word


def find(name: str) -> Kind:
    """By its name; of what is unknown, a kind without work."""
    return BY_WORD.get(name) or Kind(name, None if name.startswith(UNKNOWN) else CALLS)


def of_unit(unit: str) -> tuple[str, ...]:
    """The names of the kinds whose work is told in this unit."""
    return tuple(kind.name for kind in KINDS if kind.unit == unit)
