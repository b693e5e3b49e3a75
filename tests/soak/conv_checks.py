"""Checks of `python -m tests.soak conv`: every layer of the texts in three passes at two batches, and odd shapes; and
the check, whose inputs and float64 reference all rivals share."""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kernels.catalog import find, rows
from kernels.devices import open_device
from kernels.errors import UsageError
from kernels.ops.conv.layouts import LAYOUTS
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.shape import PASSES
from kernels.variant import Variant
from micro.planning.contest import Case
from micro.planning.conv_layers import distinct_layers
from micro.worker import check as checking
from micro.worker.guards import Bench
from micro.worker.turns import Drawn

if TYPE_CHECKING:
    from kernels.problem import Problem
    from micro.worker.messages import Serves

BATCHES = (1, 16)
SEARCHES = "patient"  # in the names of kernels whose plans take seconds to minutes a shape: a question of their own
ODD = {
    "filters of even edges": Conv(2, 6, 9, 8, 10, 2, 4),
    "even edges, padded more behind": Conv(2, 16, 9, 9, 16, 4, 4, pad_top=1, pad_left=1, pad_bottom=2, pad_right=2),
    "a filter for each channel": Conv(2, 16, 9, 11, 16, pad=1, groups=16),
    "two filters for each channel": Conv(2, 8, 9, 7, 16, pad=1, groups=8),
    "groups": Conv(2, 32, 9, 7, 48, pad=1, groups=2),
    "dilation": Conv(2, 16, 12, 11, 32, pad=2, dilation=2),
    "dilation and stride": Conv(2, 5, 17, 16, 7, stride=3, pad_top=2, pad_left=4, dilation=2),
    "stride 2 on 1×1": Conv(2, 32, 9, 10, 16, 1, 1, stride=2),
    "stride 3 on 2×2, which leaves pixels out": Conv(1, 3, 10, 11, 4, 2, 2, stride=3),
    "N = C = H = W = K": Conv(7, 7, 7, 7, 7, pad=1),
    "N = C = H = W = K, whole blocks": Conv(16, 16, 16, 16, 16, pad=1),
    "N = C = H = W = K = R = S": Conv(3, 3, 3, 3, 3, pad=1),
    "one pixel": Conv(2, 16, 1, 1, 16, 1, 1),
    "one pixel in its padding": Conv(2, 16, 1, 1, 32, pad=1),
    "one of everything": Conv(1, 1, 1, 1, 1, 1, 1),
    "padding beyond half a filter": Conv(2, 16, 5, 6, 16, pad=2),
    "padding beyond a filter": Conv(1, 3, 3, 2, 2, pad_top=5, pad_left=3, pad_bottom=4, pad_right=6),
    "one row": Conv(2, 4, 1, 40, 5, 1, 7, pad_left=3, pad_right=3),
    "higher than wide": Conv(2, 16, 31, 5, 16, 7, 1, pad_top=3, pad_bottom=3),
    "padded behind alone, at stride 2": Conv(2, 3, 16, 16, 16, stride=2, pad_bottom=1, pad_right=1),
    "four paddings": Conv(2, 16, 9, 8, 16, pad_top=0, pad_left=1, pad_bottom=2, pad_right=1),
    "a filter as large as its image": Conv(2, 8, 7, 7, 16, 7, 7),
    "tiles that overhang by one": Conv(3, 5, 13, 17, 19, pad=1),
}


def kernels() -> list[Variant[Conv]]:
    """Return those of a processor; together such as keep an input, because they need inputs of their own."""
    return sorted((row for row in rows(Conv.op, "cpu") if SEARCHES not in row.name), key=lambda row: row.constant)


def layers(batch: int) -> Iterator[Conv]:
    """Yield the different layers of all networks, pass by pass."""
    for layer in distinct_layers(batch):
        yield from (replace(layer.problem, direction=direction) for direction in PASSES)


def odd() -> Iterator[Conv]:
    """Yield the odd shapes in every layout that can hold them."""
    for shape in ODD.values():
        for layout in LAYOUTS:
            with suppress(UsageError):  # in blocks of channels no others fit
                placed = replace(shape, layout=layout)
                yield from (replace(placed, direction=direction) for direction in PASSES)


@dataclass(frozen=True, slots=True)
class Right:
    """A kernel whose answers are right."""

    share: float  # the worst error over its bound
    kernel: str | None  # as its library names it
    seconds: float  # of preparing and checking


@dataclass(frozen=True)
class CheckShared:
    """A message to a worker: prepare a kernel, check it, keep nothing of it. Cases of the same problem and constant
    inputs are to follow each other: only the last inputs are kept."""

    case: Case
    seed: int

    def on(self, host: Serves) -> Right:
        """Answer with what is right of it; raise as the two steps do in a run."""
        began, problem, setting = time.perf_counter(), self.case.problem, self.case.setting
        device = open_device(setting.device)
        variant = device.adopt(find(problem.op, self.case.variant))
        bind = variant.prepare(problem, device, setting)
        kernel, _ = bind(Bench(device, problem).views).kernel or variant.kernel()
        inputs = checking.Asked(_drawn(problem, self.seed, variant.constant), setting.data)
        passed, _ = checking.check(device, problem, variant, bind, self.seed, inputs)
        return Right(passed.error / passed.bound if passed.bound else 0.0, kernel, time.perf_counter() - began)


@functools.lru_cache(maxsize=1)
def _drawn(problem: Problem, seed: int, constant: tuple[str, ...]) -> Drawn:
    return Drawn(problem, seed, constant)
