"""Scripts watched in turns, from their start to their end."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from kernels.errors import Unavailable
from macro.timing.entry import is_reported
from macro.watching import ends, load, perf, rounds, trials
from macro.watching.ends import Ended, Short
from macro.watching.program import FEW_STEPS, LEAST, SOME, Say, ScriptObserver
from macro.watching.recording import Recording
from macro.watching.script import Program, Script
from reports.units import counted

UNKNOWN = 40  # steps that are expected of a short script whose steps were not counted


@dataclass(frozen=True)
class After:
    """Choices of what is measured after the rounds, by their recording."""

    advised: Callable[[Recording], Sequence[str]]  # names of trials
    largest: Callable[[Recording], Sequence[dict[str, Any]]]  # operations that are timed in isolation


def watch(
    scripts: Sequence[Script],
    folder: Path,
    streams: tuple[IO[bytes], IO[bytes]],
    say: Say,
    keep: Callable[[Sequence[Recording]], None],
    after: After | None = None,
) -> list[Recording]:
    """Run the scripts in turns until enough of their steps were watched; short ones once more. Raises SuiteError.

    `keep` receives the recordings so far, now and then; `after` chooses what is measured
    after the rounds; `streams`: for the scripts' output and errors.
    """
    try:
        return _watched(scripts, folder, streams, say, keep, after)
    except Short as short:
        forward = None if short.steps else "forward"
        say(f"{short}; it is run once more, and watched from its first step on")
        again = [replace(x, expected=short.steps or UNKNOWN, step=x.step or forward) for x in scripts]
        return _watched(again, folder, streams, say, keep, after)


def _watched(
    scripts: Sequence[Script],
    folder: Path,
    streams: tuple[IO[bytes], IO[bytes]],
    say: Say,
    keep: Callable[[Sequence[Recording]], None],
    after: After | None,
) -> list[Recording]:
    began = time.monotonic()
    with ExitStack() as stack:
        looks: list[ScriptObserver] = []
        try:
            for script in scripts:
                program = Program(script, folder, *streams)
                stack.callback(program.close)
                look = ScriptObserver(script, program, say)
                with look.record_end():
                    if not (missing := perf.missing()):
                        look.sample(folder, stack)
                    look.begin()
                    looks.append(look)
                    if missing and not look.torch:
                        raise Unavailable(f"{script.name}: a script without PyTorch requires perf: {missing}")
                    look.settle()
            block = sum(look.block_seconds for look in looks)
            busy = max(load.slowdown(look.seen.load) for look in looks)
            say(ends.settled(time.monotonic() - began, len(looks), scripts[0].seconds, block, busy))
            _rounds(looks, keep, 1 - trials.SHARE if after else 1.0)
            if after:
                _afterwards(looks, after)
        except Ended:
            pass  # the rounds until then count: each observer has recorded the end's reason
        except (KeyboardInterrupt, SystemExit):
            if len(looks) == len(scripts):
                _interrupted(looks, keep)
            raise
        finally:
            for look in looks:
                look.finish()
        for look in looks:
            look.end()
        return [look.recording for look in looks]


def _interrupted(looks: Sequence[ScriptObserver], keep: Callable[[Sequence[Recording]], None]) -> None:
    """Pass the rounds so far to `keep`, if each script has enough rounds for an interval."""
    for look in looks:
        look.recording.ended = "interrupted"
        look.finish()
    if all(len(look.watched.levels.get("P3", [])) >= LEAST for look in looks):
        keep([look.recording for look in looks])


def _rounds(looks: Sequence[ScriptObserver], keep: Callable[[Sequence[Recording]], None], share: float) -> None:
    """Run rounds until this share of the budget is spent and enough rounds are done."""
    least = min(look.least_rounds() for look in looks)
    for turn in rounds.in_turns(looks, share * looks[0].script.seconds, random.Random(0), least, LEAST):
        if is_reported(turn.number):
            looks[0].say(counted(turn.number, "round"))
        if turn.read:
            for look in looks:
                look.read()
            keep([look.recording for look in looks])


def _afterwards(looks: Sequence[ScriptObserver], after: After) -> None:
    """Make the advised trials, record the logs of PyTorch's libraries, and time the largest operations in isolation."""
    for look in looks:
        with look.record_end():
            if look.torch and look.steps >= FEW_STEPS:
                look.read()
                look.logged()
                look.again(after.largest(look.recording))
            if look.torch and look.steps >= SOME:
                look.trials(after.advised(look.recording), trials.SHARE * look.script.seconds)  # last: they may fail
