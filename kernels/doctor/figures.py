"""Figures that this user has measured, ceilings and self-test, with their age."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from kernels import ceilings, devices, state
from kernels.doctor import facts
from kernels.textfile import read


@dataclass(frozen=True, slots=True)
class Peaks:
    """Peak rates by instruction set, on a GPU by type and unit, and by kind of memory traffic."""

    measured: str
    age: str
    flops: dict[str, float]  # FLOP/s
    bandwidth: dict[str, dict[int, float]]  # bytes/s, then by working set in bytes


@dataclass(frozen=True, slots=True)
class Selftest:
    """The last self-test."""

    age: str
    promised: int
    held: int
    failed: tuple[str, ...]  # promises not held


def age(then: str, now: datetime) -> str:
    """Return a time's age, rounded down, as "3 days ago"."""
    try:
        moment = datetime.fromisoformat(then)
    except (TypeError, ValueError):
        return "age not known"
    seconds = (now - (moment if moment.tzinfo else moment.replace(tzinfo=UTC))).total_seconds()
    if seconds < -60:
        return "dated in the future"
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60)):
        count = int(seconds // length)
        if count > 0:
            return f"{count} {unit}{'s' * (count > 1)} ago"
    return "just now"


def peaks(now: datetime, device: str = ceilings.CPU) -> Peaks | None:
    try:
        record = ceilings.load(device)
        if record is None:
            return None
        flops = {isa: float(rate) for isa, rate in record.flops.items()}
        bandwidth = {
            kind: {size: float(rate) for size, rate in rates.items()} for kind, rates in record.bandwidth.items()
        }
        return Peaks(str(record.measured), age(record.measured, now), flops, bandwidth)
    except (TypeError, ValueError, AttributeError):
        return None  # a file of another shape is as good as none


def gpu_peaks(now: datetime) -> dict[str, Peaks]:
    """Return the peaks of each measured device other than the CPU, by name; no scripted or removed kinds."""
    real = {kind for kind in devices.kinds() if not devices.kind_of(kind).scripted}
    names = [name for name in ceilings.others() if name.partition(":")[0] in real]
    return {name: rates for name in names if (rates := peaks(now, name))}


def selftest(now: datetime) -> Selftest | None:
    """Return the last self-test of this installation, or None."""
    machine = facts.machine(facts.facts([devices.open_device(ceilings.CPU)]))
    try:
        record = json.loads(read(state.folder() / "selftest" / f"{machine}.json") or "")
        promised = [figure for figure in record["figures"] if figure["promised"]]
        held = sum(bool(figure["held"]) for figure in promised)
        failed = tuple(str(x["name"]) for x in promised if not x["held"] and not x.get("busy"))
        return Selftest(age(record["started"], now), len(promised), held, failed)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
