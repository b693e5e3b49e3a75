"""Both directions one after another or at once in C on OpenBLAS, and by PyTorch's bidirectional layer."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from kernels.errors import Unavailable
from kernels.launch import Bind, Launch, held
from kernels.lazy import np
from kernels.libs.openblas import OPENBLAS
from kernels.libs.torch import TORCH
from kernels.ops.bidirectional.problem import SEQUENCES, Bidirectional
from kernels.ops.recurrent import libraries, native
from kernels.ops.recurrent.libraries import Layer, Weights
from kernels.problem import Array
from kernels.setting import Setting
from kernels.variant import Variant, row


def prepare(problem: Bidirectional, device: Any, setting: Setting, apart: bool) -> Bind:
    """Prepare a layer in C for each direction, which read and write copies of the sequences in their order.

    `apart`: each direction in a thread of its own. Raises Unavailable for another number of threads than two, as
    OpenBLAS multiplies for one caller with several threads at a time."""
    if apart and setting.threads != 2:
        raise Unavailable("requires two threads: --threads 2")
    each = replace(setting, threads=1) if apart else setting
    single, names = problem.single, [x.name for x in problem.operands()]
    layers = [native.prepare(single, device, each, "batched", once=True) for _ in range(2)]  # with their own memory
    pool = ThreadPoolExecutor(1) if apart else None
    rooms = [{x.name: np.empty(x.shape, "f4") for x in single.operands() if x.name in SEQUENCES} for _ in range(2)]
    workspace = sum(array.nbytes for room in rooms for array in room.values())

    def bind(buffers: Sequence[Array]) -> Launch:
        of = dict(zip(names, buffers, strict=True))
        ways = [problem.direction(of, at) for at in range(2)]
        bound = [[{**way, **room}[name] for name in names] for way, room in zip(ways, rooms, strict=True)]
        launches = [layer(given) for layer, given in zip(layers, bound, strict=True)]

        def direction(at: int) -> None:
            for name in ("x", "dy")[: 1 + problem.step]:
                np.copyto(rooms[at][name], ways[at][name])
            launches[at].call()
            np.copyto(ways[at]["y"], rooms[at]["y"])

        def run() -> None:
            if pool:
                other = pool.submit(direction, 1)
                direction(0)
                other.result()
            else:
                direction(0)
                direction(1)
            if problem.step:
                np.add(rooms[0]["dx"], rooms[1]["dx"][::-1], out=of["dx"])

        return held(run, (buffers, launches), workspace=workspace + sum(x.workspace for x in launches))

    return bind


def both(torch: Any, problem: Bidirectional) -> Layer:
    """Return torch.nn.LSTM's function, or that of another cell, of both directions in one call."""
    call, rows = getattr(torch._VF, libraries.SEQUENCES[problem.cell]), problem.gates * problem.hidden

    def layer(x: Any, weights: Weights, lengths: Any) -> Any:
        w, r, b = weights
        state = x.new_zeros(2, problem.batch, problem.hidden)
        flat = []
        for at in range(2):
            place = slice(at * rows, (at + 1) * rows)
            flat += [w[place], r[place], *libraries.biases(torch, problem, b[at])]
        states = (state, state) if problem.cell == "lstm" else state
        return call(x, states, flat, True, 1, 0.0, problem.step, True, False)[0]

    return layer


POOLS = replace(OPENBLAS, name="openblas by direction")  # a process of its own, as OpenBLAS has one number of threads

VARIANTS: tuple[Variant[Bidirectional], ...] = (
    row(OPENBLAS, "c-in-turn", partial(prepare, apart=False), python=True),
    row(POOLS, "c-at-once", partial(prepare, apart=True), python=True),
    # Not by default: its threads spin between rounds, which takes cores from the threads of the others.
    row(TORCH, "torch", libraries.by_autograd(both), accepts=libraries.has_cell, roles=()),
)
