"""The survey of all facts, each guarded: a fact that raises is reported as missing or not known."""

from __future__ import annotations

import platform
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from kernels import state, steering
from kernels.catalog import operations, rows
from kernels.devices import kinds, open_device
from kernels.doctor import allocator, bindings, figures, packages, perf, system, tools
from kernels.doctor.libraries import Library, Opened, Pool, open_all
from kernels.doctor.part import Part, absent, summary
from kernels.errors import SuiteError
from kernels.setting import REFUSABLE

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class System:
    """Facts of the system; None: not known."""

    cores: system.Cores | None
    caches: tuple[system.Cache, ...] | None
    nodes: tuple[system.Node, ...] | None
    huge_pages: system.HugePages | None
    allocator: allocator.Allocator | None
    variables: dict[str, str]


@dataclass(frozen=True, slots=True)
class Inventory:
    """All facts of an installation."""

    devices: dict[str, dict[str, Any]]  # by kind, as they describe themselves
    libraries: dict[str, Library]
    pools: tuple[Pool, ...] | None
    bindings: dict[str, str | None]  # why a way to a GPU is closed
    packages: dict[str, Part]
    base: dict[str, Part]
    system: System
    tools: dict[str, Part]
    perf: perf.Rights | None
    ceilings: figures.Peaks | None
    gpu_ceilings: dict[str, figures.Peaks]
    selftest: figures.Selftest | None
    state: str | None
    state_temporary: bool
    not_told: dict[str, str]  # errors of facts that raised

    @property
    def works(self) -> bool:
        """True if the base works: a CPU, a compiler, OpenBLAS."""
        blas = self.libraries.get("OpenBLAS of numpy")
        return self.devices["cpu"]["here"] and self.tools["cc"].here and blas is not None and blas.here


def survey() -> Inventory:
    """Collect all facts; programs run side by side while files are read."""
    not_told: dict[str, str] = {}

    def attempt(name: str, fact: Callable[[], T]) -> T | None:
        try:
            return fact()
        except Exception as error:
            not_told[name] = summary(error)
            return None

    where = attempt("state", state.folder)  # first, and once: its cache is not made for threads
    with ThreadPoolExecutor() as threads:
        opened = threads.submit(open_all)
        asked = {name: threads.submit(fact) for name, fact in TOOLS.items()}
        devices = {kind: _device(kind) for kind in kinds()}
        facts: dict[str, Any] = {name: attempt(name, fact) for name, fact in SYSTEM.items()}
        by_figure = {name: attempt(name, partial(fact, datetime.now(UTC))) for name, fact in FIGURES.items() if where}
        rights = attempt("perf", perf.rights)
    blas = attempt("libraries", opened.result) or Opened({}, None)
    return Inventory(
        devices,
        blas.libraries,
        blas.pools,
        bindings.bindings(),
        {name: packages.package(wanted) for name, wanted in packages.OPTIONAL.items()},
        {name: packages.package(wanted) for name, wanted in packages.BASE.items()},
        System(**facts, variables=steering.variables(steering.TUNING)),
        {name: _tool(name, future) for name, future in asked.items()},
        rights,
        by_figure.get("ceilings"),
        by_figure.get("gpu ceilings") or {},
        by_figure.get("selftest"),
        str(where) if where else None,
        bool(where) and state.is_temporary(),
        not_told | ({"pools": blas.why} if blas.why else {}),
    )


TOOLS = {"cc": tools.c_compiler, "c++": tools.cpp_compiler, "nvcc": tools.nvcc, "perf": tools.perf}
SYSTEM: dict[str, Callable[[], Any]] = {
    "cores": system.cores,
    "caches": system.caches,
    "nodes": system.nodes,
    "huge_pages": system.huge_pages,
    "allocator": allocator.allocator,
}
FIGURES: dict[str, Callable[[datetime], Any]] = {
    "ceilings": figures.peaks,
    "gpu ceilings": figures.gpu_peaks,
    "selftest": figures.selftest,
}


def _rows(kernels: str) -> dict[str, list[str]]:
    """Return the kernels that are written for a kind of device, by operation."""
    by_op = {op: [row.name for row in rows(op, kernels)] for op in operations()}
    return {op: names for op, names in by_op.items() if names}


def _device(kind: str) -> dict[str, Any]:
    try:
        device = open_device(kind)
        limits = device.limits()
        return {
            "here": True,
            **device.describe(),
            "cores": limits.cores,
            "memory": limits.memory,
            **device.kind.to_record(REFUSABLE),
            "rows": _rows(device.kind.kernels),
        }
    except SuiteError as error:
        return {"here": False, "reason": str(error)}
    except (Exception, SystemExit) as error:  # its driver or package is damaged
        return {"here": False, "reason": summary(error)}


def _tool(name: str, future: Future[Part]) -> Part:
    try:
        return future.result()
    except Exception as error:
        return absent(summary(error), tools.install(name))


def document(inventory: Inventory) -> dict[str, Any]:
    """Return the document of `--json`; `base`: the packages that an installation always has."""
    data = asdict(inventory)
    return {
        "works": inventory.works,
        "python": platform.python_version(),
        **data,
        "libraries": data["libraries"] | {"torch": data["packages"]["torch"]},
        "compiler": data["tools"]["cc"],
    }
