"""Rates against the ceilings of this processor: lines over a size, else a row for each case."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from reports import units
from reports.figures import _axes, _groups, _style, _sweep
from reports.record import Contest, Result, Run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Bounds: TypeAlias = "dict[tuple[str, int], float]"  # FLOP/s by name and number of threads
LEAN = 1 / 3  # operations per byte; if all cases do fewer, rates are in bytes
WIDE = 12  # from this ratio of largest to smallest on the axis is logarithmic
MOST_PEAKS = 3  # lines with their names over the rows; with more, ceilings are marked in the rows alone
PREFIXES = {1e12: "T", 1e9: "G", 1e6: "M", 1e3: "k", 1.0: ""}
MOVES = ("stream", "transfer")  # operations that access each byte of their operands once
LOADS = "chase"  # the operation whose use is one load: its rate in bytes has no meaning
FULL: Any = {"color": _style.SOFT, "linestyle": (0, (6, 3)), "linewidth": 0.8}  # a line where a cache is full
DOTTED: Any = {"color": _style.SOFT, "linestyle": (0, (1, 1)), "linewidth": 2.5}


@dataclass(frozen=True)
class Rate:
    """A timed case's rate with its interval, and the rate of its nearer ceiling.

    Work is nominal, except that convolutions count executed work, as in shares of a ceiling."""

    result: Result
    value: float
    ends: tuple[float, float]
    ceiling: float | None

    @property
    def share(self) -> str:
        """Share of the ceiling, and the status if not ok: `46 % of FMA avx512`."""
        x = self.result
        of = f"{units.percent(x.percent_of_ceiling)} of {x.ceiling}" if self.ceiling else ""
        return ", ".join(filter(None, (of, "" if x.status == "ok" else x.status)))

    @property
    def by_reads(self) -> bool:
        return self.ceiling is not None and self.result.by_reads


@dataclass(frozen=True)
class Rates:
    """The content of one picture: bytes or operations a second, and peaks by name and threads."""

    unit: str
    rates: tuple[Rate, ...]
    peaks: Bounds
    looks: dict[str, _style.Look]
    of: str = ""  # suffix of the axis label if work is not nominal

    @property
    def largest(self) -> float:
        peaks = self.peaks_of(self.rates, 9**9).values()
        return max(*(max(x.value, x.ceiling or 0.0) for x in self.rates), *peaks, 0.0)

    def peaks_of(self, rates: Sequence[Rate], most: int) -> dict[str, float]:
        """Return the peaks for the numbers of threads in use, or no peaks for more than `most` numbers."""
        counts = {x.result.threads for x in rates}
        few = len(counts) <= most
        return {name: rate for (name, count), rate in self.peaks.items() if few and count in counts}

    @property
    def power(self) -> float:
        return next((power for power in PREFIXES if power <= self.largest), 1.0)

    @property
    def label(self) -> str:
        return PREFIXES[self.power] + self.unit + self.of


def draw(run: Run) -> list[tuple[str, Figure]]:
    """Return a picture for each kind of contest in which anything was timed."""
    pictures = []
    looks = _style.looks(run)
    for group in _groups.groups(run):
        timed = [x for x in group.measured if x.seconds and x.op != LOADS]
        lean = all((x.flops_per_second or 0.0) < LEAN * (x.bytes_per_second or 0.0) for x in timed)
        bounds = {contest.contest: _bounds(contest) for contest in group.contests}
        rates = tuple(rate for x in timed if (rate := _rate(x, lean, bounds.get(x.contest, {}))))
        if not rates:
            continue
        unit, executed = "B/s" if lean else "FLOP/s", any(_executed(x) for x in timed)
        content = Rates(unit, rates, {} if lean else _peaks(bounds.values()), looks, ", executed" * executed)
        words = [group.question, _groups.size(group), _style.where(run)]
        if any(x.ceiling for x in rates):
            words.insert(0, "How near to the ceiling does each case come?")
        sheet = _style.Sheet(words[0], words[1:])
        untimed = len(group.measured) - len(timed)  # cases without work have a time and no rate
        if untimed:
            sheet.notes.append(f"Not drawn, as they have no time: {untimed} of {len(group.measured)} cases.")
        sweep = _sweep.sweep([_groups.facts(x.result) for x in rates])
        full = cache_sizes(run, timed, sweep.field) if sweep else {}
        pictures.append((group.slug, _lines(sheet, content, sweep, full) if sweep else _table(sheet, content)))
    return pictures


def _rate(x: Result, lean: bool, bounds: Bounds) -> Rate | None:
    value = x.bytes_per_second if lean else x.flops_per_second
    if not value or not x.seconds:
        return None
    work = x.work["flops"] if _executed(x) and x.work else value * x.seconds.median
    value = work / x.seconds.median
    ends = tuple(work / end if end else value for end in (x.seconds.high, x.seconds.low))
    ceiling = 100 * value / x.percent_of_ceiling if x.percent_of_ceiling else None
    if ceiling and x.ceiling and not lean:  # with few noisy rounds a quotient of medians is no median of quotients
        ceiling = bounds.get((_of_threads(x.ceiling, x.threads), x.threads), ceiling)
    return Rate(x, value, (ends[0], ends[1]), ceiling)


def _executed(x: Result) -> bool:
    """Return whether the rate counts executed work: convolution algorithms do unequal work."""
    return x.op == "conv" and x.work is not None


def _bounds(contest: Contest) -> Bounds:
    """Return the peaks measured in a contest's rounds, by name and number of threads.

    Rows mark these peaks; lines are drawn at the median over all contests."""
    measured = [x for x in contest.results if x.role == "ceiling" and not x.by_reads]
    counts = {x.threads for x in contest.measured}
    teams = {x.threads for x in measured if _by_all(x.ceiling or "")}
    bounds: Bounds = {}
    for x in measured:
        name = x.ceiling or ""
        for count in [x.threads] if _by_all(name) else counts - teams:
            bounds[_of_threads(name, count), count] = (x.flops_per_second or 0.0) * (1 if _by_all(name) else count)
    return bounds


def _peaks(bounds: Iterable[Bounds]) -> Bounds:
    """Return the median of each peak over several contests."""
    by_bound: dict[tuple[str, int], list[float]] = {}
    for peaks in bounds:
        for key, rate in peaks.items():
            by_bound.setdefault(key, []).append(rate)
    return {key: statistics.median(rates) for key, rates in by_bound.items()}


def _by_all(ceiling: str) -> bool:
    """Return whether a ceiling's name says that all threads of the case measured it."""
    return ceiling.endswith(" threads")


