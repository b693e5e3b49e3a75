"""Steps of frameworks: time, the operating system's share, and the ratio to kernels-only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from reports import units
from reports.figures import _axes, _groups, _style
from reports.record import Contest, Result, Run

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FLOOR = "kernels-only"
BAR = 0.62  # of a row's height
SYSTEM = "#D55E00"


def draw(run: Run) -> list[tuple[str, Figure]]:
    """Return a picture for each network, phase and batch with timed frameworks."""
    pictures = []
    for group in (part for mixed in _groups.groups(run) for part in _parts(mixed)):
        steps = [x for x in group.measured if x.op == "step"]
        timed = sorted((x for x in steps if x.seconds), key=_median)
        if timed:
            sheet = _style.Sheet(_title(timed), [group.question, _groups.size(group), _style.where(run)])
            if without := len(steps) - len(timed):
                sheet.notes.append(f"Not drawn, without a time: {without} of {len(steps)}.")
            if more := len(timed[_axes.MOST :]):
                sheet.notes.append(f"The {more} slowest are left out.")
            pictures.append((group.slug, _picture(sheet, timed[: _axes.MOST])))
    return pictures


def _parts(group: _groups.Group) -> Iterator[_groups.Group]:
    """Yield groups of one network, phase and batch; a change of the batch stays with the unchanged step."""
    alike: dict[str, list[Contest]] = {}
    for contest in group.contests:
        if first := next((x for x in contest.results if x.op == "step"), None):
            about = " ".join(str(first.problem[name]) for name in ("network", "phase", "batch"))
            alike.setdefault(about, []).append(contest)
    for about, contests in alike.items():
        slug = group.slug if len(alike) == 1 else _groups.slugged(about)
        yield _groups.Group(slug, tuple(contests))


def _median(x: Result) -> float:
    assert x.seconds is not None
    return x.seconds.median


def _title(timed: Sequence[Result]) -> str:
    first, last = timed[0], timed[-1]
    of = f"A {first.problem['phase']} of {first.problem['network']}"
    if first is last:
        return f"{of}: {units.seconds(_median(first))} {_who(first)}"
    ends = (f"{units.seconds(_median(x))} {_who(x)}" for x in (first, last))
    return f"{of}: from {' to '.join(ends)}"


def _who(x: Result) -> str:
    """Return `in pytorch`, or the change: `with …`."""
    facts = _groups.facts(x)
    change = facts.get("change")
    text = f"in {x.variant}" if change is None else change if change.startswith(_groups.UNCHANGED) else f"with {change}"
    return _style.clipped(text, 27)


def _picture(sheet: _style.Sheet, timed: Sequence[Result]) -> Figure:
    # System time is a sum over threads, a step's time is wall time; a GPU's step has no system time.
    system = [(x.step or {}).get("system", 0.0) / x.threads * (x.clock != "event") for x in timed]
    differ = _groups.varying(_groups.facts(x) for x in timed)
    setting = [x for x in ("device", "threads", "heap", "division") if x in differ]
    keys = ["change"] if "change" in differ else ["variant", *setting]
    bar, soft = {"marker": "s", "color": _style.SOFT}, {"marker": "s", "color": SYSTEM}
    sheet.entries += [(_style.handle(**bar), "the framework's"), (_style.handle(**soft), "the operating system's")]
    figure = sheet.figure(_axes.rows_height(len(timed)))
    axes = _axes.rows(figure, [_groups.case_label(_groups.facts(x), keys) for x in timed], [0] * len(timed))
    ends = [(x.seconds.low or _median(x), x.seconds.high or _median(x)) for x in timed if x.seconds]
    _axes.graduate(axes, False, (0.0, 1.04 * max(high for _, high in ends)), False, 1e-3)
    _axes.quiet(axes)
    at = range(len(timed))
    axes.barh(at, [_median(x) for x in timed], BAR, color=_style.SOFT, alpha=0.55, zorder=2)
    axes.barh(at, system, BAR, [_median(x) - s for x, s in zip(timed, system, strict=True)], color=SYSTEM, zorder=2)
    axes.hlines(at, [low for low, _ in ends], [high for _, high in ends], color=_style.INK, linewidth=1.5, zorder=3)
    peaks = [f"{units.percent(x.percent_of_ceiling)} of {x.ceiling}" if x.ceiling else "" for x in timed]
    beside = [(units.seconds(_median(x)), _over(x, timed), peak) for x, peak in zip(timed, peaks, strict=True)]
    _axes.finish_rows(axes, beside, "milliseconds of a step, with its 95 % interval")
    return figure


def floor(x: Result, timed: Sequence[Result]) -> Result | None:
    """Return the kernels-only result of the same problem, device, threads and heap, or None."""
    same = (r for r in timed if (r.problem, r.device, r.threads, r.heap) == (x.problem, x.device, x.threads, x.heap))
    return next((r for r in same if r.variant == FLOOR), None)


def _over(x: Result, timed: Sequence[Result]) -> str:
    """Return the ratio to kernels-only, `285 % of kernels-only`, or an empty text."""
    least = floor(x, timed)
    return f"{100 * _median(x) / _median(least):.0f} % of {FLOOR}" if least else ""
