"""What two sides of an explanation are, in words: for sentences that know neither network nor framework."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from macro.watching.recording import Watched


@dataclass(frozen=True)
class Subject:
    """`title`: of what takes its time, such as `A step of fcn-s, batch 64`; `names` of both sides; `runs`: processes of
    each; `heaps` of both, where nothing else differs."""

    title: str
    names: Sequence[str]
    runs: int
    processes: Sequence[Sequence[Watched]]
    heaps: tuple[str, str] | None = None
