"""What is said of one program's step: its time, its kinds of work, where they lie, what is no work, what to try."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kernels.heap import POLICIES
from macro.explaining import kinds
from macro.explaining.modules import PHASES
from reports import busy
from reports.breakdown import Breakdown, Module, Share, in_type, large
from reports.units import scaled, seconds, signed

LARGE = 0.05  # of a step: a kind or a module that is worth a word
WORTH = 0.02  # of a step, from which on something is to be tried
KEEP = " ".join(f"{name}={value}" for name, value in POLICIES["keep"].items())
OVERHEAD = (
    *("OS memory", "OS other", "malloc", "dispatch", "interpreter", "tracer", "data", "waiting", "spin"),
    *("layout reorder", "copy", "cast", "clear", "random numbers"),
)


@dataclass(frozen=True)
class Try:
    """What may help: how many seconds at most, and what a user writes; `edit`: into the program, where no variable
    does it."""

    name: str
    most: Callable[[Breakdown], float]
    do: str
    measure: str = ""
    edit: bool = True


def _kind(*names: str) -> Callable[[Breakdown], float]:
    return lambda found: sum(share.a for share in found.kinds if share.name in names)


def _heap(found: Breakdown) -> float:
    if found.started:
        difference, sure = _kept(found)
        return difference if sure else 0.0
    return (
        sum(share.a for share in found.kinds if share.name == "OS memory") if found.program["heap"] != "keep" else 0.0
    )


def _update(found: Breakdown) -> float:
    """What an optimizer that is not fused takes above one pass over its parameters."""
    fused = any("_fused_" in (cell.seen or "") for cell in found.cells if cell.phase == "update")
    return 0.0 if fused else 0.5 * sum(cell.a for cell in found.cells if cell.phase == "update")


def _vendor(found: Breakdown) -> float:
    """What products take above the ceiling in kernels that MKL has for processors of others."""
    own = any(cell.column == "gemm" and (cell.seen or "").startswith("mkl_blas_def") for cell in found.cells)
    return sum(share.left or 0.0 for share in found.kinds if share.name == "gemm") if own else 0.0


TRIES = (
    Try(
        "MKL's vendor check",
        _vendor,
        "echo 'int mkl_serv_intel_cpu_true(void) { return 1; }' | gcc -shared -fPIC -xc - -o mkl_intel.so, then "
        "start the program with LD_PRELOAD=$PWD/mkl_intel.so; other kernels, other roundings",
        edit=False,
    ),
    Try("keep freed memory", _heap, f"start the program with {KEEP}", "--heap default,keep", edit=False),
    Try(
        "channels last",
        _kind("layout reorder"),
        "model.to(memory_format=torch.channels_last), and the images too: convolutions then change no layout",
    ),
    Try("a fused optimizer", _update, "fused=True, or foreach=True, where the optimizer has it"),
    Try("less dropout", _kind("random numbers"), "draw a mask by torch.rand_like(x) >= p, or drop less"),
    Try("a data loader beside the step", _kind("data"), "DataLoader(num_workers=1 or more, persistent_workers=True)"),
    Try(
        "fewer, larger operations",
        _kind("dispatch", "interpreter"),
        "a larger batch, or torch.compile: measured, since it may be slower",
        "python -m micro.launch --ladder",
    ),
    Try("no change of type", _kind("cast"), "keep tensors in the type that they are used in"),
)


def edits(found: Breakdown) -> dict[str, tuple[str, float]]:
    """Of a program, by name: what is written into it, and the seconds of a step that it saves at most."""
    return {one.name: (one.do, one.most(found)) for one in TRIES if one.edit}


def sentences(found: Breakdown) -> list[str]:
    """In the order in which a person asks."""
    return [
        _step(found),
        *filter(None, [busy.step_sentence(found.busy, found.threads)]),
        *_as_started(found),
        _kinds(found),
        *_places(found),
        *_no_work(found),
        *_looking(found),
        *(f"To try: {text}" for text in _tries(found)),
    ]


def first_answer(found: Breakdown) -> str:
    """The step and its largest kinds, in a line."""
    kinds_ = ", ".join(f"{share.name} {share.a / found.step['a']:.0%}" for share in found.kinds[:4])
    return f"{found.name}, {found.rounds} rounds: {seconds(found.step['a'])} a step: {kinds_}"


def _step(found: Breakdown) -> str:
    low, high = found.interval
    program = found.program
    torch = program.get("framework") == "pytorch"
    version = f"PyTorch {program['version']}" if torch else f"Python {program['python']}"
    threads = f"{found.threads} thread{'s' * (found.threads > 1)}"
    rate = _rate(found)
    return (
        f"A step of {found.name} takes {seconds(found.step['a'])} [{seconds(low)}, {seconds(high)}] within this process"
        f"{rate}. {version}, {threads}, {_heap_words(found)}; a step ends with {program['step']}; "
        f"{found.rounds} rounds."
    )


def _rate(found: Breakdown) -> str:
    """Write the FLOP of a step, their rate and type, the share of what this machine can."""
    types, step = large(found.types), found.step["a"]
    flops, peaks = sum(found.types.values()), [found.peak(name) for name in types]
    if not flops:
        return ""
    least = sum(x / peak for x, peak in zip(types.values(), peaks, strict=True) if peak)
    share = f", {least / step:.0%} of what this machine can ({scaled(flops / least, 'FLOP/s')})" if all(peaks) else ""
    return f": {scaled(flops, 'FLOP')} at {scaled(flops / step, 'FLOP/s')}{in_type(' and '.join(types))}{share}"


def _heap_words(found: Breakdown) -> str:
    return {"keep": "freed memory kept", "default": "the default heap"}.get(str(found.program["heap"]), "")


def _as_started(found: Breakdown) -> Iterator[str]:
    """The heap, a swap that was made in the program itself."""
    if not found.started:
        return
    started, faults = found.started, found.faults.get("P0", 0.0)
    difference, sure = _kept(found)
    chance = "" if sure else ", which may be chance"
    yield (
        f"Before, on the heap that it starts with, a step took {seconds(started['seconds'])} "
        f"[{seconds(started['low'])}, {seconds(started['high'])}], with {started['faults']:.0f} page faults instead of "
        f"{faults:.0f}: keeping freed memory is {signed(-difference)}{chance}. All below is with freed memory kept, "
        "since a tracer changes what the default heap does."
    )


def _kept(found: Breakdown) -> tuple[float, bool]:
    """Seconds of a step that keeping freed memory saves, and whether their interval excludes zero. Both heaps were
    watched one after the other, so that other load is in the difference."""
    started, step = found.started, found.step["a"]
    difference = started["seconds"] - step
    half = math.hypot(started["high"] - started["seconds"], found.interval[1] - step)
    return difference, abs(difference) > half and (found.busy or 0.0) <= busy.TAKEN


def _kinds(found: Breakdown) -> str:
    parts: list[str] = []
    for share in found.kinds:
        if share.a < LARGE * found.step["a"] and parts:
            break
        parts.append(f"{share.name} {share.a / found.step['a']:.0%} ({_speed(share)})")
    return f"By kind of work: {', '.join(parts)}."


def _speed(share: Share) -> str:
    unit = "FLOP/s" if share.unit == kinds.FLOP else "B/s"
    if share.rate is None or share.unit not in (kinds.FLOP, kinds.BYTES):
        return seconds(share.a)
    of = f", {share.percent:.0%} of {share.ceiling}" if share.percent else ""
    return f"{seconds(share.a)}, {scaled(share.rate, unit)}{in_type(share.dtype)}{of}"


def _places(found: Breakdown) -> Iterator[str]:
    """The largest modules that hold no other large one."""
    leaves = [
        one
        for i, one in enumerate(found.modules)
        if not any(x.depth > one.depth and x.total > 0.6 * one.total for x in _below(found, i))
    ]
    large = sorted((one for one in leaves if one.total >= LARGE * found.step["a"]), key=lambda one: -one.total)[:5]
    if large:
        yield "Largest modules: " + "; ".join(_module(one) for one in large) + "."


def _below(found: Breakdown, i: int) -> Iterator[Module]:
    for one in found.modules[i + 1 :]:
        if one.depth <= found.modules[i].depth:
            return
        yield one


def _module(one: Module) -> str:
    phases = ", ".join(f"{phase} {seconds(one.phases[phase])}" for phase in PHASES if one.phases.get(phase, 0) > 0)
    times = f" ×{one.count}" if one.count > 1 else ""
    return f"{one.path}{times} {seconds(one.total)} ({phases}; mostly {one.column})"


def _no_work(found: Breakdown) -> Iterator[str]:
    """What of a step multiplies nothing and moves nothing that the program asked for."""
    parts = [share for share in found.kinds if share.name in OVERHEAD and share.a >= 0.01 * found.step["a"]]
    if parts:
        yield "No arithmetic: " + ", ".join(f"{share.name} {seconds(share.a)}" for share in parts) + "."


def _looking(found: Breakdown) -> Iterator[str]:
    levels = found.levels["a"]
    words = {"P1": "spans", "P2": "samples", "P3": "both"}
    parts = [f"{words[name]} {levels[name] - 1:+.0%}" for name in words if name in levels]
    changed = ": tracing changed this step, whose operations are tiny" if levels.get("P3", 1) > 1.15 else ""
    if (perf := found.program.get("perf")) is not None:
        parts.append(f"perf took {perf:.1%} of a core")
    if parts:
        yield f"Looking costs: {', '.join(parts)}{changed}. The step's time is of plain ones, all else of watched ones."


def _tries(found: Breakdown) -> Iterator[str]:
    worth = [(one.most(found), one) for one in TRIES]
    for most, one in sorted(worth, key=lambda x: -x[0]):
        if most >= WORTH * found.step["a"]:
            measure = one.measure.replace("--heap", f"python -m macro explain {found.program['script']} --heap")
            more = f" Measure: {measure}" if measure else ""
            yield f"{one.name}: at most {seconds(most)} of a step. Do: {one.do}.{more}"