def _of_threads(ceiling: str, count: int) -> str:
    """Return a ceiling's name, with `count ×` if a single thread's ceiling counts several times."""
    plain = count == 1 or ceiling.endswith((" threads", " 1 thread"))
    return ceiling if plain else f"{ceiling}, {count} × 1 thread"


def _frame(axes: Axes, content: Rates, peaks: dict[str, float], upright: bool) -> None:
    """Scale the axis from 0 to the ceiling, or logarithmic if that hides small rates; draw the peaks."""
    smallest, top = min(x.ends[0] for x in content.rates), content.largest
    steep = top > WIDE * smallest
    room = (1.6 if steep else 1.16) if upright else (1.25 if steep else 1.06)
    _axes.graduate(axes, upright, (smallest / 1.25 if steep else 0.0, top * room), steep, content.power)
    for i, (peak, rate) in enumerate(peaks.items()):
        (axes.axhline if upright else axes.axvline)(rate, color=_style.INK, linewidth=0.9, zorder=1)
        across: Any = axes.get_yaxis_transform() if upright else axes.get_xaxis_transform()
        place, offset = ((0.995, rate), 3) if upright else ((rate, 1.0), 3 + 12 * i)
        text = f"{peak}: {units.scaled(rate, content.unit)}"
        _axes.note(axes, text, place, (0, offset), xycoords=across, ha="right", va="bottom")
    _axes.quiet(axes)


def _lines(sheet: _style.Sheet, content: Rates, sweep: _sweep.Sweep, full: Mapping[int, float]) -> Figure:
    """Draw rates over the sweep's field, a line for each variant and layout; mark cache sizes."""
    named = {}
    for key, i in sweep.lines.items():
        case = _groups.facts(content.rates[i].result)
        named[key] = _groups.case_label(case, sweep.keys) or case["variant"], case["variant"]
    drawn = _sweep.drawn(named, content.looks)
    sheet.entries += [*((x.handle(), x.label) for x in drawn.values()), *_style.doubts(x.result for x in content.rates)]
    inside = [[content.rates[i] for line in facet.lines for _, i in line.points] for facet in sweep.facets]
    flat = [content.peaks_of(rates, 1) for rates in inside]
    if not all(flat) and any(x.ceiling for x in content.rates):
        sheet.entries.append((_style.handle(**DOTTED), "ceiling"))
    elif any(x.by_reads for x in content.rates):
        sheet.entries.append((_style.handle(**DOTTED), "ceiling of reading the operands, where lower"))
    if full:
        sheet.entries.append((_style.handle(**FULL), "a cache is full (size by the system)"))
    figure = sheet.figure(_sweep.height(sweep, 3.6))
    for axes, facet, peaks in zip(_sweep.panels(figure, sweep), sweep.facets, flat, strict=True):
        _frame(axes, content, peaks, upright=True)
        _sweep.along(axes, sweep.field, facet, apart=False)
        _mark_caches(axes, full)
        _curve(axes, content.rates, facet, reads_only=bool(peaks))
        for line in facet.lines:
            points = [(x, content.rates[i]) for x, i in line.points]
            drawn[line.key].plot(axes, [(x, rate.value) for x, rate in points])
            for x, rate in points:
                doubt = rate.result.status != "ok"
                _axes.Point(rate.value, rate.ends, drawn[line.key].look, doubt).draw(axes, True, x)
        if axes.yaxis.get_tick_params()["labelleft"]:
            axes.set_ylabel(content.label, fontsize=_style.TEXT)
    return figure


