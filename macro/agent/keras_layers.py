"""Layers in Keras, images N×H×W×C and filters H×W×C×K.

A builder returns a function of the preceding layers' outputs, and the Keras layer that has the variables, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import layouts  # beside this file
import numpy as np

VARIABLES = {
    "weight": "kernel",
    "bias": "bias",
    "scale": "gamma",
    "shift": "beta",
    "mean": "moving_mean",
    "variance": "moving_variance",
    "recurrent": "recurrent_kernel",
}  # {suite's name: Keras's}
EMBEDDING = {"weight": "embeddings"}
REVERSE, STATE_BIAS = "reverse_", "state_bias"
INSIDE = ("dense", "conv")  # kinds whose Keras layer applies the activation


class Kinds:
    """Builders of the layer kinds in KINDS, as methods of these names."""

    def __init__(self, keras: Any, layers: list[dict[str, Any]]) -> None:
        self.keras, self.library, self.layers = keras, keras.layers, layers

    def called(self, spec: dict[str, Any]) -> Any:
        """Return a layer's name in Keras; with PyTorch `>` replaces dots, which its names may not have."""
        return spec["name"].replace(".", ">") if self.keras.backend.backend() == "torch" else spec["name"]

    def dense(self, spec: dict[str, Any]) -> Any:
        if spec["tied"]:
            raise NotImplementedError("Keras has no dense layer with another layer's weights")
        layer = self.library.Dense(
            spec["outputs"], activation(spec), name=self.called(spec), kernel_initializer="zeros"
        )
        return layer, layer

    def conv(self, spec: dict[str, Any]) -> Any:
        top, left, bottom, right = layouts.pads(spec)
        if spec["groups"] > 1 and self.keras.backend.backend() == "tensorflow":
            raise NotImplementedError("TensorFlow has no gradient of grouped convolutions on a CPU")
        if spec["stride"] > 1 and spec["dilation"] > 1:
            raise NotImplementedError("Keras has no convolution with both stride and dilation")
        reach = spec["dilation"] * (spec["kernel"] - 1)
        same = spec["stride"] == 1 and reach % 2 == 0 and {top, left, bottom, right} == {reach // 2}
        layer = self.library.Conv2D(
            spec["filters"],
            spec["kernel"],
            spec["stride"],
            "same" if same else "valid",
            dilation_rate=spec["dilation"],
            groups=spec["groups"],
            activation=activation(spec),
            use_bias=spec["bias"],
            kernel_initializer="zeros",
            name=self.called(spec),
        )
        if same or not any((top, left, bottom, right)):
            return layer, layer
        around = self.library.ZeroPadding2D(((top, bottom), (left, right)), name=self.called(spec) + ">pad")
        return (lambda x: layer(around(x))), layer

    def pool(self, spec: dict[str, Any]) -> Any:
        largest, name = spec["mode"] == "max", self.called(spec)
        if spec["window"] == 0:
            global_pool = self.library.GlobalMaxPooling2D if largest else self.library.GlobalAveragePooling2D
            return global_pool(keepdims=True, name=name), None
        kind = self.library.MaxPooling2D if largest else self.library.AveragePooling2D
        around, counts, area = layouts.around(spec), layouts.counts(spec), float(spec["window"] ** 2)
        layer = kind(spec["window"], spec["stride"], name=name)
        if not any(map(any, around)):
            return layer, None
        pads, low = [(0, 0), *list(around), (0, 0)], -3.4e38 if largest else 0.0
        pad = self._called(lambda x: self.keras.ops.pad(x, pads, constant_values=low), name + ">pad")
        if largest:
            return (lambda x: layer(pad(x))), None
        tensor = self.keras.ops.convert_to_tensor
        of_those = self._called(lambda x: x * tensor(area / counts[:, :, None]), name + ">counted")
        return (lambda x: of_those(layer(pad(x)))), None

    def norm(self, spec: dict[str, Any]) -> Any:
        kind = frozen(self.library.BatchNormalization) if spec["frozen"] else self.library.BatchNormalization
        affine, about = spec["affine"], {"momentum": 1 - spec["share"], "epsilon": spec["epsilon"]}
        layer = kind(center=affine, scale=affine, name=self.called(spec), **about)
        return layer, layer

    def dropout(self, spec: dict[str, Any]) -> Any:
        if spec.get("mask") is None:
            return self.library.Dropout(spec["share"], name=self.called(spec)), None
        mask = layouts.mask(spec, self.layers)
        return self._called(lambda x: x * self.keras.ops.convert_to_tensor(mask), self.called(spec)), None

    def add(self, spec: dict[str, Any]) -> Any:
        layer = self.library.Add(name=self.called(spec))
        return (lambda *given: layer(list(given))), None

    def concat(self, spec: dict[str, Any]) -> Any:
        layer = self.library.Concatenate(name=self.called(spec))
        return (lambda *given: layer(list(given))), None

    def flatten(self, spec: dict[str, Any]) -> Any:
        """Flatten to H×W×C, the order of the next dense layer's weights too, or to C×H×W if required."""
        layer = self.library.Flatten(name=self.called(spec))
        if layouts.in_order(spec, self.layers):
            turn = self.library.Permute((3, 1, 2), name=self.called(spec) + ">turned")
            return (lambda x: layer(turn(x))), None
        return layer, None

    def shortcut(self, spec: dict[str, Any]) -> Any:
        stride, more = spec["stride"], spec["channels"] - spec["in"][0][0]
        pads = ((0, 0), (0, 0), (0, 0), (0, more))
        return self._called(lambda x: self.keras.ops.pad(x[:, ::stride, ::stride], pads), self.called(spec)), None

    def activation(self, spec: dict[str, Any]) -> Any:
        return (lambda x: x), None

    def embedding(self, spec: dict[str, Any]) -> Any:
        layer = self.library.Embedding(spec["rows"], spec["width"], name=self.called(spec))
        return layer, layer

    def mean(self, spec: dict[str, Any]) -> Any:
        layer = self.library.GlobalAveragePooling1D(name=self.called(spec))
        return (lambda x, ids=None: layer(x, mask=None if ids is None else self.keras.ops.not_equal(ids, 0))), None

    def recurrent(self, spec: dict[str, Any]) -> Any:
        library, about = self.library, {"return_sequences": not spec["last"], "name": self.called(spec)}
        about["unroll"] = spec["unrolled"]
        if spec["biases"] == 2 and spec["cell"] != "gru":
            raise NotImplementedError(f"Keras's cell {spec['cell']} has one bias")
        if spec["carried"]:
            raise NotImplementedError("the Keras adapter's recurrent layers start from a state of zeros")
        if spec["forget"]:
            raise NotImplementedError("Keras's LSTM adds nothing to its forget gate")
        kind = {"lstm": library.LSTM, "rnn": library.SimpleRNN}.get(spec["cell"], library.GRU)
        about |= {"reset_after": spec["cell"] == "gru"} if kind is library.GRU else {}
        layer = kind(spec["hidden"], **about)
        if spec["bidirectional"]:
            layer = library.Bidirectional(layer, name=self.called(spec) + ">both")
        return layer, layer

    def _called(self, call: Callable[..., Any], name: str) -> Any:
        return self.library.Lambda(call, name=name)


KINDS = (
    *("dense", "conv", "pool", "norm", "dropout", "add", "concat", "flatten", "shortcut", "activation"),
    *("embedding", "mean", "recurrent"),
)


LOSSES = {
    "softmax": lambda losses: losses.SparseCategoricalCrossentropy(from_logits=True),
    "binary": lambda losses: losses.BinaryCrossentropy(from_logits=True),
    "squared": lambda losses: losses.MeanSquaredError(),
}
OPTIMIZERS = {  # rmsprop and adagrad add epsilon below the root
    "sgd": lambda optimizers, plan: optimizers.SGD(plan["rate"], momentum=plan["momentum"]),
    "nesterov": lambda optimizers, plan: optimizers.SGD(plan["rate"], momentum=plan["momentum"], nesterov=True),
    "adagrad": lambda optimizers, plan: optimizers.Adagrad(plan["rate"], 0.0, plan["epsilon"] ** 2),
    "rmsprop": lambda optimizers, plan: optimizers.RMSprop(plan["rate"], plan["rho"], epsilon=plan["epsilon"] ** 2),
    "adam": lambda optimizers, plan: optimizers.Adam(plan["rate"], plan["momentum"], plan["rho"], plan["epsilon"]),
}


def activation(spec: dict[str, Any]) -> Any:
    """Return a layer's activation by Keras's name, or None without activation."""
    return None if spec["activation"] == "none" else spec["activation"]


def frozen(kind: Any) -> Any:
    """Return a batch normalization class that uses running statistics in training, without updates."""

    class Frozen(kind):  # type: ignore[misc]
        def call(self, inputs: list[Any], training: Any = None, mask: Any = None) -> Any:
            return kind.call(self, inputs, training=False, mask=mask)

    return Frozen


class Forms:
    """Conversion of the suite's arrays by name to those of Keras's variables, and back.

    Images have their channels last; a GRU has its gates in the order z r n, and both biases in one variable."""

    def __init__(self, layers: list[dict[str, Any]]) -> None:
        self.last = layouts.Last(layers)
        grus = [x for x in layers if x["kind"] == "recurrent" and x["cell"].startswith("gru")]
        self.turned = {f"{x['name']}.{name}" for x in grus for name in x["parameters"]}

    def to(self, arrays: Any) -> dict[str, Any]:
        """Return the variables' arrays by name; of two biases in one, by the name of the first."""
        lying = {name: self._turned(name, self.last.to(name, arrays[name])) for name in arrays}
        for name in [x for x in lying if x.endswith(STATE_BIAS)]:
            first = name[: -len(STATE_BIAS)] + "bias"
            lying[first] = np.stack((lying[first], lying.pop(name)))
        return lying

    def back(self, arrays: dict[str, Any]) -> dict[str, Any]:
        """Return the suite's arrays by name."""
        named = {}
        for name, array in arrays.items():
            named[name] = np.array(self.last.back(name, self._turned(name, np.asarray(array))))
            if name in self.turned and name.endswith("bias") and array.ndim == 2:
                named[name[: -len("bias")] + STATE_BIAS] = named[name][1]
                named[name] = named[name][0]
        return named

    def _turned(self, name: str, array: Any) -> Any:
        """Return weights of a GRU with its first two gates exchanged."""
        if name not in self.turned:
            return array
        first, second, third = np.split(array, 3, axis=-1)
        return np.concatenate((second, first, third), axis=-1)


def variable(spec: dict[str, Any], holder: Any, name: str) -> Any:
    """Return the variable of a layer that has the suite's parameter or state of this name."""
    if spec["kind"] == "recurrent":
        if spec["bidirectional"]:
            holder = holder.backward_layer if name.startswith(REVERSE) else holder.forward_layer
        holder, name = holder.cell, name[len(REVERSE) :] if name.startswith(REVERSE) else name
    names = EMBEDDING if spec["kind"] == "embedding" else VARIABLES
    return getattr(holder, names[name])


def network(keras: Any, plan: dict[str, Any], batch: int) -> Any:
    """Return the model, and its variables by the suite's names; of two biases in one by the name of the first."""
    layers, shape = plan["layers"], plan["input"]
    kinds, variables = Kinds(keras, layers), {}
    shape = tuple(shape[1:] + shape[:1]) if len(shape) == 3 else tuple(shape)
    x = keras.Input(shape, batch, dtype="int32" if any(x["kind"] == "embedding" for x in layers) else None)
    values = {"input": x}
    for spec in layers:
        call, holder = getattr(kinds, spec["kind"])(spec)
        y = call(*[values[name] for name in spec["after"]])
        if spec["activation"] != "none" and spec["kind"] not in INSIDE:
            y = keras.layers.Activation(spec["activation"], name=kinds.called(spec) + ">activation")(y)
        values[spec["name"]] = y
        for name in list(spec["parameters"]) + list(spec["state"]):
            if not name.endswith(STATE_BIAS):
                variables["{}.{}".format(spec["name"], name)] = variable(spec, holder, name)
    return keras.Model(x, values[layers[-1]["name"]]), variables
