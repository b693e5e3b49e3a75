"""Answers of micro/memory.py about page faults, idle pages and heaps, in sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kernels.faults import Cost
from kernels.ops.pages.accounting import Account, Profile
from micro.answers.page_costs import faults, timed
from micro.findings.select import Band, interval, pairs, verdict
from micro.planning.contest import LONG
from reports import record, stats, units
from reports.record import Run

ROW_SIZE = 128 << 20  # bytes of the copy into new memory of which the band is
DEAR, LARGE = (
    5,
    2.0,
)  # DEAR: times the lower quartile without a pause; LARGE: an interval's end beyond it bounds nothing
AGREE = 0.1  # of the cost of a fault
NAMES = {4096: "4 KiB", 2 << 20: "2 MiB"}


FRESH = Band("Copying 128 MiB into new memory over into touched memory, 4 KiB pages", 3.0, usual="7 to 8")
TOUCH = Band("First touch of a page of 4 KiB, in µs", 0.1, 3.0)


def _cost(cost: Cost) -> str:
    """Format a cost with its ends in the unit of the center: `1.52 µs [1.49, 1.55]`."""
    middle = units.seconds(cost.seconds)
    if cost.low is None or cost.high is None or not cost.seconds:
        return f"{middle} [unbounded]"
    scale = float(middle.partition(" ")[0]) / cost.seconds
    return f"{middle} [{scale * cost.low:.3g}, {scale * cost.high:.3g}]"


def _missed(contest: record.Contest) -> str:
    """Return why a contest has no cost: skipped, or launches too short or long to prepare one by one."""
    reasons = [x.reason for x in contest.results if x.role == "measured" and x.reason]
    return reasons[0] if reasons else "its launches are too short or too long to be made ready for one by one"


def faults_answer(run: Run, account: Account | None = None, profiled: Profile | str = "") -> list[str]:
    """Report costs per page, cross-checks by getrusage and perf, and copies into new memory."""
    costs, sentences = faults(run), []
    for page, cost in costs.fault.items() if costs else ():
        back = costs.unmap.get(page) if costs else None
        more = f"; mapping and unmapping it {_cost(back)}" if back else ""
        sentences.append(f"The first touch of a page of {NAMES[page]} costs {_cost(cost)}{more}.")
    for contest in run.contests:
        page = int(contest.contest.split("/")[1].partition(":")[2]) if contest.contest.startswith("fault/") else 0
        if page and not (costs and page in costs.fault):
            sentences.append(f"The cost of a page of {NAMES[page]} is not known: {_missed(contest)}.")
    if costs and 4096 in costs.fault:
        if account:
            sentences += _agreement(costs.fault[4096], account, profiled)
        sentences.append(TOUCH.say(1e6 * costs.fault[4096].seconds, _cost(costs.fault[4096])))
    if costs and len(costs.fault) == 2:
        small, huge = (costs.fault[page].seconds for page in sorted(costs.fault))
        sentences.append(
            f"For the same bytes huge pages cost {huge / (512 * small):.2g} times the small ones, while the memory "
            "is the guest's own (--idle: what it costs when the host took it back)."
        )
    return [*sentences, *_fresh(run)]


def _agreement(cost: Cost, account: Account, profiled: Profile | str) -> Iterator[str]:
    """Compare the cost by the clock with system time per fault and perf samples per fault."""
    checks = [f"the system's own time over its faults (getrusage) {_beside(account.each, cost.seconds, 'it')}"]
    if isinstance(profiled, Profile):
        seen = _beside(profiled.each, profiled.system, "the system time of the process it watched")
        checks.append(f"perf's samples within a fault {seen}, which perf slows down")
    yield f"Beside it: {'; '.join(checks)}."
    if isinstance(profiled, str) and profiled:
        yield f"No profiler's share beside it: {profiled}."
    if abs(account.each / cost.seconds - 1) > AGREE:
        user = sum(account.user) / sum(account.faults)
        yield (
            "Why they may differ: the cost is a difference, less what the write gains from the lines that the "
            f"system's clearing left in cache ({units.seconds(user)} of user time a page); system time is taken in "
            f"another second, of {sum(account.faults):.0f} faults, by a clock of a few ms."
        )


def _beside(seconds: float, other: float, whose: str) -> str:
    """Compare two times: `1.49 µs, 1.04 times it (agrees within 10 %)`."""
    times = seconds / other
    agree = (
        f"agrees within {100 * AGREE:g} %" if abs(times - 1) <= AGREE else f"does NOT agree within {100 * AGREE:g} %"
    )
    return f"{units.seconds(seconds)}, {times:.2f} times {whose} ({agree})"


def _fresh(run: Run) -> Iterator[str]:
    medians = {x.name: x.seconds.median for x in run.results if x.seconds}
    for _, comparison, *cases in pairs(run, "new/"):
        first, second = (case.problem for case in cases)
        if (first.memory, second.memory, second.page) != ("touched", "fresh", 4096):
            continue
        long = "" if medians[comparison.contender] <= LONG else ", with the unmapping of the copy before"
        shown = interval(comparison) + long
        if second.size == ROW_SIZE:
            assert comparison.ratio is not None
            yield FRESH.say(comparison.ratio, shown)
        else:
            yield f"Copying {units.binary(second.size)} into new memory takes {shown} times what touched memory takes."


def idle_answer(run: Run) -> list[str]:
    """Report by page size what a pause between freeing and reusing memory costs."""
    sentences, seen, often = [], [], []
    for contest in run.contests:
        if not contest.contest.startswith("idle/"):
            continue
        rows = [(case.problem, result) for case, result in timed(contest)]
        if not rows or not _paused(contest, rows):
            sentences.append(f"{contest.contest} is not known: {_missed(contest)}.")
            continue
        sentences.append(_idle(contest, rows))
        seen += [x for x in contest.comparisons if x.ratio is not None]
        often += _now_and_then(rows)
    if not seen:
        return sentences
    slow = [x.ratio for x in seen if x.verdict == "slower" and x.ratio]
    if slow:
        end = f"slower, up to {max(slow):.2g} times: the host takes free pages back"
    elif all(x.verdict in ("same", "faster") for x in seen):
        end = "no slower"
    elif often:
        end = f"slower now and then: {'; '.join(often)}"
    elif all(x.high is not None and x.high <= LARGE for x in seen):
        most = max(x.high or 0.0 for x in seen)
        end = f"not measurably slower: no difference larger than {most:.3g} times"
    else:
        end = (
            "unresolved: too few rounds, or other processes here take memory and give it "
            "back too (--budget 5m, on a quiet machine)"
        )
    return [*sentences, f"Memory that was idle is {end}."]


def _paused(contest: record.Contest, rows: list[tuple[Any, record.Result]]) -> bool:
    """Report whether a one-launch sample followed each pause: then measuring took at least as long."""
    pauses = sum(problem.pause for problem, _ in rows) * len(rows[0][1].samples)
    return contest.seconds.get("measuring", 0.0) >= pauses and all(x.launches == 1 for _, x in rows)


def _now_and_then(rows: list[tuple[Any, record.Result]]) -> list[str]:
    """Count dear touches after pauses, where they are certainly more frequent than without a pause.

    A host that reclaims only some pages has no single ratio."""
    (_, first), *rest = sorted(rows, key=lambda row: row[0].pause)
    usual = sorted(first.samples)[len(first.samples) // 4]
    counts = [
        (sum(x > DEAR * usual for x in result.samples), len(result.samples))
        for result in (first, *(x for _, x in rest))
    ]
    highest = stats.wilson(*counts[0])[1]
    return [
        f"{hits} of {count} touches after {problem.pause:g} s took over {DEAR} times the usual, "
        f"{counts[0][0]} of {counts[0][1]} without a pause"
        for (problem, _), (hits, count) in zip(rest, counts[1:], strict=True)
        if stats.wilson(hits, count)[0] > highest
    ]


def _idle(contest: record.Contest, rows: list[tuple[Any, record.Result]]) -> str:
    """Format median and worst cost after each pause; a host reclaims pages at times of its choice."""
    ratios = {x.contender: x for x in contest.comparisons if x.ratio is not None}
    costs = []
    for problem, result in sorted(rows, key=lambda row: row[0].pause):
        more = f", {interval(ratios[result.name])} times" if result.name in ratios else ""
        median, worst = (x / problem.pages for x in (result.seconds.median, max(result.samples)))  # type: ignore[union-attr]
        costs.append(f"{units.seconds(median)} after {problem.pause:g} s (worst {units.seconds(worst)}{more})")
    page, count = NAMES[rows[0][0].page], len(rows[0][1].samples)
    return f"A page of {page}, given back and touched again, costs {', '.join(costs)}; {count} samples of each."


def allocator_answer(run: Run) -> list[str]:
    """Compare heap policies, page sizes, and malloc with mmap."""
    sentences = []
    for _, comparison, *cases in pairs(run, "heap/"):
        first, second = (case.problem for case in cases)
        size = units.binary(second.size)
        if first.memory != second.memory and second.what == "clear":
            sentences.append(
                f"A heap that keeps its memory: {size} of {NAMES[second.page]} pages from malloc, written once and "
                f"freed, take {interval(comparison)} times what they take from the default heap, which maps them "
                f"afresh ({verdict(comparison)})."
            )
        elif first.page != second.page:
            heap = "default" if second.memory == "default" else "keeping"
            sentences.append(
                f"Huge pages in the {heap} heap: {interval(comparison)} times the small ones ({verdict(comparison)})."
            )
        elif second.what == "map":
            sentences.append(f"malloc and free of {size} untouched: {interval(comparison)} times mmap and munmap.")
    return sentences
