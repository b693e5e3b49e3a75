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


def watch(ticks: list[tuple[float, float]], seconds: float, result: Path, by_optimizer: bool) -> None:
    """Add a tick at the end of each step: of the first optimizer's, or of the outermost module's call."""
    import torch.nn.modules.module as module
    import torch.optim.optimizer as optimizer

    first: list[object] = []
    depth = [0]

    def tick(stepped: object, *_: Any) -> None:
        depth[0] -= not by_optimizer
        first.append(stepped)
        if stepped is first[0] and depth[0] == 0:
            ticks.append((time.perf_counter(), time.process_time()))
            if len(ticks) > 2 * WARM and ticks[-1][0] - ticks[WARM][0] > seconds:
                write(ticks, result)
                os._exit(0)
        del first[1:]

    def enter(*_: Any) -> None:
        depth[0] += 1

    if by_optimizer:
        optimizer.register_optimizer_step_post_hook(tick)
    else:
        module.register_module_forward_pre_hook(enter)
        module.register_module_forward_hook(tick)


def write(ticks: list[tuple[float, float]], result: Path) -> None:
    """Write the steps' number, and their median and mean in seconds of the clock and of the processor."""
    later = zip(ticks[WARM:], ticks[WARM + 1 :], strict=False)
    steps = [[b - a for a, b in zip(one_tick, next_tick, strict=True)] for one_tick, next_tick in later]
    columns = list(zip(*steps, strict=True))
    values = {f.__name__: [f(column) for column in columns] for f in (statistics.median, statistics.fmean)}
    result.write_text(json.dumps({"steps": len(steps), **values}), "utf-8")


if __name__ == "__main__":
    script, destination, limit = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
    recorded: list[tuple[float, float]] = []
    watch(recorded, limit, destination, ".step(" in script.read_text("utf-8"))
    sys.argv = [str(script)]
    runpy.run_path(str(script), run_name="__main__")
    write(recorded, destination)
