"""`macro explain NET A B --device cuda:0`: steps timed in turns by the GPU's clock, then profiled.

The profile attributes time to kernels, copies and waiting.
"""

from __future__ import annotations

import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.errors import SuiteError
from macro.timing.entry import HANGS, WARM, Entry, Plan, begin
from reports import units

if TYPE_CHECKING:
    from micro.planning.options import Outputs
    from reports.store import RunFile

STEPS = 10  # under the profiler
NAME = "kernelgap steps"  # name of the traced range in macro/agent/device_clocks.py
MARGIN = 0.01
MORE = 1.2  # times a timed step: if a traced step is longer, the profiler causes part of its idle time
TOPIC = "device"
WAITS = ("copies and clears alone", "idle")


def main(plan: Plan, entries: Sequence[Entry], outputs: Outputs, say: Callable[[str], None]) -> int:
    """Time and profile both sides; return the exit code, 1 if a side could not be timed."""
    from macro.running import session
    from macro.timing.results import contest_name
    from micro.command.outputs import for_people

    sides = list[dict[str, Any]]()
    planned, devices = [contest_name(plan)], ["cpu", entries[0].setting.device]
    code = session.kept("explain", outputs, planned, partial(_measure, plan, entries, sides, say), devices)
    print("\n".join(_text(sides)), file=for_people(outputs))
    return code or int(not all(side["timed"] for side in sides))


def _measure(
    plan: Plan, entries: Sequence[Entry], sides: list[dict[str, Any]], say: Callable[[str], None], file: RunFile
) -> None:
    """Time and trace the steps; append each side's note data, new or already in the file, to `sides`."""
    from macro.running import session
    from macro.timing.results import name
    from reports.record import Note

    session.contest(plan, entries, MARGIN, file, say)
    results = {result.name: result for result in file.run.results}
    notes = {
        note.data["result"]: note.data for note in file.run.notes if note.topic == TOPIC and not note.data["reason"]
    }
    for entry, letter in zip(entries, "ab", strict=True):
        result = results[name(plan, entry)]
        if result.name not in notes:
            path = file.path.with_name(f"{file.path.stem}-{letter}.json.gz") if file.path else None
            data: dict[str, Any] = {"result": result.name, "framework": entry.framework.name, "devices": []}
            data["reason"] = None if result.seconds else result.reason or result.status
            data["timed"] = result.seconds is not None
            data["step"] = result.seconds.median if result.seconds else None
            if result.seconds:
                say(f"{entry.framework.name} under its profiler: {STEPS} steps")
                data |= _traced(plan, entry, path)
            notes[result.name] = data
            file.append(Note(TOPIC, data))
        sides.append(notes[result.name])


def _traced(plan: Plan, entry: Entry, kept: Path | None) -> dict[str, Any]:
    """Return `devices` from a trace, or a `reason`; `kept`: path of the trace, None: temporary."""
    try:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kernelgap-explain-")))
            path = (kept or folder / "trace.json.gz").resolve()
            process = begin(plan, entry, entry.setting, folder, stack)
            process.ask(HANGS * 5, "steps", do="steps", phase=plan.phase, count=WARM)
            reply = process.ask(HANGS * 5, "profiled", do="profile", phase=plan.phase, count=STEPS, path=str(path))
            return {"reason": reply["reason"]} if reply["reason"] else {"devices": _accounts(path)}
    except SuiteError as error:
        return {"reason": str(error)}


def _accounts(path: Path) -> list[dict[str, Any]]:
    """Return the time account of each device in a trace. Raises UsageError."""
    from macro.explaining.device_time import account
    from macro.traces import chrome

    trace = chrome.read(path, NAME)
    return [asdict(replace(account(device, trace.steps), steps=STEPS)) for device in trace.devices]


def _text(sides: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    from reports import device
    from reports.attribution import aligned

    for side in sides:
        yield ""
        if side["reason"]:
            yield f"{side['framework']}: no trace: {side['reason']}"
            continue
        yield f"{side['framework']}, by its profiler (overhead included):"
        yield from _slower(side)
        yield from device.text(side["devices"])
    if [len(side["devices"]) for side in sides] == [1, 1]:
        a, b = (_parts(side["devices"][0]) for side in sides)
        words = sorted({*a, *b}, key=lambda word: -abs(a.get(word, 0.0) - b.get(word, 0.0)))
        rows = [[word, *map(units.seconds, (a.get(word, 0.0), b.get(word, 0.0)))] for word in words]
        rows = [[*row, _signed(a.get(row[0], 0.0) - b.get(row[0], 0.0))] for row in rows]
        yield ""
        yield from aligned(["of a step", *(side["framework"] for side in sides), "more"], rows, left=1)


def _slower(side: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line that compares the duration of traced and timed steps; nothing for several devices."""
    if not side.get("step") or len(side["devices"]) != 1:
        return
    (device,) = side["devices"]
    traced, timed = device["seconds"] / device["steps"], side["step"]
    longer = f"{traced / timed:.2f} times as long"
    why = "" if traced <= MORE * timed else ": part of the idle time below is the profiler's overhead"
    if side["framework"].partition("~")[0] == "jax":
        why += "; XLA runs no CUDA graphs while it is profiled"
    yield f"A step took {units.seconds(traced)} under the profiler, {units.seconds(timed)} without, {longer}{why}."


def _parts(device: Mapping[str, Any]) -> dict[str, float]:
    """Return seconds of a step by kind of kernel (concurrent kernels each in full) and of waiting (WAITS)."""
    seconds = defaultdict[str, float](float)
    for kernel in device["each"]:
        seconds[kernel["kind"]] += kernel["seconds"] / device["steps"]
    idle = device["unlaunched"] + device["starting"] + device["untold"]
    return {**seconds, **dict(zip(WAITS, (device["exposed"] / device["steps"], idle / device["steps"]), strict=True))}


def _signed(seconds: float) -> str:
    return ("+" if seconds > 0 else "−" if seconds < 0 else "") + units.seconds(abs(seconds))
