"""Sentences about one program's step: its time, kinds of work, modules, overhead, and what to try."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kernels.heap import POLICIES
from macro.explaining import kinds
from macro.explaining.modules import PHASES
from reports import busy
from reports.explanation import Breakdown, Module, Share, in_type, large
from reports.units import scaled, seconds, signed

LARGE = 0.05  # least share of a step of a kind or a module that sentences name
WORTH = 0.02  # least saving, as a share of a step, of a measure that is suggested
KEEP = " ".join(f"{name}={value}" for name, value in POLICIES["keep"].items())
OVERHEAD = (
    *("OS memory", "OS other", "malloc", "dispatch", "interpreter", "tracer", "data", "waiting", "spin"),
    *("layout reorder", "copy", "cast", "clear", "random numbers"),
)


TEXTS = tomllib.loads(Path(__file__).with_name("remedies.toml").read_text("utf-8").replace("<keep>", KEEP))


@dataclass(frozen=True)
class Try:
    """A remedy that may speed up a program, with the edit or variable that applies it; see remedies.toml."""

    name: str
    do: str  # what the user edits or sets
    measure: str = ""  # how to measure the saving
    edit: bool = True  # the program is edited; False: an environment variable is set
    kinds: Sequence[str] = ()  # kinds of work whose time it saves at most

    def most(self, breakdown: Breakdown) -> float:
        """Return an upper bound of the seconds of a step that the remedy saves."""
        if self.name in ESTIMATES:
            return ESTIMATES[self.name](breakdown)
        return sum(share.a for share in breakdown.kinds if share.name in self.kinds)


def _heap(breakdown: Breakdown) -> float:
    if breakdown.started:
        difference, sure = _kept(breakdown)
        return difference if sure else 0.0
    return (
        sum(share.a for share in breakdown.kinds if share.name == "OS memory")
        if breakdown.program["heap"] != "keep"
        else 0.0
    )


def _update(breakdown: Breakdown) -> float:
    """Estimate the seconds that fusing the optimizer saves: half of the update, 0 if it is fused."""
    fused = any("_fused_" in (cell.seen or "") for cell in breakdown.cells if cell.phase == "update")
    return 0.0 if fused else 0.5 * sum(cell.a for cell in breakdown.cells if cell.phase == "update")


def _vendor(breakdown: Breakdown) -> float:
    """Return the GEMM seconds above the ceiling if MKL runs its generic (non-Intel) kernels, else 0."""
    generic = any(cell.column == "gemm" and (cell.seen or "").startswith("mkl_blas_def") for cell in breakdown.cells)
    return sum(share.left or 0.0 for share in breakdown.kinds if share.name == "gemm") if generic else 0.0


ESTIMATES = {"MKL's vendor check": _vendor, "keep freed memory": _heap, "a fused optimizer": _update}
TRIES = [Try(name, **texts) for name, texts in TEXTS["program"].items()]


def edits(breakdown: Breakdown) -> dict[str, tuple[str, float]]:
    """Return the remedies that edit the program, by name, with the most seconds of a step that each saves."""
    return {remedy.name: (remedy.do, remedy.most(breakdown)) for remedy in TRIES if remedy.edit}


def sentences(breakdown: Breakdown) -> list[str]:
    """Return all sentences about a step: its time, kinds of work, modules, overhead, then remedies."""
    return [
        _step(breakdown),
        *filter(None, [busy.step_sentence(breakdown.busy, breakdown.threads)]),
        *_as_started(breakdown),
        _kinds(breakdown),
        *_places(breakdown),
        *_no_work(breakdown),
        *_looking(breakdown),
        *(f"To try: {text}" for text in _tries(breakdown)),
    ]


def first_answer(breakdown: Breakdown) -> str:
    """Return the step's time and its four largest kinds of work in one line."""
    kinds_ = ", ".join(f"{share.name} {share.a / breakdown.step['a']:.0%}" for share in breakdown.kinds[:4])
    return f"{breakdown.name}, {breakdown.rounds} rounds: {seconds(breakdown.step['a'])} a step: {kinds_}"


def _step(breakdown: Breakdown) -> str:
    low, high = breakdown.interval
    program = breakdown.program
    torch = program.get("framework") == "pytorch"
    version = f"PyTorch {program['version']}" if torch else f"Python {program['python']}"
    threads = f"{breakdown.threads} thread{'s' * (breakdown.threads > 1)}"
    rate = _rate(breakdown)
    heap = {"keep": "freed memory kept", "default": "the default heap"}.get(str(program["heap"]), "")
    return (
        f"A step of {breakdown.name} takes {seconds(breakdown.step['a'])} [{seconds(low)}, {seconds(high)}] within "
        f"this process{rate}. {version}, {threads}, {heap}; a step ends with {program['step']}; "
        f"{breakdown.rounds} rounds."
    )