def _curve(axes: Axes, rates: Sequence[Rate], facet: _sweep.Facet, reads_only: bool) -> None:
    """Draw the ceiling; with `reads_only`, only where the nearer ceiling is that of reads."""
    at: dict[float, list[float]] = {}
    for line in facet.lines:
        for x, i in line.points:
            if (ceiling := rates[i].ceiling) and (rates[i].by_reads or not reads_only):
                at.setdefault(x, []).append(ceiling)
    alone = "_" if len(at) == 1 else ""
    middle = [statistics.median(at[x]) for x in sorted(at)]
    axes.plot(sorted(at), middle, marker=alone, markersize=14, markeredgewidth=2.5, zorder=1.5, **DOTTED)


def _table(sheet: _style.Sheet, content: Rates) -> Figure:
    """Draw a row for each case: its rate, its ceiling, and the share."""
    shares = [x.result.percent_of_ceiling or 0.0 for x in content.rates]
    kept, rest = _axes.fewest(shares)
    if rest:
        span = f": {units.percent(min(rest))} to {units.percent(max(rest))}" if max(rest) else ""
        which = "furthest below their ceiling" if span else "first of the run"
        sheet.notes.append(f"Shown are the {len(kept)} cases {which}; {len(rest)} more are left out{span}.")
    rates = [content.rates[i] for i in kept]
    tick: Any = {"color": _style.SOFT, "markersize": 11, "markeredgewidth": 2}
    if any(x.ceiling for x in rates):
        sheet.entries.append((_style.handle(marker="|", **tick), "its ceiling"))
    sheet.entries += _style.doubts(x.result for x in rates)
    peaks = content.peaks_of(rates, MOST_PEAKS)
    figure = sheet.figure(_axes.rows_height(len(rates)) + 0.17 * len(peaks))
    every = _groups.case_labels([x.result for x in content.rates])
    labels = [every[i] for i in kept]
    axes = _axes.rows(figure, labels, [x.result.contest for x in rates])
    _frame(axes, content, peaks, upright=False)
    for i, rate in enumerate(rates):
        if rate.ceiling:
            near, far = sorted((rate.value, rate.ceiling))
            axes.hlines([i], near, far, color=_style.SOFT, linewidth=0.8, zorder=2)
            _axes.sign(axes, False, i, rate.ceiling, "|", **tick | {"zorder": 2})
        look = content.looks[rate.result.variant]
        _axes.Point(rate.value, rate.ends, look, rate.result.status != "ok").draw(axes, False, i)
    _axes.finish_rows(axes, [(units.scaled(x.value, content.unit), x.share) for x in rates], content.label)
    return figure


def cache_sizes(run: Run, results: Iterable[Result], field: str) -> dict[int, float]:
    """Return by cache size, in bytes, the value of the field at which the operands fill the cache.

    The result is empty for operations that do more than move bytes, or if cases differ in that value."""
    shares = set()
    for x in results:
        if (x.ceiling or "").startswith("link "):
            continue
        value = x.problem.get(field)
        if x.op not in MOVES or not isinstance(value, int) or not x.seconds or not x.bytes_per_second:
            return {}
        shares.add(round(x.bytes_per_second * x.seconds.median / value, 2))
    return (
        {cache: cache / min(shares) for cache in _style.device(run).get("caches", [])}
        if len(shares) == 1 and min(shares) > 0
        else {}
    )


def _mark_caches(axes: Axes, full: Mapping[int, float]) -> None:
    """Draw a line at each cache that lies on the axis, with its size at the upper end."""
    low, high = axes.get_xlim()
    for cache, at in full.items():
        if low < at < high:
            axes.axvline(at, zorder=0.8, **FULL)
            corner: Any = {"xycoords": axes.get_xaxis_transform(), "va": "top", "color": _style.SOFT}
            _axes.note(axes, units.binary(cache), (at, 1.0), (3, -3), **corner)
