"""Tables of records as text: all numbers are already formatted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby

from reports import flat, footnotes, multiple_testing, next_run, stats, units
from reports.record import READS, REASONED, Comparison, Result, Run


@dataclass(frozen=True)
class Table:
    """A table as text: title, head, rows, notes below it."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ratio:
    """Cells of one comparison, in column order; in cells with two values the contender's is first."""

    at: str
    pair: str
    ratio: str
    next: str
    verdict: str
    times: str
    ceiling: str
    error: str


HEAD = Ratio(
    "at",
    "contender / baseline",
    "ratio, 95 % interval",
    "next run",
    "verdict",
    "times of both",
    "of ceiling",
    "of allowed error",
)
BUT_SHOWN = "†"  # mark of unresolved verdicts whose shown interval excludes 1
UNBROKEN = (HEAD.ratio, HEAD.next)  # columns whose cells are never broken
CONTENDED = "contended"


def comparisons(run: Run) -> Table:
    """Return the table of comparisons: ratio first, then verdict, times, share of the ceiling."""
    rows: list[Ratio] = []
    remarks: list[str] = []  # of single comparisons
    mixed = False
    together = multiple_testing.kept(run.comparisons)
    keeps = {id(comparison): kept for comparison, kept in zip(run.comparisons, together, strict=True)}
    home = f"device:{run.environment.facts.get('device', {}).get('name')}"  # named in the last line
    for contest in run.contests:
        for comparison, contender, baseline in contest.ranked:
            mark = "*" * keeps[id(comparison)]
            rows.append(_ratio(comparison, contender, baseline, home, (mark, remarks)))
            mixed |= contender.precision != baseline.precision
    needless = {"ceiling"} if all(row.ceiling == "–, –" for row in rows) else set()
    if all(row.next == "–" for row in rows):
        needless.add("next")
    if not mixed:  # errors matter only if lower precision buys time
        needless.add("error")
    shared = _shared([row.at for row in rows])
    if len({row.at for row in rows}) < 2:
        needless.add("at")
    rows = [replace(row, at=" ".join(word for word in row.at.split(" ") if word not in shared) or "–") for row in rows]
    head, *cells = ([cell for name, cell in asdict(row).items() if name not in needless] for row in (HEAD, *rows))
    notes = tuple(f"({i}) {footnotes.of_all(run, remark)}" for i, remark in enumerate(remarks, start=1))
    notes += tuple(filter(None, [multiple_testing.sentence(run.comparisons), _unresolved(run), _contended(rows)]))
    title = f"Ratios of time, {' '.join(shared)}" if shared else "Ratios of time"
    return Table(title, tuple(head), tuple(map(tuple, cells)), notes)


def _shared(places: Sequence[str]) -> list[str]:
    """Return the words that all rows share, which only the title shows."""
    if not places:
        return []
    first, *others = (place.split(" ") for place in places)
    return [word for word in first if all(word in words for words in others)]


def _unresolved(run: Run) -> str | None:
    """Return the note that explains `unresolved`, or None if no verdict is unresolved."""
    if not any(comparison.verdict == "unresolved" for comparison in run.comparisons):
        return None
    shown = (
        f" {BUT_SHOWN}: the {stats.SHOWN:.0%} interval shown excludes 1, but the wider one does not clear the margin."
    )
    return (
        f"unresolved: the {stats.JUDGED:.0%} interval, which decides verdicts, lies neither beyond the margin "
        f"of its comparison nor inside.{shown * any(map(but_shown, run.comparisons))}"
    )


def _contended(rows: Sequence[Ratio]) -> str | None:
    """Return the note that explains `contended`, or None if no verdict is contended."""
    if not any(CONTENDED in row.verdict for row in rows):
        return None
    return (
        f"{CONTENDED}: more than a fifth of one side's rounds lost time to other processes, or the machine was slow; "
        "lines below state the effect on the figures."
    )


def but_shown(comparison: Comparison) -> bool:
    """Return whether a comparison is unresolved though the interval shown excludes 1."""
    low, high = comparison.low, comparison.high
    return comparison.verdict == "unresolved" and ((low is not None and low > 1) or (high is not None and high < 1))


