"""Records to tables: text, with no number left to format."""

from __future__ import annotations

import re
from dataclasses import dataclass

from reports import units
from reports.record import Run


@dataclass(frozen=True)
class Table:
    """Head, rows, and the notes that belong under them."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def comparisons(run: Run) -> Table:
    """A row for each comparison: ratio first, then verdict, times, share of the ceiling."""
    rows: list[tuple[str, ...]] = []
    notes: list[str] = []
    mixed = False
    home = f"device:{run.environment.facts.get('device', {}).get('name')}"  # told in the last line
    for contest in run.contests:
        by_name = {result.name: result for result in contest.results if result.role == "measured"}
        for comparison in contest.comparisons:
            first, second = by_name[comparison.baseline], by_name[comparison.contender]
            common, contender, baseline = contrast(second.name, first.name)
            verdict = comparison.verdict
            for remark in filter(None, (comparison.reason, *comparison.notes)):
                if remark not in notes:
                    notes.append(remark)
                verdict += f" ({notes.index(remark) + 1})"
            rows.append(
                (
                    " ".join(word for word in common.split(" ") if word != home),
                    f"{contender} / {baseline}",
                    units.ratio(comparison.ratio, comparison.low, comparison.high),
                    verdict,
                    units.seconds(second.seconds.median if second.seconds else None),
                    units.seconds(first.seconds.median if first.seconds else None),
                    f"{units.percent(second.percent_of_ceiling)}, {units.percent(first.percent_of_ceiling)}",
                    f"{units.error(second.error)}, {units.error(first.error)}",
                )
            )
            mixed |= second.precision != first.precision
    head: tuple[str, ...] = (
        "at",
        "contender / baseline",
        "ratio, 95 % interval",
        "verdict",
        "contender",
        "baseline",
        "of ceiling",
        "worst error",
    )
    # No ceiling was measured in these rounds; errors are of interest where a time is bought with them.
    needless = {i for i, drop in ((6, all(row[6] == "–, –" for row in rows)), (7, not mixed)) if drop}
    head = tuple(word for i, word in enumerate(head) if i not in needless)
    rows = [tuple(word for i, word in enumerate(row) if i not in needless) for row in rows]
    numbered = tuple(f"({i}) {note}" for i, note in enumerate(notes, start=1))
    return Table("Ratios of time", head, tuple(rows), numbered)


def contrast(contender: str, baseline: str) -> tuple[str, str, str]:
    """What two names share, and what only each has: `m:1 n:8 variant:x`, `nt`, `nn`."""
    op, *first = contender.split("/")
    _, *second = baseline.split("/")
    shared = [word for word in first if word in second and word != "threads:1"]
    only = [[word for word in words if word not in others] for words, others in ((first, second), (second, first))]
    keys = {word.partition(":")[0] for words in only for word in words}
    lone = len(keys) == 1  # the field need not be named when it is the only one
    default = {
        "trans": "nn",
        "ld_pad": "0",
        "cold": "warm",
        "beta": "0",
        "alpha": "1",
        "dtype": "fp32",
        "device": "cpu",
    }
    shared = [_plain(word.removeprefix("variant:")) for word in shared]
    texts = []
    for words in only:
        have = dict(word.split(":", 1) for word in words)
        full = {key: have.get(key, default.get(key, "–")) for key in sorted(keys)}
        texts.append(
            " ".join(
                _plain(value if lone or key in ("variant", "trans") else f"{key}:{value}")
                for key, value in full.items()
            )
        )
    return f"{op} {' '.join(shared)}", texts[0], texts[1]


def _plain(word: str) -> str:
    """A file's path in a name, as it was typed."""
    return word.replace("%2F", "/").replace("%25", "%")


def kernels(run: Run) -> tuple[str, ...]:
    """Which code really ran, and which call of the library each layout became: a line for each variant."""
    told: dict[str, dict[str, None]] = {}
    calls: dict[str, dict[str, None]] = {}
    for result in run.results:
        if result.role != "measured" or not result.seconds or not (result.kernel or result.blas):
            continue
        isa = result.isa_observed or "instruction set not told"
        kernel = f"{result.kernel} ({isa})" if result.kernel else ""
        told.setdefault(result.variant, {})[kernel] = None
        if result.blas:
            calls.setdefault(result.variant, {})[result.blas.partition(" m=")[0]] = None
    ran = _named(run)
    return tuple(
        f"{variant}: "
        + "; ".join(filter(None, (" and ".join(about), ", ".join(calls.get(variant, ())), ran.get(variant, ""))))
        for variant, about in told.items()
    )


