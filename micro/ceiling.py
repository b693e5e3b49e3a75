"""Best rates of this processor: multiply-adds by instruction set, traffic by cache level (20 s).

With --device, those of a GPU: multiply-adds, tensor cores by type and instruction, traffic."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels import ceilings
from kernels.catalog import bounding
from kernels.devices import kind_of
from kernels.errors import UsageError
from kernels.ops.fma.fastest import peak_of
from kernels.ops.mma.problem import CORE
from kernels.ops.stream import Stream
from kernels.setting import Setting
from micro.command.line import guarded, listed
from micro.measuring import ceilings as case_ceilings
from micro.planning.contest import Budget, Case, Contest
from micro.planning.options import Outputs, Parser, outputs_of

if TYPE_CHECKING:
    from kernels.devices.base import Limits
    from kernels.devices.kind import Kind
    from kernels.problem import Problem
    from reports.record import Run

# Multiply-adds, equal for every instruction set: wider vectors and more chains take fewer steps, AVX-512 16,380.
NUMBERS = 2340 * 16 * 14 * 8
TEAM = 8  # times as many for several threads, since starting these takes a microsecond
BUDGET = Budget(seconds=10.0, target=0.02)
OPERATIONS = "work: differs (operations a second are compared)"


def contests(device: str, limits: Limits, threads: int = 1) -> list[Contest]:
    """Return the contests of peaks and of memory traffic.

    Peaks: a contest of instruction sets, and of coarse data types, or of a GPU's units. Traffic: a contest of read,
    copy and triad per memory level; with several threads, of reads alone."""
    setting, device_kind = Setting(threads, device=device), kind_of(device)
    _refuse(device_kind, device, limits, threads)
    plan = [_units(setting, device_kind, limits)] if device_kind.undivided else _of_cores(setting, device_kind, limits)
    plan = [contest for contest in plan if contest.cases]
    if "stream" not in device_kind.ceilings:
        return plan
    stream = bounding("stream", device_kind.kernels)
    traffic = (("read", 1), ("copy", 2), ("triad", 3))
    for working_set in levels(limits.caches, limits.usable_cache):
        cases = tuple(
            Case(Stream(kind, working_set // arrays // 64 * 64), stream, setting)
            for kind, arrays in (traffic if threads == 1 else traffic[:1])
        )
        name, question = f"bandwidth/{working_set}", f"how fast is traffic within {working_set} bytes?"
        plan.append(Contest(name, question, "work: differs (bytes a second are compared)", cases))
    return plan


def _refuse(kind: Kind, device: str, limits: Limits, threads: int) -> None:
    """Raise UsageError for a device without ceilings, or an unsupported number of threads."""
    if not kind.ceilings:
        raise UsageError(f"--device {device}: no ceiling kernel for this device")
    if threads > 1 and "threads" in kind.refuses:
        raise UsageError(f"--threads {threads}: not supported by {device}: {kind.refuses['threads']}")
    if not 1 <= threads <= limits.cores:
        raise UsageError(f"--threads {threads}: must be 1 to {limits.cores}, one thread per core")


def _of_cores(setting: Setting, kind: Kind, limits: Limits) -> list[Contest]:
    """Return the contests of FP32 multiply-adds by instruction set, and of products in coarse types."""
    threads = setting.threads
    fmas = [peak_of(isa) for isa in kind.isas()] if "fma" in kind.ceilings else []
    steps = NUMBERS * (1 if threads == 1 else TEAM)
    alike = [peak_of(x.isa, steps // (x.lanes * x.chains), threads) for x in fmas]
    coarse = [
        x for dtype in CORE if "mma" in kind.ceilings for x in case_ceilings.coarse_peaks(dtype, kind, limits, threads)
    ]
    return [
        Contest("peak", "how fast are multiply-adds?", "isa", _cases(alike, kind, setting)),
        Contest("coarse", "how fast are products of shorter types?", OPERATIONS, _cases(coarse, kind, setting)),
    ]


def _cases(problems: Sequence[Problem], kind: Kind, setting: Setting) -> tuple[Case, ...]:
    return tuple(Case(x, bounding(x.op, kind.kernels), setting) for x in problems)


def _units(setting: Setting, kind: Kind, limits: Limits) -> Contest:
    """Return the contest of a GPU's peaks: multiply-adds, and tensor cores by type and unit."""
    problems: list[Problem] = [case_ceilings.peak(kind, limits)] if "fma" in kind.ceilings else []
    for dtype in case_ceilings.COARSE if "mma" in kind.ceilings else ():
        problems += case_ceilings.tensor_peaks(dtype, limits)
    return Contest("peak", "how fast are products?", OPERATIONS, _cases(problems, kind, setting))


