"""A GPU's time in sentences: kernels, exposed copies, idle time and its reasons, the longest kernels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reports import units
from reports.attribution import aligned

SHOWN = 12  # kernels
WORTH = 0.05  # smallest share of the time that is reported in a sentence
WIDE = 72  # characters of a name
LATE = "while the host had not yet enqueued the next work"


def text(accounts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Yield the lines of each device's report. `accounts`: one mapping of times per device, from macro."""
    for number, account in enumerate(accounts):
        yield from ("",) * (number > 0)
        yield from _device(account)


def _device(account: Mapping[str, Any]) -> Iterator[str]:
    total, steps = account["seconds"], account["steps"]
    each = f"{units.counted(steps, 'step')}, {units.seconds(total / steps)} each" if steps > 1 else units.seconds(total)
    idle = account["unlaunched"] + account["starting"] + account["untold"]
    yield (
        f"{account['name']}, {each}: kernels run in {_share(account['kernels'], total)} of the time, copies and clears "
        f"alone in {_share(account['exposed'], total)}; it is idle in {_share(idle, total)}."
    )
    reasons = (
        (account["unlaunched"], LATE),
        (account["starting"], "between enqueueing and start"),
        (account["untold"], "for reasons not in the trace"),
    )
    if idle:
        yield "Idle " + ", ".join(f"{_share(x, total)} {why}" for x, why in reasons if x) + "."
    if account["unlaunched"] >= WORTH * total > 0:
        yield (
            "To try: fewer, larger launches (torch.compile, CUDA graphs, foreach or fused optimizers): saves at most "
            f"{units.seconds(account['unlaunched'] / steps)} of a step, in which the device waits for the host."
        )
    if account["linked"] >= WORTH * total > 0:
        yield (
            "To try: pinned memory and non_blocking copies on another stream: saves at most "
            f"{units.seconds(account['linked'] / steps)} of a step, in which only copies run."
        )
    if len(account["streams"]) > 1:
        busy = ", ".join(f"stream {name} in {_share(x, total)}" for name, x in account["streams"].items())
        yield f"Busy streams: {busy} of the time."
    yield from _kinds(account["each"], total)
    yield from _kernels(account["each"], total)


def _kinds(each: Sequence[Mapping[str, Any]], total: float) -> Iterator[str]:
    """Yield the table of kinds of work; kernels that run concurrently are each counted in full."""
    of = defaultdict[str, list[Mapping[str, Any]]](list)
    for kernel in each:
        of[kernel["kind"]].append(kernel)
    yield ""
    sums = sorted(of.items(), key=lambda x: -sum(kernel["seconds"] for kernel in x[1]))
    rows = [[kind, *_figures(kernels, total)] for kind, kernels in sums]
    yield from aligned(["kind of work", "in kernels", "share", "calls"], rows, left=1)


def _kernels(each: Sequence[Mapping[str, Any]], total: float) -> Iterator[str]:
    yield ""
    rows = [[kernel["short"][:WIDE], kernel["kind"], *_figures([kernel], total)] for kernel in each[:SHOWN]]
    if rest := each[SHOWN:]:
        rows.append([f"{len(rest)} others", "", *_figures(rest, total)])
    yield from aligned(["kernel", "kind of work", "in all", "share", "calls"], rows, left=2)


def _figures(kernels: Sequence[Mapping[str, Any]], total: float) -> tuple[str, str, str]:
    """Return the kernels' total seconds, their share of `total` and their number of calls, as text."""
    took = sum(kernel["seconds"] for kernel in kernels)
    return units.seconds(took), _share(took, total), str(sum(kernel["calls"] for kernel in kernels))


def _share(seconds: float, total: float) -> str:
    return f"{100 * seconds / total if total else 0.0:.1f} %"
