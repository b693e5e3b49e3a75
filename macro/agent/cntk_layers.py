"""Layers in CNTK, images C×H×W; no batch normalization, which CNTK cannot train on a CPU.

For Python 3.6. A builder returns a function of the preceding layers' outputs, and the object that holds the parameters
W and b after the first call, or None.
"""

import layouts  # beside this file
import numpy as np

LOW = -3.4e38  # padding below all elements of an image, for maxima
VARIABLES = {"weight": "W", "bias": "b", "recurrent": "H"}
REVERSE = "reverse_"


def dense(cntk, spec):
    if spec["tied"]:
        raise NotImplementedError("the CNTK adapter has no dense layer with another layer's weights")
    layer = cntk.layers.Dense(spec["outputs"], init=0.0)
    return layer, layer


def conv(cntk, spec):
    top, left, bottom, right = layouts.pads(spec)
    if spec["dilation"] > 1:
        raise NotImplementedError("CNTK has no dilated convolutions on a CPU")
    if spec["groups"] > 1:
        raise NotImplementedError("CNTK has no grouped convolutions on a CPU")
    layer = cntk.layers.Convolution2D(
        (spec["kernel"],) * 2,
        spec["filters"],
        strides=spec["stride"],
        pad=False,
        bias=spec["bias"],
        dilation=spec["dilation"],
        init=0.0,
    )
    return (lambda x: layer(_padded(cntk, x, ((top, bottom), (left, right)), 0.0))), layer


def pool(cntk, spec):
    largest, window, stride = spec["mode"] == "max", spec["window"], spec["stride"]
    kind = cntk.MAX_POOLING if largest else cntk.AVG_POOLING
    if window == 0:
        return (lambda x: cntk.pooling(x, kind, tuple(spec["in"][0][1:]), strides=(1, 1), auto_padding=[False])), None
    around, counts = layouts.around(spec), layouts.counts(spec)
    scale, low = float(window * window) / counts[None], LOW if largest else 0.0

    def pooled(x):
        x = _padded(cntk, x, around, low)
        y = cntk.pooling(x, kind, (window, window), strides=(stride, stride), auto_padding=[False])
        return y if largest or (scale == 1).all() else y * cntk.constant(scale)

    return pooled, None


def lrn(cntk, spec):
    reach, alpha = spec["size"] // 2, spec["alpha"]  # CNTK divides alpha by the size
    return (lambda x: cntk.local_response_normalization(x, reach, spec["k"], alpha, spec["beta"])), None


def dropout(cntk, spec):
    """Build dropout, inactive when a forward pass is evaluated; a given mask becomes an input variable."""
    if spec.get("mask") is None:
        return (lambda x: cntk.dropout(x, spec["share"])), None
    if len(spec["out"]) == 2:
        raise NotImplementedError("this suite's CNTK adapter has no given masks of sequences")
    spec["given"] = cntk.input_variable(tuple(spec["out"]))
    return (lambda x: x * spec["given"]), None


def flatten(cntk, spec):
    if len(spec["in"][0]) == 2:
        raise NotImplementedError("CNTK has no number of steps, so it cannot flatten a sequence")
    return (lambda x: cntk.reshape(x, (spec["inputs"],))), None


def embedding(cntk, spec):
    layer = cntk.layers.Embedding(spec["width"], init=0.0)
    return layer, layer


def mean(cntk, spec):
    """Build a mean over the steps that a sequence has: padding is none of them."""

    def averaged(x, *ids):
        ones = cntk.sequence.reduce_sum(cntk.reduce_sum(x, axis=0) * 0 + 1)
        return cntk.sequence.reduce_sum(x) / ones

    return averaged, None


def recurrent(cntk, spec):
    if spec["cell"] not in ("lstm", "rnn") or spec["biases"] > 1 or spec["forget"]:
        raise NotImplementedError("CNTK has no cell %s with %d biases" % (spec["cell"], spec["biases"]))
    if spec["carried"]:
        raise NotImplementedError("the CNTK adapter's recurrent layers start from a state of zeros")
    if spec["unrolled"]:
        raise NotImplementedError("the CNTK adapter has no loop over the cell")
    kind = cntk.layers.LSTM if spec["cell"] == "lstm" else cntk.layers.RNNStep
    cells = [kind(spec["hidden"], activation=cntk.tanh, init=0.0) for _ in range(1 + spec["bidirectional"])]

    def ran(x):
        states = []
        for cell, backwards in zip(cells, (False, True)):
            y = cntk.layers.Recurrence(cell, go_backwards=backwards)(x)
            end = cntk.sequence.first if backwards else cntk.sequence.last
            states.append(end(y) if spec["last"] else y)
        return cntk.splice(*states) if spec["bidirectional"] else states[0]

    return ran, cells


