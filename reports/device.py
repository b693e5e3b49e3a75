"""What a person reads of a GPU's time: in kernels, in copies beside none, idle and why; the kernels that take most."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from reports import units
from reports.attribution import aligned

SHOWN = 12  # kernels
WORTH = 0.05  # of the time: a share that is worth a sentence
WIDE = 72  # characters of a name
LATE = "while the host had not yet enqueued what comes next"


def text(accounts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Of each device, whose facts are those of macro's account of it."""
    for number, one in enumerate(accounts):
        yield from ("",) * (number > 0)
        yield from _device(one)


def _device(told: Mapping[str, Any]) -> Iterator[str]:
    whole, steps = told["seconds"], told["steps"]
    each = f"{units.counted(steps, 'step')}, {units.seconds(whole / steps)} each" if steps > 1 else units.seconds(whole)
    idle = told["unlaunched"] + told["starting"] + told["untold"]
    yield (
        f"{told['name']}, {each}: kernels run in {_share(told['kernels'], whole)} of the time, copies and clears "
        f"beside none in {_share(told['exposed'], whole)}; it is idle in {_share(idle, whole)}."
    )
    reasons = (
        (told["unlaunched"], LATE),
        (told["starting"], "between that and its beginning"),
        (told["untold"], "for what the trace does not tell"),
    )
    if idle:
        yield "Idle " + ", ".join(f"{_share(x, whole)} {why}" for x, why in reasons if x) + "."
    if told["unlaunched"] >= WORTH * whole > 0:
        yield (
            f"To try: fewer and larger launches (torch.compile, CUDA graphs, foreach or fused optimizers): at most "
            f"{units.seconds(told['unlaunched'] / steps)} of a step, which the device waits for the host."
        )
    if told["linked"] >= WORTH * whole > 0:
        yield (
            f"To try: pinned memory and non_blocking copies on another stream: at most "
            f"{units.seconds(told['linked'] / steps)} of a step, in which nothing else is done."
        )
    if len(told["streams"]) > 1:
        busy = ", ".join(f"stream {name} in {_share(x, whole)}" for name, x in told["streams"].items())
        yield f"At work: {busy} of the time."
    yield from _kinds(told["each"], whole)
    yield from _kernels(told["each"], whole)


def _kinds(each: Sequence[Mapping[str, Any]], whole: float) -> Iterator[str]:
    """Sums over kernels: those that run at once count each."""
    of = defaultdict[str, list[Mapping[str, Any]]](list)
    for one in each:
        of[one["kind"]].append(one)
    yield ""
    sums = sorted(of.items(), key=lambda x: -sum(one["seconds"] for one in x[1]))
    rows = [[kind, *_figures(kernels, whole)] for kind, kernels in sums]
    yield from aligned(["kind of work", "in kernels", "share", "calls"], rows, left=1)


def _kernels(each: Sequence[Mapping[str, Any]], whole: float) -> Iterator[str]:
    yield ""
    rows = [[one["short"][:WIDE], one["kind"], *_figures([one], whole)] for one in each[:SHOWN]]
    if rest := each[SHOWN:]:
        rows.append([f"{len(rest)} others", "", *_figures(rest, whole)])
    yield from aligned(["kernel", "kind of work", "in all", "share", "calls"], rows, left=2)


def _figures(kernels: Sequence[Mapping[str, Any]], whole: float) -> tuple[str, str, str]:
    """Of all of these: seconds, share and calls."""
    took = sum(one["seconds"] for one in kernels)
    return units.seconds(took), _share(took, whole), str(sum(one["calls"] for one in kernels))


def _share(seconds: float, whole: float) -> str:
    return f"{100 * seconds / whole if whole else 0.0:.1f} %"