def levels(caches: Sequence[int], usable: int) -> list[int]:
    """Return working sets in bytes: half of each cache, and four usable last-level caches for memory."""
    return [size // 2 for size in caches] + [4 * usable]


def collect(run: Run) -> ceilings.Ceilings:
    """Return the ceilings that a run measured, from the median times."""
    flops: dict[str, float] = {}
    bandwidth: dict[str, dict[int, float]] = {}
    for result in run.results:
        if result.role != "measured" or result.seconds is None:
            continue
        if result.op in ("fma", "mma") and result.flops_per_second:
            flops[_unit(result.problem, kind_of(result.device))] = result.flops_per_second
        elif result.bytes_per_second:
            working_set = int(result.contest.split("/")[1])
            bandwidth.setdefault(result.problem["kind"], {})[working_set] = result.bytes_per_second
    return ceilings.Ceilings(run.environment.started, run.environment.digest, flops, bandwidth)


def _unit(problem: Mapping[str, Any], kind: Kind) -> str:
    """Return the name of a unit: `avx2`, or on a GPU `fp32`, `bf16 wgmma`."""
    if "isa" in problem:
        return "fp32" if kind.undivided else str(problem["isa"])
    return f"{problem['dtype']} {problem['unit']}"


def parser() -> argparse.ArgumentParser:
    """Return the parser of `python -m micro.ceiling`."""
    options = Parser("python -m micro.ceiling", description=__doc__, allow_abbrev=False)
    options.add_argument("--device", default=ceilings.CPU, metavar="NAME", help="cpu or a GPU, e.g. cuda:0")
    options.add_argument("--threads", type=int, default=1, metavar="N", help="number of threads, one core each")
    options.add_argument("-o", dest="output", metavar="FILE", type=Path, help="write the run file (JSON lines)")
    options.add_argument("--list", action="store_true", help="print the plan and stop")
    options.add_argument("-q", dest="quiet", action="store_true", help="no progress")
    return options


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code: 1 where a kernel failed."""
    values = vars(parser().parse_args(argv))
    wanted = values["device"], values["threads"]
    return guarded("micro.ceiling", lambda: _run(*wanted, outputs_of(values), listing=values["list"]))


def _run(name: str, threads: int, outputs: Outputs, listing: bool) -> int:
    from kernels.devices import open_device
    from micro.command.session import measure_all, session

    device = open_device(name)
    asked = contests(device.name, device.limits(), threads)
    if listing:
        return listed(asked)
    planned = [contest.name for contest in asked]
    with session("ceiling", [device], len(asked), outputs, planned=planned) as at:
        measure_all(at, asked, BUDGET)
    measured = collect(at.file.run)
    if threads == 1:  # the ceilings kept for the doctor and for --why are of one thread
        ceilings.save(measured, device.name)
    for line in say(measured):
        print(line)
    return 1 if any(result.status in ("wrong", "failed") for result in at.file.run.results) else 0


def say(measured: ceilings.Ceilings) -> list[str]:
    """Format a line on multiply-adds, and a line for each kind of traffic."""
    from reports import units

    peaks = ", ".join(f"{unit} {units.scaled(rate, 'FLOP/s')}" for unit, rate in measured.flops.items())
    lines = [f"multiply-adds: {peaks}"] if peaks else []
    for traffic, rates in measured.bandwidth.items():
        rows = (f"{units.binary(size)} {units.scaled(rate, 'B/s')}" for size, rate in rates.items())
        lines.append(f"{traffic}: " + ", ".join(rows))
    return lines


if __name__ == "__main__":
    sys.exit(main())
