"""The suite's installation: its folder, and command lines as programs run them and users type them.

In a checkout the top-level names are kernels, micro, macro and reports. The wheel holds them in one package, kernelgap,
so that it takes no other project's name; setup.py makes it from these files.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

PREFIX = __name__.removesuffix("kernels.suite")  # of module names: empty in a checkout, "kernelgap." from the wheel
FOLDER = Path(__file__).parents[1]  # holds kernels, micro, macro and reports
ROOT = FOLDER.parent if PREFIX else FOLDER  # on the path of a Python that imports them


def child(module: str, *words: object) -> list[str]:
    """Return the command line that runs a module of the suite in this interpreter; it needs `environment`.

    With -P, no file of the current folder shadows a module of the suite."""
    return [sys.executable, "-P", "-m", PREFIX + module, *map(str, words)]


def environment(root: Path = ROOT) -> dict[str, str]:
    """Return the environment in which a Python finds the suite at `root`."""
    path = os.pathsep.join(filter(None, [str(root), os.environ.get("PYTHONPATH")]))
    return os.environ | {"PYTHONPATH": path}


def typed(module: str, *words: str) -> str:
    """Return a command as a user types it: `python -m micro.gemm --k 64`, or `kernelgap gemm --k 64`."""
    import shlex  # compiles a pattern, which a command's help does not need

    module = module.removesuffix(".__main__")
    if not PREFIX:
        return shlex.join(["python", "-m", module, *words])
    room, _, name = module.partition(".")
    return shlex.join(["kernelgap", *filter(None, [name or ("doctor" if room == "kernels" else "")]), *words])


def subcommand(name: str, *words: str) -> str:
    """Return a package's subcommand as a user types it: `python -m PACKAGE NAME`.

    The package is identified by its file NAME.py, because a lower package must not name a higher package."""
    packages = (path.parent.name for path in FOLDER.glob(f"*/{name}.py"))
    package = next(package for package in packages if is_package(package))
    return typed(package, name, *words)


def is_package(name: str) -> bool:
    """Return whether `name` is one of the suite's packages."""
    return bool(name) and (FOLDER / name / "__init__.py").is_file()


def import_hint(error: BaseException) -> str:
    """Return a hint if a user's file failed to import a name that the suite's packages take, else ''."""
    name = (error.name or "").partition(".")[0] if isinstance(error, ImportError) else ""
    if not is_package(name):
        return ""
    if PREFIX:
        return f": the installed suite provides `{name}` as kernelgap.{name}; import only kernelgap in a kernel"
    return f": in a checkout, `{name}` is a folder of this suite; install the suite (pip install .) to free that name"
