"""Cross-checks from a program's own process: its libraries' logs, and its largest operations repeated.

Both are independent of the attribution and cross-check its times.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from macro.explaining import nominal
from macro.watching.recording import Recording
from reports import units
from reports.breakdown import AGREES, NARROW, Breakdown, Witness

MOST = 3  # operations that are called again
AGAIN = {"gemm": ("gemm", "packing"), "convolution": ("convolution", "packing", "layout reorder")}  # what a call does
LOGGED = ("gemm", "packing", "convolution", "layout reorder", "recurrent cell")  # what libraries log, if they do it
INSIDE = ("attention",)  # whose products may be in their logs too
FEW = 0.005  # of a step
LARGE = 0.03  # of a step: smaller rows are not cross-checked


def largest(recording: Recording) -> list[dict[str, Any]]:
    """Return the largest call of each of the rows with most FLOP, for the process to repeat."""
    work = nominal.work_of(recording.called)
    keys = sorted((key for key in work.largest if key[1] in AGAIN), key=lambda key: -work.flops[key])[:MOST]
    calls = []
    for key in keys:
        call = work.largest[key][1]
        operands = {"shapes": call.shapes, "strides": call.strides, "types": call.types, "arguments": call.arguments}
        calls.append({"row": key[0][0], "column": key[1], "call": {"name": call.name, **operands}})
    return calls


def witnesses(breakdown: Breakdown, work: nominal.Work) -> Iterator[Witness]:
    """Yield a cross-check by the libraries' logs, and one for each repeated operation."""
    if logged := breakdown.program.get("logged"):
        yield _logged(breakdown, sum(logged.values()))
    for call in breakdown.program.get("again", ()):
        key = ((call["row"],), call["column"])
        cells = [x for x in breakdown.cells if x.row == call["row"] and x.column in AGAIN[call["column"]]]
        took, error = sum(x.a for x in cells), sum(max(x.high - x.low, 0.0) / 2 for x in cells)
        if took >= LARGE * breakdown.step["a"] and key in work.largest:
            share = work.largest[key][0] / max(work.flops[key], work.bytes[key])
            yield _again(breakdown, call, took * share, error * share)


def _logged(breakdown: Breakdown, seen: float) -> Witness:
    """Compare the rows of products with what libraries logged.
    Rows may take longer, where the framework multiplies itself, or less, by the products inside an attention."""
    kinds = {kind.name: kind for kind in breakdown.kinds}
    by_rows, inside = (sum(kinds[name].a for name in names if name in kinds) for names in (LOGGED, INSIDE))
    error = sum((kinds[name].high - kinds[name].low) / 2 for name in LOGGED if name in kinds)
    off = max(AGREES * seen, FEW * breakdown.step["a"])
    below, above = seen - by_rows - inside, by_rows - seen
    verdict = "agree" if max(below, above) <= off else "cannot tell" if below <= off + error else "disagree"
    return Witness(
        "products", by_rows, seen, _verdict(breakdown, verdict), "the rows; what MKL and oneDNN log of their own calls"
    )


def _again(breakdown: Breakdown, call: dict[str, Any], by_rows: float, error: float) -> Witness:
    """Compare a call's time in its row with the same call, repeated in the cache and out of it.
    The verdict is `cannot tell` where these two are far apart."""
    low, high = sorted((call["warm"], call["cold"]))
    seen, off = min((low, high), key=lambda end: abs(end - by_rows)), max(low - by_rows, by_rows - high, 0.0)
    verdict = "agree" if off <= AGREES * seen else "cannot tell" if off <= error + AGREES * seen else "disagree"
    if high - low > 2 * NARROW * low or breakdown.program.get("heap") == "default":  # whose results are in new memory
        verdict = "cannot tell"
    ends = " to ".join(map(units.seconds, (low, high)))
    words = f"a call in its row; the same call alone in its process ({ends}, operands in its cache and not)"
    return Witness(f"{call['row']}, {call['column']}", by_rows, seen, _verdict(breakdown, verdict), words)


def _verdict(breakdown: Breakdown, verdict: str) -> str:
    """Return the verdict for one thread, else `cannot tell`.
    With several, a call's time includes threads' waiting for each other, which its rows leave out."""
    return "cannot tell" if breakdown.threads > 1 else verdict
