"""The two sides of an explanation in words, for sentences that know neither network nor framework."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from macro.watching.recording import Watched


@dataclass(frozen=True)
class Subject:
    """Names and processes of the two sides of an explanation."""

    title: str  # of what takes its time, such as `A step of fcn-s, batch 64`
    names: Sequence[str]  # of both sides
    runs: int  # processes of each side
    processes: Sequence[Sequence[Watched]]
    heaps: tuple[str, str] | None = None  # of both sides, where nothing else differs
