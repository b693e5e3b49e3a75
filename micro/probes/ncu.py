"""Nsight Compute's count of the bytes that our own kernels move to and from memory, against what they must move.

Caches are emptied before each kernel, which is its default. What a kernel leaves in the second-level cache, it has
not written to memory yet: of a copy up to that cache's size is missing from what is written.
"""

from __future__ import annotations

import csv
import math
import re
import time
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

from kernels.errors import LaunchError, Unavailable
from micro.probing import own_kernels, processes, tools
from micro.probing.facts import Facts, need

QUESTION = "Do our own kernels move the bytes that their problems count, by Nsight Compute?"
LIMIT = 120.0
PART = 3
RANK = 70
SHARE, TOGETHER = 0.9, 0.6  # of the limit; of what is left of it, for all kernels in one process
TRIAL = 10.0
READ, WRITTEN, DURATION = "dram__bytes_read.sum", "dram__bytes_write.sum", "gpu__time_duration.sum"
UNITS = {
    "byte": 1.0,
    "Kbyte": 1e3,
    "Mbyte": 1e6,
    "Gbyte": 1e9,
    "nsecond": 1e-9,
    "ns": 1e-9,
    "usecond": 1e-6,
    "us": 1e-6,
    "msecond": 1e-3,
    "ms": 1e-3,
    "second": 1.0,
    "s": 1.0,
}
REFUSED = re.compile(r"==ERROR==.*|Failed to .*|.*\bERR_\w+.*|==WARNING== No kernels were profiled.*")


def ask() -> dict[str, Any]:
    need("cupy")
    facts, over = Facts(), time.monotonic() + SHARE * LIMIT
    path, names = tools.find("ncu"), [own.kernel for own in own_kernels.LARGE]
    facts.ask("version", partial(tools.version, path))
    facts.ask("compiled", lambda: own_kernels.compiled(tools.architecture()))
    tried = tools.run(command(path, names[-1:]), "small", names[-1:], TRIAL)
    facts.note("trial", tried.end)
    if not rows(tried.words):
        raise Unavailable(f"ncu does not work here: {refusal(tried)}")
    together = tools.run(command(path, names), "large", names, TOGETHER * (over - time.monotonic()))
    counted = rows(together.words)
    for own in own_kernels.LARGE:
        if own.kernel in counted:
            facts.note(own.kernel, told(counted[own.kernel], own.problem.bytes))
        else:  # what failed together may be counted alone
            facts.ask(own.kernel, partial(alone, path, own, over - time.monotonic()))
    return facts.found


def command(path: str, names: Sequence[str]) -> list[str]:
    metrics = ",".join((READ, WRITTEN, DURATION))
    return [
        path,
        "--csv",
        "--page",
        "raw",
        "--print-units",
        "base",
        "--metrics",
        metrics,
        "--clock-control",
        "none",
        "--kernel-name",
        f"regex:^({'|'.join(names)})$",
    ]


def alone(path: str, own: own_kernels.Own, seconds: float) -> dict[str, Any]:
    """One kernel in a process of its own. Raises LaunchError with why it has no count."""
    if seconds < 1:
        raise LaunchError("no time left")
    ran = tools.run(command(path, [own.kernel]), "large", [own.kernel], seconds)
    counted = rows(ran.words)
    if own.kernel not in counted:
        raise LaunchError(refusal(ran))
    return told(counted[own.kernel], own.problem.bytes)


def refusal(ran: tools.Ran) -> str:
    """What the tool says of it, and how its program failed."""
    messages = REFUSED.findall(ran.words) or [processes.last(ran.words)]
    return "; ".join([messages[0].strip(), *ran.faults().values(), ran.end])[:400]


def told(count: dict[str, float], nbytes: float) -> dict[str, Any]:
    """Of all launches of a kernel; a read has two, as the second sums what the blocks of the first left."""
    moved = count[READ] + count[WRITTEN]
    return {
        "launches": int(count["launches"]),
        "read": count[READ],
        "written": count[WRITTEN],
        "nominal": nbytes,
        "measured over nominal": round(moved / nbytes, 4),
        "us": round(count[DURATION] * 1e6, 3),
        "nominal GB/s": round(nbytes / count[DURATION] / 1e9, 1) if count[DURATION] else math.nan,
    }


def rows(words: str) -> dict[str, dict[str, float]]:
    """The table in what it said: bytes and seconds of each kernel by name, summed over its launches."""
    lines = csv.reader(line for line in words.splitlines() if line.startswith('"'))
    header: list[str] = []
    scale: dict[str, float] = {}
    by_name: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for line in lines:
        if "Kernel Name" in line:
            header = line
        elif header and len(line) == len(header):
            row = dict(zip(header, line, strict=True))
            if not row["ID"]:  # the line of units
                scale = {name: UNITS.get(unit, math.nan) for name, unit in row.items()}
                continue
            kernel = by_name[row["Kernel Name"].partition("(")[0]]
            kernel["launches"] += 1
            for name in (READ, WRITTEN, DURATION):
                kernel[name] += number(row.get(name, "")) * scale.get(name, math.nan)
    return by_name


def number(text: str) -> float:
    """With commas between thousands; NaN of what was not counted."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return math.nan
