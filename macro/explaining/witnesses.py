"""Cross-checks of a step's rows by times that are independent of the attribution.

For a network: the trace against the step's calls, replayed in order. For a script: libraries' logs, its largest
operations repeated, and ablation: plain steps without a module or a gradient, run in the same rounds as the others; the
time that they save is compared with the rows.
"""

from __future__ import annotations

import bisect
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from statistics import median, stdev
from typing import TYPE_CHECKING, Any

from macro.explaining import certain, modules, operation_work
from macro.explaining.attribute import Attribution, split
from macro.explaining.gap import mean
from macro.explaining.rows import OUTSIDE, Row, called, together
from macro.watching.recording import Called, Event, Recording, Watched
from reports import stats, units
from reports.explanation import AGREES, NARROW, Agreement, Breakdown, Witness

if TYPE_CHECKING:
    from macro.watching.watch import Side

LARGE = 0.05  # least share of a step of a row that is cross-checked
WITHIN = 0.10  # margin of equivalence, as a share of the row's time
ERROR = 0.05  # error level of each of the two one-sided tests
FREES = "free"  # the column of a replayed call that only frees memory


def agreement(
    name: str,
    side: Side,
    attributions: Sequence[Attribution],
    group: Mapping[str, tuple[str, ...]],
    by_name: Mapping[str, Row],
) -> list[Agreement]:
    """Compare the traced with the replayed time of each row that takes at least a twentieth of the step."""
    step = mean([mean(process.levels["P0"]) for process in side.processes])
    traced: dict[tuple[str, ...], list[float]] = {}
    for process in attributions:
        for rows, seconds in _by_round(process).items():
            traced.setdefault(rows, []).extend(seconds)
    replayed = _replayed(side, group, by_name)
    agreements = []
    for rows, seconds in sorted(traced.items(), key=lambda item: -mean(item[1])):
        if mean(seconds) < LARGE * step or rows == (OUTSIDE,):
            continue
        again = replayed.get(rows)
        if again is None:
            verdict, sigma = "one witness", _error(seconds)
        else:
            verdict, sigma = equivalent(seconds, again)
        replay = None if again is None else mean(again)
        agreements.append(Agreement(name, called(rows, by_name), mean(seconds), replay, sigma, verdict))
    return agreements


def equivalent(seconds: Sequence[float], again: Sequence[float]) -> tuple[str, float]:
    """Test whether two means differ by less than a tenth of the first; return verdict and standard error.

    Two one-sided tests of 5 % (Schuirmann 1987); `cannot tell` if the 90 % interval contains the margin."""
    margin, difference = WITHIN * mean(seconds), mean(again) - mean(seconds)
    errors = _error(seconds), _error(again)
    sigma = math.hypot(*errors)
    if min(len(seconds), len(again)) < 2:
        return "cannot tell", sigma
    half = stats.quantile(_degrees(errors, (len(seconds), len(again))), 1 - ERROR) * sigma
    if abs(difference) + half <= margin:
        return "agree", sigma
    return ("disagree" if abs(difference) - half > margin else "cannot tell"), sigma


def _error(seconds: Sequence[float]) -> float:
    """Return the standard error of the mean, 0 for fewer than two values."""
    return stdev(seconds) / len(seconds) ** 0.5 if len(seconds) > 1 else 0.0


def _degrees(errors: Sequence[float], counts: Sequence[int]) -> float:
    """Return the degrees of freedom, by Welch and Satterthwaite."""
    below = sum(error**4 / (count - 1) for error, count in zip(errors, counts, strict=True))
    return sum(error**2 for error in errors) ** 2 / below if below else float(min(counts) - 1)


def _by_round(process: Attribution) -> dict[tuple[str, ...], list[float]]:
    """Return mean seconds of a step in each round, by rows."""
    import numpy as np

    sums: dict[tuple[str, ...], Any] = {}
    for (rows, _), seconds in process.cells.items():
        sums[rows] = sums.get(rows, 0.0) + np.array(seconds)
    rounds = np.array(process.rounds)
    return {
        rows: [float(seconds[rounds == number].mean()) for number in sorted(set(process.rounds))]
        for rows, seconds in sums.items()
    }


