"""The suite as it is installed: where it lies, how its modules are run, and how a user types its commands.

In a checkout the top-level names are kernels, micro, macro and reports. The wheel holds them in one package, kernelgap,
so that it takes no other project's name; setup.py makes it from these files.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path

PREFIX = __name__.removesuffix("kernels.suite")  # of module names: empty in a checkout, "kernelgap." from the wheel
FOLDER = Path(__file__).parents[1]  # holds kernels, micro, macro and reports
ROOT = FOLDER.parent if PREFIX else FOLDER  # on the path of a Python that imports them


def child(module: str, *words: object) -> list[str]:
    """Return the command line that runs a module of the suite in this interpreter; it needs `environment`.

    Because of -P no file of the current folder stands in for one of the suite."""
    return [sys.executable, "-P", "-m", PREFIX + module, *map(str, words)]


def environment(root: Path = ROOT) -> dict[str, str]:
    """Return the environment in which a Python finds the suite at `root`."""
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    return os.environ | {"PYTHONPATH": path}


def typed(module: str, *words: str) -> str:
    """Return a command of the suite as a user types it: `python -m micro.gemm --k 64`, `kernelgap gemm --k 64`."""
    module = module.removesuffix(".__main__")
    if not PREFIX:
        return shlex.join(["python", "-m", module, *words])
    room, _, name = module.partition(".")
    return shlex.join(["kernelgap", *filter(None, [name or ("doctor" if room == "kernels" else "")]), *words])


def subcommand(name: str, *words: str) -> str:
    """Return a command that a package's own front door runs, as a user types it: `python -m PACKAGE NAME`.

    The package is found by the command's file, as a package names none that stands above it."""
    packages = (path.parent.name for path in FOLDER.glob(f"*/{name}.py"))
    package = next(package for package in packages if is_package(package))
    return typed(package, name, *words)


def is_package(name: str) -> bool:
    """Return whether this is one of the suite's packages."""
    return bool(name) and (FOLDER / name / "__init__.py").is_file()


def import_hint(error: BaseException) -> str:
    """Return what to write where a user's file failed to import one of the suite's names."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ImportError) else ""
    if not is_package(name):
        return ""
    if PREFIX:
        return f": as it is installed the suite has `{name}` as kernelgap.{name}; a kernel needs kernelgap alone"
    return f": in a checkout `{name}` is this suite's own folder; installed (pip install .) it leaves that name free"
