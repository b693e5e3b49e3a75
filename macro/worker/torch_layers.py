"""The kinds of layers in PyTorch, as its users write them.

In the style of Python 3.6. A builder gives a module and how the suite's arrays are written into its parameters; the
module is called with the outputs of the layers that it comes after.
"""

from functools import partial

import graphs  # beside this file
import layouts


def dense(torch, told):
    return torch.nn.Linear(told["inputs"], told["outputs"]), {"weight": transposed, "bias": same}


def conv(torch, told):
    nn, channels = torch.nn, told["in"][0][0]
    about = dict((name, told[name]) for name in ("stride", "groups", "dilation", "bias"))
    module = nn.Conv2d(channels, told["filters"], told["kernel"], padding=0 if told["pads"] else told["pad"], **about)
    return _padded(torch, told["pads"], module, 0.0), {"weight": same, "bias": same}


def pool(torch, told):
    nn, whole = torch.nn, told["window"] == 0
    if whole and told["mode"] == "average":
        return nn.AdaptiveAvgPool2d(1), {}
    if whole:
        return nn.AdaptiveMaxPool2d(1), {}
    ceil, pads = told["rounding"] == "ceil", told["pads"]
    alike = not pads or (len(set(pads)) == 1 and 2 * pads[0] <= told["window"])
    about = {"padding": pads[0] if pads and alike else 0, "ceil_mode": ceil}
    if told["mode"] == "max" and not alike:
        (top, bottom), (left, right) = layouts.around(told)
        module = nn.MaxPool2d(told["window"], told["stride"])
        return _padded(torch, (top, left, bottom, right), module, float("-inf")), {}
    if told["mode"] == "max":
        return nn.MaxPool2d(told["window"], told["stride"], **about), {}
    if not alike:
        raise NotImplementedError("there is no average pooling with padding that differs by side here")
    return nn.AvgPool2d(told["window"], told["stride"], count_include_pad=False, **about), {}


def norm(torch, told):
    about = {"eps": told["epsilon"], "momentum": told["share"], "affine": told["affine"]}
    module = torch.nn.BatchNorm2d(told["in"][0][0], **about)
    if told["frozen"]:
        module.eval()
    return module, {"scale": same, "shift": same}


def lrn(torch, told):
    about = dict((name, told[name]) for name in ("size", "alpha", "beta", "k"))
    return torch.nn.LocalResponseNorm(**about), {}


def dropout(torch, told):
    if told.get("mask") is None:
        return torch.nn.Dropout(told["share"]), {}
    mask = torch.from_numpy(told["mask"])
    return _called(torch, lambda x: x * mask.to(x.device)), {}


def add(torch, told):
    return _called(torch, lambda a, b: a + b), {}


def concat(torch, told):
    return _called(torch, lambda *given: torch.cat(given, 1)), {}


def flatten(torch, told):
    return torch.nn.Flatten(), {}


def activation(torch, told):
    """The module of its activation comes behind."""
    return torch.nn.Identity(), {}


def shortcut(torch, told):
    stride, more = told["stride"], told["channels"] - told["in"][0][0]
    pad = torch.nn.functional.pad
    return _called(torch, lambda x: pad(x[:, :, ::stride, ::stride], (0, 0, 0, 0, 0, more))), {}


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
KINDS.update(graphs.builders("torch"))
LOSSES = {
    "softmax": lambda own: own.cross_entropy,
    "binary": lambda own: own.binary_cross_entropy_with_logits,
    "squared": lambda own: own.mse_loss,
}
OPTIMIZERS = {
    "sgd": lambda own, told: partial(own.SGD, momentum=told["momentum"]),
    "nesterov": lambda own, told: partial(own.SGD, momentum=told["momentum"], nesterov=True),
    "adagrad": lambda own, told: partial(own.Adagrad, eps=told["epsilon"]),
    "rmsprop": lambda own, told: partial(own.RMSprop, alpha=told["rho"], eps=told["epsilon"]),
    "adam": lambda own, told: partial(own.Adam, betas=(told["momentum"], told["rho"]), eps=told["epsilon"]),
}
NAMES = {"norm": {"scale": "weight", "shift": "bias"}}  # of parameters, where they are others there
STATE = {"mean": "running_mean", "variance": "running_var"}


def same(array):
    return array


def transposed(array):
    return array.T


def _padded(torch, pads, module, value):
    """With padding that differs by side in front."""
    if not pads:
        return module
    top, left, bottom, right = pads
    return torch.nn.Sequential(torch.nn.ConstantPad2d((left, right, top, bottom), value), module)


def _called(torch, call):
    class Called(torch.nn.Module):
        def forward(self, *given):
            return call(*given)

    return Called()


def network(torch, layers, weights):
    """A module of all layers, each under its name, whose forward follows the graph; and of the suite's arrays, by name,
    (parameter or buffer, how it is written). `weights`: by name."""
    activations = {"sigmoid": torch.nn.Sigmoid, "relu": torch.nn.ReLU}
    own = {}

    class Network(torch.nn.Module):
        scope = None  # of a layer's name, where somebody traces

        def forward(self, x):
            values = {"input": x}
            for told, module, activation in steps:
                given = [values[name] for name in told["after"]]
                if self.scope is None:
                    y = module(*given)
                    values[told["name"]] = y if activation is None else activation(y)
                    continue
                with self.scope(told["name"]):
                    y = module(*given)
                if activation is not None:
                    with self.scope(told["name"] + " activation"):
                        y = activation(y)
                values[told["name"]] = y
            return values[layers[-1]["name"]]

    whole, steps = Network(), []
    for told in layers:
        module, arrays = KINDS[told["kind"]](torch, told)
        _place(torch, whole, told["name"], module)
        activation = activations[told["activation"]]() if told["activation"] != "none" else None
        steps.append((told, module, activation))
        holder = module[-1] if isinstance(module, torch.nn.Sequential) else module
        for name, form in arrays.items():
            parameter = dict(holder.named_parameters(recurse=False)).get(NAMES.get(told["kind"], {}).get(name, name))
            if parameter is not None:
                own["%s.%s" % (told["name"], name)] = parameter, form
        for name in told["state"]:
            own["%s.%s" % (told["name"], name)] = dict(holder.named_buffers())[STATE[name]], same
    with torch.no_grad():
        for name, array in weights.items():
            parameter, form = own[name]
            parameter.copy_(torch.from_numpy(form(array)))
    return whole, own


def _place(torch, whole, name, module):
    """Under its name, whose parts with dots are modules around it."""
    parts = name.split(".")
    for part in parts[:-1]:
        part = _free(torch, part)
        if part not in whole._modules:
            whole.add_module(part, torch.nn.Module())
        whole = whole._modules[part]
    name = _free(torch, parts[-1])
    while name in whole._modules:  # as `type_` beside `type`
        name += "_"
    whole.add_module(name, module)


def _free(torch, name):
    """The name, where no attribute of modules has it."""
    return name + "_" if hasattr(torch.nn.Module, name) or name in ("scope", "training") else name