def _replayed(
    side: Side, group: Mapping[str, tuple[str, ...]], by_name: Mapping[str, Row]
) -> dict[tuple[str, ...], list[float]]:
    """Return the seconds of each replay by rows."""
    replayed: dict[tuple[str, ...], list[float]] = {}
    for process in side.processes:
        for _, seconds in process.replays:
            sums: dict[tuple[str, ...], float] = {}
            for (rows, _), took in zip(process.calls, seconds, strict=True):
                key = together(rows, group)
                sums[key] = sums.get(key, 0.0) + took
            for key, total in split(sums, group, by_name).items():
                replayed.setdefault(key, []).append(total)
    return replayed


def closure(side: Side) -> dict[str, float | None]:
    """Return the median ratio of a replay's time to the plain step beside it, with and without frees."""
    pairs = [(process, beside, row) for process in side.processes for beside, row in process.replays]
    if not pairs:
        return {"replay": None, "replay without frees": None}
    free = [
        (sum(t for (_, column), t in zip(p.calls, row, strict=True) if column == FREES), sum(row), beside)
        for p, beside, row in pairs
    ]
    return {
        "replay": median(total / beside for _, total, beside in free),
        "replay without frees": median((total - freed) / beside for freed, total, beside in free),
    }


MAKE_GRADIENTS = ("gemm", "element-wise", "copy", "clear")  # kinds of operations that compute a parameter's gradient
MOST = 3  # at most so many operations are called again
AGAIN = {"gemm": ("gemm", "packing"), "convolution": ("convolution", "packing", "layout reorder")}  # a call's kinds
LOGGED = ("gemm", "packing", "convolution", "layout reorder", "recurrent cell")  # kinds that MKL and oneDNN log
INSIDE = ("attention",)  # kinds whose products may be in these logs too
FEW = 0.005  # tolerance, as a share of a step
LARGE_CALL = 0.03  # least share of a step of a repeated operation's row that is cross-checked


def largest(recording: Recording) -> list[dict[str, Any]]:
    """Return the largest call of each row with most FLOP, as a description for the process to repeat it."""
    work = operation_work.work_of(recording.called)
    keys = sorted((key for key in work.largest if key[1] in AGAIN), key=lambda key: -work.flops[key])[:MOST]
    calls = []
    for key in keys:
        call = work.largest[key][1]
        operands = {"shapes": call.shapes, "strides": call.strides, "types": call.types, "arguments": call.arguments}
        calls.append({"row": key[0][0], "column": key[1], "call": {"name": call.name, **operands}})
    return calls


def of_process(breakdown: Breakdown, work: operation_work.Work) -> Iterator[Witness]:
    """Yield a cross-check by the libraries' logs, and a cross-check for each repeated operation."""
    if logged := breakdown.program.get("logged"):
        yield _logged(breakdown, sum(logged.values()))
    for call in breakdown.program.get("again", ()):
        key = ((call["row"],), call["column"])
        cells = [x for x in breakdown.cells if x.row == call["row"] and x.column in AGAIN[call["column"]]]
        took, error = sum(x.a for x in cells), sum(max(x.high - x.low, 0.0) / 2 for x in cells)
        if took >= LARGE_CALL * breakdown.step["a"] and key in work.largest:
            share = work.largest[key][0] / max(work.flops[key], work.bytes[key])
            yield _again(breakdown, call, took * share, error * share)


