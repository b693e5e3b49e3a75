"""A user's script as a child process: start, environment and end."""

from __future__ import annotations

import ast
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from kernels import heap, suite
from kernels.errors import Unavailable
from macro.watching import perf
from micro.worker.json_child import JsonChild
from micro.worker.process import POOLS

RUNNER = Path(__file__).parents[1] / "agent" / "script.py"
STOPS = ("raise", "exit", "never")


@dataclass(frozen=True)
class Script:
    """A script to watch: path, arguments, interpreter and options of watching."""

    path: Path  # of the file; of a module, the folder in which `python -m` runs it
    arguments: Sequence[str] = ()
    python: Path = Path()
    step: str | None = None
    stop: str = "raise"
    threads: int | None = None
    heap: str | None = None  # None: the initial heap, then a heap that keeps freed memory
    seconds: float = 40.0  # of watching
    patience: float = 30.0  # seconds to wait for the first step
    knock_out: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    trials: Sequence[str] = ()  # changes that the agent makes before it watches, see macro/agent/trials.py
    expected: int = 0  # steps that a short script takes, of which all are watched; 0: it runs for longer
    module: str | None = None  # run as `python -m` runs it, instead of a file

    @property
    def name(self) -> str:
        """Name of the script's file, or of the module."""
        return self.module or self.path.name

    @property
    def key(self) -> str:
        """The script in a recording: its path, or `-m` and the module's name."""
        return f"-m {self.module}" if self.module else str(self.path)

    def as_module(self) -> tuple[str, Path] | None:
        """Return the module's name, and the folder to run it in, if the file has relative imports; else None."""
        tree = ast.walk(ast.parse(self.path.read_bytes()))
        levels = max((node.level for node in tree if isinstance(node, ast.ImportFrom)), default=0)
        if not levels:
            return None
        *above, name = self.path.with_suffix("").parts
        parts = [name] if name != "__main__" else []
        while levels > 0 or Path(*above, "__init__.py").exists():
            parts, levels = [above.pop(), *parts], levels - 1
        return ".".join(parts), Path(*above)


class Program(JsonChild):
    """A script's running process. Raises Unavailable if the interpreter does not start."""

    def __init__(self, script: Script, folder: Path, output: IO[bytes], errors: IO[bytes]) -> None:
        file = None if script.module else str(script.path)
        about: dict[str, object] = {
            "script": file,
            "module": script.module,
            "arguments": list(script.arguments),
            "step": script.step,
        }
        about |= {"trials": list(script.trials), "short": bool(script.expected)}
        with tempfile.NamedTemporaryFile("w", prefix="script-", suffix=".json", dir=folder, delete=False) as job:
            json.dump({**about, "stop": script.stop, "wait": script.patience}, job)
        environment = os.environ | perf.NAMED | {"KINETO_LOG_LEVEL": "6"} | heap.variables(script.heap or "default")
        if script.threads is not None:
            environment |= dict.fromkeys(POOLS, str(script.threads))
        environment |= script.variables
        environment.pop("PYTHONSAFEPATH", None)  # the runner has modules beside it
        if not suite.PREFIX and "PYTHONPATH" in environment:  # a checkout's names are the script's own in there
            folders = environment["PYTHONPATH"].split(os.pathsep)
            environment["PYTHONPATH"] = os.pathsep.join(x for x in folders if x != str(suite.ROOT))
        words = [str(script.python), str(RUNNER), job.name]
        try:
            super().__init__(words, environment, output, errors)
        except OSError as error:
            raise Unavailable(f"--python {script.python}: does not start: {error.strerror}") from None

    def close(self) -> None:
        """End the process and its children; delete the map of generated code written for perf."""
        super().close()
        with suppress(OSError):
            Path(f"/tmp/perf-{self.pid}.map").unlink()
