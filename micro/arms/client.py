"""The driver's end of an arm: start it pinned like its rival, ask, wait no longer than is sensible."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from pathlib import Path
from typing import Any

from kernels.errors import LaunchError
from micro.worker.client import Died
from micro.worker.process import ERRORS, POOLS, ended


class Arm:
    """A process that runs `micro._arm` of a checkout. Raises OSError where its Python cannot be started."""

    def __init__(self, letter: str, python: str, repo: Path, threads: int, device: str = "cpu") -> None:
        self.letter = letter
        path = os.pathsep.join([str(repo), *filter(None, [os.environ.get("PYTHONPATH")])])
        # PYTHONSAFEPATH: else the current folder, which may be the other checkout, would come first.
        environment = os.environ | dict.fromkeys(POOLS, str(threads))
        environment |= {"PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
        theirs, ours = os.pipe(), os.pipe()
        handles = (theirs[0], ours[1])
        words = [python, "-m", "micro._arm", device, str(threads), *map(str, handles), str(os.getpid())]
        try:
            self._process = subprocess.Popen(
                words, env=environment, pass_fds=handles, stdin=subprocess.DEVNULL, process_group=0
            )
        finally:
            for handle in handles:
                os.close(handle)
        self._to, self._from = theirs[1], ours[0]
        self._rest = b""

    def call(self, do: str, *, patience: float, **given: Any) -> Any:
        """Its answer. Raises what it raised; LaunchError for a crash or a hang."""
        if self._process.poll() is not None:
            raise self._death()
        try:
            os.write(self._to, json.dumps({"do": do, **given}).encode() + b"\n")
        except BrokenPipeError:
            raise self._death() from None
        answer = json.loads(self._line(patience))
        if "error" in answer and "kind" in answer:
            raise ERRORS.get(answer["kind"], LaunchError)(answer["error"])
        return answer

    def _line(self, patience: float) -> bytes:
        end = time.monotonic() + patience
        while b"\n" not in self._rest:
            if not select.select([self._from], [], [], max(0.0, end - time.monotonic()))[0]:
                self._process.kill()  # else its late answer would be taken for the next one
                raise Died(f"hangs: no answer within {patience:.0f} s")
            more = os.read(self._from, 1 << 16)
            if not more:
                raise self._death()
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def _death(self) -> Died:
        return ended(self._process.wait())

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
