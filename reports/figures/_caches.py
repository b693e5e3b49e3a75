"""Where over a size in bytes each cache is full of what a kernel reads and writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from reports import units
from reports.figures import _style
from reports.record import Result, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOVES = ("stream", "transfer")  # operations that touch each byte of their operands once
LOADS = "chase"  # the operation whose use is one load, of a size in all: a rate in bytes tells nothing of it
LINE: Any = {"color": _style.SOFT, "linestyle": (0, (6, 3)), "linewidth": 0.8}


def sizes(run: Run, results: Iterable[Result], field: str) -> dict[int, float]:
    """By bytes of each cache that the system tells of, the value of the field at which the operands fill it; empty of
    what does more than move them, and where that differs from case to case."""
    device = run.environment.facts.get("device")
    caches = device.get("caches", []) if isinstance(device, dict) else []
    shares = set()
    for x in results:
        if (x.ceiling or "").startswith("link "):
            continue
        value = x.problem.get(field)
        if x.op == LOADS and isinstance(value, int):
            shares.add(1.0)
            continue
        if x.op not in MOVES or not isinstance(value, int) or not x.seconds or not x.bytes_per_second:
            return {}
        shares.add(round(x.bytes_per_second * x.seconds.median / value, 2))
    return {cache: cache / min(shares) for cache in caches} if len(shares) == 1 and min(shares) > 0 else {}


def mark(axes: Axes, full: Mapping[int, float]) -> None:
    """A line at each that lies on the axis, with the cache's size at its upper end."""
    low, high = axes.get_xlim()
    for cache, at in full.items():
        if low < at < high:
            axes.axvline(at, zorder=0.8, **LINE)
            axes.annotate(
                units.binary(cache),
                (at, 1.0),
                (3, -3),
                xycoords=axes.get_xaxis_transform(),
                textcoords="offset points",
                va="top",
                fontsize=_style.SMALL,
                color=_style.SOFT,
            )


def entry(full: Mapping[int, float]) -> list[tuple[Any, str]]:
    """For the key."""
    return [(_style.handle(**LINE), "a cache is full (as the system tells of it)")] if full else []