def _ratio(
    comparison: Comparison, contender: Result, baseline: Result, home: str, notes: tuple[str, list[str]]
) -> Ratio:
    """Return the row of a comparison.

    `notes`: the mark of its verdict, and the list of remarks, to which new ones are added; the verdict cites their
    numbers."""
    common, first, second = contrast(contender, baseline)
    mark, remarks = notes
    verdict = _verdict(comparison, mark + BUT_SHOWN * but_shown(comparison), contender, baseline)
    noted = comparison.notes if comparison.ratio is not None else ()
    for each in filter(None, (comparison.reason, *noted)):
        remark = footnotes.kind(each, (contender, baseline))
        if remark not in remarks:
            remarks.append(remark)
        verdict += f" ({remarks.index(remark) + 1})"
    return Ratio(
        " ".join(word for word in common.split(" ") if word != home),
        f"{first} / {second}",
        units.ratio(comparison.ratio, comparison.low, comparison.high),
        units.ends(comparison.next_low, comparison.next_high),
        verdict,
        f"{_median(contender)}, {_median(baseline)}",
        f"{units.percent(contender.percent_of_ceiling)}, {units.percent(baseline.percent_of_ceiling)}",
        f"{_of_allowed(contender)}, {_of_allowed(baseline)}",
    )


def _of_allowed(result: Result) -> str:
    """Return the error nearest to its allowed bound, as a percentage of that bound.

    Absolute errors do not compare between different types and inputs."""
    if result.error is None or result.error_bound is None:
        return units.percent(None)
    return units.percent(100 * result.error / result.error_bound if result.error else 0.0)


def _verdict(comparison: Comparison, mark: str, contender: Result, baseline: Result) -> str:
    """Return the verdict with its mark, or the status of a side without a time.

    The word `contended` is added if a side's result is contended."""
    if comparison.verdict == "not comparable":
        for whose, result in (("", contender), ("baseline ", baseline)):
            if result.status in REASONED:
                crashed = result.status == "failed" and (result.reason or "").startswith("crashes")
                return f"{whose}{'crashed' if crashed else result.status}"
        return comparison.verdict
    contended = "contended" in (contender.status, baseline.status)
    return f"{comparison.verdict}{mark} {CONTENDED}" if contended else f"{comparison.verdict}{mark}"


def _median(result: Result) -> str:
    return units.seconds(result.seconds.median if result.seconds else None)


def contrast(contender: Result, baseline: Result) -> tuple[str, str, str]:
    """Return the words that two cases share, then those of each alone: `m:1 n:8 variant:x`, `nt`, `nn`.

    Cases of different operations share only the operations' names."""
    op, *first = contender.name.split("/")
    _, *second = baseline.name.split("/")
    if contender.op != baseline.op:
        return f"{op}/{baseline.op}", _text(first), _text(second)
    shared = [word for word in first if word in second and word != "threads:1"]
    only = [[word for word in words if word not in others] for words, others in ((first, second), (second, first))]
    keys = sorted({word.partition(":")[0] for words in only for word in words})
    words = {"variant", *(axis for axis, form in contender.axes.items() if form == "word")}
    plain = words if len(keys) > 1 else set(keys)  # a single differing field is shown without its name
    texts = []
    for result, has in ((contender, only[0]), (baseline, only[1])):
        fields = {axis: flat.word(value) for axis, value in result.problem.items()}  # those at their default, too
        fields |= {"cold": "+".join(result.cold) or "warm", "device": result.device}
        fields |= dict(word.split(":", 1) for word in has)
        values = ((key, fields.get(key, "–")) for key in keys)
        texts.append(flat.plain(" ".join(value if key in plain else f"{key}:{value}" for key, value in values)))
    common = " ".join(flat.plain(word.removeprefix("variant:")) for word in shared)
    return f"{op} {common}", texts[0], texts[1]


def _text(words: Sequence[str]) -> str:
    """Return a case's name without its operation."""
    return flat.plain(" ".join(word.removeprefix("variant:") for word in words if word != "threads:1"))


