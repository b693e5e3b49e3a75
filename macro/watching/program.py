"""Observer of a user's script in its own loop: blocks of steps plain, with spans, with samples, with both."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

from kernels import heap
from kernels.devices import open_device
from kernels.errors import LaunchError, UsageError
from macro.timing.entry import FEWEST, HANGS
from macro.watching import ends, library_log, load, reply, rounds, trials
from macro.watching.ends import Ended
from macro.watching.recording import Recording, Watched
from macro.watching.regular import add_lines, limit, regular
from macro.watching.regular import count as count_steps
from macro.watching.rounds import MANY, SELDOM, Block, Observer
from macro.watching.script import Program, Script
from micro.worker.client import Died

MOST_EVENTS = 12_000  # in a block: reading an event takes some 10 µs
SHORT = 1.0  # seconds: of shorter steps, the first of each block is discarded
SETTLED = 0.1  # largest relative difference of page faults between two blocks once the heap has settled …
FEW = 64  # … or this many faults a step; also the faults above the fewest that a heap that keeps its memory may have
SETTLING = 15.0  # seconds to wait at most for the heap to settle
TRACED = 3  # discarded blocks with all instruments, before the first round
SHORTEST, SHARES = 8, 12  # steps of a short script at least; blocks into which its steps are divided
LEAST = 2  # rounds that an interval needs
BLOCKS = 2, 10, 20  # until memory is settled: with very few steps, with few, with many
STARTED = 6  # blocks on the heap that the program starts with
SOME, FEW_STEPS, TIGHT = 40, 16, 10.0  # steps that fit in the budget, of TIGHT seconds at least, below which …
# … fewer steps settle, and below the second none are on the initial heap
ENDING = 20.0  # seconds for a script to clean up
Say: TypeAlias = Callable[[str], None]
Reply: TypeAlias = dict[str, Any]


class ScriptObserver(Observer):
    """Observer of a user's script, with perf beside it where available."""

    tries = 6

    def __init__(self, script: Script, program: Program, say: Say) -> None:
        super().__init__(one_thread=True)
        self.script, self.program, self.say = script, program, say
        self.watched, self.skip, self.torch = Watched(), 1, False
        self.recording = Recording({}, [self.watched])
        self.since = 0.0, 0.0  # monotonic seconds and CPU seconds of perf when memory had settled
        self.long: float | None = None  # seconds of a plain step from which on its lines are sampled
        self.block_seconds = 0.0  # of the last block, with the work around its steps
        self.taken = 0  # steps so far
        self.steps = float("inf")  # that fit in the budget
        self.trying = max(TIGHT, script.seconds) / 10
        self.trial = ""  # that is being made
        self.heavy = False  # whether a traced step has more than MOST_EVENTS events

    @contextmanager
    def record_end(self) -> Iterator[None]:
        """Record the reason if the script ends in here. Raises Ended; SuiteError after too few rounds."""
        try:
            yield
        except Ended as end:
            self.over(end)
            raise

    def sample(self, folder: Path, stack: ExitStack) -> None:
        """Attach perf before the script begins; `stack` closes perf. Raises SuiteError, Ended, OSError."""
        self._first(False, time.monotonic() + self.script.patience)
        self.attach(self.program.pid, folder, stack).attached()

    def begin(self) -> None:
        """Start the script and wait until its first steps are over. Raises Ended, UsageError."""
        with suppress(Died):
            self.program.send({"do": "begin"})
        end, held, begun = time.monotonic() + self.script.patience, False, self.sampler is not None
        while (message := self._first(begun, end)) is not None and message["kind"] != "hello":
            begun = True
            self.torch |= message["kind"] == "torch"
            held |= message["kind"] == "held"
            if message["kind"] == "hint":
                self.say(message["text"])
        if message is None:
            self.program.close()
            why = ends.unseen(self.script, self.torch, held)
            raise UsageError(f"{self.script.name}: no step within {self.script.patience:.0f} s: {why}")
        self.torch |= message["framework"] == "pytorch"
        self.one_thread = message["threads"] == 1
        facts = {name: value for name, value in message.items() if name not in ("kind", "seq", "t_mono_ns")}
        script = self.script
        self.recording.program = {
            "script": script.key,
            "arguments": list(script.arguments),
            "interpreter": str(script.python),
            "heap": script.heap or "keep",
            "threads_option": script.threads,
            **facts,
        }
        self.taken = facts.get("before", 0)
        version = f"; PyTorch {facts['version']}" if self.torch else ""
        self.say(f"steps end with {facts['step']}{version}")

    def _first(self, begun: bool, end: float) -> Reply | None:
        """Return the next message, or None after `end`. Raises Ended, or UsageError before any message."""
        try:
            return self._message(end)
        except Ended as ended:
            if begun:
                raise
            why = f"not a Python 3.9 or later that runs scripts: {ended.reason}"
            raise UsageError(f"--python {self.script.python}: {why}") from None

    def _message(self, end: float) -> dict[str, Any] | None:
        """Return the next message; None if none arrives before `end` (monotonic seconds). Raises Ended."""
        try:
            message = self.program.poll(max(0.0, end - time.monotonic()))
        except Died as error:
            raise Ended("failed", str(error)) from None
        if message is not None and message["kind"] == "ended":
            raise Ended(message["how"], message["reason"], message.get("steps", 0))
        return message

    def _ask(self, kind: str, patience: float, **request: Any) -> dict[str, Any]:
        with suppress(Died):
            self.program.send(request)
        message = self._message(time.monotonic() + patience)
        if message is None:
            raise Ended("failed", f"its steps did not end within {patience:.0f} s")
        if message["kind"] != kind:
            raise LaunchError(f"{self.script.name}: sent {message['kind']!r} where {kind!r} was expected")
        return message

    def settle(self) -> None:
        """Run steps until page faults are steady, on both heaps; record shapes once; discard traced blocks."""
        took, step = self.plain(self.block(1)), self.block_seconds / (1 + self.skip)
        self.patience, self.skip = max(HANGS, 50 * took), int(took < SHORT)
        self.count = self.traced = max(1, round(rounds.BLOCK / max(took, 1e-9)))
        self.steps = max(TIGHT, self.script.seconds) / took
        if self.script.expected:
            self.steps, self.count, self.tries = 0.0, max(1, self.script.expected // SHARES - 1), 1
        settling = BLOCKS[(self.steps >= FEW_STEPS) + (self.steps >= SOME)]
        about = self.script.seconds, self.say, settling, self.least_rounds()
        ends.report_slow(step, self.count + self.skip, *about)
        if self.steps < FEW_STEPS and self.script.heap is None:
            self.recording.program["heap"] = "default"
        else:
            self._steady()
            self._both_heaps()
        if self.torch:
            recorded = self.block(1, spans=True, shapes=True).reply
            most = max(1, len(recorded["traced"]["columns"]["start"]) // (1 + self.skip))
            self.heavy = most > MOST_EVENTS
            self.traced = max(1, min(self.count, MOST_EVENTS // most - self.skip))
            self.recording.called = reply.called(recorded)
            for _ in range(TRACED if self.steps >= SOME else 0):  # the heap grows until a tracer has enough, too
                self.block(self.traced, spans=True, samples=True)
            if self.steps >= FEW_STEPS:
                self._steady()
        self._knock()
        if self.sampler:
            self.sampler.renew()
            self.since = time.monotonic(), self.sampler.seconds()

    def _both_heaps(self) -> None:
        """Time steps on the initial heap, then keep freed memory, unless --heap names a heap."""
        if self.script.heap is not None:
            return
        self.seen = Watched()
        for _ in range(STARTED if self.steps >= SOME else LEAST):
            self.level("P0", self.plain(self.block(self.count)))
        started, self.seen = self.seen, Watched()
        if self.keep_freed():
            self.recording.started = started
        else:
            self.recording.program["heap"] = "default"

    def keep_freed(self) -> bool:
        """Make malloc keep freed memory from now on; let memory settle; return whether malloc accepts. Raises Ended."""
        done: bool = self._ask("heap", HANGS, do="heap", variables=heap.POLICIES["keep"])["done"]
        self._steady()
        return done

    def least_rounds(self) -> int:
        """Return the number of rounds to watch whatever the budget is: fewer where steps are long."""
        return max(LEAST, min(FEWEST, int(self.steps / 4)))

    def logged(self) -> None:
        """Record the denormal numbers of a step, and the seconds of each call that libraries log, in untimed steps."""
        self.recording.program["denormals"] = self.block(1, denormals=True).reply["denormals"]
        printed = self.block(self.count, logs=True).reply["printed"]
        if logged := library_log.talked(printed, self.skip + self.count):
            self.recording.program["logged"] = logged

    def again(self, calls: Sequence[dict[str, Any]]) -> None:
        """Time operations in isolation, outside any step, with warm and with cold caches."""
        timed, cache = [], open_device("cpu").limits().usable_cache
        for call in calls:
            answer = self._ask("again", self.patience, do="again", call=call["call"], cache=cache)
            if answer["reason"] is None:
                timed.append(
                    {"row": call["row"], "column": call["column"], "warm": answer["warm"], "cold": answer["cold"]}
                )
        if timed:
            self.recording.program["again"] = timed

    def trials(self, names: Sequence[str], seconds: float, fewest: int = trials.FEWEST, seed: int = 0) -> None:
        """Time steps as they are and with each trial that the script allows, in turns; `seed`: of their order."""
        replies = {name: self._ask("tried", HANGS, do="try", name=name)["reason"] for name in names}
        self.recording.program["refused"] = {name: reason for name, reason in replies.items() if reason}
        there = [name for name, reason in replies.items() if reason is None]
        if there:
            one_thread = self.one_thread and not any(name.startswith("threads=") for name in there)
            kept = self.recording.program["trials"] = {}
            trials.in_turns(partial(self._trial, one_thread), there, seconds, kept, fewest, seed)

    def _trial(self, one_thread: bool, name: str) -> list[float]:
        self.trial = name
        each = self.block(self.count, without=name or None).each(one_thread)
        self.trial = ""
        return each

    def _knock(self) -> None:
        """Check that each parameter or module of --knock-out can be left out. Raises UsageError if not."""
        for path in self.script.knock_out:
            answer = self._ask("knock", HANGS, do="knock", path=path)
            self.plain(self.block(self.count))
            reason = answer["reason"] or self._ask("knocked", HANGS, do="knocked", path=path)["reason"]
            if reason:
                raise UsageError(f"--knock-out {path}: {reason}")
            about = {name: answer[name] for name in ("what", "count", "shape")}
            self.recording.program.setdefault("without", {})[path] = about

    def _steady(self) -> None:
        """Run plain blocks until page faults are steady, SETTLING seconds or a quarter of the budget at most."""
        end = time.monotonic() + min(SETTLING, max(TIGHT, self.script.seconds) / 4)
        before = float("inf")
        while time.monotonic() < end:
            self.plain(self.block(self.count))
            self.fewest = self.faults
            if abs(self.faults - before) <= max(SETTLED * self.faults, FEW):
                return
            before = self.faults

    def round(self, number: int, order: random.Random) -> None:
        """Run plain and traced blocks, in random order; every third round also each instrument alone."""
        self.seen = Watched(rounds=[number] * self.traced, traces=self.torch)
        looks: list[Callable[[], object]] = [self._p0, partial(self.watched_level, self.torch)]
        looks += [partial(self._without, path) for path in self.script.knock_out]
        with self.record_end():
            for look in order.sample(looks, len(looks)):
                look()
            if number % SELDOM == 0 and not self.script.expected:
                if self.torch:
                    self.traced_level("P1", spans=True)
                if self.sampler:
                    self.traced_level("P2", samples=True)
                self._lines()
        self.unread.append(self.seen)

    def _p0(self) -> None:
        block = self.undisturbed(self.count)
        add_lines(self.recording.program, "long lines", self.count + self.skip, block.reply["lines"])
        self.level("P0", self.plain(block))

    def plain(self, block: Block) -> float:
        """Record a plain block, with the seconds of each step; from three times their median on, a step is long."""
        each = block.each(self.one_thread)
        self.seen.plain.append(each)
        self.seen.at.append(self.taken - len(each))
        self.long = limit(each)
        return super().plain(block)

    def watched_level(self, spans: bool = True) -> Block:
        """Run a block with all instruments; keep its data with the traced events, and return it."""
        block = super().watched_level(spans)
        self.seen.events = reply.events(block.reply)
        return block

    def _lines(self) -> None:
        """Run a block in which the script's lines are sampled, and add their seconds of a step to the recording."""
        block = self.block(self.count, lines=0.0, until=self.long)
        add_lines(self.recording.program, "lines", self.count + self.skip, block.reply["lines"])

    def traced_seconds(self, block: Block) -> float:
        """Return the mean seconds of a traced step, without long steps."""
        return fmean(regular(block.each(self.one_thread)))

    def _without(self, path: str) -> None:
        """Run a block without the parameter's gradient or the module at `path`, and record its level."""
        self.level(f"without {path}", self.block(self.count, without=path).seconds(self.one_thread))

    def few(self) -> int:
        """Return the page faults by which steps may differ: few if the heap keeps freed memory."""
        return MANY if self.recording.program["heap"] == "default" else FEW

    def undisturbed(self, count: int, spans: bool = False, samples: bool = False) -> Block:
        """Run a block in which memory does not grow, and note the fewest page faults of a step."""
        block = super().undisturbed(count, spans, samples)
        self.fewest = min(self.fewest, self.faults)
        return block

    def block(self, count: int, spans: bool = False, samples: bool = False, **more: Any) -> Block:
        """Run a block of steps; `more`: see macro/agent/blocks.py.

        That is `shapes` recorded, `without` a parameter or module or with a trial, library `logs`, a count of
        `denormals`, and `lines` of steps that have taken so many seconds."""
        fifos = self.sampler.fifos if self.sampler and samples else None
        skip = 0 if spans and self.heavy else self.skip
        request = {"do": "block", "count": count, "skip": skip, "fifos": fifos, "spans": spans, "shapes": False}
        request |= {"lines": None if spans or samples else self.long, "until": None}
        before, began = load.others(), time.monotonic()
        answer = self._ask("block", self.patience * 2, **{**request, "without": None, "logs": False, **more})
        self.block_seconds = time.monotonic() - began
        block = reply.block(answer, before, load.others(), self.block_seconds)
        self.taken += count + skip
        plain = not (spans or samples or more)
        count_steps(self.recording.program, block.each(self.one_thread), answer["collections"] if plain else None)
        self.faults = sum(block.faults) / count
        self.recording.program["peak"] = answer["peak"]  # peak memory in bytes
        if answer.get("evaluated"):
            self.recording.program.setdefault("settings", {})["evaluated"] = answer["evaluated"]
        return block

    def read(self) -> list[Watched]:
        """Add the unread rounds to the recording, and return them. Raises LaunchError."""
        if self.sampler and self.unread:
            now, perf_seconds = time.monotonic(), self.sampler.seconds()
            self.recording.program["perf"] = (perf_seconds - self.since[1]) / (now - self.since[0])
        self.sampled()
        unread = list(self.unread)
        while self.unread:  # an interrupt loses at most one round, and adds none twice
            self.watched.add(self.unread.pop(0))
        return unread

    def over(self, end: Ended) -> None:
        """Record an early end of the script. Raises SuiteError if fewer than LEAST rounds were watched."""
        count = len(self.watched.levels.get("P3", [])) + len(self.unread)
        self.recording.ended = ends.late(end)
        if end.how == "usage":
            raise UsageError(end.reason)
        if count < LEAST:
            text = f"{self.script.name}: {ends.early(end, self.recording.program, self.script)}"
            steps = max(end.steps, self.taken)
            again = steps >= SHORTEST or (self.torch and not steps)
            if again and end.how == "ended" and not end.reason and not self.script.expected:
                raise ends.Short(text, steps)
            raise LaunchError(text)

    def finish(self) -> None:
        """Read the last samples while the process is alive: perf needs it to resolve symbols."""
        with suppress(LaunchError, OSError):
            self.read()

    def end(self) -> None:
        """Release the script and wait until it ends, ENDING seconds at most unless `--stop never` is given."""
        with suppress(LaunchError):
            self.program.send({"do": "bye"})
        patience = None if self.script.stop == "never" else time.monotonic() + ENDING
        while not self.program.wait() and (patience is None or time.monotonic() < patience):
            pass
