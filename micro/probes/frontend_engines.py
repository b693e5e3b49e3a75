"""Every engine of cuDNN, run: the table from an engine's number to its algorithm."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from kernels.errors import LaunchError
from kernels.libs import convolutions, cudnn_frontend, cupti
from micro.probing import accuracy, clock
from micro.probing.facts import Facts, need, package

QUESTION = "Which engines of cuDNN run, in which arithmetic, by which kernels: is 3 FFT, 4 tiled FFT, 6 Winograd?"
LIMIT = 150.0
PART = 3
RANK = 80
SHARE = 0.85  # of it: one that is killed has no answer
FIRST = {"fprop": (3, 4, 6, 12, 0, 1, 2, 28, 70), "dgrad": (4, 5, 50, 7, 19), "wgrad": (18,)}
MOST = 8 << 30  # bytes of workspace


def ask() -> dict[str, Any]:
    need("cudnn", "cupy")
    facts, over = Facts(), time.monotonic() + SHARE * LIMIT
    watched = bool(facts.ask("tracing", cupti.start))  # before there is a context
    cudnn = package("cudnn")
    import cupy

    facts.ask("cuDNN", cudnn.backend_version)
    handle = cudnn.create_handle()
    for others in (False, True):  # those of the question first: another may crash
        for shape in convolutions.SMALL:
            for op in cudnn_frontend.READS:
                case = Case(cudnn, cupy, op, shape, handle, watched)
                for index in case.rest() if others else FIRST[op]:
                    if time.monotonic() > over:
                        facts.note("not all", f"stopped before {op}, eng{index}, {shape.name}")
                        return facts.found
                    facts.ask(f"{op}, eng{index}, {shape.name}", partial(case.engine, index))
    return facts.found


class Case:
    """One operation of one shape: operands on the device, the answer in double precision."""

    def __init__(self, cudnn: Any, cp: Any, op: str, shape: convolutions.Shape, handle: int, watched: bool) -> None:
        self.cudnn, self.cp, self.op, self.layer = cudnn, cp, op, shape.layer
        self.handle, self.watched = handle, watched
        given = convolutions.operands(shape)
        self.want = convolutions.reference(cudnn_frontend.WRITES[op], shape, given)
        self.arrays = {name: cp.asarray(given[name]) for name in "xwy"}
        self.out = self.arrays[cudnn_frontend.WRITES[op]]

    def rest(self) -> list[int]:
        graph = cudnn_frontend.graph(self.cudnn, self.op, self.layer, handle=self.handle)
        return [i for i in range(graph.graph.get_engine_count()) if i not in FIRST[self.op]]

    def engine(self, index: int) -> dict[str, Any]:
        """Raises what cuDNN says of an engine that is not for this problem."""
        try:
            graph = cudnn_frontend.engine(self.cudnn, self.op, self.layer, index, handle=self.handle)
            facts = {"name": graph.names()[0], **graph.plan(0)}
        except Exception as error:
            raise LaunchError(cudnn_frontend.told(str(error))) from None
        if facts["workspace"] > MOST:
            return facts
        space = self.cp.empty(max(1, facts["workspace"]), self.cp.uint8)
        places = {graph.tensors[name]: self.arrays[name].data.ptr for name in "xwy"}
        self.out.fill(self.cp.nan)
        self.cp.cuda.runtime.deviceSynchronize()
        if self.watched:
            cupti.take()
        run = partial(graph.graph.execute_plan_at_index, places, space.data.ptr, 0, handle=self.handle)
        run()
        self.cp.cuda.runtime.deviceSynchronize()
        ran = cupti.take() if self.watched else []
        gap = accuracy.error(self.cp.asnumpy(self.out), self.want)
        micro = clock.microseconds(self.cp, run, 10, rounds=2)  # traced, so with what tracing costs
        names = {"kernels": [name for name, _ in ran], "like": accuracy.precision(gap["l2"])}
        return {**facts, **gap, **names, "us": micro}
