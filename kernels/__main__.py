"""`python -m kernels`, the doctor: what is here, what is missing, and the command that installs it."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from typing import Any

from kernels import build, ceilings, state
from kernels.devices import kinds, open_device
from kernels.errors import SuiteError
from kernels.libs import mkl, openblas
from kernels.libs import torch as torch_library

LIBRARIES: dict[str, tuple[Callable[[], str | None], Callable[[], Any]]] = {
    "OpenBLAS of numpy": (lambda: openblas.missing("numpy"), lambda: openblas.load("numpy")),
    "OpenBLAS of scipy": (lambda: openblas.missing("scipy"), lambda: openblas.load("scipy")),
    "MKL": (mkl.missing, mkl.load),
}


def survey() -> dict[str, Any]:
    """Everything the doctor knows, as data."""
    found: dict[str, Any] = {"devices": {}, "libraries": {}, "state": str(state.folder())}
    for kind in kinds():
        try:
            device = open_device(kind)
            limits = device.limits()
            about = {"cores": limits.cores, "memory": limits.memory}
            found["devices"][kind] = {"here": True, **device.describe(), **about}
        except SuiteError as error:
            found["devices"][kind] = {"here": False, "reason": str(error)}
    for name, (missing, load) in LIBRARIES.items():
        found["libraries"][name] = _library(missing, load)
    missing_torch = torch_library.missing()
    found["libraries"]["torch"] = {"here": not missing_torch, "reason": missing_torch}
    try:
        found["compiler"] = {"here": True, "version": build.compiler()[1]}
    except SuiteError as error:
        found["compiler"] = {"here": False, "reason": str(error)}
    known = ceilings.load()
    found["ceilings"] = None if known is None else {
        "measured": known.measured, "flops": known.flops, "bandwidth": known.bandwidth,
    }  # fmt: skip
    return found


def _library(missing: Callable[[], str | None], load: Callable[[], Any]) -> dict[str, Any]:
    reason = missing()
    if reason:
        return {"here": False, "reason": reason}
    try:
        library = load()
    except SuiteError as error:
        return {"here": False, "reason": str(error)}
    return {"here": True, "version": library.version, "kernels": library.kernels, "isa": library.isa}


def lines(found: dict[str, Any]) -> list[str]:
    """For a person: a line each."""
    said = []
    for kind, about in found["devices"].items():
        told = f"{about['model']}, {about['cores']} cores" if about["here"] else about["reason"]
        said.append(f"device {kind}: {told}")
    for name, about in found["libraries"].items():
        told = " ".join(str(about[key]) for key in ("version", "kernels") if about.get(key)) or "here"
        said.append(f"{name}: {told if about['here'] else about['reason']}")
    compiler = found["compiler"]
    said.append(f"compiler: {compiler['version'] if compiler['here'] else compiler['reason']}")
    known = found["ceilings"]
    if known is None:
        said.append("ceilings: none measured yet: python -m micro.ceiling (20 s)")
    else:
        peaks = ", ".join(f"{isa} {rate / 1e9:.0f} GFLOP/s" for isa, rate in known["flops"].items())
        said.append(f"ceilings, {known['measured']}: {peaks}")
    lasting = " (temporary: no lasting folder can be written)" if state.is_temporary() else ""
    said.append(f"state: {found['state']}{lasting}")
    return said


def main(argv: Sequence[str] | None = None) -> int:
    """Ends 0 where the base works: a CPU, a compiler, OpenBLAS."""
    parser = argparse.ArgumentParser("python -m kernels", description="What is here and what is missing.")
    parser.add_argument("--json", action="store_true", help="as one JSON document")
    arguments = parser.parse_args(argv)
    found = survey()
    print(json.dumps(found, indent=1, default=str) if arguments.json else "\n".join(lines(found)))
    base = found["compiler"]["here"] and found["libraries"]["OpenBLAS of numpy"]["here"]
    return 0 if base else 1


if __name__ == "__main__":
    sys.exit(main())
