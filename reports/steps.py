"""Steps of frameworks as a table: their time, samples a second, and their use of the machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reports import flat, units
from reports.record import Result, Run
from reports.table import Table

FACTS = ("network", "batch", "phase", "device", "threads", "heap", "division")
USUAL = {"heap": "default", "division": "default", "device": "cpu"}  # values that a title leaves out
HEAD = ("time", "samples/s", "of FMA peak", "cores", "memory", "set-up", "faults", "system")
FOOTNOTE = (
    "samples/s: batch divided by median time; of FMA peak: its share by nominal work (a convolution's algorithm may do "
    "less); cores: busy cores; memory: peak of the process, on a GPU peak of its arrays; set-up: loading packages "
    "and building the model; faults, system: page faults of a step, and its time in the operating system."
)


def steps(run: Run) -> Table | None:
    """Return the table of timed steps, one row each, with shared facts in the title; None without steps."""
    timed = [x for x in run.measured if x.op == "step" and x.seconds]
    if not timed:
        return None
    all_facts = [_facts(x) for x in timed]
    shared = [name for name in FACTS if len({facts[name] for facts in all_facts}) == 1]
    title = "Steps, " + ", ".join(
        f"{name} {all_facts[0][name]}" for name in shared if all_facts[0][name] != USUAL.get(name)
    )
    head = ("framework", *(name for name in FACTS if name not in shared), *HEAD)
    rows = tuple(_row(x, facts, shared) for x, facts in zip(timed, all_facts, strict=True))
    return Table(title, head, rows, (FOOTNOTE, *proofs(timed)))


def proofs(timed: Sequence[Result]) -> Iterator[str]:
    """Yield the proofs of equal work, each with its frameworks unless all share it."""
    by_proof: dict[str, list[str]] = {}
    everybody = len({x.variant for x in timed})
    for x in timed:
        if x.proof:
            variants, variant = by_proof.setdefault(x.proof, []), flat.plain(x.variant)
            variants += [variant] * (variant not in variants)
    for proof, who in by_proof.items():
        yield f"Equal work proven beforehand {proof}" + (f": {', '.join(who)}" if len(who) < everybody else "")


def _facts(x: Result) -> dict[str, str]:
    settings = {"threads": x.threads, "heap": x.heap, "device": x.device}
    return {name: flat.plain(str(settings.get(name, x.problem.get(name, "–")))) for name in FACTS}


def taken(x: Result) -> tuple[str, str, str]:
    """Return samples per second, share of the ceiling and peak memory of a timed step, as text."""
    assert x.seconds is not None
    seen, samples = x.step or {}, float(x.problem.get("batch", 0)) / x.seconds.median
    rate = f"{samples:,.0f}" if samples >= 100 else f"{samples:.3g}"
    held = seen.get("device_peak", seen.get("peak"))
    return rate, units.percent(x.percent_of_ceiling), "–" if held is None else units.scaled(held, "B")


def _row(x: Result, facts: dict[str, str], shared: Sequence[str]) -> tuple[str, ...]:
    assert x.seconds is not None
    seen, (rate, share, memory) = x.step or {}, taken(x)
    return (
        flat.plain(x.variant),
        *(facts[name] for name in FACTS if name not in shared),
        units.seconds(x.seconds.median),
        rate,
        share,
        f"{seen['utilization'] * x.threads:.2f}" if "utilization" in seen else "–",
        memory,
        units.seconds(x.setup_seconds),
        f"{seen['faults']:.0f}" if "faults" in seen else "–",
        units.seconds(seen.get("system")),
    )
