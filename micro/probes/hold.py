"""How many launches stand behind a held stream before their caller is made to wait, and whether that is detected.

A visit holds the stream, marks, launches, marks and releases it. Where the queue is full the host waits, cannot
release, and the holding kernel loses patience: the launches then run as they are enqueued, and the time between
the marks is the host's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kernels import grid
from kernels.ops.launch import Calls
from kernels.ops.launch import gpu as launch
from micro.probing import clock
from micro.probing.facts import Facts, need

if TYPE_CHECKING:
    from kernels.devices.cuda import Cuda
    from kernels.launch import Launch

QUESTION = "How many launches does a held stream take, and is it seen that the hold broke?"
LIMIT = 60.0
PART = 1
RANK = 10
COUNTS = (128, 256, 512, 768, 1000, 1024, 1100, 2000)
BLOCKED = 0.01  # seconds: no call takes as long that is not made to wait


def ask() -> dict[str, Any]:
    need("cupy")
    from kernels.devices.cuda import open_device

    facts, device = Facts(), open_device("0")
    facts.ask("warm", partial(clock.warm, device.cp))
    empty = launched(device)
    facts.ask("1 launch", partial(visit, device, empty.call, 1))  # compiles, too
    seen = {count: facts.ask(f"{count} launches", partial(visit, device, empty.call, count)) for count in COUNTS}
    held = [count for count, answer in seen.items() if kept(answer)]
    graph = facts.ask(f"a graph of {COUNTS[-1]}", partial(replayed, device, empty, COUNTS[-1]))
    facts.note("held", held)
    facts.note("broke", [count for count, answer in seen.items() if answer and not kept(answer)])
    facts.note("a graph is one entry", kept(graph))
    return facts.found


def kept(answer: dict[str, Any] | None) -> bool:
    """Whether the hold of a visit lasted until the release."""
    return answer is not None and not answer["start passed before release"]


def launched(device: Cuda) -> Launch:
    """One launch of the empty kernel."""
    problem = Calls("empty", 1)
    (x,) = problem.operands()
    view = device.view(device.allocate(x.nbytes), 0, x)
    return grid.bound(launch.SOURCE, launch.launches(problem, "launch_empty"), [x.name], device)([view])


def replayed(device: Cuda, empty: Launch, count: int) -> dict[str, Any]:
    return visit(device, device.repeat(empty, count), 1)


def visit(device: Cuda, call: Callable[[], object], count: int) -> dict[str, Any]:
    """What the calls took of the host behind a hold, which of them first had to wait, and whether the start had
    passed before the release."""
    device.sync()
    took = []
    device.hold()
    try:
        start = device.mark()
        before = time.perf_counter()
        for _ in range(count):
            call()
            now = time.perf_counter()
            took.append(now - before)
            before = now
        end = device.mark()
        took.append(time.perf_counter() - before)
        early = device.passed(start)
    finally:
        device.release()
        device.sync()
    waited = [i for i, seconds in enumerate(took, 1) if seconds > BLOCKED]
    return {
        "enqueue s": round(sum(took), 6),
        "start passed before release": early,
        "first call that waited": waited[0] if waited else None,  # the end mark is the last one
        "its s": round(took[waited[0] - 1], 4) if waited else None,
        "device us a call": round(device.between(start, end).wall / count * 1e6, 3),
    }
