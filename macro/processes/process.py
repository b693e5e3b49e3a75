"""A framework's process: its environment, messages and time limits; no framework is imported here."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from kernels import heap, state
from kernels.devices import kind_of
from kernels.errors import Unavailable
from kernels.libs import preload
from macro.frameworks import Framework, interpreter, remedy
from macro.processes.job import Setting
from micro.worker.client import Died
from micro.worker.json_child import JsonChild
from micro.worker.process import POOLS

LOOP = Path(__file__).parents[1] / "agent" / "core" / "loop.py"
SHOWN, LINE = 4096, 300  # bytes read from the end of a log; characters shown of its last line
START = 180.0  # seconds for a framework to import, build and compile; ten times as long if it autotunes kernels


class Process(JsonChild):
    """A framework's running process, which exchanges messages. Raises Unavailable if it cannot start."""

    def __init__(self, framework: Framework, job: Path, setting: Setting, log: Path) -> None:
        python = interpreter(framework, setting.device)
        if python is None:
            raise Unavailable(f"no environment for {framework.name}: {remedy(framework, setting.device)}")
        self.framework, self.device = framework, setting.device
        self._start = 10 * START if framework.chooses else START
        self.messages: list[dict[str, Any]] = []
        self._maps = "ONEDNN_JIT_PROFILE" in setting.knobs.get("variables", {})
        environment = os.environ | dict.fromkeys(POOLS, str(setting.threads)) | heap.variables(setting.heap)
        environment |= preload.variables(setting.preload)
        environment |= {str(k): str(v) for k, v in framework.recipe.get("variables", {}).items()}
        environment |= {str(k): str(v) for k, v in setting.knobs.get("variables", {}).items()}
        if kind_of(setting.device).undivided:  # the timed program is the proven program, compiled once
            environment.setdefault("JAX_COMPILATION_CACHE_DIR", str(state.folder() / "jax"))
            environment.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
        for name in ("PYTHONPATH", "PYTHONSAFEPATH"):  # the loop runs by path, with modules beside it
            environment.pop(name, None)
        words = [str(python), str(LOOP), str(framework.path), str(job)]
        self._log = log, log.stat().st_size if log.exists() else 0
        with log.open("ab") as stream:
            try:
                super().__init__(words, environment, stream)
            except OSError as error:
                raise Unavailable(
                    f"{python} does not start: {error.strerror}: {remedy(framework, setting.device)}"
                ) from None

    def ask(self, patience: float, kind: str, **request: Any) -> dict[str, Any]:
        """Send a request and return the reply. Raises LaunchError, Unavailable."""
        self.send(request)
        return self.expect(kind, patience)

    def expect(self, kind: str, patience: float | None = None) -> dict[str, Any]:
        """Return the next message, which must be of this kind; else end the process and raise SuiteError."""
        message = self.receive(self._start if patience is None else patience, kind)
        self.messages.append(message)
        if message.get("kind") == kind:
            return message
        if message.get("kind") == "unavailable":
            self.close()
            raise Unavailable(f"{message.get('reason')}{self._remedy() if message.get('remedy', True) else ''}")
        if message.get("kind") == "failed":
            raise self.fault(str(message.get("reason")))
        raise self.fault(f"sent {message.get('kind')!r} where {kind!r} was expected")

    def _death(self) -> Died:
        """Add the last printed line, such as a failed C++ check, to the error: the log is not kept."""
        died, (path, before) = super()._death(), self._log
        with suppress(OSError), path.open("rb") as stream:
            stream.seek(max(before, path.stat().st_size - SHOWN))
            lines = stream.read().decode(errors="replace").split("\n")
            if last := next((line.strip() for line in reversed(lines) if line.strip()), ""):
                return Died(f"{died}; last output: {last[:LINE]}")
        return died

    def _remedy(self) -> str:
        return f": {remedy(self.framework, self.device)}" if self.framework.recipe else ""

    def close(self) -> None:
        """End the process and its children; delete its map of generated code for perf, if any."""
        super().close()
        if self._maps:
            with suppress(OSError):
                Path(f"/tmp/perf-{self.pid}.map").unlink()
