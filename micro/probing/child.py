"""One probe in this process: `python -m micro.probing.child FILE ANSWERS PARENT`."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from micro.probing import facts, processes


def load(path: Path) -> ModuleType:
    """The probe's module, whatever folder it lies in."""
    spec = importlib.util.spec_from_file_location(f"probe_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} is no module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answer(path: Path) -> dict[str, Any]:
    try:
        return {"answer": facts.plain(load(path).ask())}
    except BaseException as error:  # one that exits is told, too
        return {"error": facts.reason(error)}


def main(file: str, answers: str, parent: str) -> None:
    processes.die_with(int(parent))
    facts.listen(os.open(answers, os.O_WRONLY | os.O_APPEND))
    facts.tell(answer(Path(file)))
    os._exit(0)  # what a library does at exit is no part of the answer


if __name__ == "__main__":
    main(*sys.argv[1:])
