"""Arms of `micro.ab` without processes: they answer what a script says, and write down what they were asked."""

from __future__ import annotations

import io
import json
import signal
import tempfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from micro import ab
from micro.arms import pairs
from micro.worker.client import Died
from reports import store
from reports.record import Environment, Run
from tests.conftest import Ran

ENVIRONMENT = Environment("0", {"cores": 2, "device": {"model": "scripted"}}, {}, "python -m micro.ab …", "now")
NAMES = tuple(f"gemm/m:{m}/n:8/k:8/variant:openblas/threads:1" for m in (8, 16, 24))
CALLS = {"a": (3e-6, 1e-6), "b": (2e-6, 4e-6)}  # of a launch that has two parts


@dataclass(frozen=True)
class Request:
    """A request: of which arm, in which pair of processes (−1: the plan), what."""

    arm: str
    pair: int
    do: str
    given: dict[str, Any]


def slower(ratio: float, spread: float = 0.002) -> Callable[[str, int], float]:
    """b over a in each pair of processes, around a ratio."""
    return lambda name, pair: (
        ratio * float(np.exp(spread * np.random.default_rng((zlib.crc32(name.encode()), pair)).standard_normal()))
    )


@dataclass
class Script:
    """What both arms know and answer. `ratio(case, pair)` is b over a; `fails(asked)` may raise."""

    ratio: Callable[[str, int], float] = field(default_factory=lambda: slower(1.0))
    fails: Callable[[Request], None] = lambda asked: None
    cases: dict[str, dict[str, str | None]] = field(default_factory=lambda: {arm: dict.fromkeys(NAMES) for arm in "ab"})
    facts: dict[str, dict[str, Any]] = field(default_factory=lambda: {"a": {}, "b": {}})
    round: float = 1.0
    visit: float = 1e-3
    settled: dict[str, Any] = field(default_factory=dict)  # what else an arm says then
    journal: list[Request] = field(default_factory=list)
    made: list[ScriptedArm] = field(default_factory=list)

    def arm(self, letter: str, python: str, repo: Path, threads: int) -> ScriptedArm:
        """In the place of `micro.arms.pairs.Arm`."""
        pair = sum(arm.letter == letter for arm in self.made) - 1
        self.made.append(ScriptedArm(self, letter, pair))
        return self.made[-1]

    def asked(self, do: str, **where: Any) -> list[Request]:
        """Requests of a kind: `asked("open", arm="a", pair=0)`."""
        return [x for x in self.journal if x.do == do and all(getattr(x, k) == v for k, v in where.items())]


class ScriptedArm:
    """One process of an arm; once it died it is dead."""

    def __init__(self, script: Script, letter: str, pair: int) -> None:
        self.letter, self.closed = letter, False
        self._script, self._pair = script, pair
        self._case, self._dead = "", False

    def call(self, do: str, *, patience: float, **given: Any) -> Any:
        assert not self.closed and patience > 0
        asked = Request(self.letter, self._pair, do, json.loads(json.dumps(given)))
        self._script.journal.append(asked)
        if self._dead:
            raise Died("ends its process with exit code -11")
        try:
            self._script.fails(asked)
        except Died:
            self._dead = True
            raise
        return getattr(self, f"_{do}")(**asked.given)

    def close(self) -> None:
        self.closed = True

    def _plan(self, words: Sequence[str]) -> dict[str, Any]:
        cases = self._script.cases[self.letter]
        environment = {"digest": self.letter, "facts": self._script.facts[self.letter], "state": {}}
        return {
            "cases": [{"name": name, "skip": skip, "threads": 1} for name, skip in cases.items()],
            "environment": environment,
            "root": "/",
        }

    def _prepare(self, case: str, seed: int | None) -> dict[str, Any]:
        return {"kernel": f"kernel of {self.letter}", "isa": "avx2", "error": None if seed is None else 1e-7}

    def _open(self, case: str, seed: int) -> dict[str, Any]:
        self._case = case
        return {"calls": list(CALLS[self.letter])}

    def _settle(self, calls: Sequence[float], visit: float) -> dict[str, Any]:
        return {"launches": 7, "visit": self._script.visit, "round": self._script.round, **self._script.settled}

    def _look(self, first: int, rounds: int, canary: bool) -> dict[str, Any]:
        ratio = self._script.ratio(self._case, self._pair) if self.letter == "b" else 1.0
        seconds = [1e-6 * ratio * (1 + 1e-4 * i) for i in range(rounds)]
        told = {"fma/isa:avx2": 2e-5} if canary else {}
        return {"wall": [9 * x for x in seconds], "cpu": seconds, "lost": [0.0] * rounds, "canary": told}

    def _close(self) -> dict[str, Any]:
        return {}


def failing(
    do: str, error: Exception, *, arm: str = "b", case: str | None = None, pair: int | None = None
) -> Callable[[Request], None]:
    """Raise when this is asked: of an arm, of a case by its name where one is given, in a pair or in all."""
    at: dict[str, str] = {}

    def fails(asked: Request) -> None:
        at[asked.arm] = asked.given.get("case", at.get(asked.arm, ""))
        if (asked.do, asked.arm) == (do, arm) and case in (None, at[arm]) and pair in (None, asked.pair):
            raise error

    return fails


def command(script: Script, *words: str, processes: int = 6) -> Ran:
    """`python -m micro.ab` over scripted arms, its chance always the same. All arms are closed at its end."""
    machine = SimpleNamespace(environment=lambda device, line: ENVIRONMENT, command_line=lambda: "")
    before = signal.getsignal(signal.SIGTERM)
    argv = ["-q", "--processes", str(processes), "--budget", "1e-9s", *words, "--", "micro.gemm"]
    code: object
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as out:
        patch.setattr(pairs, "secrets", SimpleNamespace(randbits=lambda bits: 4))
        patch.setattr(pairs, "machine", machine)
        patch.setattr(pairs, "Arm", script.arm)
        with redirect_stderr(io.StringIO()) as err:
            try:
                code = ab.main(argv)
            except SystemExit as end:
                code = end.code
            finally:
                signal.signal(signal.SIGTERM, before)
    assert all(arm.closed for arm in script.made)
    return Ran(code, out.getvalue(), err.getvalue())


def kept(script: Script, *words: str, processes: int = 6) -> tuple[Ran, Run]:
    """The same with its run file, read back."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.jsonl"
        ran = command(script, *words, "-o", str(path), processes=processes)
        return ran, store.read(path)
