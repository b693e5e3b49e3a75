"""oneDNN's recurrent primitives through its C API: all steps in one call, in the problem's layouts."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from kernels.launch import Bind, Launch
from kernels.libs import onednn
from kernels.libs.onednn import ONEDNN, Handle, OneDnn
from kernels.libs.onednn_chain import Call, Chain
from kernels.ops.recurrent.problem import Recurrent
from kernels.problem import Array
from kernels.setting import Setting
from kernels.variant import DEFAULT, Variant, row

TRAINING, INFERENCE, BACKWARD = 64, 96, 128  # dnnl_prop_kind_t
FORWARD_IN_TIME, TANH = 1, 0x21  # dnnl_unidirectional_left2right, dnnl_eltwise_tanh
OVERWRITE = 1  # dnnl_rnn_flags_diff_weights_overwrite
READS, WORKSPACE = {1: "x", 33: "w", 34: "r", 41: "b"}, 64
WRITES = {17: "y"}
STATES = {2: "h", 3: "c", 130: "dh", 131: "dc"}  # before the first step, and their gradients, which nobody reads
GRADIENTS = {129: "dx", 161: "dw", 162: "dr", 169: "db"}
ZERO = ctypes.c_float(0)  # of activations that have parameters


def prepare(problem: Recurrent, device: Any, setting: Setting) -> Bind:
    """Prepare the forward primitive, in a step also the backward one."""
    return _chain(problem, device, setting).bound


def passes(problem: Recurrent, device: Any, setting: Setting) -> Callable[[Sequence[Array]], list[Launch]]:
    """Prepare a step as two launches, forward and gradients."""
    return _chain(problem, device, setting).parts


def _chain(problem: Recurrent, device: Any, setting: Setting) -> Chain:
    library = onednn.load()
    library.limit(setting.threads)
    stored = _stored(library, problem)
    forward = _forward(library, problem, stored)
    states = {role: name for role, name in STATES.items() if problem.cell == "lstm" or name.endswith("h")}
    before = {role: name for role, name in states.items() if not name.startswith("d")}
    calls = [Call(forward, READS, WRITES, {**before, **({WORKSPACE: "workspace"} if problem.step else {})})]
    if problem.step:
        reads, rooms = {**READS, 17: "y", 145: "dy"}, {**states, WORKSPACE: "workspace"}
        calls.append(Call(_backward(library, problem, stored, forward), reads, GRADIENTS, rooms))
    return Chain(library, device, stored, calls)


def _stored(library: OneDnn, problem: Recurrent) -> dict[str, Handle]:
    """Return the operands' layouts by name, in the problem's order; weights have the axes l d i g o."""
    t, n, e, h, g = problem.steps, problem.batch, problem.inputs, problem.hidden, problem.gates

    def sequence(features: int) -> Handle:
        strides = (n * features, features, 1) if problem.layout == "tnc" else (features, t * features, 1)
        return library.strided((t, n, features), strides)

    def weights(terms: int) -> Handle:
        return library.strided((1, 1, terms, g, h), (g * h * terms, g * h * terms, 1, h * terms, terms))

    layouts = {
        "x": lambda: sequence(e),
        "y": lambda: sequence(h),
        "w": lambda: weights(e),
        "r": lambda: weights(h),
        "b": lambda: library.strided((1, 1, g, h), (g * h, g * h, h, 1)),
    }
    return {operand.name: layouts[operand.name.removeprefix("d")]() for operand in problem.operands()}


def _asked(library: OneDnn, problem: Recurrent) -> tuple[Handle, Handle]:
    """Return descriptions of both weights in a layout of the library's choice."""
    g, h = problem.gates, problem.hidden
    return library.unset((1, 1, problem.inputs, g, h)), library.unset((1, 1, h, g, h))


def _states(library: OneDnn, problem: Recurrent) -> tuple[Handle, Handle]:
    """Return descriptions of the states before the first step: zeros, without which dr is wrong in oneDNN 3.1."""
    n, h = problem.batch, problem.hidden
    state = library.strided((1, 1, n, h), (n * h, n * h, h, 1))
    return state, state


def _forward(library: OneDnn, problem: Recurrent, stored: dict[str, Handle]) -> Handle:
    kind, (w, r), (h, c) = TRAINING if problem.step else INFERENCE, _asked(library, problem), _states(library, problem)
    x, b, y = (stored[name] for name in "xby")
    if problem.cell == "rnn":
        given = (x, h, w, r, b, y, None)  # None: the state after the last step
        return library.describe("vanilla_rnn_forward", kind, TANH, FORWARD_IN_TIME, *given, 0, ZERO, ZERO)
    return library.describe("lstm_forward", kind, FORWARD_IN_TIME, x, h, c, w, r, None, None, b, y, None, None, 0)


def _backward(library: OneDnn, problem: Recurrent, stored: dict[str, Handle], forward: Handle) -> Handle:
    (w, r), (dw, dr), (h, c) = _asked(library, problem), _asked(library, problem), _states(library, problem)
    x, y, b, dx, dy, db = (stored[name] for name in ("x", "y", "b", "dx", "dy", "db"))
    if problem.cell == "rnn":
        operands = (x, h, w, r, b, y, None, dx, h, dw, dr, db, dy, None)
        numbers = (OVERWRITE, ZERO, ZERO, forward)
        return library.describe("vanilla_rnn_backward", BACKWARD, TANH, FORWARD_IN_TIME, *operands, *numbers)
    given = (x, h, c, w, r, None, None, b, y, None, None)
    gradients = (dx, h, c, dw, dr, None, None, db, dy, None, None)
    return library.describe("lstm_backward", BACKWARD, FORWARD_IN_TIME, *given, *gradients, OVERWRITE, forward)


def accepts(problem: Recurrent) -> str | None:
    """Return why oneDNN cannot do a problem in its layouts, or None if it can."""
    if problem.lengths != "full":
        return "computes all steps: --lengths full"
    if problem.cell in ("lstm", "rnn"):
        return None
    return "orders a GRU's gates as z r n" if problem.cell == "gru" else "has no GRU that resets before the product"


ROWS: tuple[Variant[Recurrent], ...] = (
    row(ONEDNN, "onednn", prepare, accepts=accepts, roles=(DEFAULT, "formulation", "layout", "swap")),
)
