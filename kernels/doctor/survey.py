"""The survey of all facts, each guarded: a fact that raises is reported as missing or not known."""

from __future__ import annotations

import platform
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from kernels import state
from kernels.catalog import operations, rows
from kernels.devices import kinds, open_device
from kernels.doctor import figures, packages, perf
from kernels.doctor.libraries import Library, open_all
from kernels.doctor.packages import Part, absent
from kernels.doctor.system import System, system
from kernels.doctor.tools import INSTALL, TOOLS
from kernels.errors import SuiteError, summary
from kernels.setting import REFUSABLE

T = TypeVar("T")
FIGURES: dict[str, Callable[[datetime], Any]] = {
    "ceilings": figures.peaks,
    "gpu ceilings": figures.gpu_peaks,
    "selftest": figures.selftest,
}


@dataclass(frozen=True, slots=True)
class Inventory:
    """All facts of an installation; None: not known."""

    devices: dict[str, dict[str, Any]]  # by kind, as they describe themselves
    libraries: dict[str, Library]
    bindings: dict[str, str | None]  # why a way to a GPU is closed
    packages: dict[str, Part]
    base: dict[str, Part]
    system: System | None
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
        by_figure = {name: attempt(name, partial(fact, datetime.now(UTC))) for name, fact in FIGURES.items() if where}
        facts, rights = attempt("system", system), attempt("perf", perf.rights)
    return Inventory(
        devices,
        attempt("libraries", opened.result) or {},
        packages.bindings(),
        {name: packages.package(wanted) for name, wanted in packages.OPTIONAL.items()},
        {name: packages.package(wanted) for name, wanted in packages.BASE.items()},
        facts,
        {name: _tool(name, future) for name, future in asked.items()},
        rights,
        by_figure.get("ceilings"),
        by_figure.get("gpu ceilings") or {},
        by_figure.get("selftest"),
        str(where) if where else None,
        bool(where) and state.is_temporary(),
        not_told,
    )


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
        return absent(summary(error), INSTALL[name])


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