def _logged(breakdown: Breakdown, seen: float) -> Witness:
    """Compare the time of products by rows with the time that libraries logged.

    Rows may show more, if the framework has kernels of its own, or less, by the products inside attention."""
    kinds = {kind.name: kind for kind in breakdown.kinds}
    by_rows, inside = (sum(kinds[name].a for name in names if name in kinds) for names in (LOGGED, INSIDE))
    error = sum((kinds[name].high - kinds[name].low) / 2 for name in LOGGED if name in kinds)
    off = max(AGREES * seen, FEW * breakdown.step["a"])
    below, above = seen - by_rows - inside, by_rows - seen
    verdict = "agree" if max(below, above) <= off else "cannot tell" if below <= off + error else "disagree"
    return Witness("products", by_rows, seen, _verdict(breakdown, verdict), "the rows; calls logged by MKL and oneDNN")


def _again(breakdown: Breakdown, call: dict[str, Any], by_rows: float, error: float) -> Witness:
    """Compare a call's time in its row with the same call repeated alone, with warm and cold caches."""
    low, high = sorted((call["warm"], call["cold"]))
    seen, off = min((low, high), key=lambda end: abs(end - by_rows)), max(low - by_rows, by_rows - high, 0.0)
    verdict = "agree" if off <= AGREES * seen else "cannot tell" if off <= error + AGREES * seen else "disagree"
    if high - low > 2 * NARROW * low or breakdown.program.get("heap") == "default":  # the latter returns new memory
        verdict = "cannot tell"
    ends = " to ".join(map(units.seconds, (low, high)))
    words = f"a call in its row; the same call repeated alone ({ends}, operands in cache and out of cache)"
    return Witness(f"{call['row']}, {call['column']}", by_rows, seen, _verdict(breakdown, verdict), words)


def _verdict(breakdown: Breakdown, verdict: str) -> str:
    """Return the verdict, or `cannot tell` with several threads, as calls then include waiting."""
    return "cannot tell" if breakdown.threads > 1 else verdict


def knocked_out(breakdown: Breakdown, recording: Recording, processes: Sequence[Watched]) -> Iterator[Witness]:
    """Yield a cross-check for each module or parameter that plain steps were run without (ablation)."""
    import numpy as np

    for path, about in recording.program.get("without", {}).items():
        plain = [np.array(x.levels["P0"]) for x in processes]
        without = [np.array(x.levels[f"without {path}"]) for x in processes]
        pairs = [a[: len(b)] - b[: len(a)] for a, b in zip(plain, without, strict=True)]
        saved = certain.estimate(pairs)
        low, high = certain.ends(saved)
        predicted = _predicted(path, about, breakdown, recording, processes)
        if predicted is None:
            words = "not predictable: one call computes this gradient and another"
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
    """Return the seconds that the rows predict for a module or a parameter's gradient; None if unknown."""
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
    """Return seconds per step of a module's backward operations with a result of this shape, or None."""
    row = modules.Where(module, "backward").row
    by_event = {id(call.event): call for call in called}
    calls = [by_event[id(event)] for event in _operations(row, [call.event for call in called])]
    at = [i for i, call in enumerate(calls) if _result(call) in (list(shape), list(reversed(shape)))]
    seconds = [x for process in processes for x in _by_step(process, row, set(at))]
    return sum(seconds) / len(seconds) if any(seconds) else None


def _operations(row: str, events: Sequence[Event]) -> list[Event]:
    """Return a row's outermost operations of kinds that compute gradients, in order of start."""
    kept: list[Event] = []
    for event, where, column in modules.placed(events):
        if (
            where is not None
            and where.row == row
            and column in MAKE_GRADIENTS
            and not (kept and event.start < kept[-1].end)
        ):
            kept.append(event)
    return kept


def _result(call: Called) -> list[int]:
    """Return the shape of a matrix product's result, or of a pass's first operand."""
    if call.event.name == "aten::mm":
        a, b = call.shapes[:2]
        return [a[0], b[-1]]
    return list(call.shapes[0]) if call.shapes else []


def _by_step(process: Watched, row: str, numbers: set[int]) -> list[float]:
    """Return seconds by step of a row's operations; `numbers`: positions within the step that count."""
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
