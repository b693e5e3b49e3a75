"""Promises of the self-test on a machine, and their limits: data of `python -m micro.selftest`."""

from __future__ import annotations

from collections.abc import Mapping

NOT_DIFFERENT, SAME = "identical pairs not called different", "identical pairs called same"
FIVE, TWO = "+5 % called slower", "+2 % called slower"
HOLDS = "95 % intervals of identical pairs that hold 1"
RATES: tuple[Mapping[str, float], Mapping[str, float]] = (  # least share: quiet, and with a spinner on every core
    {NOT_DIFFERENT: 0.985, SAME: 0.90, FIVE: 0.90, TWO: 0.85, HOLDS: 0.92},
    {NOT_DIFFERENT: 0.985, SAME: 0.75, FIVE: 0.90, TWO: 0.75},
)
KERNEL = 0.90  # least share of intervals that hold 1 of the worst kernel, with --full
SECONDS = {"median": (0.25, 0.5), "worst": (2.0, 2.0)}  # of a pair: quiet, and with spinners
BIAS = {1: 0.005, 10: 0.001, 100: 0.001}  # of the loop, by microseconds of a launch
# Standard errors that lie beyond one of ten ratios: so many, and half of a verdict's interval, have to fit between the
# truth and the margin for nine of ten to be resolved.
NINE = 1.28
NOISY = 0.1  # share of the pilot's time that others took above which quiet figures are not judged


_TEXT = """\
Promised of this machine; each is a rate, which holds where its whole 95 % Wilson interval lies inside:
 1. a kernel against itself is called different in at most {alarms:g} % of contests;
 2. 5 % more work is called slower in at least {five:g} % of contests, 2 % more in {two:g} %;
 3. 95 % intervals hold a known ratio in at least {holds:g} % of contests, of the worst kernel in {kernel:g} % (--full);
 4. the next run lies where a report says that it will: of all pairs 93 to 98 %, of no pair certainly less (--full).
How: 1 to 3 by kernels whose truth is known, in short visits; 4 by kernels that differ, on every path that a contest
 can take, 20 runs each, in fresh processes and shuffled order (--full, an hour). Said before: what is too noisy.
Not promised: a ratio on another machine, a latency, a path that was not measured; nor that a malicious kernel is
 caught: it runs in the process that times it, and can patch the harness.
Exit code: 0 where all holds or is not judged, else 1. Later reports of this machine carry the figures."""
EXPLAINED = _TEXT.format(
    alarms=round(100 * (1 - RATES[0][NOT_DIFFERENT]), 6),
    five=100 * RATES[0][FIVE],
    two=100 * RATES[0][TWO],
    holds=100 * RATES[0][HOLDS],
    kernel=100 * KERNEL,
)
