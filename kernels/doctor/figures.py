"""Figures that this user has measured, ceilings and self-test, each as one line with its age."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from kernels import ceilings, devices, state
from kernels.doctor import facts
from kernels.textfile import read


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


def peaks(now: datetime) -> dict[str, str]:
    """Return the measured peaks of the CPU and of each other device, by name; no scripted or removed kinds."""
    real = {kind for kind in devices.kinds() if not devices.kind_of(kind).scripted}
    names = [ceilings.CPU, *(name for name in ceilings.others() if name.partition(":")[0] in real)]
    return {name: text for name in names if (text := _peaks(name, now))}


def _peaks(device: str, now: datetime) -> str | None:
    """Return peak FLOP/s by instruction set, on a GPU by type and unit, and the rate of memory."""
    try:
        record = ceilings.load(device)
        if record is None:
            return None
        unit, prefix = (1e12, "T") if max(record.flops.values(), default=0) >= 1e13 else (1e9, "G")
        flops = ", ".join(f"{isa} {rate / unit:.0f}" for isa, rate in record.flops.items())
        read = record.bandwidth.get("read")
        memory = f"memory {read[max(read)] / 1e9:.0f} GB/s" if read else ""
        text = "; ".join(filter(None, (f"{flops} {prefix}FLOP/s" if flops else "", memory)))
        return f"{age(record.measured, now)}: {text}"
    except (TypeError, ValueError, AttributeError):
        return None  # a file of another shape is as good as none


def selftest(now: datetime) -> str | None:
    """Return the age and the promises of this installation's last self-test, or None."""
    machine = facts.machine(facts.facts([devices.open_device(ceilings.CPU)]))
    try:
        record = json.loads(read(state.folder() / "selftest" / f"{machine}.json") or "")
        promised = [figure for figure in record["figures"] if figure["promised"]]
        broken = [x for x in promised if not x["held"]]
        failed = [str(x["name"]) for x in broken if not x.get("busy")]
        when = age(record["started"], now)
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
    busy = f", {len(broken) - len(failed)} not judged" if len(broken) > len(failed) else ""
    not_held = f"; NOT HELD: {', '.join(failed)}" if failed else ""
    return f"{when}: {len(promised) - len(broken)} of {len(promised)} promises held{busy}{not_held}"
