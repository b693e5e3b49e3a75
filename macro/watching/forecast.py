"""Forecasts of how long a command that watches scripts takes."""

from __future__ import annotations

from macro.timing.entry import FEWEST

START = 15.0  # seconds until a script has taken its first steps and its memory is settled
INSIDE = 6.0  # seconds of reading the last samples, operations by themselves and the script's end
CEILINGS = 10.0  # seconds of measuring them and of taking steps apart
ROUND = 3.0  # blocks of a round, with those that a third of the rounds has


def explaining(scripts: int, runs: int, seconds: float) -> str:
    """Forecast of `macro explain`: `seconds` of watching in each of `runs`."""
    starts, after = START * scripts * runs, INSIDE * scripts * runs + CEILINGS
    return _total(
        seconds * runs,
        "watching",
        f"{starts:.0f} s until memory is settled, {after:.0f} s for operations by themselves and ceilings",
        starts + after,
    )


def changing(processes: int, seconds: float) -> str:
    """Forecast of a command that changes a script; as many `processes` start one after another."""
    starts = START * processes + INSIDE
    return _total(seconds, "measuring", f"{starts:.0f} s until memory is settled", starts)


def _total(seconds: float, what: str, beside: str, more: float) -> str:
    return f"about {seconds + more:.0f} s in all: {seconds:.0f} s of {what}, {beside}"


def settled(took: float, scripts: int, seconds: float, block: float) -> str:
    """Forecast once memory is settled; `block`: seconds of a block of each script, of long steps more than asked."""
    rest = max(seconds, FEWEST * ROUND * block) + INSIDE * scripts
    return f"memory is settled after {took:.0f} s: watching takes about {rest:.0f} s more"
