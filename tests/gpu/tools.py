"""NVIDIA's compute-sanitizer and Nsight Compute around a process that launches the suite's kernels."""

from __future__ import annotations

import csv
import math
import os
import re
import shutil
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels import nvcc, suite
from kernels.errors import Unavailable
from tests.gpu import suite_kernels
from tests.gpu.session import processes

TOOLKIT = Path("/usr/local/cuda")
NSIGHT = Path("/opt/nvidia/nsight-compute")
SANITIZERS: dict[str, tuple[str, ...]] = {
    "memcheck": ("--padding", "512", "--report-api-errors", "no"),
    "racecheck": (),
    "initcheck": (),
    "synccheck": (),
}
HOW = (
    *("--target-processes", "application-only", "--launch-timeout", "60", "--show-backtrace", "no"),
    *("--print-limit", "20000", "--destroy-on-device-error", "kernel"),
)
REPORT = re.compile(r"^=========(.*)$", re.MULTILINE)
SUMMARY = re.compile(r"SUMMARY: (\d+)")
FRAME = re.compile("COMPUTE-SANITIZER|SUMMARY:|Target application returned an error|Process ID|^$")
REFUSED = re.compile(r"==ERROR==.*|Failed to .*|.*\bERR_\w+.*|==WARNING== No kernels were profiled.*")
READ, WRITTEN = "dram__bytes_read.sum", "dram__bytes_write.sum"
BYTES = {"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9}


@dataclass(frozen=True)
class Ran:
    """What a tool and its program wrote, how they ended, and the kernels that were launched until then."""

    words: str
    end: str
    kernels: list[dict[str, Any]]

    def faults(self) -> dict[str, str]:
        """Return the kernels that could not be launched, and those whose answer was wrong."""
        failed = {x["kernel"]: x["error"] for x in self.kernels if "error" in x}
        return failed | {x["kernel"]: "wrong" for x in self.kernels if x.get("right") is False}

    def refusal(self, messages: Sequence[str]) -> str:
        """Return why the tool did nothing here."""
        first = messages[0].strip() if messages else processes.last(self.words)
        return "; ".join([first, *self.faults().values(), self.end])[:400]


def find(name: str) -> str:
    """Find a tool on PATH, beside nvcc or where toolkits have it. Raise Unavailable where there is none."""
    for place in (name, *(str(folder / name) for folder in _folders())):
        if path := shutil.which(place):
            return path
    raise Unavailable(f"no {name}: it comes with the CUDA toolkit, {nvcc.REMEDY}")


def _folders() -> Iterator[Path]:
    if compiler := nvcc.find():
        yield compiler.resolve().parent
    yield TOOLKIT / "bin"
    yield TOOLKIT / "compute-sanitizer"
    yield from sorted(NSIGHT.glob("*"), reverse=True)


def run(command: Sequence[str], size: str, kernels: Sequence[str], seconds: float) -> Ran:
    """Run the tool on a process that launches kernels; neither outlives `seconds`, nor this process."""
    with tempfile.TemporaryDirectory() as folder:
        log, words = Path(folder) / "kernels", Path(folder) / "words"
        log.touch()
        program = suite.child("tests.gpu.suite_kernels", os.getpid(), log, size)
        with words.open("wb") as stream:
            process = processes.start([*command, *program, *kernels], stream)
            code = processes.outlast(process, seconds)
        end = f"no end within {seconds:.0f} s" if code is None else processes.end(code)
        return Ran(words.read_text("utf-8", "replace"), end, processes.lines(log))


def sanitize(path: str, tool: str, kernels: Sequence[str], seconds: float) -> Ran:
    """Run a tool of compute-sanitizer on small kernels."""
    return run([path, "--tool", tool, *HOW, *SANITIZERS[tool]], "small", kernels, seconds)


def sanitizer_refusal(ran: Ran) -> str | None:
    """Return why compute-sanitizer does not work here: a tool that saw no kernel found nothing."""
    if any("error" not in kernel for kernel in ran.kernels) and SUMMARY.search(ran.words):
        return None
    return ran.refusal([title for title, _ in blocks(ran.words)])


def errors(ran: Ran) -> Counter[str]:
    """Count what compute-sanitizer reports by kernel; what no kernel of the suite did is `elsewhere`."""
    names = [kernel.kernel for kernel in suite_kernels.SMALL]
    texts = (text for _, text in blocks(ran.words))
    return Counter(next((name for name in names if re.search(rf"\b{name}\b", x)), "elsewhere") for x in texts)


def blocks(words: str) -> list[tuple[str, str]]:
    """Return the titles of compute-sanitizer's reports, and all that stands under each."""
    sections: list[tuple[str, list[str]]] = []
    for line in REPORT.findall(words):
        if FRAME.search(line.strip()):
            continue
        if not line.startswith("  "):
            sections.append((line.strip(), [line.strip()]))
        elif sections:
            sections[-1][1].append(line.strip())
    return [(title, " ".join(lines)) for title, lines in sections]


def count_bytes(path: str, size: str, kernels: Sequence[str], seconds: float) -> Ran:
    """Run Nsight Compute on kernels. It empties the caches before each of them.

    What a kernel leaves in the second-level cache it has not written to memory yet: of a copy up to that cache's size
    is missing from what is written.
    """
    what = ["--csv", "--page", "raw", "--print-units", "base", "--metrics", f"{READ},{WRITTEN}"]
    which = ["--clock-control", "none", "--kernel-name", f"regex:^({'|'.join(kernels)})$"]
    return run([path, *what, *which], size, kernels, seconds)


def profiler_refusal(ran: Ran) -> str | None:
    """Return why Nsight Compute does not work here."""
    return None if moved(ran.words) else ran.refusal(REFUSED.findall(ran.words))


def moved(words: str) -> dict[str, float]:
    """Return the bytes to and from memory by kernel, over all its launches, from Nsight Compute's table."""
    header: list[str] = []
    scale: dict[str, float] = {}
    by_name: dict[str, float] = defaultdict(float)
    for line in csv.reader(line for line in words.splitlines() if line.startswith('"')):
        if "Kernel Name" in line:
            header = line
        elif header and len(line) == len(header):
            row = dict(zip(header, line, strict=True))
            if not row["ID"]:  # the line of units
                scale = {name: BYTES.get(unit, math.nan) for name, unit in row.items()}
                continue
            kernel = row["Kernel Name"].partition("(")[0]
            by_name[kernel] += sum(_number(row.get(x, "")) * scale.get(x, math.nan) for x in (READ, WRITTEN))
    return dict(by_name)


def _number(text: str) -> float:
    """Return a number with commas between thousands; NaN of what was not counted."""
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return math.nan
