"""Layers in MXNet's gluon, images N×C×H×W.

For Python 3.6. A builder returns the gluon block that holds the parameters, or None, and a function of `F` (the module
of arrays or of symbols) and the preceding layers' outputs.
"""

import layouts  # beside this file

LOW = -3.4e38  # padding below all elements of an image, for maxima


def dense(mx, spec, batch):
    if spec["tied"]:
        raise NotImplementedError("the MXNet adapter has no dense layer with another layer's weights")
    layer = mx.gluon.nn.Dense(spec["outputs"], in_units=spec["inputs"], flatten=len(spec["in"][0]) == 1)
    return layer, lambda F, x: layer(x)


def conv(mx, spec, batch):
    top, left, bottom, right = layouts.pads(spec)
    alike = (top, left) == (bottom, right)
    layer = mx.gluon.nn.Conv2D(
        spec["filters"],
        spec["kernel"],
        strides=spec["stride"],
        padding=(top, left) if alike else 0,
        dilation=spec["dilation"],
        groups=spec["groups"],
        use_bias=spec["bias"],
        in_channels=spec["in"][0][0],
    )
    if alike:
        return layer, lambda F, x: layer(x)
    return layer, lambda F, x: layer(_padded(F, x, ((top, bottom), (left, right)), 0.0))


def pool(mx, spec, batch):
    nn, largest = mx.gluon.nn, spec["mode"] == "max"
    if spec["window"] == 0:
        layer = nn.GlobalMaxPool2D() if largest else nn.GlobalAvgPool2D()
        return layer, lambda F, x: layer(x)
    kind = nn.MaxPool2D if largest else nn.AvgPool2D
    around, counts, area = layouts.around(spec), layouts.counts(spec), float(spec["window"] ** 2)
    layer = kind(spec["window"], spec["stride"])
    if not any(map(any, around)):
        return layer, lambda F, x: layer(x)
    if largest:
        return layer, lambda F, x: layer(_padded(F, x, around, LOW))

    class Averaged(mx.gluon.HybridBlock):
        def __init__(self):
            super(Averaged, self).__init__()
            self.pool = layer
            self.scale = self.params.get_constant("scale", mx.nd.array(area / counts[None, None]))

        def hybrid_forward(self, F, x, scale):
            return F.broadcast_mul(self.pool(_padded(F, x, around, 0.0)), scale)

    block = Averaged()
    return block, lambda F, x: block(x)


def norm(mx, spec, batch):
    about = {"momentum": 1 - spec["share"], "epsilon": spec["epsilon"], "use_global_stats": spec["frozen"]}
    layer = mx.gluon.nn.BatchNorm(
        center=spec["affine"], scale=spec["affine"], in_channels=spec["in"][0][0], gamma_initializer="ones", **about
    )
    return layer, lambda F, x: layer(x)


def lrn(mx, spec, batch):
    about = {"nsize": spec["size"], "alpha": spec["alpha"], "beta": spec["beta"], "knorm": spec["k"]}
    return None, lambda F, x: F.LRN(x, **about)


def dropout(mx, spec, batch):
    if spec.get("mask") is None:
        return None, lambda F, x: F.Dropout(x, p=spec["share"])

    class Masked(mx.gluon.HybridBlock):
        def __init__(self):
            super(Masked, self).__init__()
            self.mask = self.params.get_constant("mask", mx.nd.array(spec["mask"]))

        def hybrid_forward(self, F, x, mask):
            return x * mask

    block = Masked()
    return block, lambda F, x: block(x)


def shortcut(mx, spec, batch):
    """Subsample, and concatenate zero channels: MXNet's pad cannot add channels."""
    stride, (_, rows, columns) = spec["stride"], spec["out"]
    more = spec["channels"] - spec["in"][0][0]

    def called(F, x):
        nothing = (None,) * 4
        y = F.slice(x, begin=nothing, end=nothing, step=(None, None, stride, stride)) if stride > 1 else x
        return F.concat(y, F.zeros((batch, more, rows, columns)), dim=1) if more else y

    return None, called


def embedding(mx, spec, batch):
    layer = mx.gluon.nn.Embedding(spec["rows"], spec["width"])
    return layer, lambda F, ids: layer(ids)


def mean(mx, spec, batch):
    def averaged(F, x, ids=None):
        if ids is None:
            return F.mean(x, axis=1)
        real = F.expand_dims(ids != 0, axis=-1)
        return F.broadcast_div(F.sum(F.broadcast_mul(x, real), axis=1), F.maximum(F.sum(real, axis=1), 1))

    return None, averaged


