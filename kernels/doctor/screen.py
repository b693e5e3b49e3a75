"""The doctor's printed report: facts in groups, wrapped at 100 columns, in ASCII."""

from __future__ import annotations

import platform
import textwrap
from collections.abc import Iterator

from kernels.doctor.libraries import Library
from kernels.doctor.perf import Rights
from kernels.doctor.survey import Inventory, System
from kernels.isa import FAMILIES

WIDTH, LABEL = 100, 17  # columns
Rows = Iterator[tuple[str, str]]
VENDOR = "GenuineIntel"  # of processors and of MKL
GEMM = "python -m micro.gemm --m 256 --n 2048 --k 2048 --trans nn"
ALLOCATOR = "python -m micro.memory --allocator"
WIDE = "avx512"


def lines(inventory: Inventory) -> list[str]:
    """Return the report's lines; empty groups are left out."""
    groups = {
        "devices": devices(inventory),
        "libraries": libraries(inventory),
        "GPU bindings": bindings(inventory),
        "system": system(inventory),
        "tools": tools(inventory),
        "missing": missing(inventory),
        "may cost time": iter(remarks(inventory)),
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
            yield kind, f"{about['model']}, cores: {about['cores']}{isa}, {about['memory'] / 2**30:.1f} GiB free"


def libraries(inventory: Inventory) -> Rows:
    for name, about in inventory.libraries.items():
        if about.here:
            yield name, ", ".join(_library(about))
    parts = inventory.packages | inventory.base
    here = [f"{name} {part.version}" for name, part in parts.items() if part.here and name != "mkl"]  # MKL is above
    yield "packages", ", ".join([f"Python {platform.python_version()}", *here])


def _library(about: Library) -> Iterator[str]:
    yield (about.version or "version not known").removeprefix("OpenBLAS ").removeprefix("MKL ")
    yield f"threads: {about.threads}"
    if about.kernels:
        yield f"{about.kernels} kernels" + (f" ({about.isa})" if about.isa else "")


def bindings(inventory: Inventory) -> Rows:
    """Yield a line per reason, with the bindings that it makes unusable, and a line of usable bindings."""
    reasons: dict[str | None, list[str]] = {}
    for name, reason in inventory.bindings.items():
        reasons.setdefault(reason, []).append(name)
    for reason, names in reasons.items():
        yield "usable" if reason is None else "not usable", ", ".join(names) + (f": {reason}" if reason else "")


def system(inventory: Inventory) -> Rows:
    lasting = " (temporary: no permanent folder is writable)" if inventory.state_temporary else ""
    yield "state folder", f"{inventory.state}{lasting}" if inventory.state else f"not known{_why(inventory, 'state')}"
    if (about := inventory.system) is None:
        yield "system", f"not known{_why(inventory, 'system')}"
        return
    yield "cores", _cores(about)
    yield "huge pages", f"transparent: {about.huge_pages}" if about.huge_pages else "not known"
    steered = _variables(about.malloc_variables) or "default policy (no variable set)"
    yield "malloc", f"{about.libc or 'C library not known'}; {steered}"
    yield "variables", _variables(about.variables) or "none set that affect libraries"


def _cores(about: System) -> str:
    affinity = f"{len(about.affinity)} of" if about.affinity else "an unknown number of"
    quota = "not known" if about.limited is None else f"{about.quota:g} cores" if about.limited else "none"
    return f"may use {affinity} {about.cores or 'not known'}; cgroup quota: {quota}"


def tools(inventory: Inventory) -> Rows:
    for name, part in inventory.tools.items():
        if part.here:
            yield name, part.version or "version not known"
    yield "perf rights", _rights(inventory.perf) if inventory.perf else f"not known{_why(inventory, 'perf')}"


def _rights(rights: Rights) -> str:
    kernel = {True: "permitted", False: "refused", None: "not known"}[rights.kernel_samples]
    return (
        f"kernel samples {kernel}; perf_event_paranoid: {'not known' if rights.paranoid is None else rights.paranoid}"
    )


def missing(inventory: Inventory) -> Rows:
    """Yield missing parts with the install command, and with the reason unless merely not installed."""
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


def remarks(inventory: Inventory) -> list[tuple[str, str]]:
    """Return subject and text of each part that may cost time, with the command that measures the cost."""
    return [*_mkl(inventory), *_openblas(inventory), *_steering(inventory)]


def _isa(inventory: Inventory) -> list[str]:
    return list(inventory.devices["cpu"].get("isa") or ())


def _mkl(inventory: Inventory) -> Rows:
    torch, mkl = inventory.packages.get("torch"), inventory.libraries.get("MKL")
    inside = [name for name, part in (("torch", torch), ("mkl", mkl)) if part is not None and part.here]
    vendor = inventory.devices["cpu"].get("vendor")
    if inside and vendor not in (None, "unknown", VENDOR) and "sse" in _isa(inventory):
        yield (
            "MKL",
            f"MKL may use slower kernels on {vendor} processors than on Intel's: {GEMM} "
            f"--variant {inside[0]} --vary preload --preload none,mkl-intel",
        )


def _openblas(inventory: Inventory) -> Rows:
    """Yield a remark if a variable chooses the kernels, or if they do not use the processor's AVX-512."""
    blas = inventory.libraries.get("OpenBLAS of numpy")
    if blas is None or not blas.here or not blas.kernels:
        return
    command = f"{GEMM} --variant openblas --vary isa --isa default,"
    if blas.asked:
        best = WIDE if WIDE in _isa(inventory) else "avx2"
        yield "OpenBLAS", f"OPENBLAS_CORETYPE={blas.asked} overrides its choice of kernels: {command}{best}"
    elif WIDE in _isa(inventory) and FAMILIES.get(blas.kernels) not in (None, WIDE):
        yield "OpenBLAS", f"it uses {blas.kernels} kernels ({blas.isa}) although {WIDE} is available: {command}{WIDE}"


def _steering(inventory: Inventory) -> Rows:
    """Yield remarks on glibc's default malloc and on disabled huge pages."""
    if (about := inventory.system) is None:
        return
    if (about.libc or "").startswith("glibc") and not about.malloc_variables:
        yield "malloc", f"returns large freed blocks to the system; reusing them causes page faults: {ALLOCATOR}"
    if about.huge_pages == "never":
        yield "huge pages", f"transparent huge pages are off: enable them, then run {ALLOCATOR}"


def _why(inventory: Inventory, key: str) -> str:
    return f" ({inventory.not_told[key]})" if key in inventory.not_told else ""


def _variables(variables: dict[str, str]) -> str:
    return " ".join(f"{name}={value}" for name, value in variables.items())
