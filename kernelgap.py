"""The command `kernelgap`, and what a user's own files import: step, plan, measure, flat, Launch, Variant, UsageError.

In a checkout this file stands beside the folders; in the wheel it is the package that holds them. It imports nothing of
them until a name or a command is used.
"""

from __future__ import annotations

import importlib
import runpy
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kernels.errors import UsageError
    from kernels.launch import Launch
    from kernels.variant import Variant
    from macro.agent.path.kernelgap import step
    from micro import measure, plan
    from reports import flat


__all__ = ["Launch", "UsageError", "Variant", "flat", "measure", "plan", "step"]

FOLDER = Path(__file__).parent  # holds kernels, micro, macro and reports
PREFIX = "kernelgap." if "__path__" in globals() else ""  # of their names
HOMES = {
    "step": "macro.agent.path.kernelgap",
    "plan": "micro",
    "measure": "micro",
    "Launch": "kernels.launch",
    "Variant": "kernels.variant",
    "UsageError": "kernels.errors",
    "flat": "reports.flat",  # the module: results(run) and comparisons(run), rows for a data frame
}


def __getattr__(name: str) -> Any:
    if name not in HOMES:
        raise AttributeError(f"module 'kernelgap' has no attribute {name!r}; it has {', '.join(HOMES)}")
    home = importlib.import_module(PREFIX + HOMES[name])
    return home if HOMES[name].endswith(f".{name}") else getattr(home, name)


def __dir__() -> list[str]:
    return __all__


def commands() -> Iterator[tuple[str, str, Sequence[str]]]:
    """Yield each command: its name, the module that runs it, and the words that this module needs first."""
    yield "doctor", "kernels", ()
    for name in ("list", "all"):
        yield name, "micro", (name,)
    for path in sorted((FOLDER / "micro").glob("[a-z]*.py")):
        yield path.stem, f"micro.{path.stem}", ()
    for path in sorted((FOLDER / "macro").glob("[a-z]*.py")):
        if path.stem != "command":  # shared by the others
            yield path.stem, "macro", (path.stem,)
    for name in ("show", "compare", "export"):
        yield name, "reports", (name,)


def main() -> int:
    """Run the command that the first word names; return its exit code."""
    modules = {name: (module, words) for name, module, words in commands()}
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if name in ("-h", "--help"):
        print("usage: kernelgap COMMAND …; kernelgap COMMAND --help lists its options, kernelgap --version\n")
        by_module: dict[str, list[str]] = {}
        for command, (module, _) in modules.items():
            by_module.setdefault(module.partition(".")[0], []).append(command)
        about = {"kernels": "this machine", "micro": "kernels by themselves", "macro": "networks and programs"}
        for room, names in by_module.items():
            print(f"{about.get(room, 'run files')}: {', '.join(names)}")
        return 0
    if name == "--version":
        from importlib import metadata

        try:
            print(metadata.version("kernelgap"))
        except metadata.PackageNotFoundError:
            print("a checkout that is not installed")
        return 0
    if name not in modules:
        print(f"kernelgap: no command {name}; choose from {', '.join(modules)}", file=sys.stderr)
        return 2
    if not PREFIX and sys.path[0] != str(FOLDER):
        sys.path.insert(0, str(FOLDER))
    module, words = modules[name]
    sys.argv[1:2] = words
    runpy.run_module(PREFIX + module, run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
