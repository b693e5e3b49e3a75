"""What this processor can do at best: multiply-adds by instruction set, traffic by cache level (20 s). A GPU's with
--device: multiply-adds, tensor cores by type and instruction, traffic."""

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
from kernels.launch import Setting
from kernels.ops.fma.fastest import peak_of
from kernels.ops.stream import Stream
from micro.command.line import guarded, listed
from micro.measuring import ceilings as case_ceilings
from micro.planning.contest import Budget, Case, Contest
from micro.planning.options import Outputs, Parser, outputs_of

if TYPE_CHECKING:
    from kernels.devices.base import Limits
    from kernels.devices.kind import Kind
    from kernels.problem import Problem
    from reports.record import Run

# As many operations for every instruction set: fewer steps of wider vectors and of more chains. Of AVX-512 16,380.
NUMBERS = 2340 * 16 * 14 * 8
BUDGET = Budget(seconds=10.0, target=0.02)


def contests(device: str, limits: Limits) -> list[Contest]:
    """One between the instruction sets, or a GPU's units; one between read, copy and triad at each level."""
    setting, known = Setting(device=device), kind_of(device)
    if not known.ceilings:
        raise UsageError(f"--device {device}: nothing is known that no kernel of it can beat")
    peak = _units(setting, known, limits) if known.whole else _instruction_sets(setting, known)
    found = [peak] if peak.cases else []
    if "stream" not in known.ceilings:
        return found
    stream = bounding("stream", known.kernels)
    for working_set in levels(limits.caches, limits.usable_cache):
        cases = tuple(
            Case(Stream(traffic, working_set // arrays // 64 * 64), stream, setting)
            for traffic, arrays in (("read", 1), ("copy", 2), ("triad", 3))
        )
        name, question = f"bandwidth/{working_set}", f"how fast is traffic within {working_set} bytes?"
        found.append(Contest(name, question, "work: differs (bytes a second are compared)", cases))
    return found


def _instruction_sets(setting: Setting, known: Kind) -> Contest:
    """A core's, against each other."""
    fmas = [peak_of(isa) for isa in known.isas()] if "fma" in known.ceilings else []
    alike = [peak_of(x.isa, NUMBERS // (x.lanes * x.chains)) for x in fmas]
    cases = tuple(Case(x, bounding(x.op, known.kernels), setting) for x in alike)
    return Contest("peak", "how fast are multiply-adds?", "isa", cases)


def _units(setting: Setting, known: Kind, limits: Limits) -> Contest:
    """Multiply-adds and tensor cores of a whole GPU."""
    problems: list[Problem] = [case_ceilings.peak(known, limits)] if "fma" in known.ceilings else []
    for dtype in case_ceilings.COARSE if "mma" in known.ceilings else ():
        problems += case_ceilings.tensor_peaks(dtype, limits)
    cases = tuple(Case(x, bounding(x.op, known.kernels), setting) for x in problems)
    return Contest("peak", "how fast are products?", "work: differs (operations a second are compared)", cases)


def levels(caches: Sequence[int], usable: int) -> list[int]:
    """Half of each cache, and four usable last-level caches for main memory."""
    return [size // 2 for size in caches] + [4 * usable]


def collect(run: Run) -> ceilings.Ceilings:
    """The medians of a run."""
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


def _unit(problem: Mapping[str, Any], known: Kind) -> str:
    """`avx2`; of a GPU `fp32`, `bf16 wgmma`."""
    if "isa" in problem:
        return "fp32" if known.whole else str(problem["isa"])
    return f"{problem['dtype']} {problem['unit']}"


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = Parser("python -m micro.ceiling", description=__doc__, allow_abbrev=False)
    made.add_argument("--device", default=ceilings.CPU, metavar="NAME", help="cpu, or a GPU: cuda:0")
    made.add_argument("-o", dest="output", metavar="FILE", type=Path, help="write the run file, JSON lines")
    made.add_argument("--list", action="store_true", help="print the plan and stop")
    made.add_argument("-q", dest="quiet", action="store_true", help="no progress")
    return made


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code; 1 where a kernel failed."""
    values = vars(parser().parse_args(argv))
    return guarded("micro.ceiling", lambda: _run(values["device"], outputs_of(values), listing=values["list"]))


def _run(name: str, outputs: Outputs, listing: bool) -> int:
    from kernels.devices import open_device
    from micro.command.session import measure_all, session

    device = open_device(name)
    asked = contests(device.name, device.limits())
    if listing:
        return listed(asked)
    with session("ceiling", [device], len(asked), outputs) as at:
        measure_all(at, asked, BUDGET)
    found = collect(at.file.run)
    ceilings.save(found, device.name)
    for line in say(found):
        print(line)
    return 1 if any(result.status in ("wrong", "failed") for result in at.file.run.results) else 0


def say(found: ceilings.Ceilings) -> list[str]:
    """A line a kind."""
    from reports import units

    peaks = ", ".join(f"{unit} {units.scaled(rate, 'FLOP/s')}" for unit, rate in found.flops.items())
    lines = [f"multiply-adds: {peaks}"] if peaks else []
    for traffic, rates in found.bandwidth.items():
        rows = (f"{units.binary(size)} {units.scaled(rate, 'B/s')}" for size, rate in rates.items())
        lines.append(f"{traffic}: " + ", ".join(rows))
    return lines


if __name__ == "__main__":
    sys.exit(main())
