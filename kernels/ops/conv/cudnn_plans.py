"""cuDNN's convolutions through its frontend: one engine, or the plans that a heuristic ranks.

Engine numbers depend on the pass and on cuDNN's release, which does not name their algorithms; a profiler shows what
ran. Plans are filtered by their numerical notes: in single precision none may round factors, in TF32 none to half
precision, and none may use Winograd tiles too coarse for any error bound."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kernels.errors import LaunchError, SuiteError, Unavailable, UsageError
from kernels.launch import Bind, Launch, held
from kernels.libs import cudnn_frontend
from kernels.libs.cublas import dotted
from kernels.libs.cudnn_frontend import CUDNN_FRONTEND, Frontend, Graph
from kernels.ops.conv.cudnn_rows import CHOSEN, KERNELS, accepts, layer, room
from kernels.ops.conv.problem import Conv
from kernels.ops.gemm.cublas import addresses, scratch
from kernels.setting import Setting
from kernels.variant import DEFAULT, Variant
from kernels.variant import row as provided

OPS = {"forward": "fprop", "dgrad": "dgrad", "wgrad": "wgrad"}
TILES = "WINOGRAD_TILE_13x13"  # simulated, their errors are 300 to 17,000 times a sum's bound
# Numerical notes of plans that are not taken.
WITHOUT = {"fp32": (*cudnn_frontend.COARSE, TILES), "tf32": (*cudnn_frontend.HALF, TILES)}
# (frontend, problem, excluded notes) -> a graph of plans, and the indices of the plans to try in order.
Plans = Callable[[Frontend, Conv, tuple[str, ...]], "tuple[Graph, Sequence[int]]"]


def prepared(plans: Plans, precision: str) -> Callable[[Conv, Any, Setting], Bind]:
    """Return a `prepare` that takes the first of the plans that builds, fits and passes a trial call."""

    def prepare(problem: Conv, device: Any, setting: Setting) -> Bind:
        on = device.graphs()
        try:
            graph, indices = plans(on, problem, WITHOUT[precision])
        except SuiteError:
            raise
        except Exception as error:  # RuntimeError, or of a class that releases name differently
            raise _fault(error) from None
        most = min(room(device, setting), device.limits().memory // 2)
        blocks, unread = scratch(problem, device)
        ready = _first(on, graph, indices, most, partial(_tried, problem, device, unread))
        del blocks
        description = f"cuDNN {dotted(on.cudnn.backend_version())}, {graph.names()[ready.index]}"

        def bind(buffers: Sequence[Any]) -> Launch:
            call = ready.call(problem, addresses(buffers))
            return held(
                call, (ready.space, *buffers), workspace=ready.nbytes, kernels=KERNELS, kernel=(description, None)
            )

        return bind

    return prepare


@dataclass(frozen=True)
class _Plan:
    """A plan of a graph that is built, with its workspace of `nbytes` bytes."""

    on: Frontend
    graph: Graph
    index: int
    nbytes: int
    space: Any = None  # allocated for the trial call

    def call(self, problem: Conv, places: Sequence[int]) -> Callable[[], None]:
        """Return a call of the plan on operands at these addresses."""
        of = {self.graph.tensors[letter]: place for letter, place in problem.by_letter(places).items()}
        ask, where = self.graph.graph.execute_plan_at_index, int(self.space.data.ptr)
        return partial(ask, of, where, self.index, handle=self.on.handle)


def _tried(problem: Conv, device: Any, places: Sequence[int], plan: _Plan) -> _Plan:
    """Return the plan with its workspace after one trial call, because cuDNN refuses some plans only then."""
    ready = replace(plan, space=device.allocate(max(1, plan.nbytes)))
    ready.call(problem, places)()
    device.sync()
    return ready


def _first(on: Frontend, graph: Graph, indices: Sequence[int], most: int, tried: Callable[[_Plan], _Plan]) -> _Plan:
    """Return the first plan that builds, works in `most` bytes and runs.

    Raises Unavailable without such a plan, naming the bytes that would suffice, or else the first refusal."""
    refused, large = list[Unavailable](), list[int]()
    for index in indices:
        try:
            nbytes = int(graph.plan(index)["workspace"])
            if nbytes <= most:
                return tried(_Plan(on, graph, index, nbytes))
            large.append(nbytes)
        except SuiteError:
            raise
        except Exception as error:
            fault = _fault(error)
            if not isinstance(fault, Unavailable):
                raise fault from None
            refused.append(fault)
    if large:
        raise Unavailable(f"needs {min(large)} bytes of workspace: --workspace {min(large)}")
    raise refused[0] if refused else Unavailable("cuDNN ranks no plan for this problem")


def _fault(error: Exception) -> Unavailable | LaunchError:
    """Return Unavailable if `error` reports missing support by cuDNN, else LaunchError."""
    kind = Unavailable if cudnn_frontend.refused(error) else LaunchError
    why = " (excluded by numerical notes: rounded factors or coarse tiles)" if "Deselecting" in str(error) else ""
    return kind(f"cuDNN's frontend: {cudnn_frontend.shortened(str(error))}{why}")


def _engine(number: int, on: Frontend, problem: Conv, without: tuple[str, ...]) -> tuple[Graph, Sequence[int]]:
    op, of = OPS[problem.direction], layer(problem)
    return cudnn_frontend.engine(on.cudnn, op, of, number, without, handle=on.handle), [0]


def _ranked(
    mode: str, rank: int | None, on: Frontend, problem: Conv, without: tuple[str, ...]
) -> tuple[Graph, Sequence[int]]:
    """Return a heuristic's graph of plans, and the indices to try: `rank` or all. Raises Unavailable."""
    op, of = OPS[problem.direction], layer(problem)
    graph = cudnn_frontend.plans(on.cudnn, op, of, mode, without, handle=on.handle)
    count = len(graph.names())
    if rank is not None and rank >= count:
        raise Unavailable(f"cuDNN ranks only {count} plans for this problem in mode {mode}")
    return graph, range(count) if rank is None else [rank]


