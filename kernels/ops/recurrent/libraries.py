"""Recurrent layers of PyTorch: its sequence, its cells, and a loop of operations, with gradients by autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar

from kernels.launch import Bind, Launch
from kernels.libs import torch as torch_library
from kernels.ops.recurrent.loops import STEPS
from kernels.ops.recurrent.problem import Recurrent
from kernels.setting import Setting

Weights: TypeAlias = "tuple[Any, Any, Any]"
Layer: TypeAlias = Callable[[Any, Weights, Any], Any]  # outputs of inputs, weights and lengths, in the problem's layout
SEQUENCES = {"lstm": "lstm", "gru": "gru", "rnn": "rnn_tanh"}
CELLS = {"lstm": "lstm_cell", "gru": "gru_cell", "rnn": "rnn_tanh_cell"}
P = TypeVar("P", bound=Recurrent)
GRADIENTS = ("x", "w", "r", "b")


def by_autograd(make: Callable[[Any, P], Layer], packed: bool = False) -> Callable[[P, object, Setting], Bind]:
    """Return a `prepare` of a layer that PyTorch differentiates; results are copied.

    Outputs of padding are multiplied by zero, unless the layer is `packed`."""

    def prepare(problem: P, device: object, setting: Setting) -> Bind:
        torch = torch_library.on_threads(setting.threads)
        layer, names = make(torch, problem), [operand.name for operand in problem.operands()]
        real = (torch.arange(problem.steps)[:, None] < torch.tensor(problem.each)).float()
        real = real if problem.layout == "tnc" else real.T

        def forward(of: dict[str, Any]) -> None:
            of["y"].copy_(run(of, of))

        def run(of: dict[str, Any], given: dict[str, Any]) -> Any:
            y = layer(given["x"], (given["w"], given["r"], given["b"].squeeze(0)), of.get("lengths"))
            return y if "lengths" not in of or packed else y * real[..., None]

        def step(of: dict[str, Any]) -> None:
            with torch.enable_grad():
                given = {name: of[name].detach().requires_grad_() for name in GRADIENTS}
                y = run(of, given)
                gradients = torch.autograd.grad(y, list(given.values()), of["dy"])
            of["y"].copy_(y.detach())
            for name, gradient in zip(GRADIENTS, gradients, strict=True):
                of[f"d{name}"].copy_(gradient)

        def bind(buffers: Sequence[Any]) -> Launch:
            of = dict(zip(names, (torch_library.tensor(torch, x) for x in buffers), strict=True))
            call = step if problem.step else forward
            return Launch(lambda: call(of))

        return bind

    return prepare


def has_cell(problem: Recurrent) -> str | None:
    """Return why PyTorch lacks the problem's cell, or None."""
    return "has no GRU that resets before the product" if problem.cell == "gru-before" else None


def biases(torch: Any, problem: Recurrent, b: Any) -> tuple[Any, Any]:
    """Return PyTorch's two biases; only the last of a GRU's state counts."""
    n = problem.hidden
    if problem.cell == "gru":
        return b[: 3 * n], torch.cat([b.new_zeros(2 * n), b[3 * n :]])
    return b, torch.zeros_like(b)


def _given(torch: Any, problem: Recurrent, x: Any, weights: Weights) -> tuple[Any, tuple[Any, ...]]:
    """Return a sequence's first states, zeros, and its weights as PyTorch's functions take them."""
    w, r, b = weights
    zeros = x.new_zeros(1, problem.batch, problem.hidden)
    return (zeros, zeros) if problem.cell == "lstm" else zeros, (w, r, *biases(torch, problem, b))


def sequence(torch: Any, problem: Recurrent) -> Layer:
    """Return torch.nn.LSTM's function, or that of another cell: all steps in one call."""
    call = getattr(torch._VF, SEQUENCES[problem.cell])
    first = problem.layout == "ntc"

    def layer(x: Any, weights: Weights, lengths: Any) -> Any:
        return call(x, *_given(torch, problem, x, weights), True, 1, 0.0, problem.step, False, first)[0]

    return layer


def without_onednn(torch: Any, problem: Recurrent) -> Layer:
    """Return the sequence with oneDNN off: PyTorch's own loop over the steps in C++."""
    return torch_library.without_onednn(torch, sequence(torch, problem))


def packed(torch: Any, problem: Recurrent) -> Layer:
    """Return torch.nn.LSTM's function of packed sequences, which are packed and padded again in the call."""
    call, pack = getattr(torch._VF, SEQUENCES[problem.cell]), torch.nn.utils.rnn
    first = problem.layout == "ntc"

    def layer(x: Any, weights: Weights, lengths: Any) -> Any:
        given = pack.pack_padded_sequence(x, lengths, batch_first=first)
        state, flat = _given(torch, problem, x, weights)
        y = call(given.data, given.batch_sizes, state, flat, True, 1, 0.0, problem.step, False)[0]
        outputs = pack.PackedSequence(y, given.batch_sizes)
        return pack.pad_packed_sequence(outputs, batch_first=first, total_length=problem.steps)[0]

    return layer


def _loop(torch: Any, problem: Recurrent, call: Callable[[Any, Any, Any, Weights], tuple[Any, Any]]) -> Layer:
    """Return a loop of Python over the steps; `call` returns both states of a step's input, states and weights."""
    axis = 0 if problem.layout == "tnc" else 1

    def layer(x: Any, weights: Weights, lengths: Any) -> Any:
        h = c = x.new_zeros(problem.batch, problem.hidden)
        outputs = []
        for at in x.unbind(axis):
            h, c = call(at, h, c, weights)
            outputs.append(h)
        return torch.stack(outputs, axis)

    return layer


def cells(torch: Any, problem: Recurrent) -> Layer:
    """Return a loop over PyTorch's cell."""
    cell = getattr(torch._VF, CELLS[problem.cell])

    def call(x: Any, h: Any, c: Any, weights: Weights) -> tuple[Any, Any]:
        w, r, b = weights
        both = biases(torch, problem, b)
        if problem.cell == "lstm":
            h, c = cell(x, (h, c), w, r, *both)
            return h, c
        return cell(x, h, w, r, *both), c

    return _loop(torch, problem, call)


def operations(torch: Any, problem: Recurrent) -> Layer:
    """Return a loop over plain operations."""
    step, functions = STEPS[problem.cell], (torch.sigmoid, torch.tanh)
    return _loop(torch, problem, lambda x, h, c, weights: step(functions, x, h, c, weights))


def compiled(torch: Any, problem: Recurrent) -> Layer:
    """Return torch.compile of the loop over plain operations, unrolled, compiled here. Raises Unavailable."""
    shapes = {operand.name: operand.shape for operand in problem.operands()}
    x, w, r, b = (torch.zeros(shapes[name], requires_grad=problem.step) for name in GRADIENTS)

    def first(layer: Layer) -> None:
        with torch.set_grad_enabled(problem.step):
            y = layer(x, (w, r, b[0]), None)
            if problem.step:
                torch.autograd.grad(y, (x, w, r, b), torch.zeros_like(y))

    layer: Layer = torch_library.compiled(torch, operations(torch, problem), first)
    return layer
