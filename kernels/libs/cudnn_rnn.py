"""cuDNN's recurrent layers through its C interface of version 8: one layer, in one direction, from a state of zeros.

Functions return descriptors or bound calls. All weights of a layer lie in one space, at places that cuDNN names."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kernels.libs import cudnn_layers
from kernels.libs.cublas import prepared
from kernels.libs.cudnn import FLOAT, INT, MATHS, POINTER, SIZE, Cudnn

ALGORITHMS = {"standard": 0, "persistent": 1}  # cudnnRNNAlgo_t; persistent: PERSIST_STATIC
CELLS = {"rnn": 1, "lstm": 2, "gru": 3}  # cudnnRNNMode_t
BIASES = {"inputs": 1, "both": 2}  # cudnnRNNBiasMode_t: of the product with the inputs, of those with inputs and state
FORWARD_IN_TIME, LINEAR = 0, 0  # cudnnDirectionMode_t, cudnnRNNInputMode_t: inputs are multiplied by weights
# cudnnRNNDataLayout_t, and the padding mode that it needs. Sequences of full length are the same packed as padded.
LAYOUTS = {"tnc": (1, 0), "ntc": (2, 1)}
INFERENCE, TRAINING = 0, 1  # cudnnForwardMode_t
ADD = 0  # cudnnWgradMode_t: the only mode that recurrent layers have


@dataclass(frozen=True)
class Layer:
    """A recurrent layer: sizes, and words that are keys of this file's tables."""

    steps: int
    batch: int
    inputs: int
    hidden: int
    cell: str
    layout: str
    biases: str
    algorithm: str
    training: bool  # whether gradients follow the forward pass


@dataclass(frozen=True)
class Room:
    """Addresses of a layer's memory on the device; those of gradients are 0 without a gradient."""

    lengths: int  # steps of each sequence, int32
    weights: int
    work: int
    reserve: int = 0
    gradient: int = 0  # of the weights, to which it is added


@dataclass(frozen=True)
class Recurrence:
    """cuDNN's descriptors of a layer and of its inputs, outputs and states, and bytes of its spaces."""

    on: Cudnn
    mode: int
    how: ctypes.c_void_p
    x: ctypes.c_void_p
    y: ctypes.c_void_p
    state: ctypes.c_void_p
    weights: int
    work: int
    reserve: int

    def places(self, weights: int, product: int) -> tuple[int, int]:
        """Return the addresses of a product's matrix and bias in the space at `weights`, 0 where there is none.

        Products with the inputs come first, in the order of cuDNN's gates, then those with the state."""
        matrix, bias = POINTER(), POINTER()
        shapes = [self.on.make("cudnnCreateTensorDescriptor") for _ in range(2)]
        given = (ctypes.c_int32(0), SIZE(self.weights), POINTER(weights), ctypes.c_int32(product))
        answers = (shapes[0], ctypes.byref(matrix), shapes[1], ctypes.byref(bias))
        self.on.call("cudnnGetRNNWeightParams", self.on.handle, self.how, *given, *answers)
        return matrix.value or 0, bias.value or 0

    def forward(self, room: Room, x: int, y: int) -> Callable[[], None]:
        """Return a call of the forward pass, which also fills the reserve space if the layer is in training."""
        none = POINTER(0)
        given = (INT(self.mode), POINTER(room.lengths), self.x, POINTER(x), self.y, POINTER(y))
        states = (self.state, none, none) * 2  # h, then c: zeros before the first step, not kept after the last
        weights = (SIZE(self.weights), POINTER(room.weights))
        return self._ready("cudnnRNNForward", *given, *states, *weights, *self._spaces(room))

    def inputs_gradient(self, room: Room, y: int, dy: int, dx: int) -> Callable[[], None]:
        """Return a call of the inputs' gradient dx, which follows the forward pass and changes its reserve space."""
        none = POINTER(0)
        given = (POINTER(room.lengths), self.y, POINTER(y), POINTER(dy), self.x, POINTER(dx))
        states = (self.state, none, none, none) * 2
        weights = (SIZE(self.weights), POINTER(room.weights))
        return self._ready("cudnnRNNBackwardData_v8", *given, *states, *weights, *self._spaces(room))

    def weights_gradient(self, room: Room, x: int, y: int) -> Callable[[], None]:
        """Return a call that adds the weights' gradient to its space; it follows that of the inputs."""
        given = (INT(ADD), POINTER(room.lengths), self.x, POINTER(x), self.state, POINTER(0), self.y, POINTER(y))
        gradient = (SIZE(self.weights), POINTER(room.gradient))
        return self._ready("cudnnRNNBackwardWeights_v8", *given, *gradient, *self._spaces(room))

    def _spaces(self, room: Room) -> tuple[Any, ...]:
        return SIZE(self.work), POINTER(room.work), SIZE(self.reserve), POINTER(room.reserve)

    def _ready(self, name: str, *arguments: Any) -> Callable[[], None]:
        return prepared(getattr(self.on.api, name), (self.on.handle, self.how, *arguments), name, self.on.check, None)


