"""Child process of truth.py: run a script, and write the seconds of its steps to a file."""

from __future__ import annotations

import json
import os
import runpy
import statistics
import sys
import time
from pathlib import Path
from typing import Any

WARM = 3  # first steps, which are not counted
Ticks = list[tuple[float, float]]  # wall and processor seconds at the ends of steps


def watch(ticks: Ticks, seconds: float, result: Path, by_optimizer: bool) -> None:
    """Add a tick at the end of each step: of the first optimizer's, or of the outermost module's call."""
    import torch.nn.modules.module as module
    import torch.optim.optimizer as optimizer

    stepped: list[object] = []
    depth = [0]

    def enter(*_: Any) -> None:
        depth[0] += 1

    def tick(owner: object, *_: Any) -> None:
        depth[0] -= not by_optimizer
        if depth[0] or (stepped and owner is not stepped[0]):
            return
        stepped[:] = [owner]
        ticks.append((time.perf_counter(), time.process_time()))
        if len(ticks) > 2 * WARM and ticks[-1][0] - ticks[WARM][0] > seconds:
            write(ticks, result)
            os._exit(0)

    if by_optimizer:
        optimizer.register_optimizer_step_post_hook(tick)
    else:
        module.register_module_forward_pre_hook(enter)
        module.register_module_forward_hook(tick)


def write(ticks: Ticks, result: Path) -> None:
    """Write the median and the mean of the steps by each clock."""
    steps = [(b[0] - a[0], b[1] - a[1]) for a, b in zip(ticks[WARM:], ticks[WARM + 1 :], strict=False)]
    averages = {"median": statistics.median, "mean": statistics.fmean}
    values = {name: [average(column) for column in zip(*steps, strict=True)] for name, average in averages.items()}
    result.write_text(json.dumps(values), "utf-8")


if __name__ == "__main__":
    script, destination, limit = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
    recorded: Ticks = []
    watch(recorded, limit, destination, ".step(" in script.read_text("utf-8"))
    runpy.run_path(str(script), run_name="__main__")
    write(recorded, destination)
