"""The kinds of work into which a step's time is divided: one table, the columns of every explanation.

Tracers of frameworks, and older run files, may use another of a kind's words.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

FLOP, BYTES, FAULTS, CALLS = "FLOP", "bytes", "page faults", "calls"  # units of work


@dataclass(frozen=True)
class Kind:
    """A kind of work."""

    name: str
    unit: str | None = CALLS  # of its work; None: it has none
    cause: str | None = None  # of a difference, in words, where that does not follow from work and rate
    words: tuple[str, ...] = ()  # others for it
    inclusive: bool = False  # an operation of this kind includes the products and copies inside it
    renamed: bool = False  # an operation's span overrides the kind that its symbols have


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
UNKNOWN = "unknown"  # begins the name of a kind that no rule matches; its module follows
BY_WORD = {word: kind for kind in KINDS for word in (kind.name, *kind.words)}


@functools.cache
def named(word: str) -> str:
    """Return a kind's name by any of its words; a word that is not in the table stays as it is."""
    return BY_WORD[word].name if word in BY_WORD else word


def find(name: str) -> Kind:
    """Return a kind by any of its words; for another word a new kind, without work if it is unknown."""
    return BY_WORD.get(name) or Kind(name, None if name.startswith(UNKNOWN) else CALLS)


def of_unit(unit: str) -> tuple[str, ...]:
    """Return the names of the kinds whose work has this unit."""
    return tuple(kind.name for kind in KINDS if kind.unit == unit)
