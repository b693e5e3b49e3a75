"""Blocks of steps of a running program, plain or traced, as the driver requests.

Between two steps the program waits in `end`: a block is reported, the next request is awaited, and instruments are
started or stopped, outside the clocks of all steps.
"""

from __future__ import annotations

import ctypes
import gc
import json
import math
import os
import resource
import threading
import time
from typing import Any

import denormals  # beside this file
import knock_out
import library_talk
import lines
import recorder
import torch_again
import trials

STOPS = 3  # times that Enough is raised, if a program catches everything
MALLOPT = {"MALLOC_TRIM_THRESHOLD_": -1, "MALLOC_TOP_PAD_": -2, "MALLOC_MMAP_THRESHOLD_": -3, "MALLOC_MMAP_MAX_": -4}
MOST = 1 << 30  # bytes of heap reserved beyond the program's, at most
LARGEST = (1 << 31) - 1  # mallopt's largest value; beyond it -1, no limit


class Enough(BaseException):
    """Signal that ends the program when the driver has all it needs."""


class Blocks:
    """Executor of the driver's requests between the steps of a program."""

    def __init__(self, channel: Any, requests: Any, stop: str) -> None:
        self.channel, self.requests, self.stop = channel, requests, stop
        self.spans: Any = None  # torch_watch.Spans, once torch is imported
        self.request: Any = None
        self.rows: list[list[int]] = []
        self.skip: int = 0
        self.clocks: Any = None
        self.block_clocks: Any = None
        self.gate: Any = None
        self.raised, self.over, self.later = 0, False, False
        self.knocked: dict[str, Any] = {}  # knock-outs and trials, by the name that a block gives as `without`
        self.applied: Any = None  # the knock-out or trial of the open block
        self.refused: dict[str, str | None] = {}  # {path: reason}
        self.looked = False  # whether the previous block had spans
        self.talk: library_talk.Talk | None = None  # verbose output of libraries
        self.printed = ""
        self.lines: lines.Lines | None = None
        self.denormals: denormals.Denormals | None = None
        self.counts: dict[str, list[int]] = {}  # of denormal numbers in the last block
        self.pid = os.getpid()
        self.collections, self.collecting = [0, 0], 0  # garbage collections of a block and their nanoseconds; start
        gc.callbacks.append(self._collected)

    def _collected(self, phase: str, about: dict[str, Any]) -> None:
        if phase == "start":
            self.collecting = time.monotonic_ns()
        elif self.request is not None and self.clocks is not None and not self.skip and not self.later:
            self.collections[0] += 1
            self.collections[1] += time.monotonic_ns() - self.collecting

    def begin(self) -> None:
        """Start the clocks of a step, if a block is requested."""
        if self.request is None or self.over:
            return
        self.clocks = (recorder.now(), time.process_time(), resource.getrusage(resource.RUSAGE_SELF))

    def end(self) -> None:
        """Record the ended step; report the block and wait for a request when the block is complete."""
        end, cpu, used = recorder.now(), time.process_time(), resource.getrusage(resource.RUSAGE_SELF)
        if self.over:
            self._over()
            return
        if self.clocks is None or os.getpid() != self.pid:
            return
        (start, cpu_before, before), self.clocks = self.clocks, None
        if self.later:
            self._start()
            return
        if self.skip:
            self.skip -= 1
            if not self.skip:
                self.block_clocks = recorder.blocked()
            return
        system = int((used.ru_stime - before.ru_stime) * 1e9)
        self.rows.append([start, end, int((cpu - cpu_before) * 1e9), system, used.ru_minflt - before.ru_minflt])
        if len(self.rows) >= self.request["count"]:
            self._tell()
            self.wait()

    def wait(self) -> None:
        """Serve requests until a block is requested, and start its instruments. Raises Enough or SystemExit."""
        while True:
            line = self.requests.readline()
            request = json.loads(line) if line else {"do": "bye"}
            if request["do"] == "heap":
                self.channel.send("heap", done=keep(request["variables"]))
            elif request["do"] == "knock":
                self.channel.send("knock", **self._knock(request["path"]))
            elif request["do"] == "knocked":
                self.channel.send("knocked", reason=self.refused.get(request["path"]))
            elif request["do"] == "try":
                self.channel.send("tried", reason=self._try(request["name"]))
            elif request["do"] == "again":
                self.channel.send("again", **self._again(request))
            elif request["do"] == "bye":
                self.over = True
                self._over()
                return
            else:
                break
        self.request, self.rows, self.skip = request, [], int(request["skip"])
        self.collections = [0, 0]
        # An operation that is open here, such as the optimizer's step, began under the profiler just stopped. Its end
        # would write to that profiler's freed memory if the next profiler started now, so that starts a step later.
        self.later = bool(request["spans"] and self.looked)
        if not self.later:
            self._start()

    def give_up(self, how: str, reason: str) -> None:
        """Stop watching, report the reason and end the program. Raises Enough or SystemExit."""
        self.request = None
        try:
            self._stop_looking()
        except Exception:  # the program has failed already
            pass
        self.channel.send("ended", how=how, reason=reason, code=1)
        self.requests.readline()  # perf resolves symbols while this process exists
        self.over = True
        self._over()

    def _start(self) -> None:
        request, self.later = self.request, False
        if request["spans"] and self.spans:
            self.spans.start(request["shapes"])
        if request.get("logs") and self.spans:
            self.talk = library_talk.Talk(self.spans.torch)
            self.talk.start()
        if request.get("denormals") and self.spans:
            self.denormals = denormals.Denormals(self.spans.torch)
            self.denormals.start()
        if request.get("without"):
            self.applied = self.knocked[request["without"]]
            self.applied.apply()
        if request.get("lines") is not None:
            until = request["until"] or math.inf
            self.lines = lines.Lines(request["lines"], until, lambda: self.clocks[0] if self.clocks else None)
            self.lines.start()
        self.gate = recorder.Gate(request["fifos"])
        self.gate.say(b"enable")
        self.block_clocks = recorder.blocked()

    def _tell(self) -> None:
        clocks = recorder.blocked()
        load = recorder.ran_and_queued(self.block_clocks, clocks)
        sampled = self._stop_looking()
        self.looked = bool(self.request["spans"] and self.spans)
        traced = self.spans.events() if self.looked else None
        blocked = recorder.waited(self.block_clocks, clocks)
        about = {"blocked": blocked, "load": load, "peak": peak(), "printed": self.printed, "lines": sampled}
        about.update(denormals=self.counts, collections=self.collections)
        evaluated = self.spans.modules.records_evaluation() if self.looked else ""
        self.channel.send("block", steps=self.rows, traced=traced, evaluated=evaluated, **about)
        self.request = None

    def _knock(self, path: str) -> dict[str, Any]:
        """Prepare to leave out the module or parameter at `path`; reply with a `reason` if impossible."""
        try:
            candidate = knock_out.KnockOut(self.spans.torch, self.spans.modules.known, path)
        except (knock_out.Refused, AttributeError) as error:
            return {"reason": str(error)}
        if candidate.what == "module":
            self.refused[path] = "the module was not called"
            candidate.try_out(lambda reason: self.refused.__setitem__(path, reason))
        self.knocked[path] = candidate
        return {"reason": None, "what": candidate.what, "count": candidate.count(), "shape": candidate.shape()}

    def _try(self, name: str) -> str | None:
        """Prepare a trial; return the reason if it is refused."""
        try:
            self.knocked[name] = trials.trial(self.spans.torch, name)
        except Exception as error:  # of odd optimizers and modules, too
            return str(error)
        return None

    def _again(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return seconds of an operation in isolation, warm and cold, or a `reason` if it cannot be called."""
        try:
            warm, cold = torch_again.seconds(self.spans.torch, request["call"], request["cache"])
        except Exception as error:  # whatever the framework raises
            return {"reason": repr(error)}
        return {"reason": None, "warm": warm, "cold": cold}

    def _stop_looking(self) -> list[list[Any]]:
        """Undo a knock-out or trial and stop all instruments; return the sampled lines."""
        self.undo()
        sampled, self.lines = self.lines.stop() if self.lines else [], None
        self.printed, self.talk = self.talk.stop() if self.talk else "", None
        self.counts, self.denormals = self.denormals.stop() if self.denormals else {}, None
        if self.gate:
            self.gate.say(b"disable")
            self.gate.close()
            self.gate = None
        if self.spans:
            self.spans.stop()
        return sampled

    def undo(self) -> None:
        """Undo the knock-out or trial of an open block."""
        applied, self.applied = self.applied, None
        if applied is not None:
            applied.undo()

    def leave(self) -> None:
        """Stop the instruments of an open block when the program ends or fails."""
        if os.getpid() != self.pid or self.over:
            return
        request, self.request = self.request, None
        if request is not None:
            self._stop_looking()

    def _over(self) -> None:
        self.request = None
        if self.stop == "never":
            return
        if self.stop == "exit" or self.raised >= STOPS:
            os._exit(0)
        self.raised += 1
        if threading.current_thread() is not threading.main_thread():
            raise SystemExit  # ends a thread without a message
        raise Enough


def keep(variables: Any) -> bool:
    """Make glibc's allocator keep freed memory from now on; return whether it accepted the settings."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    values = [(MALLOPT[name], int(value)) for name, value in variables.items()]
    accepted = [mallopt(code, value if value <= LARGEST else -1) for code, value in values]  # each, after a refusal too
    return all(accepted) and reserve(min(MOST, peak() // 2))


def reserve(count: int) -> bool:
    """Leave `count` bytes of touched, free memory at the heap's end.

    A tracer's records take free memory between the program's blocks. Without this reserve the program's next blocks
    would grow the heap, with a page fault for every page.
    """
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    libc.free.argtypes = [ctypes.c_void_p]
    block = libc.malloc(count)
    if block:
        ctypes.memset(block, 0, count)
        libc.free(block)
    return True


def peak() -> int:
    """Return the peak of resident memory, bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
