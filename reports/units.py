"""Formatting of numbers in base units, with prefixes."""

from __future__ import annotations

import math
from collections.abc import Sequence

LEAST = 1e-12  # a thousandth of the smallest prefix; smaller values are rounding errors of canceled sums


def scaled(value: float, unit: str, digits: int = 3) -> str:
    """Return a value with three figures and an SI prefix: `4.58 µs`, `118 GFLOP/s`."""
    if abs(value) < LEAST:
        return f"0 {unit}"
    if not math.isfinite(value):
        return f"{value:g} {unit}"
    value = float(f"{value:.{digits - 1}e}")  # rounded first: 999.9 µs is 1.00 ms
    step = max(-3, min(5, math.floor(math.log10(abs(value)) / 3 + 1e-9)))
    prefix = {-3: "n", -2: "µ", -1: "m", 0: "", 1: "k", 2: "M", 3: "G", 4: "T", 5: "P"}[step]
    number = value / 10.0 ** (3 * step)
    places = max(0, digits - 1 - math.floor(math.log10(abs(number))))
    return f"{number:.{places}f} {prefix}{unit}"


def seconds(value: float | None) -> str:
    """Return a time with three figures and a prefix, `4.58 µs`; a dash for None."""
    return "–" if value is None else scaled(value, "s")


def signed(value: float) -> str:
    """Return seconds with their sign."""
    return ("+" if value > -LEAST else "−") + seconds(abs(value))


def binary(value: float) -> str:
    """Return bytes with a binary prefix: `4 MiB`."""
    for prefix in ("", "Ki", "Mi", "Gi", "Ti"):
        if value < 1024 or prefix == "Ti":
            return f"{value:.0f} {prefix}B" if value >= 100 else f"{value:.3g} {prefix}B"
        value /= 1024
    raise AssertionError


def ratio(center: float | None, low: float | None, high: float | None) -> str:
    """Return `1.013 [1.009, 1.017]`, with as many places as the interval supports."""
    if center is None:
        return "–"
    if low is None or high is None:
        return f"{center:.3g}, no interval"
    if high > 10 * center or low < center / 10:
        return f"{center:.2g} [{low:.1g}, {high:.1g}]"  # so wide an interval supports one figure
    width = max(high - low, 1e-9)
    places = 4 if width < 0.002 else 3 if width < 0.05 else 2
    return f"{center:.{places}f} [{low:.{places}f}, {high:.{places}f}]"


def ends(low: float | None, high: float | None) -> str:
    """Return `1.009 to 1.017`, with as many places as the interval supports; a dash if it is unknown."""
    if low is None or high is None:
        return "–"
    return ratio(math.sqrt(low * high), low, high).partition("[")[2].rstrip("]").replace(", ", " to ")


def percent(value: float | None) -> str:
    """Return a percentage rounded to an integer, `46 %`; a dash for None."""
    return "–" if value is None else f"{value:.0f} %"


def first(names: Sequence[str], most: int) -> str:
    """Return the first of many names: `fc1, fc2 and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def counted(count: int, what: str) -> str:
    """Return a count with its noun: `1 contest`, `2 contests`."""
    return f"{count} {what}{'s' * (count != 1)}"
