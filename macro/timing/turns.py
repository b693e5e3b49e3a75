"""Timing of several frameworks in turns: generations of processes, rounds of blocks, within a budget."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

from kernels.devices import kind_of
from kernels.errors import SuiteError
from macro.processes import job as job_files
from macro.timing import groups
from macro.timing.entry import HANGS, Entry, Plan, Taken, is_reported
from macro.timing.peak import Peak
from reports.units import counted

RAMP = 0.3  # seconds of uncounted steps of a GPU before the counted steps


def take(
    plan: Plan,
    entries: Sequence[Entry],
    folder: Path,
    say: Callable[[str], None],
    keep: Callable[[Taken], None] = lambda taken: None,
) -> float:
    """Time the entries' steps in all generations; return the rounds' seconds. `keep` gets each round."""
    job_files.write_arrays(plan.network, plan.batch, folder)
    counts = {entry.setting.threads for entry in entries if entry.status == "ok" and entry.setting.device == "cpu"}
    peaks = {x: Peak(x) for x in counts}
    numbers = range(plan.first, plan.first + plan.generations)
    return sum(_generation(plan, entries, number, folder, peaks, say, keep) for number in numbers)


def _generation(
    plan: Plan,
    entries: Sequence[Entry],
    generation: int,
    folder: Path,
    peaks: Mapping[int, Peak],
    say: Callable[[str], None],
    keep: Callable[[Taken], None],
) -> float:
    """Run a generation's groups, each within its share of the budget; return the seconds of the rounds."""
    order, past = random.Random(plan.seed * 1000 + generation), Taken(generation, -1, 0.0, False)
    left = wanted = [entry for entry in entries if entry.status == "ok" and not entry.ended]
    shared = groups.reference(entries) if entries else None
    while left and shared:
        before, count = past, len(left)
        again = [shared] if shared.status == "ok" and shared not in left else []
        began, mixed = time.monotonic(), order.sample([*again, *left], len(again) + len(left))
        with ExitStack() as stack:  # random order, or the same entry would always be the first to get memory
            alive, left = groups.fill(
                plan, shared, mixed, entries, folder, stack, lambda text: say(f"{plan.place(generation)}: {text}")
            )
            groups.alike(alive, plan.counted)
            share = plan.seconds / plan.generations * (count - len(left)) / len(wanted)
            group_plan = replace(plan, seconds=share * plan.generations)  # for the progress of this group
            starting = time.monotonic() - began
            for taken in _rounds(plan, past, share, order, alive, peaks):
                past = replace(taken, ended=taken.ended and not left)
                keep(past)
                in_group = replace(past, number=past.number - before.number - 1, seconds=past.seconds - before.seconds)
                if taken.ended or is_reported(in_group.number + 1):
                    for text in _progress(group_plan, in_group, starting):
                        say(text)
    if past.number >= 0 and not past.ended:  # no entry of the last group could start
        keep(replace(past, ended=True))
    return past.seconds


def _rounds(
    plan: Plan, past: Taken, share: float, order: random.Random, alive: list[Entry], peaks: Mapping[int, Peak]
) -> Iterator[Taken]:
    """Run and yield the rounds that follow round `past`, until `share` seconds of the budget are spent."""
    began, number, seconds = time.monotonic(), 0, 0.0
    while (alive := [entry for entry in alive if not entry.ended]) and (number < plan.fewest or seconds < share):
        for entry, block in _round(plan, order, alive, peaks):
            entry.blocks.append((past.generation, past.number + 1 + number, block))
        number, seconds = number + 1, time.monotonic() - began
        ended = not alive or (number >= plan.fewest and seconds >= share)
        yield Taken(past.generation, past.number + number, past.seconds + seconds, ended)


def _progress(plan: Plan, taken: Taken, starting: float) -> Iterator[str]:
    """Yield progress after a round, and after the first round a warning if the budget is too small."""
    share, count = plan.seconds / plan.generations, taken.number + 1
    past = taken.seconds > share and count <= plan.fewest  # the number of rounds ends the group, not the share
    so_far = f"{count} of {plan.fewest} rounds" if past else counted(count, "round")
    limit = "" if past else f" of {share:.0f}"
    yield f"{plan.place(taken.generation)}: {so_far}, {taken.seconds:.0f}{limit} s"
    if taken.number == 0:
        yield from over_budget(plan, taken.generation, taken.seconds, starting)


