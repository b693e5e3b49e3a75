"""Remarks on other work on the machine during a run, and on its effect on times by each clock."""

from __future__ import annotations

import statistics

from reports.record import Run

BUSY = 0.2  # share of a case's rounds that lost time (median of all cases) above which it is reported
OTHERS = 0.05  # cores used by other programs, above which they are reported
TAKEN, HEAVY = 0.05, 0.3  # share of a watched script's processor time above which it is reported, its step unreliable


def sentence(run: Run) -> str | None:
    """Return the remark on other work on the machine and its effect on times; None if it was little."""
    timed = [(x.lost, x) for x in run.measured if x.lost is not None]
    timed = [(lost, x) for lost, x in timed if x.clock in ("cpu", "wall")]
    share = statistics.median([lost for lost, _ in timed]) if timed else 0.0
    if share <= BUSY:
        return None
    parts = [
        f"This machine was busy: other processes took over 1 % of the time in {share:.0%} of a case's rounds (median)."
    ]
    if any(x.clock == "cpu" for _, x in timed):
        parts.append("With processor time (clock cpu) these rounds count, as it excludes other processes.")
    counts = {x.contest: (len(x.rejected), len(x.rounds)) for _, x in timed if x.clock == "wall" and x.rejected}
    if counts:
        rejected, rounds = (sum(x) for x in zip(*counts.values(), strict=True))
        parts.append(f"With wall time they are rejected, {rejected} of {rounds}, and enter no ratio.")
    if any(x.clock == "wall" and lost and not x.rejected for lost, x in timed):
        parts.append("With several threads, or long visits in wall time, they count, including the time lost.")
    return " ".join(parts)


def pair_sentence(share: float, threads: int) -> str | None:
    """Return the remark on processor time taken from a watched pair of scripts, and the remedy; None if little."""
    if share <= TAKEN:
        return None
    barriers = f"Each barrier of {threads} threads waits for the slowest: " if threads > 1 else ""
    remedy = "use --threads 1, or a quiet machine." if threads > 1 else "Use a quiet machine."
    return (
        f"This machine was busy: other processes took {share:.0%} of the processor time available to the scripts "
        f"while their difference was explained. {barriers}{remedy}"
    )
