"""The doctor's printed report: a line a fact, in groups, 100 columns; ASCII, whatever the locale."""

from __future__ import annotations

import platform
import textwrap
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from kernels.doctor.figures import Peaks, Selftest
from kernels.doctor.libraries import Library
from kernels.doctor.perf import Rights
from kernels.doctor.remarks import remarks
from kernels.doctor.survey import Inventory
from kernels.doctor.system import System

WIDTH, LABEL = 100, 17  # columns
Rows = Iterator[tuple[str, str]]


def lines(inventory: Inventory) -> list[str]:
    """Return the report's lines; empty groups are left out."""
    groups = {
        "devices": devices(inventory),
        "libraries": libraries(inventory),
        "ways to a GPU": bindings(inventory),
        "system": system(inventory),
        "tools": tools(inventory),
        "missing": missing(inventory),
        "may cost time": iter(remarks(inventory)),
        "known figures": figures(inventory),
    }
    output = []
    for title, rows in groups.items():
        body = [line for label, text in rows for line in _row(label, text)]
        output += [title, *body] if body else []
    return output


def _row(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        " ".join(text.split()),
        WIDTH,
        initial_indent=f"  {label:{LABEL}}  ",
        subsequent_indent=" " * (LABEL + 4),
        break_on_hyphens=False,
        break_long_words=False,
    )


def devices(inventory: Inventory) -> Rows:
    for kind, about in inventory.devices.items():
        if about["here"]:
            isa = f", {about['isa'][-1]}" if about.get("isa") else ""
            yield (kind, f"{about['model']}, {_many(about['cores'], 'core')}{isa}, {_bytes(about['memory'])} free")
            yield "", "; ".join(_nature(about))


VISITS = {
    "compiled": "a visit is a compiled loop",
    "held": "a visit stands ready behind a hold",
    "single": "a visit is one launch",
}
FEW = 4  # kernels that are named; more are counted


def _nature(about: Mapping[str, Any]) -> Iterator[str]:
    """Yield the properties of a device's kind: clock, sample, alignment, settings, ceilings, kernels."""
    yield f"clock: {about['clock']}, {about['tick'] * 1e9:g} ns apart at best"
    yield VISITS[about["visit"]]
    yield f"operands at multiples of {about['alignment']} B"
    yield f"obeys {', '.join(about['obeys'])}"
    yield f"ceilings: {', '.join(about['ceilings'])}" if about["ceilings"] else "no ceiling"
    names = [f"{op} {name}" for op, some in about["rows"].items() for name in some]
    of = f"kernels of {_many(len(about['rows']), 'operation')}"
    yield f"kernels: {', '.join(names)}" if len(names) <= FEW else f"{len(names)} {of}"


def libraries(inventory: Inventory) -> Rows:
    if not inventory.libraries:
        yield "libraries", f"not known{_why(inventory, 'libraries')}"
    for name, about in inventory.libraries.items():
        if about.here:
            yield name, ", ".join(_library(about))
    # MKL has a row of its own.
    shown = {name: part for name, part in (inventory.packages | inventory.base).items() if part.here and name != "mkl"}
    yield (
        "packages",
        ", ".join([f"Python {platform.python_version()}", *(f"{name} {part.version}" for name, part in shown.items())]),
    )


def _library(about: Library) -> Iterator[str]:
    yield (about.version or "version not known").removeprefix("OpenBLAS ").removeprefix("MKL ")
    yield _many(about.threads, "thread")
    if about.kernels:
        obeyed = " by" if (about.asked or "").lower() == about.kernels.lower() else f": not {about.asked}, asked by"
        asked = f"{obeyed} OPENBLAS_CORETYPE" if about.asked else ""
        yield f"{about.kernels} kernels" + (f" ({about.isa})" if about.isa else "") + asked


def bindings(inventory: Inventory) -> Rows:
    """Yield bindings; those that share a reason share a line."""
    reasons: dict[str | None, list[str]] = {}
    for name, reason in inventory.bindings.items():
        reasons.setdefault(reason, []).append(name)
    for reason, names in reasons.items():
        yield "here" if reason is None else "not here", ", ".join(names) + (f": {reason}" if reason else "")


def system(inventory: Inventory) -> Rows:
    if (about := inventory.system) is None:
        yield "system", f"not known{_why(inventory, 'system')}"
        return
    yield "cores", _cores(about)
    yield "huge pages", f"transparent: {about.huge_pages}" if about.huge_pages else "not known"
    libc = about.libc or "C library not known"
    name = libc if about.malloc and libc.startswith(about.malloc) else f"{about.malloc or 'not known'} ({libc})"
    yield "malloc", f"{name}; {_variables(about.malloc_variables) or 'no variable steers it'}"
    yield "variables", _variables(about.variables) or "none that steers a library"


