"""Answer of `--why`: a case's share of its ceiling, executed work, kernel, and the best variant."""

from __future__ import annotations

from collections.abc import Iterator

from kernels import ceilings
from kernels.catalog import find
from kernels.devices import kind_of
from micro.findings.select import chosen, undisturbed
from micro.planning.contest import Case, parse
from reports import flat, units
from reports.record import Contest, Result, Run

NOT_KNOWN = "instruction set not known"
BOUND = 0.9  # of a ceiling: from here on there is little left to explain


def answer(name: str, run: Run) -> list[str]:
    """Return sentences that explain the time of the first case of the contest `name`."""
    (done,) = (c for c in run.contests if c.contest == name)
    result = done.results[0]
    if result.seconds is None:
        return [f"{flat.plain(result.name)} {result.status}" + (f": {result.reason}." if result.reason else ".")]
    case = parse(result.name)
    return [_rate(case, result), _work(case, result), *_ran(run, result), *_best(done), *_beside(result)]


def _rate(case: Case, result: Result) -> str:
    assert result.seconds is not None
    if result.ceiling is None:
        return f"{flat.plain(result.name)} takes {units.seconds(result.seconds.median)}: {_unbounded(case, result)}."
    rate = units.scaled(result.flops_per_second or 0.0, "FLOP/s")
    near = (result.percent_of_ceiling or 0) / 100
    rest = "there is little left to gain" if near >= BOUND else f"a factor of {1 / max(near, 1e-9):.2g} remains"
    return (
        f"{flat.plain(result.name)} takes {units.seconds(result.seconds.median)}: {rate}, "
        f"{units.percent(result.percent_of_ceiling)} of its ceiling ({result.ceiling}); {rest}."
    )


def _unbounded(case: Case, result: Result) -> str:
    """Format why the case has no ceiling."""
    of_caller = case.problem.on_host and kind_of(result.device).own_clock
    if of_caller or find(case.problem.op, case.variant).link:
        return "no ceiling is known for the overhead of calls or the bandwidth of a link to the host"
    of_caches = (
        "the bandwidth of a GPU's caches" if result.bytes_per_second and kind_of(result.device).undivided else ""
    )
    of_units = f"{result.precision} arithmetic" if result.flops_per_second else ""
    lacking = " or ".join(filter(None, (of_units, of_caches)))
    return f"no ceiling is known for {lacking}" if lacking else "it does no work that a ceiling could bound"


def _work(case: Case, result: Result) -> str:
    """Format executed work and traffic, and their ratios to the nominal ones."""
    problem, done = case.problem, find(case.problem.op, case.variant).executed(case.problem)
    more = "" if done.flops == problem.flops else f", {done.flops / problem.flops:.3g} times the nominal work"
    moved = "" if done.bytes == problem.bytes else f", {done.bytes / problem.bytes:.3g} times the least traffic"
    intensity = f"{done.flops / done.bytes:.3g} FLOP per byte" if done.bytes else "no traffic"
    return (
        f"It executes {units.scaled(done.flops, 'FLOP')}{more}, and moves {units.binary(done.bytes)}{moved}: "
        f"{intensity}; {result.blas or 'no library call is known'}."
    )


def _ran(run: Run, result: Result) -> Iterator[str]:
    """Yield sentences on kernel and instruction set, and on the widest set if that is another."""
    seen = result.isa_observed
    widest = (run.environment.facts.get("device", {}).get("isa") or [None])[-1]
    kernel = result.kernel or "an unidentified kernel"
    yield f"What ran: {kernel}{'' if result.clock == 'event' else f' ({seen or NOT_KNOWN})'}."
    peaks = ceilings.load()
    if seen and widest and seen != widest:
        sentence = f"It uses {seen}, this processor supports {widest}"
        if peaks and peaks.flops.get(seen):
            peak = peaks.flops[seen]
            share = (result.flops_per_second or 0.0) / peak
            sentence += f"; it reaches {share:.0%} of this machine's {units.scaled(peak, 'FLOP/s')} with {seen}"
        yield sentence + "."


def _best(contest: Contest) -> Iterator[str]:
    """Yield a sentence on the fastest rival, and on how many rivals are faster."""
    rivals = [c for c in contest.comparisons if c.ratio is not None]
    faster = [c for c in rivals if c.verdict == "faster"]
    if not rivals:
        yield _by_medians(contest)
        return
    best = min(faster or rivals, key=lambda c: c.ratio or 0.0)
    name = parse(best.contender).variant
    shown = units.ratio(best.ratio, best.low, best.high)
    if faster:
        count = f"{len(faster)} of {len(rivals)} others are faster"
        yield f"Best variant: {name}, {shown} times its time ({count}{chosen(len(faster))})."
    else:
        near = f"the nearest, {name}, takes {shown} times its time{chosen(len(rivals))}"
        yield f"None of {len(rivals)} other variants is certainly faster; {near}."


def _by_medians(contest: Contest) -> str:
    """Format the fastest rival by medians, for a contest whose ratios have no interval."""
    count = len(contest.comparisons)
    if not count:
        return "No other variant supports this problem."
    baseline = contest.results[0].seconds
    contenders = {c.contender for c in contest.comparisons}
    timed = [(x.seconds.median, x) for x in contest.results if x.name in contenders and x.seconds]
    if baseline is None or not timed:
        return f"None of {count} other variants could be measured."
    least, first = min(timed, key=lambda pair: pair[0])
    return (
        f"Of {len(timed)} other variants, {first.variant} has the least median, {least / baseline.median:.2f} times "
        f"its time; not certain: {undisturbed(first)} undisturbed rounds give no interval; use a longer --budget."
    )


def _beside(result: Result) -> Iterator[str]:
    """Yield sentences on page faults, numerical error and warnings of the case."""
    if result.faults:
        yield f"{result.faults} page faults occurred during the contest's rounds."
    if result.error is not None and result.error_bound:
        yield f"Its largest error is {result.error / result.error_bound:.2g} of the tolerance of its precision."
    yield from (f"Note: {warning}." for warning in result.warnings)
