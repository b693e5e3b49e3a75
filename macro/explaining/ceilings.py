"""What this machine can do at best with a program's threads: multiply-adds, and traffic past its caches."""

from __future__ import annotations

from macro.explaining.breakdown import Ceilings
from macro.timing.peak import UNIT, Peak

LOOKS = 3
PRODUCT = 5e-3  # seconds of a burst
BUDGET = "2s"
TIMES = 4  # as large as the last-level cache that is of use


def measured(threads: int) -> Ceilings:
    """A few seconds, with nothing else at work."""
    from kernels.devices import open_device

    peak = Peak(threads)
    looks = [took for _ in range(LOOKS) if (took := peak.look(PRODUCT))]
    cache = open_device("cpu").limits().usable_cache
    return Ceilings(UNIT / min(looks) if looks else None, _traffic(peak.threads, TIMES * cache), cache)


def _traffic(threads: int, size: int) -> float | None:
    """Bytes a second of a triad, the fastest that is here."""
    import micro
    from kernels.errors import SuiteError

    try:
        plan = micro.plan(
            "stream", kind="triad", size=min(max(size, 64 << 20), 256 << 20), threads=threads, budget=BUDGET
        )
        run = micro.measure(plan)
    except SuiteError:
        return None
    rates = [r.bytes_per_second for r in run.results if r.role == "measured" and r.bytes_per_second]
    return max(rates, default=None)
