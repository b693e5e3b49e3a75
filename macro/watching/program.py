"""A user's own script watched step by step, as it is: blocks of plain steps, with spans, with samples, with both, in
turns, in the script's own loop."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeAlias

from kernels import heap
from kernels.errors import LaunchError, Unavailable, UsageError
from macro.timing.turns import FEWEST, HANGS
from macro.watching import perf
from macro.watching.perf import Sampler
from macro.watching.recording import Called, Event, Recording, Watched
from macro.watching.script import Ended, Program, Script
from macro.watching.watch import BLOCK, GROWN, SELDOM, SPARE
from micro.worker.client import Died
from reports.units import counted

MOST_EVENTS = 12_000  # of a block: reading one costs some 10 µs
SHORT = 1.0  # seconds of a step, below which the first of a block is discarded
SETTLED = 0.1  # by so much of them at most page faults differ between two blocks of a heap that has settled …
FEW = 64  # … or so many pages
MANY = 4096  # pages that a watched step on the default heap may have more than the fewest
SETTLING = 15.0  # seconds that a heap is waited for
AGAIN = 6  # times at most that a block is taken in which memory grew
TRACED = 3  # blocks with everything, before any counts
STARTED = 6  # blocks on the heap that the program starts with
ENDING = 20.0  # seconds for a script to clean up
ENDS = {"failed": "the script failed: ", "profiler": "", "unseen": "watching it failed: "}  # by how it did; its reason
Say: TypeAlias = Callable[[str], None]
MARK = (
    "mark it with two lines, `from kernelgap import step` and `with step():` around each step (python -m macro explain "
    "--help), or name a function that is one, --step module:function"
)


def watch(
    scripts: Sequence[Script],
    folder: Path,
    streams: tuple[IO[bytes], IO[bytes]],
    say: Say,
    keep: Callable[[Sequence[Recording]], None],
) -> list[Recording]:
    """Run the scripts, in turns, until enough of their steps were seen; `keep` is given what was seen so far, now and
    then. `streams`: where they print to, and their errors. Raises SuiteError where one has no step, or fails before
    enough was seen."""
    with ExitStack() as stack:
        looks: list[Look] = []
        try:
            for script in scripts:
                program = Program(script, folder, *streams)
                stack.callback(program.close)
                look = Look(script, program, say)
                with look.told():
                    look.begin()
                    looks.append(look)
                    if (missing := perf.missing()) and not look.torch:
                        raise Unavailable(f"{script.name}: it has no PyTorch, so that perf alone can tell: {missing}")
                    if not missing:
                        look.sampler = Sampler(program.pid, folder)
                        stack.callback(look.sampler.close)
                    look.settle()
            _rounds(looks, keep)
        except Ended:
            pass  # what was seen until then counts: each look says why it ended
        except (KeyboardInterrupt, SystemExit):
            for look in looks:
                look.recording.ended = "interrupted"
            raise
        finally:
            for look in looks:
                look.finish()
        for look in looks:
            look.end()
        return [look.recording for look in looks]


def _rounds(looks: Sequence[Look], keep: Callable[[Sequence[Recording]], None]) -> None:
    """Until the budget is spent, and there are enough."""
    order, began, seconds = random.Random(0), time.monotonic(), looks[0].script.seconds
    due = number = 0.0
    while number < FEWEST or time.monotonic() - began < seconds:
        for look in order.sample(looks, len(looks)):
            with look.told():
                look.round(int(number), order)
        number += 1
        if not int(number) & int(number) - 1:  # 1, 2, 4, 8 …
            looks[0].say(counted(int(number), "round"))
        now = time.monotonic() - began
        if number >= FEWEST and due <= now < seconds:
            for look in looks:
                look.read()
            keep([look.recording for look in looks])
            took = time.monotonic() - began - now
            due = now + took + SPARE * took


class Look:
    """A script and perf beside it."""

    def __init__(self, script: Script, program: Program, say: Say) -> None:
        self.script, self.program, self.say = script, program, say
        self.sampler: Sampler | None = None
        self.watched, self.unread = Watched(), list[Watched]()
        self.recording = Recording({}, [self.watched])
        self.seen = Watched()
        self.patience, self.count, self.traced, self.skip = 5 * HANGS, 1, 1, 1
        self.one_thread, self.faults, self.torch = True, 0.0, False
        self.fewest = 0.0  # page faults of a step, of any block since its heap is steady

    @contextmanager
    def told(self) -> Iterator[None]:
        """What ends the script in here is told, or is an error where too little was seen. Raises Ended, SuiteError."""
        try:
            yield
        except Ended as end:
            self.over(end)
            raise

    def begin(self) -> None:
        """Until its first steps are over. Raises Ended, UsageError."""
        end, held = time.monotonic() + self.script.patience, False
        while (message := self._message(end)) is not None and message["kind"] != "hello":
            self.torch |= message["kind"] == "torch"
            held |= message["kind"] == "held"
            if message["kind"] == "hint":
                self.say(message["text"])
        if message is None:
            self.program.close()
            why = _unseen(self.script, self.torch, held)
            raise UsageError(f"{self.script.name}: no step within {self.script.patience:.0f} s: {why}")
        self.torch |= message["framework"] == "pytorch"
        self.one_thread = message["threads"] == 1
        facts = {name: value for name, value in message.items() if name not in ("kind", "seq", "t_mono_ns")}
        script = self.script
        self.recording.program = {
            "script": str(script.path),
            "arguments": list(script.arguments),
            "interpreter": str(script.python),
            "heap": script.heap or "keep",
            **facts,
        }
        version = f"; PyTorch {facts['version']}" if self.torch else ""
        self.say(f"steps end with {facts['step']}{version}")

    def _message(self, end: float) -> dict[str, Any] | None:
        """The next one; None where none comes by then. Raises Ended."""
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
            raise Ended("failed", f"no end of its steps within {patience:.0f} s")
        if message["kind"] != kind:
            raise LaunchError(f"{self.script.name}: says {message['kind']!r} where {kind!r} was expected")
        return message

    def settle(self) -> None:
        """Plain steps until page faults are steady, on the heap that it starts with; then on one that keeps its memory;
        one traced step that is discarded, some with shapes."""
        took = self._plain(1)
        self.patience, self.skip = max(HANGS, 50 * took), int(took < SHORT)
        self.count = self.traced = max(1, round(BLOCK / max(took, 1e-9)))
        self._steady()
        if self.script.heap is None:
            self.seen = Watched()
            for _ in range(STARTED):
                self._level("P0", self._plain(self.count))
            started, self.seen = self.seen, Watched()
            if self._ask("heap", HANGS, do="heap", variables=heap.POLICIES["keep"])["done"]:
                self.recording.started = started
            else:
                self.recording.program["heap"] = "default"
            self._steady()
        if self.torch:
            reply = self._block(1, spans=True)
            most = max(1, len(reply["traced"]["columns"]["start"]) // (1 + self.skip))
            self.traced = max(1, min(self.count, MOST_EVENTS // most - self.skip))
            self.recording.called = _called(self._block(1, spans=True, shapes=True))
            for _ in range(TRACED):  # a tracer's memory makes the program's grow, until both have theirs
                self._block(self.traced, spans=True, samples=True)
            self._steady()
        self._knock()

    def _knock(self) -> None:
        """Ask what of a model can be left out. Raises UsageError for what cannot."""
        for path in self.script.knock_out:
            told = self._ask("knock", HANGS, do="knock", path=path)
            self._plain(self.count)
            reason = told["reason"] or self._ask("knocked", HANGS, do="knocked", path=path)["reason"]
            if reason:
                raise UsageError(f"--knock-out {path}: {reason}")
            about = {name: told[name] for name in ("what", "count", "shape")}
            self.recording.program.setdefault("without", {})[path] = about

    def _steady(self) -> None:
        """Until page faults are."""
        end, before = time.monotonic() + SETTLING, float("inf")
        while time.monotonic() < end:
            self._plain(self.count)
            self.fewest = self.faults
            if abs(self.faults - before) <= max(SETTLED * self.faults, FEW):
                return
            before = self.faults

    def round(self, number: int, order: random.Random) -> None:
        """Plain and traced, in random order; seldom each instrument alone."""
        self.seen = Watched(rounds=[number] * self.traced, traces=self.torch)
        looks: list[Callable[[], object]] = [self._p0, self._p3]
        looks += [partial(self._without, path) for path in self.script.knock_out]
        for look in order.sample(looks, len(looks)):
            look()
        if number % SELDOM == 0:
            if self.torch:
                self._level("P1", self._seconds(self._block(self.traced, spans=True), self.traced))
            if self.sampler:
                self._level("P2", self._seconds(self._block(self.count, samples=True), self.count))
        self.unread.append(self.seen)

    def _p0(self) -> None:
        reply = self._undisturbed(self.count)
        self._level("P0", self._seconds(reply, self.count))
        self.seen.faults.append(self.faults)
        self.seen.system.append(_system(reply))

    def _without(self, path: str) -> None:
        """Plain steps without a parameter's gradient, or a module."""
        self._level(f"without {path}", self._seconds(self._block(self.count, without=path), self.count))

    def _undisturbed(self, count: int, spans: bool = False, samples: bool = False) -> dict[str, Any]:
        """A block; again where the program's memory grew, which is not what each step does; the last time as it is."""
        few = MANY if self.recording.program["heap"] == "default" else FEW
        for _ in range(AGAIN):
            reply = self._block(count, spans=spans, samples=samples)
            if max(faults for *_, faults in reply["steps"]) <= GROWN * self.fewest + few:
                break
            self.seen.retaken += 1
        self.fewest = min(self.fewest, self.faults)
        return reply

    def _p3(self) -> None:
        reply = self._undisturbed(self.traced, spans=self.torch, samples=True)
        seconds = self._seconds(reply, self.traced)
        blocked = reply["blocked"] * 1e-9 / self.traced
        self.seen.steps = [(start, end, cpu * 1e-9, blocked) for start, end, cpu, *_ in reply["steps"]]
        self.seen.events = _events(reply)
        self._level("P3", seconds)

    def _level(self, name: str, seconds: float) -> None:
        self.seen.levels.setdefault(name, []).append(seconds)
        self.seen.faulted.setdefault(name, []).append(self.faults)

    def _plain(self, count: int) -> float:
        reply = self._block(count)
        self.seen.faults.append(self.faults)
        self.seen.system.append(_system(reply))
        return self._seconds(reply, count)

    def _block(
        self, count: int, spans: bool = False, samples: bool = False, shapes: bool = False, without: str | None = None
    ) -> dict[str, Any]:
        fifos = self.sampler.fifos if self.sampler and samples else None
        request = {"do": "block", "count": count, "skip": self.skip, "fifos": fifos, "spans": spans, "shapes": shapes}
        request["without"] = without
        reply = self._ask("block", self.patience * 2, **request)
        self.faults = sum(faults for *_, faults in reply["steps"]) / count
        return reply

    def _seconds(self, reply: Mapping[str, Any], count: int) -> float:
        """One thread: others' work beside it does not count, what it waits for itself does."""
        if self.one_thread:
            return float(sum(cpu for _, _, cpu, *_ in reply["steps"]) + reply["blocked"]) * 1e-9 / count
        return float(sum(end - start for start, end, *_ in reply["steps"])) * 1e-9 / count

    def read(self) -> None:
        """What the rounds since the last time added, with perf's samples. Raises LaunchError."""
        rounds, self.unread = self.unread, []
        if self.sampler and rounds:
            seen = self.sampler.read()
            for one in rounds:
                one.sampled(seen)
        for one in rounds:
            self.watched.add(one)

    def over(self, end: Ended) -> None:
        """The script ended before it was asked to: what was seen counts where it is enough. Raises SuiteError."""
        rounds = len(self.watched.levels.get("P3", [])) + len(self.unread)
        self.recording.ended = ENDS[end.how] + end.reason if end.how in ENDS else "the script ended by itself"
        if end.how == "usage":
            raise UsageError(end.reason)
        if not rounds:
            raise LaunchError(f"{self.script.name}: {_why(end, self.recording.program)}")

    def finish(self) -> None:
        """The names of what perf saw are looked up while the process is there."""
        with suppress(LaunchError, OSError):
            self.read()

    def end(self) -> None:
        """Let the script go: it is ended, or goes on alone (`--stop never`)."""
        with suppress(LaunchError):
            self.program.send({"do": "bye"})
        patience = None if self.script.stop == "never" else time.monotonic() + ENDING
        while not self.program.wait() and (patience is None or time.monotonic() < patience):
            pass