def _rate(breakdown: Breakdown) -> str:
    """Format a step's FLOP, their rate and types, and the share of the machine's ceiling; "" without FLOP."""
    types, step = large(breakdown.types), breakdown.step["a"]
    flops, peaks = sum(breakdown.types.values()), [breakdown.peak(name) for name in types]
    if not flops:
        return ""
    least = sum(x / peak for x, peak in zip(types.values(), peaks, strict=True) if peak)
    share = f", {least / step:.0%} of this machine's ceiling ({scaled(flops / least, 'FLOP/s')})" if all(peaks) else ""
    return f": {scaled(flops, 'FLOP')} at {scaled(flops / step, 'FLOP/s')}{in_type(' and '.join(types))}{share}"


def _as_started(breakdown: Breakdown) -> Iterator[str]:
    """Yield a sentence that compares the step on the program's initial heap with freed memory kept."""
    if not breakdown.started:
        return
    started, faults = breakdown.started, breakdown.faults.get("P0", 0.0)
    difference, sure = _kept(breakdown)
    chance = "" if sure else " (may be chance)"
    yield (
        f"On the initial heap, a step took {seconds(started['seconds'])} "
        f"[{seconds(started['low'])}, {seconds(started['high'])}], with {started['faults']:.0f} page faults instead of "
        f"{faults:.0f}: keeping freed memory changes it by {signed(-difference)}{chance}. Below, freed memory is kept, "
        "as tracing changes the default heap's behavior."
    )


def _kept(breakdown: Breakdown) -> tuple[float, bool]:
    """Return the seconds saved by keeping freed memory, and whether they are significant on an idle machine."""
    started, step = breakdown.started, breakdown.step["a"]
    difference = started["seconds"] - step
    half = math.hypot(started["high"] - started["seconds"], breakdown.interval[1] - step)
    return difference, abs(difference) > half and (breakdown.busy or 0.0) <= busy.TAKEN


def _kinds(breakdown: Breakdown) -> str:
    parts: list[str] = []
    for share in breakdown.kinds:
        if share.a < LARGE * breakdown.step["a"] and parts:
            break
        parts.append(f"{share.name} {share.a / breakdown.step['a']:.0%} ({_speed(share)})")
    return f"By kind of work: {', '.join(parts)}."


def _speed(share: Share) -> str:
    unit = "FLOP/s" if share.unit == kinds.FLOP else "B/s"
    if share.rate is None or share.unit not in (kinds.FLOP, kinds.BYTES):
        return seconds(share.a)
    of = f", {share.percent:.0%} of {share.ceiling}" if share.percent else ""
    return f"{seconds(share.a)}, {scaled(share.rate, unit)}{in_type(share.dtype)}{of}"


def _places(breakdown: Breakdown) -> Iterator[str]:
    """Yield a sentence on the largest modules of which no submodule takes most of the time."""
    leaves, modules = list[Module](), breakdown.modules
    for i, module in enumerate(modules):
        end = next((at for at in range(i + 1, len(modules)) if modules[at].depth <= module.depth), len(modules))
        if not any(x.total > 0.6 * module.total for x in modules[i + 1 : end]):
            leaves.append(module)
    large = sorted((x for x in leaves if x.total >= LARGE * breakdown.step["a"]), key=lambda x: -x.total)[:5]
    if large:
        yield "Largest modules: " + "; ".join(_module(module) for module in large) + "."


def _module(module: Module) -> str:
    phases = ", ".join(
        f"{phase} {seconds(module.phases[phase])}" for phase in PHASES if module.phases.get(phase, 0) > 0
    )
    times = f" ×{module.count}" if module.count > 1 else ""
    return f"{module.path}{times} {seconds(module.total)} ({phases}; mostly {module.column})"


def _no_work(breakdown: Breakdown) -> Iterator[str]:
    """Yield a sentence on the overhead: kinds of work without arithmetic, from 1 % of a step on."""
    parts = [share for share in breakdown.kinds if share.name in OVERHEAD and share.a >= 0.01 * breakdown.step["a"]]
    if parts:
        yield "No arithmetic: " + ", ".join(f"{share.name} {seconds(share.a)}" for share in parts) + "."


def _looking(breakdown: Breakdown) -> Iterator[str]:
    levels = breakdown.levels["a"]
    words = {"P1": "spans", "P2": "samples", "P3": "both"}
    parts = [f"{words[name]} {levels[name] - 1:+.0%}" for name in words if name in levels]
    changed = ": tracing changed this step of tiny operations" if levels.get("P3", 1) > 1.15 else ""
    if (perf := breakdown.program.get("perf")) is not None:
        parts.append(f"perf used {perf:.1%} of a core")
    if parts:
        yield f"Watching costs: {', '.join(parts)}{changed}. The step's time is of plain steps, all else of watched."


def _tries(breakdown: Breakdown) -> Iterator[str]:
    worth = [(remedy.most(breakdown), remedy) for remedy in TRIES]
    for most, remedy in sorted(worth, key=lambda x: -x[0]):
        if most >= WORTH * breakdown.step["a"]:
            measure = remedy.measure.replace("--heap", f"python -m macro explain {breakdown.program['script']} --heap")
            more = f" Measure: {measure}" if measure else ""
            yield f"{remedy.name}: saves at most {seconds(most)} of a step. Do: {remedy.do}.{more}"
