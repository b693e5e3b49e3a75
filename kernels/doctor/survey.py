"""The survey of all facts, each guarded: a fact that raises is reported as missing or not known."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from kernels import state
from kernels.cgroup import quota
from kernels.devices import kinds, open_device
from kernels.doctor import packages, perf
from kernels.doctor.libraries import LIBRARIES, Library, opened
from kernels.doctor.packages import Part
from kernels.doctor.tools import TOOLS, tool
from kernels.errors import SuiteError, summary
from kernels.steering import MALLOC, TUNING, variables
from kernels.textfile import ROOT, read

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class System:
    """Facts of the operating system and its limits; None: not known."""

    cores: int | None  # logical processors
    affinity: tuple[int, ...] | None
    limited: bool | None  # whether a cgroup limits processor time
    quota: float | None  # processors' worth of time that the cgroup allows
    huge_pages: str | None  # mode of transparent huge pages
    libc: str | None  # name and version, as "glibc 2.36"
    malloc_variables: dict[str, str]
    variables: dict[str, str]  # environment variables that steer libraries


@dataclass(frozen=True, slots=True)
class Inventory:
    """All facts of an installation; None: not known."""

    devices: dict[str, dict[str, Any]]  # by kind, as they describe themselves
    libraries: dict[str, Library]
    bindings: dict[str, str | None]  # why a binding to a GPU cannot be used; None: it can
    packages: dict[str, Part]  # optional packages
    base: dict[str, Part]  # packages that an installation always has
    system: System | None
    tools: dict[str, Part]
    perf: perf.Rights | None
    state: str | None
    state_temporary: bool
    not_told: dict[str, str]  # exception by fact that raised

    @property
    def works(self) -> bool:
        """True if a CPU, a C compiler and NumPy's OpenBLAS work."""
        return self.devices["cpu"]["here"] and self.tools["cc"].here and self.libraries["OpenBLAS of numpy"].here


def survey() -> Inventory:
    """Collect all facts; child processes run in parallel while this process reads files."""
    not_told: dict[str, str] = {}

    def attempt(name: str, fact: Callable[[], T]) -> T | None:
        try:
            return fact()
        except Exception as error:
            not_told[name] = summary(error)
            return None

    where = attempt("state", state.folder)  # first, and once: its cache is not made for threads
    with ThreadPoolExecutor() as threads:
        libraries, tools = threads.map(opened, LIBRARIES), threads.map(tool, TOOLS)
        devices = {kind: _device(kind) for kind in kinds()}
        facts, rights = attempt("system", system), attempt("perf", perf.rights)
    return Inventory(
        devices,
        dict(zip(LIBRARIES, libraries, strict=True)),
        packages.bindings(),
        {name: packages.package(wanted) for name, wanted in packages.OPTIONAL.items()},
        {name: packages.package(wanted) for name, wanted in packages.BASE.items()},
        facts,
        dict(zip(TOOLS, tools, strict=True)),
        rights,
        str(where) if where else None,
        bool(where) and state.is_temporary(),
        not_told,
    )


def system(root: Path = ROOT, environment: Mapping[str, str] = os.environ) -> System:
    """Return the facts of the system whose files lie in `root`."""
    affinity = tuple(sorted(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else None
    transparent = read(root / "sys/kernel/mm/transparent_hugepage/enabled") or ""
    return System(
        os.cpu_count(),
        affinity,
        *quota(root),
        transparent.partition("[")[2].partition("]")[0] or None,  # as in "always [madvise] never"
        " ".join(platform.libc_ver()).strip() or None,
        variables(MALLOC, environment),
        variables(TUNING, environment),
    )


def _device(kind: str) -> dict[str, Any]:
    try:
        device = open_device(kind)
        limits = device.limits()
        return {"here": True, **device.describe(), "cores": limits.cores, "memory": limits.memory}
    except SuiteError as error:
        return {"here": False, "reason": str(error)}
    except (Exception, SystemExit) as error:  # its driver or package is damaged
        return {"here": False, "reason": summary(error)}


def document(inventory: Inventory) -> dict[str, Any]:
    """Return the inventory as the document that `--json` prints."""
    data = asdict(inventory)
    return {
        "works": inventory.works,
        "python": platform.python_version(),
        **data,
        "libraries": data["libraries"] | {"torch": data["packages"]["torch"]},
        "compiler": data["tools"]["cc"],
    }