def _cores(about: System) -> str:
    affinity = f"{_ranges(about.affinity)} of" if about.affinity else "not known which of"
    quota = "not known" if about.limited is None else f"{about.quota:g} cores" if about.limited else "none"
    return f"may use {affinity} {about.cores or 'not known'}; cgroup quota: {quota}"


def _ranges(numbers: tuple[int, ...]) -> str:
    """Return sorted numbers as ranges, as "0-3,8"."""
    runs = [[n for _, n in run] for _, run in groupby(enumerate(numbers), lambda x: x[1] - x[0])]
    return ",".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)


def tools(inventory: Inventory) -> Rows:
    for name, part in inventory.tools.items():
        if part.here:
            yield name, part.version or "version not known"
    yield "perf rights", _rights(inventory.perf) if inventory.perf else f"not known{_why(inventory, 'perf')}"


def _rights(rights: Rights) -> str:
    kernel = {True: "permitted", False: "refused", None: "not known"}[rights.kernel_samples]
    counters = {True: "here", False: "none", None: "not known"}[rights.hardware]
    paranoid = "not known" if rights.paranoid is None else str(rights.paranoid)
    unclear = rights.why and None in (rights.kernel_samples, rights.hardware)
    text = f"hardware counters: {counters}; kernel samples {kernel}; perf_event_paranoid: {paranoid}"
    return f"{text} ({rights.why})" if unclear else text


def missing(inventory: Inventory) -> Rows:
    """Yield missing parts with reason and command; a plain absence needs no reason."""
    for kind, about in inventory.devices.items():
        if not about["here"]:
            yield kind, about["reason"]
    for name, library in inventory.libraries.items():
        if not library.here and (name != "MKL" or inventory.packages["mkl"].here):
            yield name, ": ".join(filter(None, (library.reason, library.install)))
    for name, part in (inventory.base | inventory.packages | inventory.tools).items():
        if not part.here:
            plain = part.reason in ("not installed", "not found")
            yield name, part.install or "" if plain else f"{part.reason}: {part.install}"
    if inventory.perf and inventory.perf.kernel_samples is False:
        yield "kernel samples", "sudo sysctl kernel.perf_event_paranoid=1"


def figures(inventory: Inventory) -> Rows:
    """Yield the figures that this user has measured, and their folder."""
    yield "ceilings", _peaks(inventory.ceilings) if inventory.ceilings else "none yet: python -m micro.ceiling (20 s)"
    for name, peaks in inventory.gpu_ceilings.items():
        yield f"ceilings {name}", _peaks(peaks)
    yield "self-test", _selftest(inventory.selftest) if inventory.selftest else "none yet: python -m micro.selftest"
    lasting = " (temporary: no lasting folder can be written)" if inventory.state_temporary else ""
    yield "state folder", f"{inventory.state}{lasting}" if inventory.state else f"not known{_why(inventory, 'state')}"


def _peaks(peaks: Peaks) -> str:
    unit, prefix = (1e12, "T") if max(peaks.flops.values(), default=0) >= 1e13 else (1e9, "G")
    flops = ", ".join(f"{isa} {rate / unit:.0f}" for isa, rate in peaks.flops.items())
    read = peaks.bandwidth.get("read")
    memory = f"memory {read[max(read)] / 1e9:.0f} GB/s" if read else ""
    return f"{peaks.age}: {'; '.join(filter(None, (f'{flops} {prefix}FLOP/s' if flops else '', memory)))}"


def _selftest(selftest: Selftest) -> str:
    unjudged = selftest.promised - selftest.held - len(selftest.failed)  # the machine was too busy
    busy = f", {unjudged} not judged" if unjudged else ""
    broken = f"; NOT HELD: {', '.join(selftest.failed)}" if selftest.failed else ""
    return f"{selftest.age}: {selftest.held} of {selftest.promised} promises held{busy}{broken}"


def _why(inventory: Inventory, key: str) -> str:
    return f" ({inventory.not_told[key]})" if key in inventory.not_told else ""


def _variables(variables: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in variables.items())


def _many(count: int | None, noun: str) -> str:
    return f"{noun}s not known" if count is None else f"{count} {noun}{'s' * (count != 1)}"


def _bytes(size: int) -> str:
    """Return a size as "48 KiB", with one decimal unless it is whole."""
    step = max(0, min(4, (size.bit_length() - 1) // 10))
    return f"{round(size / 1024**step, 1):g} {('', 'Ki', 'Mi', 'Gi', 'Ti')[step]}B"
