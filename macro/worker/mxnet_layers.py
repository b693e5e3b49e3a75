"""The kinds of layers in MXNet's gluon, images N×C×H×W, as its users have them.

In the style of Python 3.6. A builder gives a block of gluon that has the parameters, or None, and what is called with
`F`, arrays or symbols, and the outputs of the layers that it comes after.
"""

import layouts  # beside this file

LOW = -3.4e38  # around images whose largest elements are wanted


def dense(mx, told, batch):
    own = mx.gluon.nn.Dense(told["outputs"], in_units=told["inputs"])
    return own, lambda F, x: own(x)


def conv(mx, told, batch):
    top, left, bottom, right = layouts.pads(told)
    alike = (top, left) == (bottom, right)
    own = mx.gluon.nn.Conv2D(
        told["filters"],
        told["kernel"],
        strides=told["stride"],
        padding=(top, left) if alike else 0,
        dilation=told["dilation"],
        groups=told["groups"],
        use_bias=told["bias"],
        in_channels=told["in"][0][0],
    )
    if alike:
        return own, lambda F, x: own(x)
    return own, lambda F, x: own(_padded(F, x, ((top, bottom), (left, right)), 0.0))


def pool(mx, told, batch):
    nn, largest = mx.gluon.nn, told["mode"] == "max"
    if told["window"] == 0:
        own = nn.GlobalMaxPool2D() if largest else nn.GlobalAvgPool2D()
        return own, lambda F, x: own(x)
    kind = nn.MaxPool2D if largest else nn.AvgPool2D
    around, counts, whole = layouts.around(told), layouts.counts(told), float(told["window"] ** 2)
    own = kind(told["window"], told["stride"])
    if not any(map(any, around)):
        return own, lambda F, x: own(x)
    if largest:
        return own, lambda F, x: own(_padded(F, x, around, LOW))

    class Averaged(mx.gluon.HybridBlock):
        def __init__(self):
            super(Averaged, self).__init__()
            self.own = own
            self.scale = self.params.get_constant("scale", mx.nd.array(whole / counts[None, None]))

        def hybrid_forward(self, F, x, scale):
            return F.broadcast_mul(self.own(_padded(F, x, around, 0.0)), scale)

    block = Averaged()
    return block, lambda F, x: block(x)


def norm(mx, told, batch):
    about = {"momentum": 1 - told["share"], "epsilon": told["epsilon"], "use_global_stats": told["frozen"]}
    own = mx.gluon.nn.BatchNorm(
        center=told["affine"], scale=told["affine"], in_channels=told["in"][0][0], gamma_initializer="ones", **about
    )
    return own, lambda F, x: own(x)


def lrn(mx, told, batch):
    about = {"nsize": told["size"], "alpha": told["alpha"], "beta": told["beta"], "knorm": told["k"]}
    return None, lambda F, x: F.LRN(x, **about)


def dropout(mx, told, batch):
    if told.get("mask") is None:
        return None, lambda F, x: F.Dropout(x, p=told["share"])

    class Masked(mx.gluon.HybridBlock):
        def __init__(self):
            super(Masked, self).__init__()
            self.mask = self.params.get_constant("mask", mx.nd.array(told["mask"]))

        def hybrid_forward(self, F, x, mask):
            return x * mask

    block = Masked()
    return block, lambda F, x: block(x)


def add(mx, told, batch):
    return None, lambda F, a, b: a + b


def concat(mx, told, batch):
    return None, lambda F, *given: F.concat(*given, dim=1)


def flatten(mx, told, batch):
    return None, lambda F, x: F.flatten(x)


def activation(mx, told, batch):
    return None, lambda F, x: x


def shortcut(mx, told, batch):
    """Its pad has no channels: zeros are joined to them."""
    stride, (_, rows, columns) = told["stride"], told["out"]
    more = told["channels"] - told["in"][0][0]

    def called(F, x):
        nothing = (None,) * 4
        y = F.slice(x, begin=nothing, end=nothing, step=(None, None, stride, stride)) if stride > 1 else x
        return F.concat(y, F.zeros((batch, more, rows, columns)), dim=1) if more else y

    return None, called


KINDS = {
    "dense": dense,
    "conv": conv,
    "pool": pool,
    "norm": norm,
    "lrn": lrn,
    "dropout": dropout,
    "add": add,
    "concat": concat,
    "flatten": flatten,
    "shortcut": shortcut,
    "activation": activation,
}
NAMES = {"scale": "gamma", "shift": "beta", "mean": "running_mean", "variance": "running_var"}


LOSSES = {  # of each sample
    "softmax": lambda own: own.SoftmaxCrossEntropyLoss(),
    "binary": lambda own: own.SigmoidBinaryCrossEntropyLoss(),
    "squared": lambda own: own.L2Loss(weight=2.0),  # which takes the half of it
}
OPTIMIZERS = {  # the name there, and what it is told; two add epsilon below the root
    "sgd": lambda told: ("sgd", {"momentum": told["momentum"]} if told["momentum"] else {}),
    "nesterov": lambda told: ("nag", {"momentum": told["momentum"]}),
    "adagrad": lambda told: ("adagrad", {"eps": told["epsilon"] ** 2}),
    "rmsprop": lambda told: ("rmsprop", {"gamma1": told["rho"], "epsilon": told["epsilon"] ** 2}),
    "adam": lambda told: ("adam", dict(beta1=told["momentum"], beta2=told["rho"], epsilon=told["epsilon"])),
}


def _padded(F, x, around, value):
    (top, bottom), (left, right) = around
    return F.pad(x, mode="constant", pad_width=(0, 0, 0, 0, top, bottom, left, right), constant_value=value)


def network(mx, layers, batch):
    """A block of all layers, and its parameters by the suite's names."""

    class Graph(mx.gluon.HybridBlock):
        def __init__(self):
            super(Graph, self).__init__()
            self.calls = []
            for told in layers:
                own, call = KINDS[told["kind"]](mx, told, batch)
                if own is not None:
                    self.register_child(own)
                self.calls.append((told, own, call))

        def hybrid_forward(self, F, x):
            values = {"input": x}
            for told, _, call in self.calls:
                y = call(F, *[values[name] for name in told["after"]])
                values[told["name"]] = y if told["activation"] == "none" else F.Activation(y, told["activation"])
            return values[layers[-1]["name"]]

    graph, named = Graph(), {}
    for told, own, _ in graph.calls:
        for name in list(told["parameters"]) + list(told["state"]):
            named["%s.%s" % (told["name"], name)] = getattr(own, NAMES.get(name, name))
    return graph, named
