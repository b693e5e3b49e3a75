"""Other programs beside a watched script: whether they disturb its step, and what is withheld then."""

from __future__ import annotations

import math

from reports import busy
from reports.explanation import Breakdown


def disturbs(breakdown: Breakdown) -> bool:
    """Return whether other programs left a watched script too little of the cores for verdicts on its time."""
    if (breakdown.busy or 0.0) > busy.TAKEN:
        return True
    if breakdown.company is None or breakdown.company <= busy.OTHERS:
        return False
    cores = (breakdown.program.get("settings") or {}).get("cores") or math.inf
    threads = min(breakdown.threads, cores)
    return bool(breakdown.company - (cores - threads) > busy.OTHERS * threads)


def sentences(breakdown: Breakdown) -> list[str]:
    """Return the remark on other programs beside a watched script, and what is withheld; empty if they were few."""
    if not disturbs(breakdown):
        return []
    share, company, threads = breakdown.busy or 0.0, breakdown.company, breakdown.threads
    used = f"used {company:.2f} cores and " if company is not None else ""
    barriers = f" Each barrier of its {threads} threads waits for the slowest: --threads 1 suffers less." * (
        threads > 1
    )
    return [
        f"This machine was busy: other programs {used}took {share:.0%} of the processor time available to this script."
        f"{barriers} Advice and trials are withheld: run the command again when the others have ended."
    ]
