"""A framework's process, and the limits it is held to. No framework is imported here."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from kernels import heap
from kernels.errors import LaunchError, Unavailable
from macro.frameworks import Framework, interpreter
from macro.processes.job import Setting
from micro.worker.process import POOLS, ended

LOOP = Path(__file__).parents[1] / "worker" / "loop.py"
START = 180.0  # seconds for a framework to import, build and compile
CLOSE = 5.0
GLANCE = 0.5  # seconds between two looks whether it is still there


class Process:
    """Alive from here on; `expect` gives its messages. Everything it said is in `said`."""

    def __init__(self, framework: Framework, job: Path, setting: Setting, log: Path) -> None:
        python = interpreter(framework)
        if python is None:
            raise Unavailable(f"no environment for {framework.name}: python -m macro env create {framework.name}")
        self.framework, self.log = framework, log
        self._maps = "ONEDNN_JIT_PROFILE" in setting.knobs.get("variables", {})
        ours, theirs = os.pipe(), os.pipe()
        environment = os.environ | dict.fromkeys(POOLS, str(setting.threads)) | heap.variables(setting.heap)
        environment |= {str(k): str(v) for k, v in framework.recipe.get("variables", {}).items()}
        environment |= {str(k): str(v) for k, v in setting.knobs.get("variables", {}).items()}
        environment.pop("PYTHONPATH", None)
        words = [str(python), str(LOOP), str(framework.path), str(job), str(theirs[0]), str(ours[1])]
        with log.open("ab") as stream:
            self._process = subprocess.Popen(
                [*words, str(os.getpid())],
                env=environment,
                pass_fds=(theirs[0], ours[1]),
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                process_group=0,
            )
        os.close(theirs[0])
        os.close(ours[1])
        self._from, self._to = ours[0], theirs[1]
        self._rest = b""
        self.said: list[dict[str, Any]] = []

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, patience: float, kind: str, **request: Any) -> dict[str, Any]:
        """A request and its answer. Raises LaunchError, Unavailable."""
        try:
            os.write(self._to, (json.dumps(request) + "\n").encode())
        except OSError:
            raise self._death() from None
        return self.expect(kind, patience)

    def expect(self, kind: str, patience: float | None = None) -> dict[str, Any]:
        """The next message, of this kind. Raises Unavailable for what cannot run here, LaunchError for what
        failed, died, hung or spoke out of turn; the process is then gone."""
        patience = START if patience is None else patience
        end = time.monotonic() + patience
        while True:
            message = self._line(end, kind, patience)
            if message.get("kind") == kind:
                return message
            if message.get("kind") in ("unavailable", "failed"):
                self.close()
                failure = Unavailable if message["kind"] == "unavailable" else LaunchError
                raise failure(f"{message.get('reason')}{self._remedy(message)}")
            self.close()
            raise LaunchError(f"says {message.get('kind')!r} where {kind!r} was expected")

    def _remedy(self, message: dict[str, Any]) -> str:
        if message["kind"] != "unavailable" or not self.framework.recipe:
            return ""
        return f": python -m macro env create {self.framework.name}"

    def _line(self, end: float, kind: str, patience: float) -> dict[str, Any]:
        while b"\n" not in self._rest:
            left = end - time.monotonic()
            gone = self._process.poll() is not None  # a child of its may hold the descriptor open
            if select.select([self._from], [], [], max(0.0, min(left, GLANCE)))[0]:
                got = os.read(self._from, 1 << 16)
                if not got:
                    raise self._death()
                self._rest += got
            elif gone:
                raise self._death()
            elif left <= 0:
                self.close()
                raise LaunchError(f"hangs: no {kind} within {patience:.0f} s")
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            self.close()
            raise LaunchError(f"sends what is no message: {line[:60]!r}")
        self.said.append(message)
        return message

    def _death(self) -> LaunchError:
        self.wait()  # it may have closed its descriptor and live on
        code = self._process.poll()
        self.close()
        return ended(code) if code is not None else LaunchError("closes its descriptor and goes on without an answer")

    def wait(self) -> bool:
        """For its own end, a while: whether it came."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE)
        return self._process.returncode is not None

    def close(self) -> None:
        """End it and whatever it started; the map of generated code that it may have written for perf goes too."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._maps:
            with suppress(OSError):
                Path(f"/tmp/perf-{self.pid}.map").unlink()
        for handle in (self._from, self._to):
            with suppress(OSError):
                os.close(handle)
        self._from = self._to = -1

    def __enter__(self) -> Process:
        return self

    def __exit__(self, *error: object) -> None:
        if self._from >= 0:
            self.close()
