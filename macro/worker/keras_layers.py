"""The kinds of layers in Keras, images N×H×W×C and filters H×W×C×K, as its users write them.

In the style of Python 3.6. A builder gives what is called with the outputs of the layers that it comes after, and the
layer of Keras that has the variables, if any.
"""

import layouts  # beside this file

VARIABLES = {
    "weight": "kernel",
    "bias": "bias",
    "scale": "gamma",
    "shift": "beta",
    "mean": "moving_mean",
    "variance": "moving_variance",
}  # the suite's names of arrays, and Keras's
INSIDE = ("dense", "conv")  # kinds that take their activation themselves


class Kinds(object):
    def __init__(self, keras, layers):
        self.keras, self.own, self.layers = keras, keras.layers, layers

        builders = self.dense, self.conv, self.pool, self.norm, self.dropout
        self.builders = dict(
            zip(NAMES, builders + (self.add, self.concat, self.flatten, self.shortcut, self.activation))
        )

    def called(self, told):
        """A layer's name there; parameters of PyTorch have no dots in theirs. No layer has a > in its name."""
        return told["name"].replace(".", ">") if self.keras.backend.backend() == "torch" else told["name"]

    def dense(self, told):
        own = self.own.Dense(told["outputs"], activation(told), name=self.called(told), kernel_initializer="zeros")
        return own, own

    def conv(self, told):
        top, left, bottom, right = layouts.pads(told)
        if told["groups"] > 1 and self.keras.backend.backend() == "tensorflow":
            raise NotImplementedError(
                "there are no groups of a convolution here: TensorFlow has no gradient of them on a CPU"
            )
        if told["stride"] > 1 and told["dilation"] > 1:
            raise NotImplementedError("there is no convolution with a stride and a dilation here")
        reach = told["dilation"] * (told["kernel"] - 1)
        same = told["stride"] == 1 and reach % 2 == 0 and set((top, left, bottom, right)) == {reach // 2}
        own = self.own.Conv2D(
            told["filters"],
            told["kernel"],
            told["stride"],
            "same" if same else "valid",
            dilation_rate=told["dilation"],
            groups=told["groups"],
            activation=activation(told),
            use_bias=told["bias"],
            kernel_initializer="zeros",
            name=self.called(told),
        )
        if same or not any((top, left, bottom, right)):
            return own, own
        around = self.own.ZeroPadding2D(((top, bottom), (left, right)), name=self.called(told) + ">pad")
        return (lambda x: own(around(x))), own

    def pool(self, told):
        largest, name = told["mode"] == "max", self.called(told)
        if told["window"] == 0:
            whole = self.own.GlobalMaxPooling2D if largest else self.own.GlobalAveragePooling2D
            return whole(keepdims=True, name=name), None
        kind = self.own.MaxPooling2D if largest else self.own.AveragePooling2D
        around, counts, whole = layouts.around(told), layouts.counts(told), float(told["window"] ** 2)
        own = kind(told["window"], told["stride"], name=name)
        if not any(map(any, around)):
            return own, None
        pads, low = [(0, 0)] + list(around) + [(0, 0)], -3.4e38 if largest else 0.0
        pad = self._called(lambda x: self.keras.ops.pad(x, pads, constant_values=low), name + ">pad")
        if largest:
            return (lambda x: own(pad(x))), None
        tensor = self.keras.ops.convert_to_tensor
        of_those = self._called(lambda x: x * tensor(whole / counts[:, :, None]), name + ">counted")
        return (lambda x: of_those(own(pad(x)))), None

    def norm(self, told):
        kind = frozen(self.own.BatchNormalization) if told["frozen"] else self.own.BatchNormalization
        affine, about = told["affine"], {"momentum": 1 - told["share"], "epsilon": told["epsilon"]}
        own = kind(center=affine, scale=affine, name=self.called(told), **about)
        return own, own

    def dropout(self, told):
        if told.get("mask") is None:
            return self.own.Dropout(told["share"], name=self.called(told)), None
        mask = layouts.mask(told, self.layers)
        return self._called(lambda x: x * self.keras.ops.convert_to_tensor(mask), self.called(told)), None

    def add(self, told):
        own = self.own.Add(name=self.called(told))
        return (lambda *given: own(list(given))), None

    def concat(self, told):
        own = self.own.Concatenate(name=self.called(told))
        return (lambda *given: own(list(given))), None

    def flatten(self, told):
        """Rows, columns, channels: the weights of dense layers behind lie so too."""
        own = self.own.Flatten(name=self.called(told))
        if layouts.in_order(told, self.layers):
            turn = self.own.Permute((3, 1, 2), name=self.called(told) + ">turned")
            return (lambda x: own(turn(x))), None
        return own, None

    def shortcut(self, told):
        stride, more = told["stride"], told["channels"] - told["in"][0][0]
        pads = ((0, 0), (0, 0), (0, 0), (0, more))
        return self._called(lambda x: self.keras.ops.pad(x[:, ::stride, ::stride], pads), self.called(told)), None

    def activation(self, told):
        return (lambda x: x), None

    def _called(self, call, name):
        return self.own.Lambda(call, name=name)


NAMES = ("dense", "conv", "pool", "norm", "dropout", "add", "concat", "flatten", "shortcut", "activation")


LOSSES = {
    "softmax": lambda own: own.SparseCategoricalCrossentropy(from_logits=True),
    "binary": lambda own: own.BinaryCrossentropy(from_logits=True),
    "squared": lambda own: own.MeanSquaredError(),
}
OPTIMIZERS = {  # of which two add epsilon below the root
    "sgd": lambda own, told: own.SGD(told["rate"], momentum=told["momentum"]),
    "nesterov": lambda own, told: own.SGD(told["rate"], momentum=told["momentum"], nesterov=True),
    "adagrad": lambda own, told: own.Adagrad(told["rate"], 0.0, told["epsilon"] ** 2),
    "rmsprop": lambda own, told: own.RMSprop(told["rate"], told["rho"], epsilon=told["epsilon"] ** 2),
    "adam": lambda own, told: own.Adam(told["rate"], told["momentum"], told["rho"], told["epsilon"]),
}


def activation(told):
    """As Keras calls it."""
    return None if told["activation"] == "none" else told["activation"]


def frozen(kind):
    """A batch normalization that takes its running statistics, whatever the model is called for; scale and shift are
    moved all the same."""

    class Frozen(kind):
        def call(self, inputs, training=None, mask=None):
            return kind.call(self, inputs, training=False, mask=mask)

    return Frozen


def network(keras, plan, batch):
    """A model, and its variables by the suite's names."""
    layers, shape = plan["layers"], plan["input"]
    kinds, own = Kinds(keras, layers), {}
    x = keras.Input(tuple(shape[1:] + shape[:1]) if len(shape) == 3 else tuple(shape), batch_size=batch)
    values = {"input": x}
    for told in layers:
        call, holder = kinds.builders[told["kind"]](told)
        y = call(*[values[name] for name in told["after"]])
        if told["activation"] != "none" and told["kind"] not in INSIDE:
            y = keras.layers.Activation(told["activation"], name=kinds.called(told) + ">activation")(y)
        values[told["name"]] = y
        for name in list(told["parameters"]) + list(told["state"]):
            own["%s.%s" % (told["name"], name)] = getattr(holder, VARIABLES[name])
    return keras.Model(x, values[layers[-1]["name"]]), own