def over_budget(plan: Plan, generation: int, first: float, starting: float) -> Iterator[str]:
    """Yield a warning if a generation's fewest rounds take longer than its share of the budget.

    `first`: seconds of the first round; `starting`: seconds of starting the processes.
    """
    share, fewest = plan.seconds / plan.generations, first * plan.fewest
    if fewest <= share:
        return
    later = plan.first + plan.generations - generation - 1
    less = ["--runs 1"] * (plan.generations > 1) + ["a smaller --batch"] * (plan.batch > 1)
    why = "longer than their share of the budget" if share else "but the budget is spent"
    yield (
        f"the required {plan.fewest} rounds take about {fewest:.0f} s, {why}: "
        f"about {fewest - first + later * (starting + fewest):.0f} s more"
        + (f"; {' or '.join(less)} takes less" if less else "")
    )


def _round(
    plan: Plan, order: random.Random, alive: list[Entry], peaks: Mapping[int, Peak]
) -> list[tuple[Entry, dict[str, Any]]]:
    """Run a block of steps of each entry and measure each peak, in a new random order; return the blocks.

    If steps are short, the first step of a turn does not count: caches are cold, and the hypervisor may have reclaimed
    freed pages while other processes ran. An entry that fails is removed from `alive`.
    """
    blocks, fma = list[tuple[Entry, dict[str, Any]]](), dict[int, float | None]()
    for threads, entry in order.sample(
        [*((entry.setting.threads, entry) for entry in alive), *((count, None) for count in peaks)],
        len(alive) + len(peaks),
    ):
        if entry is None:
            here = [x for x in alive if x.setting.device == "cpu"]
            alike = [x for x in here if x.setting.threads == threads]
            fma[threads] = peaks[threads].look(_product(plan, alike or here))
            continue
        assert entry.process is not None
        patience = max(HANGS, 20 * entry.count * (entry.blocks[-1][2]["wall"] if entry.blocks else entry.warm))
        try:
            for count in (entry.count,) if entry.long else (_before(entry), entry.count):
                reply = entry.process.ask(patience, "steps", do="steps", phase=plan.phase, count=count)
        except SuiteError as error:
            entry.fail(error)
            alive.remove(entry)
            continue
        blocks.append((entry, _block(reply)))
    for entry, block in blocks:  # the processor's peak does not apply to a GPU
        threads = entry.setting.threads
        on_cpu = entry.setting.device == "cpu"
        block |= {"fma": fma[threads], "fma_threads": peaks[threads].threads} if on_cpu else {"fma": None}
    return blocks


def _before(entry: Entry) -> int:
    """Return the number of uncounted steps: 1, or RAMP seconds of a GPU, whose clock falls between turns."""
    return max(1, round(RAMP / entry.warm)) if kind_of(entry.setting.device).undivided else 1


def _product(plan: Plan, alive: Sequence[Entry]) -> float:
    """Estimate the seconds of a product: the fastest framework's step over the number of products."""
    steps = [x.blocks[-1][2]["wall"] if x.blocks else groups.BLOCK / x.count for x in alive]
    products = sum(len(node.problems(plan.batch, plan.phase)) for node in plan.network.nodes)
    return min(steps, default=0.0) / max(1, products)


def _block(reply: dict[str, Any]) -> dict[str, Any]:
    """Return a block's figures per step from an agent's reply: seconds by clock, and counters."""
    count = len(reply["wall_ns"])
    clocks = {name: sum(reply[f"{name}_ns"]) * 1e-9 / count for name in ("wall", "cpu", "blocked", "system")}
    return {
        **clocks,
        **{name: sum(reply[name]) / count for name in ("faults", "voluntary", "involuntary")},
        "foreign": reply["foreign"],
        "canary": reply["canary"],
        "peak": reply["peak_bytes"],
        "steps": count,
        **({"device": sum(reply["device_ns"]) * 1e-9 / count} if reply.get("device_ns") else {}),
        **({"device_peak": reply["device_peak_bytes"]} if reply.get("device_peak_bytes") else {}),
    }
