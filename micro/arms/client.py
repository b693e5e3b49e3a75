"""The driver's end of an arm: start it pinned, send requests, with a limit on every wait."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kernels import suite
from kernels.errors import LaunchError
from micro.worker.json_child import JsonChild
from micro.worker.process import ERRORS, POOLS


def module_in(repo: Path) -> str | None:
    """Return the module that serves an arm in a checkout or an installed package; None without any."""
    names = ("micro._arm", "kernelgap.micro._arm")
    return next((name for name in names if (repo / f"{name.replace('.', '/')}.py").is_file()), None)


class Arm(JsonChild):
    """A process that runs `micro._arm` of a checkout. Raises OSError where its Python cannot be started."""

    def __init__(self, letter: str, python: str, repo: Path, threads: int, device: str = "cpu") -> None:
        self.letter = letter
        # An installed package needs no path, which would lend the packages beside it to another Python.
        is_installed = suite.PREFIX and repo == suite.ROOT
        environment = {**os.environ} if is_installed else suite.environment(repo)
        # PYTHONSAFEPATH: else the current folder, which may be the other checkout, would come first.
        environment |= dict.fromkeys(POOLS, str(threads)) | {"PYTHONSAFEPATH": "1"}
        super().__init__([python, "-m", module_in(repo) or "micro._arm", device, str(threads)], environment)

    def call(self, do: str, *, patience: float, **given: Any) -> dict[str, Any]:
        """Return the answer to a request. Raises what the arm raised; LaunchError for a crash or a hang."""
        self.send({"do": do, **given})
        answer = self.receive(patience)
        if "error" in answer and "kind" in answer:
            raise ERRORS.get(answer["kind"], LaunchError)(answer["error"])
        return answer