def kernels(run: Run) -> tuple[str, ...]:
    """Return a line for each variant: the code that ran, and the library call of each layout."""
    by_variant: dict[str, dict[str, None]] = {}
    calls: dict[str, dict[str, None]] = {}
    for result in run.results:
        if result.role != "measured" or not result.seconds or not (result.kernel or result.blas):
            continue
        kernel = result.kernel or ""
        if kernel and result.clock != "event":  # a GPU has one instruction set
            kernel += f" ({result.isa_observed or 'instruction set not known'})"
        by_variant.setdefault(result.variant, {})[kernel] = None
        if result.blas:
            calls.setdefault(result.variant, {})[result.blas.partition(" m=")[0]] = None
    ran = _named(run)
    return tuple(
        f"{variant}: "
        + "; ".join(filter(None, (" and ".join(about), ", ".join(calls.get(variant, ())), ran.get(variant, ""))))
        for variant, about in by_variant.items()
    )


def _named(run: Run) -> dict[str, str]:
    """Return by variant the kernel names that a profiler recorded, with the number of further names."""
    variants = {result.name: result.variant for result in run.results}
    seen: dict[str, dict[str, None]] = {}
    for note in run.notes:
        for case, names in note.data.get("names", {}).items() if note.topic == "kernels" else ():
            if case in variants:
                alike = [(name, sum(1 for _ in same)) for name, same in groupby(names)]
                text = " + ".join(f"{count} × {name}" if count > 1 else name for name, count in alike)
                seen.setdefault(variants[case], {})[text] = None
    return {
        variant: f"ran {next(iter(kernels))}" + (f" and {len(kernels) - 1} others" if len(kernels) > 1 else "")
        for variant, kernels in seen.items()
    }


def steered(run: Run) -> str | None:
    """Return the environment variables that choose a library's kernels or threads, or None if none is set."""
    variables = run.environment.facts.get("variables") or {}
    settings = ", ".join(f"{name}={value}" for name, value in variables.items())
    return f"Set in this environment, and used by the libraries: {settings}." if settings else None


def ceilings(run: Run) -> tuple[str, ...]:
    """Return the fastest median of each bound measured in the contests' own rounds.

    Reads come last, in order of the memory read."""
    best: dict[str, float] = {}
    order: dict[str, tuple[float, ...]] = {}
    for result in run.results:
        if result.role == "ceiling" and result.seconds:
            name = result.ceiling or ""
            reads = name.startswith(READS)
            rate = (result.bytes_per_second if reads else result.flops_per_second) or 0.0
            best[name] = max(best.get(name, 0.0), rate)
            order.setdefault(name, (reads, result.threads, round(rate * result.seconds.median)) if reads else (False,))
    return tuple(
        f"{name} {units.scaled(best[name], 'B/s' if name.startswith(READS) else 'FLOP/s')}"
        for name in sorted(best, key=lambda name: order[name])
    )


def results(run: Run) -> Table:
    """Return the table of cases, each with the command that repeats it."""
    rows = []
    for result in run.results:
        if result.role != "measured":
            continue
        rate = units.scaled(result.flops_per_second, "FLOP/s") if result.flops_per_second else "–"
        rows.append(
            (
                flat.plain(result.name),
                result.status,
                _median(result),
                rate,
                f"{units.percent(result.percent_of_ceiling)} of {result.ceiling}" if result.ceiling else "–",
                result.reason or "; ".join(result.warnings) or result.repeat,
            )
        )
    return Table("Cases", ("case", "status", "time", "rate", "of ceiling", "reason, or command"), tuple(rows))