def row(name: str, precision: str, plans: Plans, **more: Any) -> Variant[Conv]:
    prepare = prepared(plans, precision)
    return provided(CUDNN_FRONTEND, name, prepare, precision=precision, accepts=accepts, **more)


def engine(parameter: str) -> Variant[Conv]:
    """Return the variant `cudnn-engine:NUMBER[:tf32]`, as `cudnn-engine:3`, at its default knobs."""
    number, _, precision = parameter.partition(":")
    if not number.isdecimal() or precision not in ("", "tf32"):
        raise UsageError(f"--variant cudnn-engine:{parameter}: write an engine number after the colon, or NUMBER:tf32")
    return row(f"cudnn-engine:{parameter}", precision or "fp32", partial(_engine, int(number)), roles=(), **CHOSEN)


def plan(parameter: str) -> Variant[Conv]:
    """Return the variant `cudnn-plan:MODE[:RANK][:tf32]`.

    The variant takes the first plan of a heuristic's ranking that builds and fits, or the plan of one rank."""
    known = re.fullmatch(r"(a|b|fallback)(?::(\d+))?(?::(tf32))?", parameter)
    if not known:
        modes = ", ".join(mode.lower() for mode in cudnn_frontend.MODES)
        raise UsageError(
            f"--variant cudnn-plan:{parameter}: write one of {modes} after the colon, then optionally :RANK and :tf32"
        )
    plans = partial(_ranked, known[1].upper(), int(known[2]) if known[2] else None)
    return row(f"cudnn-plan:{parameter}", known[3] or "fp32", plans, roles=(), **CHOSEN)


ROWS: tuple[Variant[Conv], ...] = (replace(plan("a"), roles=(DEFAULT, "search")), replace(plan("b"), roles=("search",)))
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {"cudnn-engine": engine, "cudnn-plan": plan}
