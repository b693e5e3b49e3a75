"""A check on the inputs of the rivals before it: what is found of the right answer in float64 serves all of them."""

from __future__ import annotations

import functools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kernels.catalog import find
from kernels.devices import open_device
from micro.planning.contest import Case
from micro.worker import check as checking
from micro.worker.guards import Bench
from micro.worker.turns import Drawn

if TYPE_CHECKING:
    from kernels.problem import Problem
    from micro.worker.messages import Serves


@dataclass(frozen=True, slots=True)
class Right:
    """The worst error in shares of what it may be, the kernel as its library names it, and seconds that it all took."""

    share: float
    kernel: str | None
    seconds: float


@dataclass(frozen=True)
class CheckShared:
    """Prepare a kernel and check it; nothing of it stays. Cases of one problem and with the same constant inputs are to
    follow each other: only the last ones' inputs are kept."""

    case: Case
    seed: int

    def on(self, host: Serves) -> Right:
        """Raises as its two steps do in a run."""
        began, problem, setting = time.perf_counter(), self.case.problem, self.case.setting
        device = open_device(setting.device)
        variant = device.adopt(find(problem.op, self.case.variant))
        bind = variant.prepare(problem, device, setting)
        kernel, _ = bind(Bench(device, problem).views).kernel or variant.kernel()
        asked = checking.Asked(_drawn(problem, self.seed, variant.constant), setting.data)
        passed, _ = checking.check(device, problem, variant, bind, self.seed, asked)
        return Right(passed.error / passed.bound if passed.bound else 0.0, kernel, time.perf_counter() - began)


@functools.lru_cache(maxsize=1)
def _drawn(problem: Problem, seed: int, constant: tuple[str, ...]) -> Drawn:
    return Drawn(problem, seed, constant)