def troubles(run: Run) -> tuple[str, ...]:
    """Return lines on damaged records, on cases without a time, and on warnings, each once.

    Cases whose reason is in a footnote are left out, unless they left evidence."""
    kinds: dict[str, list[str]] = {}
    reasons = tuple(comparison.reason or "" for comparison in run.comparisons)
    for result in run.results:
        beside = any(text.endswith(f" {result.status}: {result.reason}") for text in reasons)
        if result.status in REASONED and (result.evidence or not beside):
            name = result.variant if result.status == "skipped" else result.name
            evidence = f" (evidence: {result.evidence})" if result.evidence else ""
            kinds.setdefault(f"{result.status}: {result.reason}{evidence}", []).append(name)
        for warning in result.warnings:
            # Figures differ between cases; warnings of a kind share one line, with the first case's figure.
            kind = next((k for k in kinds if re.sub(r"[\d.]+", "", k) == re.sub(r"[\d.]+", "", warning)), warning)
            kinds.setdefault(kind, []).append(result.name)
    lines = list(run.damaged)
    for reason, names in kinds.items():
        distinct = list(dict.fromkeys(names))
        others = f" and {len(distinct) - 1} more like it" if len(distinct) > 1 else ""
        lines.append(f"{flat.plain(distinct[0])}{others}: {reason}")
    return tuple(lines)


def selftest(run: Run) -> tuple[str, ...]:
    """Return the result of the last self-test of this environment."""
    record = run.environment.state.get("selftest")
    if not record:
        return ("No self-test in this environment yet: python -m micro.selftest (two to four minutes).",)
    promised = [figure for figure in record["figures"] if figure["promised"]]
    held = sum(bool(figure["held"]) for figure in promised)
    missed = [figure["name"] for figure in promised if not figure["held"] and not figure.get("busy")]
    rest = len(promised) - held - len(missed)
    unjudged = f", {rest} not judged" if rest else ""
    broken = f"; NOT HELD: {', '.join(missed)}" if missed else ""
    return (f"Self-test here, {record['started'][:10]}: {held} of {len(promised)} promises held{unjudged}{broken}.",)


def between(run: Run) -> str | None:
    """Return the spread between runs on the paths taken, or that it is unknown; None without paths."""
    paths = list(dict.fromkeys(name for c in run.comparisons if c.ratio is not None for name in c.path))
    if not paths or all(c.replicates for c in run.comparisons):
        return None
    spreads = next_run.spreads(run.environment)
    parts = [f"{path} {100 * spreads[path].sd:.2g} %" for path in paths if path in spreads]
    lacking = [path for path in paths if path not in spreads]
    if lacking:
        remedy = f", run micro.selftest{' --full' * bool(spreads)}" if set(lacking) <= set(next_run.PATHS) else ""
        parts.append(f"unknown ({', '.join(lacking)}){remedy}")
    return f"between runs: {'; '.join(parts)}"


def burst(run: Run) -> str | None:
    """Return the remark on boost clocks in times by a GPU's clock, or None without such times."""
    if not any(result.clock == "event" and result.op != "step" for result in run.results):
        return None
    names = ("sm_megahertz_least", "sm_megahertz_most")
    megahertz = [x.system[name] for x in run.contests for name in names if x.system.get(name)]
    clocks = f" ({min(megahertz):.0f} to {max(megahertz):.0f} MHz)" if megahertz else ""
    return (
        f"GPU visits last about a millisecond, at boost clocks{clocks}; sustained clocks are lower. The gap of about "
        "1 µs between two kernels of a graph is part of their time, so ratios of very short kernels are biased towards "
        "1."
    )


PHASES = {  # disjoint parts of a contest's time, with their texts
    "measuring": "measured {:.1f} s",
    "setup": "prepared and checked {:.1f} s",
    "asking": "identified frameworks {:.1f} s",
    "proving": "proved equal work {:.1f} s",
}


def seconds(run: Run) -> str:
    """Return the time spent, in words: measuring (with checks of visits), preparing, and the rest."""
    spent = {name: sum(c.seconds.get(name, 0.0) for c in run.contests) for name in (*PHASES, "witnessing", "wall")}
    parts = [text.format(spent[name]) for name, text in PHASES.items() if spent[name] or name in ("measuring", "setup")]
    if witnesses := sum(result.witnesses for result in run.results):
        share = f", {spent['witnessing'] / spent['measuring']:.1%} of it" if spent["measuring"] else ""
        parts.insert(1, f"{witnesses} timed visits compared with float64{share}")
    if run.contests and all("wall" in contest.seconds for contest in run.contests):
        rest = max(0.0, spent["wall"] - sum(spent[name] for name in PHASES))
        parts.append(f"other {rest:.1f} s; total {spent['wall']:.1f} s")
    return "; ".join(parts)