def recurrence(on: Cudnn, layer: Layer) -> Recurrence:
    """Return the descriptors of a layer in single precision without TF32. Raises Unavailable, LaunchError."""
    mode = TRAINING if layer.training else INFERENCE
    how, x, y = _described(on, layer), _sequences(on, layer, layer.inputs), _sequences(on, layer, layer.hidden)
    weights, work, reserve = SIZE(), SIZE(), SIZE()
    on.call("cudnnGetRNNWeightSpaceSize", on.handle, how, ctypes.byref(weights))
    sizes = (ctypes.byref(work), ctypes.byref(reserve))
    on.call("cudnnGetRNNTempSpaceSizes", on.handle, how, INT(mode), x, *sizes)
    kept = reserve.value if layer.training else 0
    return Recurrence(on, mode, how, x, y, _state(on, layer), weights.value, work.value, kept)


def _described(on: Cudnn, layer: Layer) -> ctypes.c_void_p:
    """Return the descriptor of the layer's operation: one layer without projection, clipping or dropout."""
    how, none = on.make("cudnnCreateRNNDescriptor"), cudnn_layers.dropping(on, 0.0, (0, 0), 0)
    words = (ALGORITHMS[layer.algorithm], CELLS[layer.cell], BIASES[layer.biases], FORWARD_IN_TIME, LINEAR)
    sizes = (layer.inputs, layer.hidden, layer.hidden, 1)
    given = map(INT, (*words, FLOAT, FLOAT, MATHS["fma"], *sizes))
    on.call("cudnnSetRNNDescriptor_v8", how, *given, none, ctypes.c_uint32(LAYOUTS[layer.layout][1]))
    return how


def _sequences(on: Cudnn, layer: Layer, features: int) -> ctypes.c_void_p:
    """Return the descriptor of inputs or outputs of so many features."""
    sequences = on.make("cudnnCreateRNNDataDescriptor")
    sizes = map(INT, (FLOAT, LAYOUTS[layer.layout][0], layer.steps, layer.batch, features))
    lengths = (INT * layer.batch)(*[layer.steps] * layer.batch)
    on.call("cudnnSetRNNDataDescriptor", sequences, *sizes, lengths, POINTER(0))
    return sequences


def _state(on: Cudnn, layer: Layer) -> ctypes.c_void_p:
    """Return the descriptor of the states of a step."""
    state, dims = on.make("cudnnCreateTensorDescriptor"), (1, layer.batch, layer.hidden)
    strides = (layer.batch * layer.hidden, layer.hidden, 1)
    on.call("cudnnSetTensorNdDescriptor", state, INT(FLOAT), INT(3), (INT * 3)(*dims), (INT * 3)(*strides))
    return state
