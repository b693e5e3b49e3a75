"""Text report of a published table: times measured here beside the published figures."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence

from macro import networks
from macro.networks.layer import PHASES
from macro.tables import Line, Table
from macro.timing import answer, ratios
from reports import steps, units
from reports.attribution import aligned
from reports.figures.steps import FLOOR
from reports.record import Result, Run

BASE = "pytorch"  # baseline of ratios
NOT_ASKED = "–"
TAKEN = 3  # number of last columns: samples/s, share of the peak, memory


def text(table: Table, run: Run, cores: int) -> str:
    """Format a block for each network and batch of the table with results in the run."""
    measured = [x for x in run.results if x.op == "step" and x.role == "measured"]
    blocks = [
        f"{table.source}, measured again. Published on: {table.hardware}; {', '.join(table.devices)}; {table.figures}. "
        f"Not included: {table.without}."
    ]
    for line in table.lines:
        results = [x for x in measured if x.problem["network"] == networks.find(line.network).name]
        for batch in sorted({int(str(x.problem["batch"])) for x in results}):
            blocks.append(
                "\n".join(_line(table, line, batch, [x for x in results if x.problem["batch"] == batch], cores))
            )
    return "\n\n".join(blocks)


def _line(table: Table, line: Line, batch: int, results: Sequence[Result], cores: int) -> Iterator[str]:
    net = networks.find(line.network)
    flops = units.scaled(net.flops(batch), "FLOP")
    yield f"{line.name}, batch {batch}: {net.parameters:,} parameters, {flops} a step; seconds of a step"
    threads = sorted({x.threads for x in results})
    variants = list(dict.fromkeys(x.variant for x in results))
    by_cell = {(x.variant, x.threads, str(x.problem["phase"])): x for x in results}
    reasons: dict[str, list[str]] = {}
    thirds = set[str]()
    rows = [_row(variant, threads, by_cell, results, reasons, thirds) for variant in variants]
    head = ["framework", *(word for count in threads for word in (_counted(count), f"over {BASE}"))]
    head += [f"{phase}, {_counted(count)}" for phase in PHASES[:2] for count in threads]
    yield from aligned([*head, "samples/s", "of peak", "memory"], rows, left=1)
    if len(threads) > 1:
        yield f"Samples a second, share of the peak and memory: on {_counted(threads[-1])}."
    if any(NOT_ASKED in row[:-TAKEN] for row in rows):
        yield f"{NOT_ASKED}: not requested; forward and gradient are timed separately for {', '.join(table.passes)}"
    if thirds:
        between = ",".join(sorted(thirds))
        yield f"*: not in memory with {BASE} at once: ratio{between}, with the errors of both ratios"
    yield from _below(line, batch, results)
    yield from steps.proofs([x for x in results if x.seconds])
    for reason, who in reasons.items():
        yield f"Empty, {', '.join(who)}: {reason}"
    yield from _not_here(table, threads, cores)
    yield from _then(
        table, line, batch, [by_cell[x, threads[-1], "step"] for x in variants if (x, threads[-1], "step") in by_cell]
    )


def _below(line: Line, batch: int, results: Sequence[Result]) -> Iterator[str]:
    """Yield frameworks faster than the suite's kernels, with ratios and the command that explains them."""
    timed = [x for x in results if x.seconds and x.problem["phase"] == "step"]
    for least in (x for x in timed if x.variant == FLOOR):
        compared = [(answer.over(x, least, timed), x) for x in timed if x.threads == least.threads and x is not least]
        faster = sorted([(ratio, sure, x) for (ratio, sure), x in compared if ratio < 1], key=lambda row: row[0])
        if faster:
            listed = ", ".join(
                f"{x.variant} {ratio:.2f}{'' if sure else ' (may be chance)'}" for ratio, sure, x in faster
            )
            first = faster[0][2]
            asked = f"{FLOOR} {shlex.quote(first.variant)} --batch {batch} --threads {least.threads}"
            why = f"python -m macro explain {line.network} {asked}"
            yield f"Below {FLOOR}, {_counted(least.threads)}: {listed} times it{answer.apart(first, least)}. Why: {why}"


