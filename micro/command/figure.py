"""A figure of the self-test: the measured value, the promise, and whether the promise holds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import IO, Any

from reports import stats
from reports.documents import finish

HEAD = ("figure", "found", "promised", "held")


@dataclass(frozen=True)
class Promise:
    """A line of the self-test: a measured value, its promised limits, and whether it is inside (`held`).

    `promised`: empty for a figure without limits; `busy`: reason why the figure is not judged."""

    name: str
    value: str
    promised: str
    held: bool
    busy: str | None = None

    @property
    def judgment(self) -> str:
        """Text of the column `held`."""
        if not self.promised:
            return ""
        return "yes" if self.held else f"not judged: {self.busy}" if self.busy else "NO"

    def say(self) -> str:
        verdict = "held" if self.held else f"not judged: {self.busy}" if self.busy else "NOT HELD"
        return f"{self.name}: {self.value}" + (f"; promised {self.promised}: {verdict}" if self.promised else "")


def rate(name: str, hits: int, trials: int, least: float, unjudged: str | None = None, most: float = 1.0) -> Promise:
    """Return the figure of a share, `hits` of `trials`, promised to be at least `least`, at most `most`.

    Held if its 95 % Wilson interval lies inside these limits. Unless the interval lies outside, it is not judged if
    `unjudged` gives a reason, or if no outcome of so few trials could hold."""
    low, high = stats.wilson(hits, trials)
    inside, outside = least <= low and (high <= most or most == 1.0), high < least or low > most
    if unjudged is None and not outside and not _can_show(trials, least, most):
        unjudged = f"{trials} trials are too few" if trials else "no trials"
    promised = f"at least {least:g}" if most == 1.0 else f"{least:g} to {most:g}"
    return Promise(name, f"{hits} of {trials} [{low:.3f}, {high:.3f}]", promised, inside and not unjudged, unjudged)


def within(name: str, interval: tuple[float, float, float], limit: float, unjudged: str | None = None) -> Promise:
    """Return the figure of a deviation (low, middle, high) that is promised to lie inside ± `limit`.

    Unless the interval lies outside, it is not judged if `unjudged` gives a reason, or if it is wider than that."""
    low, middle, high = interval
    inside, beyond = -limit <= low and high <= limit, low > limit or high < -limit
    if unjudged is None and not beyond and high - low > 2 * limit:
        unjudged = "the interval is too wide"
    text = f"{100 * middle:+.3f} % [{100 * low:+.3f}, {100 * high:+.3f}]"
    return Promise(name, text, f"inside ±{100 * limit:g} %", inside and not unjudged, unjudged)


def _can_show(trials: int, least: float, most: float) -> bool:
    """Return whether any number of hits in so many trials has its Wilson interval inside the limits."""
    ends = (stats.wilson(hits, trials) for hits in range(trials + 1))
    return trials > 0 and any(low >= least and (high <= most or most == 1.0) for low, high in ends)


def exit_code(figures: Sequence[Promise]) -> int:
    """Return 0 if every figure is as promised or not judged, else 1."""
    return 0 if all(figure.held or figure.busy for figure in figures) else 1


def data(figures: Sequence[Promise]) -> list[dict[str, Any]]:
    """Return the figures as records of a run file."""
    return [{"found" if key == "value" else key: x for key, x in asdict(figure).items()} for figure in figures]


def document(started: str, figures: Sequence[Promise]) -> dict[str, Any]:
    """Return the figures as a JSON document."""
    return {"started": started, "figures": data(figures)}


def write(kept: dict[str, Any], stream: IO[str] | None) -> None:
    """Write a document to the open file of `--json`, if there is one."""
    if stream is not None:
        print(json.dumps(kept), file=stream)
        finish(stream)


def table(figures: Sequence[Promise], stream: IO[str]) -> None:
    """Print all figures with the column `held`, for a person."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for name in HEAD:
        shown.add_column(name, overflow="fold")
    for figure in figures:
        shown.add_row(*map(Text, (figure.name, figure.value, figure.promised, figure.judgment)))
    Console(file=stream, highlight=False, width=None if stream.isatty() else 100).print(shown)