def lying(spec, name, array):
    """Return an LSTM's weights in the order of gates i g f o, and back in i f g o; others as they are."""
    if spec["kind"] != "recurrent" or spec["cell"] != "lstm":
        return array
    i, second, third, o = np.split(array, 4, axis=-1)
    return np.concatenate((i, third, second, o), axis=-1)


def held(spec, holder, name):
    """Return the parameter of a layer with the suite's name."""
    if spec["kind"] == "embedding":
        return holder.E
    if spec["kind"] == "recurrent":
        holder, name = holder[name.startswith(REVERSE)], name.replace(REVERSE, "")
    return getattr(holder, VARIABLES[name])


KINDS = dict((builder.__name__, builder) for builder in (dense, conv, pool, lrn, dropout))
KINDS.update((builder.__name__, builder) for builder in (embedding, mean, recurrent))
KINDS.update(
    add=lambda cntk, spec: ((lambda a, b: a + b), None),
    concat=lambda cntk, spec: ((lambda *given: cntk.splice(*given, axis=0)), None),
    flatten=flatten,
    activation=lambda cntk, spec: ((lambda x: x), None),
)


LOSSES = {  # per sample
    "softmax": lambda cntk, z, t: cntk.cross_entropy_with_softmax(z, t),
    # CNTK's binary_cross_entropy is a mean, but its gradient is the sum's.
    "binary": lambda cntk, z, t: cntk.reduce_sum(cntk.log_add_exp(z, cntk.constant(0.0)) - z * t) / z.shape[0],
    "squared": lambda cntk, z, t: cntk.squared_error(z, t) / z.shape[0],
}


def _sgd(cntk, parameters, plan, batch):
    size = {"minibatch_size": batch}
    rate = cntk.learning_parameter_schedule(plan["rate"], **size)
    if not plan["momentum"]:
        return cntk.sgd(parameters, rate, **size)
    momentum = cntk.momentum_schedule(plan["momentum"], **size)
    return cntk.momentum_sgd(parameters, rate, momentum, unit_gain=False, **size)


def _nesterov(cntk, parameters, plan, batch):
    size = {"minibatch_size": batch}
    rate = cntk.learning_parameter_schedule(plan["rate"], **size)
    momentum = cntk.momentum_schedule(plan["momentum"], **size)
    return cntk.nesterov(parameters, rate, momentum, unit_gain=False, **size)


def _adam(cntk, parameters, plan, batch):
    """Return adam with rate and epsilon scaled by the batch, since CNTK's gradients are summed over it."""
    size = {"minibatch_size": batch}
    rate = cntk.learning_parameter_schedule(plan["rate"] * batch, **size)
    first, second = [cntk.momentum_schedule(plan[name], **size) for name in ("momentum", "rho")]
    how = {"unit_gain": True, "variance_momentum": second, "epsilon": plan["epsilon"] * batch}
    return cntk.adam(parameters, rate, first, **dict(how, **size))


OPTIMIZERS = {"sgd": _sgd, "nesterov": _nesterov, "adam": _adam}  # CNTK's other optimizers have different formulas


def _padded(cntk, x, around, value):
    if not any(map(any, around)):
        return x
    return cntk.pad(x, [(0, 0)] + list(around), mode=cntk.ops.CONSTANT_PAD, constant_value=value)


def network(cntk, layers, x):
    """Return the logits for the input `x`, and the parameters by the suite's names."""
    activations = {"sigmoid": cntk.sigmoid, "relu": cntk.relu, "tanh": cntk.tanh}
    padded = any(spec["kind"] == "mean" and "input" in spec["after"] for spec in layers)
    if padded and any(spec["kind"] == "recurrent" and (spec["last"] or spec["bidirectional"]) for spec in layers):
        raise NotImplementedError("without padding, the last step in CNTK is another one")
    values, parameters = {"input": x}, {}
    for spec in layers:
        call, holder = KINDS[spec["kind"]](cntk, spec)
        y = call(*[values[name] for name in spec["after"]])
        for name in spec["parameters"]:
            parameters["%s.%s" % (spec["name"], name)] = held(spec, holder, name)
        values[spec["name"]] = y if spec["activation"] == "none" else activations[spec["activation"]](y)
    return values[layers[-1]["name"]], parameters
