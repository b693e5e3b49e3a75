"""Knock-outs: what rows predict that a step without a gradient or a module saves, and what it saves.

The measured saving is independent of the attribution: plain steps without it ran in the same rounds.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from macro.explaining import certain, modules
from macro.watching.recording import Called, Event, Recording, Watched
from reports.breakdown import AGREES, NARROW, Breakdown, Witness

KINDS = ("gemm", "element-wise", "copy", "clear")  # of the operations that make a gradient


def witnesses(breakdown: Breakdown, recording: Recording, processes: Sequence[Watched]) -> Iterator[Witness]:
    """Yield a cross-check for each path that was left out."""
    import numpy as np

    for path, about in recording.program.get("without", {}).items():
        plain = [np.array(x.levels["P0"]) for x in processes]
        without = [np.array(x.levels[f"without {path}"]) for x in processes]
        pairs = [a[: len(b)] - b[: len(a)] for a, b in zip(plain, without, strict=True)]
        saved = certain.estimate(pairs)
        low, high = certain.ends(saved)
        predicted = _predicted(path, about, breakdown, recording, processes)
        if predicted is None:
            words = "not predictable: one call makes this gradient and another"
            yield Witness(f"without {path}", None, saved.center, "cannot tell", words)
            continue
        half = max(AGREES * predicted, (high - low) / 2)
        verdict = "agree" if abs(predicted - saved.center) <= half else "disagree"
        if verdict == "agree" and (high - low) / 2 > NARROW * predicted:
            verdict = "cannot tell"
        yield Witness(f"without {path}", predicted, saved.center, verdict, "its rows; plain steps without it")


def _predicted(
    path: str, about: Mapping[str, Any], breakdown: Breakdown, recording: Recording, processes: Sequence[Watched]
) -> float | None:
    """Return the seconds that a path's rows take; None where they cannot be predicted.
    A module takes all its rows, a parameter what makes its gradient; the optimizer's share is by numbers of
    parameters."""
    every = sum(count for _, count, _ in recording.program.get("parameters") or ()) or 1
    update = sum(cell.a for cell in breakdown.cells if cell.phase == "update")
    share: float = update * min(1.0, about["count"] / every)
    if about["what"] == "module":
        cells = [x for x in breakdown.cells if x.path == path or x.path.startswith(f"{path}.")]
        return sum(x.a for x in cells if x.phase != "update") + share
    gradient = _gradient(path.rpartition(".")[0], about["shape"], recording.called, processes)
    return None if gradient is None else gradient + share


def _gradient(
    module: str, shape: Sequence[int], called: Sequence[Called], processes: Sequence[Watched]
) -> float | None:
    """Return seconds of a step in a module's backward operations whose result has this shape.
    The operations have the same order in each step. None where there are none."""
    row = modules.Where(module, "backward").row
    by_event = {id(call.event): call for call in called}
    calls = [by_event[id(event)] for event in _operations(row, [call.event for call in called])]
    at = [i for i, call in enumerate(calls) if _result(call) in (list(shape), list(reversed(shape)))]
    seconds = [x for process in processes for x in _by_step(process, row, set(at))]
    return sum(seconds) / len(seconds) if any(seconds) else None


def _operations(row: str, events: Sequence[Event]) -> list[Event]:
    """Return the products of a row and the passes over their results, none of them inside another."""
    kept: list[Event] = []
    for event, where, column in modules.placed(events):
        if where is not None and where.row == row and column in KINDS and not (kept and event.start < kept[-1].end):
            kept.append(event)
    return kept


def _result(call: Called) -> list[int]:
    """Return the shape of a matrix product, or of what a pass is over: gradients of batches are added."""
    if call.event.name == "aten::mm":
        a, b = call.shapes[:2]
        return [a[0], b[-1]]
    return list(call.shapes[0]) if call.shapes else []


def _by_step(process: Watched, row: str, numbers: set[int]) -> list[float]:
    """Return seconds by step of a row's operations with these numbers."""
    starts = [start for start, *_ in process.steps]
    seen: Counter[int] = Counter()
    seconds = [0.0] * len(starts)
    for event in _operations(row, process.events):
        step = bisect.bisect_right(starts, event.start) - 1
        if step >= 0 and event.start <= process.steps[step][1]:
            if seen[step] in numbers:
                seconds[step] += (event.end - event.start) * 1e-9
            seen[step] += 1
    return seconds
