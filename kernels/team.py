"""Launches by a fixed team of threads, each pinned to a separate core, for multithreaded ceilings."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kernels import build
from kernels.errors import Unavailable
from kernels.launch import Launch
from kernels.native import launch, structure
from kernels.problem import Array

SOURCE = Path(__file__).with_name("team.c")
INT64 = ctypes.c_int64
# The first fields of an argument; a kernel's fields follow.
PLAN = structure("pointer: part done", "int64: members slices passes")._fields_


def planned(kernel: type[ctypes.Structure]) -> type[ctypes.Structure]:
    """Return the structure of a plan followed by the fields of a kernel's structure."""
    return type("Shared", (ctypes.Structure,), {"_fields_": (*PLAN, *kernel._fields_)})


@dataclass(frozen=True)
class Team:
    """A fixed team of threads of this process."""

    members: int  # number of threads
    run: int  # address of team_run
    wake: int  # address of team_wake


def gather(members: int) -> Team:
    """Start a team of `members` threads. Raises Unavailable if there is no core for each."""
    function = build.load(SOURCE).team_gather
    function.argtypes, function.restype = (INT64,), ctypes.c_int32
    if not function(members):
        raise Unavailable(f"fewer cores than the {members} threads")
    return Team(members, build.address(SOURCE, "team_run"), build.address(SOURCE, "team_wake"))


def shared(
    team: Team,
    argument: ctypes.Structure,
    names: Sequence[str],
    buffers: Sequence[Array],
    uses: int = 1,
    keep: tuple[object, ...] = (),
) -> Launch:
    """Return a launch by all threads of a team, which a minimal job wakes before timing."""
    base = launch(team.run, argument, names, buffers, uses=uses, keep=keep)
    assert base.entry is not None
    return replace(base, entry=replace(base.entry, single=(team.wake, 0)))