def _named(run: Run) -> dict[str, str]:
    """By variant: the kernels that a profiler saw, and how many others where cases differ in them."""
    variants = {result.name: result.variant for result in run.results}
    seen: dict[str, dict[str, None]] = {}
    for note in run.notes:
        for case, names in note.data.get("names", {}).items() if note.topic == "kernels" else ():
            if case in variants:
                seen.setdefault(variants[case], {})[" + ".join(names)] = None
    return {
        variant: f"ran {next(iter(found))}" + (f" and {len(found) - 1} others" if len(found) > 1 else "")
        for variant, found in seen.items()
    }


def steered(run: Run) -> str | None:
    """The variables that choose a library's kernels or threads here, which nobody sees on the command line."""
    variables = run.environment.facts.get("variables") or {}
    told = ", ".join(f"{name}={value}" for name, value in variables.items())
    return f"Set in this environment, and obeyed by the libraries: {told}." if told else None


def ceilings(run: Run) -> tuple[str, ...]:
    """The fastest median of each bound measured in the contests' own rounds."""
    best: dict[str, float] = {}
    for result in run.results:
        if result.role == "ceiling" and result.seconds:
            name = units.bound(result.op, result.problem)
            rate = (result.bytes_per_second if result.op == "stream" else result.flops_per_second) or 0.0
            best[name] = max(best.get(name, 0.0), rate)
    return tuple(
        f"{name} {units.scaled(rate, 'B/s' if name.startswith('read ') else 'FLOP/s')}" for name, rate in best.items()
    )


def results(run: Run) -> Table:
    """A row for each case, with the command that repeats it."""
    rows = []
    for result in run.results:
        if result.role != "measured":
            continue
        rate = units.scaled(result.flops_per_second, "FLOP/s") if result.flops_per_second else "–"
        rows.append(
            (
                result.name,
                result.status,
                units.seconds(result.seconds.median if result.seconds else None),
                rate,
                f"{units.percent(result.percent_of_ceiling)} of {result.ceiling}" if result.ceiling else "–",
                result.reason or "; ".join(result.warnings) or result.repeat,
            )
        )
    return Table("Cases", ("case", "status", "time", "rate", "of ceiling", "reason, or the command"), tuple(rows))


def troubles(run: Run) -> tuple[str, ...]:
    """Damaged lines, every case without a time and every warning, once each."""
    found: dict[str, list[str]] = {}
    for result in run.results:
        if result.status in ("skipped", "wrong", "failed"):
            name = result.variant if result.status == "skipped" else result.name
            evidence = f" (evidence: {result.evidence})" if result.evidence else ""
            found.setdefault(f"{result.status}: {result.reason}{evidence}", []).append(name)
        for warning in result.warnings:
            # Figures differ from case to case; one line holds all of a kind, with the first one's figure.
            kind = next((k for k in found if re.sub(r"[\d.]+", "", k) == re.sub(r"[\d.]+", "", warning)), warning)
            found.setdefault(kind, []).append(result.name)
    told = list(run.damaged)
    for reason, names in found.items():
        distinct = list(dict.fromkeys(names))
        others = f" and {len(distinct) - 1} more like it" if len(distinct) > 1 else ""
        told.append(f"{distinct[0]}{others}: {reason}")
    return tuple(told)


def selftest(run: Run) -> tuple[str, ...]:
    """What the last self-test of this environment found of the harness itself."""
    known = run.environment.state.get("selftest")
    if not known:
        return ("No self-test in this environment yet: python -m micro.selftest (a minute or two).",)
    held = [figure for figure in known["figures"] if figure["promised"]]
    missed = [figure["name"] for figure in held if not figure["held"]]
    rest = "" if not missed else "; not held: " + ", ".join(missed)
    chosen = (figure for figure in known["figures"] if figure["name"].startswith(("identical pairs not", "+5")))
    told = "; ".join(f"{figure['name']} {figure['found']}" for figure in chosen)
    count = len(held) - len(missed)
    return (f"Self-test here, {known['started'][:10]}: {count} of {len(held)} figures held{rest}. {told}.",)


def burst(run: Run) -> str | None:
    """What a time by a GPU's own clock is not, and at which clock it was taken."""
    if not any(result.clock == "event" for result in run.results):
        return None
    names = ("sm_megahertz_least", "sm_megahertz_most")
    known = [x.system[name] for x in run.contests for name in names if x.system.get(name)]
    clocks = f" ({min(known):.0f} to {max(known):.0f} MHz seen)" if known else ""
    return (
        f"A GPU's visits last about a millisecond: they measure boost clocks{clocks}; sustained work runs lower. From "
        "one kernel of a graph to the next the GPU takes about 1 µs, which is in its time: ratios of shorter kernels "
        "are drawn towards 1."
    )


def seconds(run: Run) -> str:
    """Time of measuring, and of everything before it."""
    parts = {key: sum(c.seconds.get(key, 0.0) for c in run.contests) for key in ("measuring", "setup")}
    return f"measured {parts['measuring']:.1f} s; prepared and checked {parts['setup']:.1f} s"