def _counted(threads: int) -> str:
    return units.counted(threads, "thread")


def _row(
    variant: str,
    threads: Sequence[int],
    by_cell: Mapping[tuple[str, int, str], Result],
    results: Sequence[Result],
    reasons: dict[str, list[str]],
    thirds: set[str],
) -> list[str]:
    """Return a framework's cells; add reasons of empty cells to `reasons`, links of ratios to `thirds`."""
    cells = [variant]
    for count in threads:
        cells += _step(variant, count, by_cell, results, reasons, thirds)
    for phase in PHASES[:2]:
        cells += [_time(by_cell.get((variant, count, phase)), reasons) for count in threads]
    last = by_cell.get((variant, threads[-1], "step"))
    if last is None or last.seconds is None:
        return [*cells, *[last.status if last else NOT_ASKED] * 3]
    return [*cells, *steps.taken(last)]


def _step(
    variant: str,
    threads: int,
    by_cell: Mapping[tuple[str, int, str], Result],
    results: Sequence[Result],
    reasons: dict[str, list[str]],
    thirds: set[str],
) -> list[str]:
    """Return the cells with a step's time and its ratio to PyTorch's."""
    cell, base = by_cell.get((variant, threads, "step")), by_cell.get((BASE, threads, "step"))
    if cell is None:
        return [NOT_ASKED, NOT_ASKED]
    if cell.seconds is None:
        return [_time(cell, reasons), cell.status]
    if base is None or base is cell or base.seconds is None:
        return [_time(cell, reasons), "1" if base is cell else NOT_ASKED if base is None else f"{BASE} {base.status}"]
    ratio, through = ratios.over(cell, base, [x for x in results if x.seconds])
    if ratio is None:
        return [_time(cell, reasons), f"{cell.seconds.median / base.seconds.median:.2f}"]
    thirds |= {through} - {""}
    return [_time(cell, reasons), units.ratio(ratio.center, ratio.low, ratio.high) + "*" * bool(through)]


def _time(cell: Result | None, reasons: dict[str, list[str]]) -> str:
    """Return a cell's time, or its status; add the reason of a missing time to `reasons`."""
    if cell is None:
        return NOT_ASKED
    if cell.seconds is not None:
        return f"{cell.seconds.median:.3g}"
    who = reasons.setdefault(cell.reason or cell.status, [])
    who += [cell.variant] * (cell.variant not in who)
    return cell.status


def _not_here(table: Table, threads: Sequence[int], cores: int) -> Iterator[str]:
    """Yield the published columns that are not measured here, with reasons."""
    more = [count for count in table.threads if count > cores]
    few = [count for count in table.threads if count <= cores and count not in threads]
    if more:
        yield f"Empty, {', '.join(map(str, more))} threads: this process may use {units.counted(cores, 'core')}"
    if few:
        yield f"Empty, {', '.join(map(str, few))} threads: not requested"
    yield f"Empty, {', '.join(table.devices)}: this table is measured on CPUs only"


def _then(table: Table, line: Line, batch: int, timed: Sequence[Result]) -> Iterator[str]:
    """Yield the published ranking and figures, and today's ranking of the same tools."""
    of = "" if batch == line.batch else f", at batch {line.batch}"
    yield f"Published, fastest first{of}: {line.order}"
    now = sorted((x for x in timed if x.variant in table.rows and x.seconds), key=lambda x: x.seconds.median)  # type: ignore[union-attr]
    if now:
        yield f"Now, same tools: {' > '.join(table.rows[x.variant] for x in now)} (medians; {_counted(now[0].threads)})"
    for seen in line.seen if batch == line.batch else ():
        figures = ", ".join(f"{tool} {seconds:g}" for tool, seconds in seen.seconds.items())
        yield f"Published seconds: {figures} ({seen.where}; {seen.source})"
    yield from (f"Not comparable: {why}" for why in line.unlike)
