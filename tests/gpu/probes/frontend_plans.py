"""What cuDNN's heuristics rank, and what describes this device to them where there is none."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

from tests.gpu import _conv, _frontend
from tests.gpu._facts import Facts, need, package

QUESTION = (
    "Which plans do cuDNN's heuristics rank, which are strict fp32; what is this device as a description?"
)
LIMIT = 110.0


def ask() -> dict[str, Any]:
    need("cudnn")
    cudnn = package("cudnn")

    facts, over = Facts(), time.monotonic() + 0.85 * LIMIT  # one that is killed has no answer
    facts.ask("versions", lambda: {"frontend": cudnn.__version__, "cuDNN": cudnn.backend_version()})
    facts.ask("device", lambda: cudnn.create_device_properties(0).serialize())
    handle = cudnn.create_handle()
    for shape in (*_conv.SMALL, _conv.LAYER):
        for op in _frontend.READS:
            made = partial(_frontend.graph, cudnn, op, shape, handle=handle)
            facts.ask(f"engines, {op}, {shape.name}", partial(count, made))
            for mode in _frontend.MODES:
                ranked = partial(_frontend.plans, cudnn, op, shape, mode, handle=handle)
                facts.ask(f"plans {mode}, {op}, {shape.name}", partial(listed, ranked))
    for op in _frontend.READS:  # last: building compiles, for seconds
        for mode in ("A", "B"):
            for strict in (True, False):
                what = "strict" if strict else "any"
                question = partial(built, cudnn, op, mode, strict, handle, over)
                facts.ask(f"built {mode}, {what}, {op}, {_conv.SMALL[0].name}", question)
    return facts.found


def count(made: Callable[[], _frontend.Graph]) -> int:
    return int(made().graph.get_engine_count())


def listed(made: Callable[[], _frontend.Graph]) -> list[str]:
    return made().names()


def built(cudnn: Any, op: str, mode: str, strict: bool, handle: int, over: float) -> list[dict[str, Any]]:
    """Each listed plan with its workspace and notes, or why it is not built."""
    made = _frontend.plans(cudnn, op, _conv.SMALL[0], mode, strict, handle=handle)
    found: list[dict[str, Any]] = []
    for index, name in enumerate(made.names()):
        if time.monotonic() > over:
            found.append({"plan": name, "not": "no time left"})
            continue
        try:
            found.append({"plan": name, **made.plan(index)})
        except Exception as error:
            found.append({"plan": name, "not": _frontend.told(str(error))})
    return found
