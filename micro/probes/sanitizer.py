"""NVIDIA's compute-sanitizer over our own kernels at small odd sizes, a process for each of its tools."""

from __future__ import annotations

import re
import time
from collections import Counter
from functools import partial
from typing import Any

from kernels.errors import Unavailable
from micro.probing import own_kernels, processes, tools
from micro.probing.facts import Facts, need

QUESTION = "Do our own kernels access memory out of bounds, race, read uninitialized memory or miss a barrier?"
LIMIT = 160.0
PART = 3
RANK = 60
SHARE = 0.9  # of the limit, for all four
TRIAL, FIRST = 10.0, "transpose_tiled"  # whether it works here at all is seen on one kernel
TOOLS: dict[str, tuple[str, ...]] = {
    "memcheck": ("--padding", "512", "--report-api-errors", "no"),
    "racecheck": (),
    "initcheck": (),
    "synccheck": (),
}
SETTINGS = (
    "--target-processes",
    "application-only",
    "--launch-timeout",
    "60",
    "--show-backtrace",
    "no",
    "--print-limit",
    "20000",
    "--destroy-on-device-error",
    "kernel",
)
TOLD = re.compile(r"^=========(.*)$", re.MULTILINE)
SUMMARY = re.compile(r"SUMMARY: (\d+)")
FRAME = re.compile("COMPUTE-SANITIZER|SUMMARY:|Target application returned an error|Process ID|^$")


def ask() -> dict[str, Any]:
    need("cupy")
    facts, over = Facts(), time.monotonic() + SHARE * LIMIT
    path = tools.find("compute-sanitizer")
    facts.ask("version", partial(tools.version, path))
    facts.ask("compiled", lambda: own_kernels.compiled(tools.architecture()))
    tried = tools.run(command(path, "memcheck"), "small", [FIRST], TRIAL)
    facts.note("trial", tried.end)
    if reason := refusal(tried):
        raise Unavailable(f"compute-sanitizer does not work here: {reason}")
    for number, tool in enumerate(TOOLS):
        seconds = (over - time.monotonic()) / (len(TOOLS) - number)
        facts.ask(tool, partial(findings_of, path, tool, seconds))
    return facts.found


def command(path: str, tool: str) -> list[str]:
    return [path, "--tool", tool, *SETTINGS, *TOOLS[tool]]


def refusal(ran: tools.Ran) -> str | None:
    """Why the tool does nothing here: what it says of it, and how its program failed. A tool that saw no kernel and
    no error found nothing."""
    if ran.names() and SUMMARY.search(ran.words):
        return None
    messages = [title for title, _ in blocks(ran.words)] or [processes.last(ran.words)]
    return "; ".join([messages[0], *ran.faults().values(), ran.end])[:400]


def findings_of(path: str, tool: str, seconds: float) -> dict[str, Any]:
    return findings(tools.run(command(path, tool), "small", (), seconds))


def findings(ran: tools.Ran) -> dict[str, Any]:
    """Errors of each kernel that was launched; those of kernels that are not ours, as a copy's, are elsewhere.
    `summary` counts errors that were not printed, too."""
    names = [own.kernel for own in own_kernels.SMALL]
    errors: Counter[str] = Counter()
    first: dict[str, str] = {}
    for title, text in blocks(ran.words):
        kernel = next((name for name in names if re.search(rf"\b{name}\b", text)), "elsewhere")
        errors[kernel] += 1
        first.setdefault(kernel, f"{title}: {text}"[:300])
    wrong = [x["kernel"] for x in ran.kernels if x.get("right") is False]
    return {
        "launched": f"{len(ran.kernels)} of {len(names)}",
        "errors": {name: errors[name] for name in (*ran.names(), *errors)},
        "summary": [line.strip() for line in TOLD.findall(ran.words) if "SUMMARY:" in line],
        **({"first": first} if first else {}),
        **({"wrong": wrong} if wrong else {}),
        **({"failed": ran.faults()} if ran.faults() else {}),
        "end": ran.end,
    }


def blocks(words: str) -> list[tuple[str, str]]:
    """What the tool reports: titles, and all that it says under each."""
    sections: list[tuple[str, list[str]]] = []
    for line in TOLD.findall(words):
        if FRAME.search(line.strip()):
            continue
        if not line.startswith("  "):
            sections.append((line.strip(), [line.strip()]))
        elif sections:
            sections[-1][1].append(line.strip())
    return [(title, " ".join(lines)) for title, lines in sections]
