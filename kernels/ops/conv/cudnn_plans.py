"""cuDNN's convolutions by its frontend: one engine, or what a heuristic ranks.

An engine's number belongs to a pass and to a release of cuDNN, which names none of its algorithms: what ran, the
profiler tells. In single precision no plan is taken that says it rounds factors to TF32, nor tiles of which no bound
would tell right from wrong.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from kernels.errors import LaunchError, SuiteError, Unavailable, UsageError
from kernels.launch import Launch
from kernels.libs import cudnn_frontend
from kernels.libs.cublas import dotted
from kernels.libs.cudnn_frontend import Frontend, Graph
from kernels.ops.conv.columns import refuse_room
from kernels.ops.conv.cudnn_rows import CHOSEN, KERNELS, accepts, layer, room
from kernels.ops.conv.problem import Conv
from kernels.ops.conv.staged import by_letter
from kernels.ops.gemm.cublas import addresses, scratch
from kernels.variant import DEFAULT, Variant

if TYPE_CHECKING:
    from kernels.launch import Bind, Setting

OPS = {"forward": "fprop", "dgrad": "dgrad", "wgrad": "wgrad"}
TILES = "WINOGRAD_TILE_13x13"  # simulated, they round 300 to 17,000 times as coarsely as is allowed a sum
WITHOUT = {"fp32": (*cudnn_frontend.COARSE, TILES), "tf32": (TILES,)}  # numerical notes of plans that are not taken
ENGINES = {"forward": 82, "dgrad": 86, "wgrad": 76}  # as many as cuDNN 9.28 has; 9.19 has one less of each
# A graph of plans, and which of them are taken.
Plans = Callable[[Frontend, Conv, tuple[str, ...]], "tuple[Graph, Sequence[int]]"]


def prepared(plans: Plans, precision: str) -> Callable[[Conv, Any, Setting], Bind]:
    """With the first of these plans that builds and fits; one call is made, as some are refused only then."""

    def prepare(problem: Conv, device: Any, setting: Setting) -> Bind:
        on = device.graphs()
        try:
            graph, indices = plans(on, problem, WITHOUT[precision])
        except SuiteError:
            raise
        except Exception as error:  # RuntimeError, or of a class that releases name differently
            raise _fault(error) from None
        index, nbytes = _first(graph, indices, room(device, setting))
        refuse_room(device, setting, nbytes)
        space, name = device.allocate(max(1, nbytes)), graph.names()[index]

        def call(places: Sequence[int]) -> Callable[[], None]:
            of = {graph.tensors[letter]: place for letter, place in by_letter(problem, places).items()}
            ask, where = graph.graph.execute_plan_at_index, int(space.data.ptr)
            return partial(ask, of, where, index, handle=on.handle)

        blocks, unread = scratch(problem, device)
        try:
            call(unread)()
        except Exception as error:
            raise _fault(error) from None
        device.sync()
        del blocks
        told = f"cuDNN {dotted(on.cudnn.backend_version())}, {name}"

        def bind(buffers: Sequence[Any]) -> Launch:
            ready = call(addresses(buffers))

            def run(keep: object = (space, *buffers)) -> None:
                ready()

            return Launch(run, workspace=nbytes, kernels=KERNELS, kernel=(told, None))

        return bind

    return prepare


def _first(graph: Graph, indices: Sequence[int], most: int) -> tuple[int, int]:
    """The first of these plans that builds and works in so many bytes, and how many it wants. Raises Unavailable with
    the reason of the first that does not."""
    refused: list[Unavailable] = []
    for index in indices:
        try:
            nbytes = int(graph.plan(index)["workspace"])
        except Exception as error:
            fault = _fault(error)
            if not isinstance(fault, Unavailable):
                raise fault from None
            refused.append(fault)
            continue
        if nbytes <= most:
            return index, nbytes
        refused.append(Unavailable(f"it works in {nbytes} bytes beside the operands: --workspace {nbytes}"))
    raise refused[0] if refused else Unavailable("cuDNN ranks no plan for it")


def _fault(error: Exception) -> Unavailable | LaunchError:
    """What is not supported is a reason, all else a fault."""
    kind = Unavailable if cudnn_frontend.refused(error) else LaunchError
    return kind(f"cuDNN's frontend: {cudnn_frontend.told(str(error))}")


def _engine(number: int, on: Frontend, problem: Conv, without: tuple[str, ...]) -> tuple[Graph, Sequence[int]]:
    op, of = OPS[problem.direction], layer(problem)
    return cudnn_frontend.engine(on.cudnn, op, of, number, without, handle=on.handle), [0]


def _ranked(
    mode: str, rank: int | None, on: Frontend, problem: Conv, without: tuple[str, ...]
) -> tuple[Graph, Sequence[int]]:
    """All, or that of one rank."""
    op, of = OPS[problem.direction], layer(problem)
    graph = cudnn_frontend.plans(on.cudnn, op, of, mode, without, handle=on.handle)
    count = len(graph.names())
    if rank is not None and rank >= count:
        raise Unavailable(f"cuDNN ranks {count} plans for it in mode {mode}")
    return graph, range(count) if rank is None else [rank]


def row(name: str, precision: str, plans: Plans, **more: Any) -> Variant[Conv]:
    prepare, missing = prepared(plans, precision), cudnn_frontend.missing
    return Variant(name, "cuda", "cudnn", prepare, precision, accepts=accepts, missing=missing, python=True, **more)


def engine(parameter: str) -> Variant[Conv]:
    """`cudnn-engine:NUMBER[:tf32]`, as `cudnn-engine:3`: with its own choice of knobs."""
    number, _, precision = parameter.partition(":")
    if not number.isdecimal() or precision not in ("", "tf32"):
        raise UsageError(f"--variant cudnn-engine:{parameter}: after the colon there is a number, and :tf32 if at all")
    found = row(f"cudnn-engine:{parameter}", precision or "fp32", partial(_engine, int(number)), roles=(), **CHOSEN)
    return replace(found, accepts=partial(_there, int(number)))


def _there(number: int, problem: Conv) -> str | None:
    most = ENGINES[problem.direction]
    return accepts(problem) or (f"cuDNN has engines 0 to {most - 1} for it" if number >= most else None)


def plan(parameter: str) -> Variant[Conv]:
    """`cudnn-plan:MODE[:RANK][:tf32]`: of what a heuristic ranks the first that builds and fits, or that of one
    rank."""
    known = re.fullmatch(r"(a|b|fallback)(?::(\d+))?(?::(tf32))?", parameter)
    if not known:
        modes = ", ".join(mode.lower() for mode in cudnn_frontend.MODES)
        raise UsageError(
            f"--variant cudnn-plan:{parameter}: after the colon there is one of {modes}, a rank and :tf32 if at all"
        )
    plans = partial(_ranked, known[1].upper(), int(known[2]) if known[2] else None)
    return row(f"cudnn-plan:{parameter}", known[3] or "fp32", plans, roles=(), **CHOSEN)


ROWS: tuple[Variant[Conv], ...] = (replace(plan("a"), roles=(DEFAULT, "search")), replace(plan("b"), roles=("search",)))
FAMILIES: dict[str, Callable[[str], Variant[Any]]] = {"cudnn-engine": engine, "cudnn-plan": plan}
