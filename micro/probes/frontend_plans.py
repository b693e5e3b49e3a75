"""What cuDNN's heuristics rank, and what describes this device to them where there is none."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from kernels.libs import convolutions, cudnn_frontend
from micro.probing.facts import Facts, need, package

QUESTION = "Which plans do cuDNN's heuristics rank, which are strict fp32; what is this device as a description?"
LIMIT = 110.0
PART = 3
RANK = 90


def ask() -> dict[str, Any]:
    need("cudnn")
    cudnn = package("cudnn")

    facts, over = Facts(), time.monotonic() + 0.85 * LIMIT  # one that is killed has no answer
    facts.ask("versions", lambda: {"frontend": cudnn.__version__, "cuDNN": cudnn.backend_version()})
    facts.ask("device", lambda: cudnn.create_device_properties(0).serialize())
    handle = cudnn.create_handle()
    for shape in (*convolutions.SMALL, convolutions.LAYER):
        for op in cudnn_frontend.READS:
            layer = shape.layer
            make = partial(cudnn_frontend.graph, cudnn, op, layer, handle=handle)
            facts.ask(f"engines, {op}, {shape.name}", partial(count, make))
            for mode in cudnn_frontend.MODES:
                ranked = partial(cudnn_frontend.plans, cudnn, op, layer, mode, handle=handle)
                facts.ask(f"plans {mode}, {op}, {shape.name}", partial(listed, ranked))
    for op in cudnn_frontend.READS:  # last: building compiles, for seconds
        for mode in ("A", "B"):
            for strict in (True, False):
                what = "strict" if strict else "any"
                question = partial(built, cudnn, op, mode, strict, handle, over)
                facts.ask(f"built {mode}, {what}, {op}, {convolutions.SMALL[0].name}", question)
    return facts.found


def count(make: Callable[[], cudnn_frontend.Graph]) -> int:
    return int(make().graph.get_engine_count())


def listed(make: Callable[[], cudnn_frontend.Graph]) -> list[str]:
    return make().names()


def built(cudnn: Any, op: str, mode: str, strict: bool, handle: int, over: float) -> list[dict[str, Any]]:
    """Each listed plan with its workspace and notes, or why it is not built."""
    layer, without = convolutions.SMALL[0].layer, cudnn_frontend.COARSE if strict else ()
    graph = cudnn_frontend.plans(cudnn, op, layer, mode, without, handle=handle)
    plans: list[dict[str, Any]] = []
    for index, name in enumerate(graph.names()):
        if time.monotonic() > over:
            plans.append({"plan": name, "not": "no time left"})
            continue
        try:
            plans.append({"plan": name, **graph.plan(index)})
        except Exception as error:
            plans.append({"plan": name, "not": cudnn_frontend.told(str(error))})
    return plans