def _system(reply: Mapping[str, Any]) -> float:
    """Seconds of a step in the operating system."""
    steps = reply["steps"]
    return float(sum(system for _, _, _, system, _ in steps)) * 1e-9 / len(steps)


def _unseen(script: Script, torch: bool, held: bool) -> str:
    """Why no step was seen."""
    if held:
        return "its own torch.profiler.profile is on: run it without, or --wait 5m waits until that has stopped"
    if script.step and ":" in script.step:
        return f"--step {script.step} was not called so often; --wait 5m waits longer"
    why = " and no module was called" if torch else ", nor was torch imported"
    return f"no optimizer has stepped{why}: {MARK}; --wait 5m waits longer"


def _why(end: Ended, program: Mapping[str, Any]) -> str:
    reason = f": {end.reason}" if end.reason else ""
    if end.how == "failed":
        missing = " (--python PATH names the interpreter that has it)" if "ModuleNotFoundError" in end.reason else ""
        return f"it fails before a step was watched{reason}{missing}"
    if end.how in ENDS:
        return f"it cannot be watched{reason}"
    if program or end.steps:
        steps = "" if program else f" ({counted(end.steps, 'step')})"
        return f"it ended before enough of its steps were watched{steps}{reason}: let it run for longer, more epochs"
    if reason:
        return f"it ended before a step was watched{reason} (its own words stand behind --)"
    return f"it ended without a step that could be told: {MARK}"


def _events(reply: Mapping[str, Any]) -> list[Event]:
    told = reply["traced"]
    if not told:
        return []
    columns, names = told["columns"], told["names"]
    order = ("start", "end", "thread", "sequence", "lane", "forward")
    rows = zip(columns["name"], *(columns[name] for name in order), strict=True)
    return [Event(names[name], *rest) for name, *rest in rows]


def _called(reply: Mapping[str, Any]) -> list[Called]:
    """The operations of a block with shapes, of its last step."""
    events, shapes = _events(reply), reply["traced"]["shapes"]
    start, end = reply["steps"][-1][:2]
    return [Called(e, *told) for e, told in zip(events, shapes, strict=True) if start <= e.start <= end]
