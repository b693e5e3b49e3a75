"""Recurrent layers on a GPU by cuDNN: all steps in one call, in a step three.

cuDNN reads the weights from one space and adds their gradients to another, both in an order of its choice. As operands
may change between calls, each call copies w, r and b to their places in the first, clears the second, and copies the
gradients out of it, all of which is timed. A gate's matrix and bias lie there as in the operand, and neighbors in both
are one copy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from kernels.launch import Bind, Launch, in_turn
from kernels.lazy import np
from kernels.libs import cudnn, cudnn_layers, cudnn_rnn
from kernels.libs.cudnn import CUDNN
from kernels.libs.cudnn_rnn import Recurrence, Room
from kernels.ops.gemm.cublas import addresses, scratch
from kernels.ops.recurrent.problem import Recurrent
from kernels.setting import Setting
from kernels.variant import DEFAULT, Variant, row

FLOAT = 4  # bytes
KERNELS = 8  # most kernels of one call besides those of its steps, a guess
EACH = {"standard": 4, "persistent": 0}  # most kernels of a step, a guess: products on several streams, cells, events
Piece = tuple[str, int, int, int]  # operand, bytes before it there, bytes before it in the space, its own bytes


def prepare(problem: Recurrent, device: Any, setting: Setting, algorithm: str) -> Bind:
    """Prepare cuDNN's forward call, for a step also the gradients'.

    One trial call is made, because cuDNN refuses some algorithms only then."""
    how = cudnn_rnn.recurrence(device.dnn(), _layer(problem, algorithm))
    sizes = {"weights": how.weights, "work": how.work, "reserve": how.reserve}
    sizes["gradient"] = how.weights if problem.step else 0
    blocks = {name: device.allocate(size) for name, size in sizes.items()}
    blocks["weights"].data.memset_async(0, how.weights, device.stream)  # also biases that no operand has
    lengths = device.cp.asarray(np.full(problem.batch, problem.steps, np.int32))
    room = Room(int(lengths.data.ptr), **{x: int(block.data.ptr) if sizes[x] else 0 for x, block in blocks.items()})
    pieces = merged(_pieces(problem, how, room.weights))
    clear = partial(blocks["gradient"].data.memset_async, 0, how.weights, device.stream)
    calls = partial(_calls, problem, device, how, room, pieces, clear)
    trial, unread = scratch(problem, device)
    in_turn(calls(unread), trial)()
    device.sync()
    del trial
    passes, copied = (3, 2) if problem.step else (1, 1)
    kernels = passes * (KERNELS + EACH[algorithm] * problem.steps) + copied * len(pieces)
    more: dict[str, Any] = {"workspace": sum(sizes.values()), "kernels": kernels, "kernel": cudnn.kernel()}
    return lambda buffers: Launch(in_turn(calls(addresses(buffers)), (blocks, lengths, buffers)), **more)


def _layer(problem: Recurrent, algorithm: str) -> cudnn_rnn.Layer:
    sizes = (problem.steps, problem.batch, problem.inputs, problem.hidden)
    biases = "both" if problem.cell == "gru" else "inputs"
    return cudnn_rnn.Layer(*sizes, problem.cell, problem.layout, biases, algorithm, problem.step)


def _pieces(problem: Recurrent, how: Recurrence, weights: int) -> list[Piece]:
    """Return where each gate's matrices and biases lie; the order of gates is cuDNN's."""
    gates, column = problem.gates, FLOAT * problem.hidden
    at = [how.places(weights, product) for product in range(2 * gates)]
    pieces = [
        (name, gate * column * terms, at[first + gate][0] - weights, column * terms)
        for name, terms, first in (("w", problem.inputs, 0), ("r", problem.hidden, gates))
        for gate in range(gates)
    ]
    inside = [2 * gates - 1] if problem.cell == "gru" else []  # the bias of the state's product, in the reset
    for i, product in enumerate((*range(gates), *inside)):
        pieces.append(("b", i * column, at[product][1] - weights, column))
    return pieces


def merged(pieces: Sequence[Piece]) -> list[Piece]:
    """Return pieces with neighbors joined, if they are neighbors in the operand and in the space."""
    joined: list[Piece] = []
    for name, start, place, nbytes in pieces:
        before = joined[-1] if joined else None
        if before and (before[0], before[1] + before[3], before[2] + before[3]) == (name, start, place):
            joined[-1] = (*before[:3], before[3] + nbytes)
        else:
            joined.append((name, start, place, nbytes))
    return joined


def _calls(
    problem: Recurrent,
    device: Any,
    how: Recurrence,
    room: Room,
    pieces: Sequence[Piece],
    clear: Callable[[], object],
    places: Sequence[int],
) -> list[Callable[[], object]]:
    """Return all calls in order, on operands at these addresses; `clear` clears the space of the gradients."""
    at = dict(zip((operand.name for operand in problem.operands()), places, strict=True))
    given = [(room.weights + place, at[name] + start, nbytes) for name, start, place, nbytes in pieces]
    calls = [*_copies(device, given), how.forward(room, at["x"], at["y"])]
    if problem.step:
        gained = [(at[f"d{name}"] + start, room.gradient + place, nbytes) for name, start, place, nbytes in pieces]
        calls.append(how.inputs_gradient(room, at["y"], at["dy"], at["dx"]))
        calls += [clear, how.weights_gradient(room, at["x"], at["y"]), *_copies(device, gained)]
    return calls


def _copies(device: Any, words: Sequence[tuple[int, int, int]]) -> list[Callable[[], object]]:
    """Return copies within the device's memory, by the addresses of target and source, and bytes."""
    runtime, stream = device.cp.cuda.runtime, device.stream.ptr
    return [partial(runtime.memcpyAsync, *word, runtime.memcpyDeviceToDevice, stream) for word in words]


def accepts(problem: Recurrent) -> str | None:
    """Return why cuDNN's calls cannot run `problem`, or None if they can."""
    if problem.cell == "gru-before":
        return "has no GRU that resets before the product"
    if problem.lengths != "full":
        return "computes all steps: --lengths full"
    widest = max(problem.inputs, problem.hidden)
    return cudnn_layers.too_many(problem.steps * problem.batch * widest, "--batch")


ROWS: tuple[Variant[Recurrent], ...] = (
    row(
        CUDNN,
        "cudnn-rnn",
        partial(prepare, algorithm="standard"),
        accepts=accepts,
        roles=(DEFAULT, "formulation", "layout", "swap"),
    ),
    row(
        CUDNN,
        "cudnn-rnn-persistent",
        partial(prepare, algorithm="persistent"),
        accepts=accepts,
        roles=(DEFAULT, "formulation"),
    ),
)
