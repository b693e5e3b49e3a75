"""Contests that a command line of a benchmark plans."""

from __future__ import annotations

from micro.command.everything import benchmarks
from micro.planning.contest import Contest
from micro.planning.options import request
from micro.planning.request import planned

BENCHMARKS = benchmarks()


def contests(name: str, *words: str) -> tuple[Contest, ...]:
    meant, arguments = request(BENCHMARKS[name], name, words, raising=True)
    return planned(meant, name, arguments).contests