def recurrent(mx, spec, batch):
    """Build a recurrent layer, whose second bias is constant where the network has one: zeros, or the forget gate's."""
    kinds = {"lstm": mx.gluon.rnn.LSTM, "gru": mx.gluon.rnn.GRU, "rnn": mx.gluon.rnn.RNN}
    if spec["cell"] not in kinds:
        raise NotImplementedError("MXNet's GRU resets after the product with the state")
    if spec["carried"]:
        raise NotImplementedError("the MXNet adapter's recurrent layers start from a state of zeros")
    if spec["unrolled"]:
        raise NotImplementedError("the MXNet adapter has no loop over the cell")
    about = {"activation": "tanh"} if spec["cell"] == "rnn" else {}
    if spec["forget"]:
        about["h2h_bias_initializer"] = mx.init.LSTMBias(spec["forget"])
    steps, inputs = spec["in"][0]
    both, hidden = spec["bidirectional"], spec["hidden"]
    layer = kinds[spec["cell"]](hidden, layout="NTC", input_size=inputs, bidirectional=both, **about)
    if spec["biases"] == 1:
        for way in "lr"[: 1 + both]:
            getattr(layer, way + "0_h2h_bias").grad_req = "null"

    def ran(F, x):
        y = layer(x)
        if not spec["last"]:
            return y
        h = F.slice_axis(y, axis=1, begin=steps - 1, end=steps)
        if both:
            ends = F.slice_axis(h, axis=2, begin=0, end=hidden), F.slice_axis(y, axis=1, begin=0, end=1)
            h = F.concat(ends[0], F.slice_axis(ends[1], axis=2, begin=hidden, end=2 * hidden), dim=2)
        return F.reshape(h, (batch, -1))

    return layer, ran


KINDS = dict((builder.__name__, builder) for builder in (dense, conv, pool, norm, lrn, dropout, shortcut))
KINDS.update((builder.__name__, builder) for builder in (embedding, mean, recurrent))
KINDS.update(
    add=lambda mx, spec, batch: (None, lambda F, a, b: a + b),
    concat=lambda mx, spec, batch: (None, lambda F, *given: F.concat(*given, dim=1)),
    flatten=lambda mx, spec, batch: (None, lambda F, x: F.flatten(x)),
    activation=lambda mx, spec, batch: (None, lambda F, x: x),
)
NAMES = {"scale": "gamma", "shift": "beta", "mean": "running_mean", "variance": "running_var"}
SEQUENCE = {"weight": "i2h_weight", "recurrent": "h2h_weight", "bias": "i2h_bias", "state_bias": "h2h_bias"}


LOSSES = {  # per sample
    "softmax": lambda losses: losses.SoftmaxCrossEntropyLoss(),
    "binary": lambda losses: losses.SigmoidBinaryCrossEntropyLoss(),
    "squared": lambda losses: losses.L2Loss(weight=2.0),  # L2Loss halves its weight
}
OPTIMIZERS = {  # (name, options); rmsprop and adagrad add epsilon below the root
    "sgd": lambda plan: ("sgd", {"momentum": plan["momentum"]} if plan["momentum"] else {}),
    "nesterov": lambda plan: ("nag", {"momentum": plan["momentum"]}),
    "adagrad": lambda plan: ("adagrad", {"eps": plan["epsilon"] ** 2}),
    "rmsprop": lambda plan: ("rmsprop", {"gamma1": plan["rho"], "epsilon": plan["epsilon"] ** 2}),
    "adam": lambda plan: ("adam", dict(beta1=plan["momentum"], beta2=plan["rho"], epsilon=plan["epsilon"])),
}


def _padded(F, x, around, value):
    (top, bottom), (left, right) = around
    return F.pad(x, mode="constant", pad_width=(0, 0, 0, 0, top, bottom, left, right), constant_value=value)


def network(mx, layers, batch):
    """Return a block of all layers, and its parameters and state by the suite's names."""

    class Graph(mx.gluon.HybridBlock):
        def __init__(self):
            super(Graph, self).__init__()
            self.calls = []
            for spec in layers:
                layer, call = KINDS[spec["kind"]](mx, spec, batch)
                if layer is not None:
                    self.register_child(layer)
                self.calls.append((spec, layer, call))

        def hybrid_forward(self, F, x):
            values = {"input": x}
            for spec, _, call in self.calls:
                y = call(F, *[values[name] for name in spec["after"]])
                values[spec["name"]] = y if spec["activation"] == "none" else F.Activation(y, spec["activation"])
            return values[layers[-1]["name"]]

    graph, named = Graph(), {}
    for spec, layer, _ in graph.calls:
        for name in list(spec["parameters"]) + list(spec["state"]):
            named["%s.%s" % (spec["name"], name)] = getattr(layer, _called(spec, name))
    return graph, named


def _called(spec, name):
    """Return MXNet's name of a layer's parameter or state."""
    if spec["kind"] != "recurrent":
        return NAMES.get(name, name)
    begin = "reverse_"
    return "r0_" + SEQUENCE[name[len(begin) :]] if name.startswith(begin) else "l0_" + SEQUENCE[name]
