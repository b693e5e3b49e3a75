"""Layers in PyTorch, as its users write them.

A builder returns a module, called with the preceding layers' outputs, and {parameter: conversion of the suite's array}.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import graphs  # beside this file
import layouts
import torch_recurrent


def dense(torch: Any, spec: dict[str, Any]) -> Any:
    if spec["tied"]:
        return _tied(torch, spec), {"bias": same}
    return torch.nn.Linear(spec["inputs"], spec["outputs"]), {"weight": transposed, "bias": same}


def conv(torch: Any, spec: dict[str, Any]) -> Any:
    nn, channels = torch.nn, spec["in"][0][0]
    about = {name: spec[name] for name in ("stride", "groups", "dilation", "bias")}
    module = nn.Conv2d(channels, spec["filters"], spec["kernel"], padding=0 if spec["pads"] else spec["pad"], **about)
    return _padded(torch, spec["pads"], module, 0.0), {"weight": same, "bias": same}


def pool(torch: Any, spec: dict[str, Any]) -> Any:
    nn, is_global = torch.nn, spec["window"] == 0
    if is_global and spec["mode"] == "average":
        return nn.AdaptiveAvgPool2d(1), {}
    if is_global:
        return nn.AdaptiveMaxPool2d(1), {}
    ceil, pads = spec["rounding"] == "ceil", spec["pads"]
    alike = not pads or (len(set(pads)) == 1 and 2 * pads[0] <= spec["window"])
    about = {"padding": pads[0] if pads and alike else 0, "ceil_mode": ceil}
    if spec["mode"] == "max" and not alike:
        (top, bottom), (left, right) = layouts.around(spec)
        module = nn.MaxPool2d(spec["window"], spec["stride"])
        return _padded(torch, (top, left, bottom, right), module, float("-inf")), {}
    if spec["mode"] == "max":
        return nn.MaxPool2d(spec["window"], spec["stride"], **about), {}
    if not alike:
        raise NotImplementedError("the PyTorch adapter has no average pooling with asymmetric padding")
    return nn.AvgPool2d(spec["window"], spec["stride"], count_include_pad=False, **about), {}


def norm(torch: Any, spec: dict[str, Any]) -> Any:
    about = {"eps": spec["epsilon"], "momentum": spec["share"], "affine": spec["affine"]}
    module = torch.nn.BatchNorm2d(spec["in"][0][0], **about)
    if spec["frozen"]:
        module.eval()
    return module, {"scale": same, "shift": same}


def lrn(torch: Any, spec: dict[str, Any]) -> Any:
    about = {name: spec[name] for name in ("size", "alpha", "beta", "k")}
    return torch.nn.LocalResponseNorm(**about), {}


def dropout(torch: Any, spec: dict[str, Any]) -> Any:
    if spec.get("mask") is None:
        return torch.nn.Dropout(spec["share"]), {}
    mask = torch.from_numpy(spec["mask"])
    return _called(torch, lambda x: x * mask.to(x.device)), {}


def shortcut(torch: Any, spec: dict[str, Any]) -> Any:
    stride, more = spec["stride"], spec["channels"] - spec["in"][0][0]
    pad = torch.nn.functional.pad
    return _called(torch, lambda x: pad(x[:, :, ::stride, ::stride], (0, 0, 0, 0, 0, more))), {}


def embedding(torch: Any, spec: dict[str, Any]) -> Any:
    return torch.nn.Embedding(spec["rows"], spec["width"]), {"weight": same}


def mean(torch: Any, spec: dict[str, Any]) -> Any:
    def of_words(x: Any, ids: Any) -> Any:
        real = (ids != 0).unsqueeze(-1).to(x.dtype)
        return (x * real).sum(axis) / real.sum(axis).clamp(min=1)

    axis = torch_recurrent.axis(spec)
    return _called(torch, of_words if len(spec["in"]) > 1 else lambda x: x.mean(axis)), {}


def recurrent(torch: Any, spec: dict[str, Any]) -> Any:
    module = torch_recurrent.module(torch, spec)
    return module, {name: same if name.endswith("bias") else transposed for name in spec["parameters"]}


KINDS = {builder.__name__: builder for builder in (dense, conv, pool, norm, lrn, dropout, shortcut)}
KINDS.update((builder.__name__, builder) for builder in (embedding, mean, recurrent))
KINDS.update(
    add=lambda torch, spec: (_called(torch, lambda a, b: a + b), {}),
    concat=lambda torch, spec: (_called(torch, lambda *given: torch.cat(given, 1)), {}),
    flatten=lambda torch, spec: (torch.nn.Flatten(), {}),
    activation=lambda torch, spec: (torch.nn.Identity(), {}),  # the activation's module follows
    **graphs.builders("torch"),
)
LOSSES: dict[str, Callable[..., Any]] = {
    "softmax": lambda functional: lambda z, labels: functional.cross_entropy(*_in_rows(z, labels)),
    "binary": lambda functional: functional.binary_cross_entropy_with_logits,
    "squared": lambda functional: functional.mse_loss,
}
OPTIMIZERS = {
    "sgd": lambda optim, plan: partial(optim.SGD, momentum=plan["momentum"]),
    "nesterov": lambda optim, plan: partial(optim.SGD, momentum=plan["momentum"], nesterov=True),
    "adagrad": lambda optim, plan: partial(optim.Adagrad, eps=plan["epsilon"]),
    "rmsprop": lambda optim, plan: partial(optim.RMSprop, alpha=plan["rho"], eps=plan["epsilon"]),
    "adam": lambda optim, plan: partial(optim.Adam, betas=(plan["momentum"], plan["rho"]), eps=plan["epsilon"]),
}
NAMES = {
    "norm": {"scale": "weight", "shift": "bias"},
    "recurrent": torch_recurrent.NAMES,
}  # PyTorch's names of parameters, if they differ
STATE = {"mean": "running_mean", "variance": "running_var", "h": "h", "c": "c"}


def _in_rows(z: Any, labels: Any) -> Any:
    """Return outputs and labels with the steps of sequences as rows, as the cross-entropy takes them."""
    return (z.flatten(0, -2), labels.flatten()) if z.dim() > 2 else (z, labels)


def same(array: Any) -> Any:
    return array


def transposed(array: Any) -> Any:
    return array.T


def _padded(torch: Any, pads: Any, module: Any, value: Any) -> Any:
    """Return the module preceded by padding that may differ by side."""
    if not pads:
        return module
    top, left, bottom, right = pads
    return torch.nn.Sequential(torch.nn.ConstantPad2d((left, right, top, bottom), value), module)


def _tied(torch: Any, spec: dict[str, Any]) -> Any:
    """Return a dense module with the weights of another module, `owner()`, transposed."""

    class Tied(torch.nn.Module):  # type: ignore[misc]
        owner: Callable[[], Any]

        def forward(self, x: Any) -> Any:
            owner = self.owner()
            weight = owner.weight if isinstance(owner, torch.nn.Embedding) else owner.weight.t()
            return torch.nn.functional.linear(x, weight, self.bias)

    module = Tied()
    module.bias = torch.nn.Parameter(torch.zeros(spec["outputs"]))
    return module


def _called(torch: Any, call: Callable[..., Any]) -> Any:
    class Called(torch.nn.Module):  # type: ignore[misc]
        def forward(self, *given: Any) -> Any:
            return call(*given)

    return Called()


def network(torch: Any, layers: list[dict[str, Any]], weights: dict[str, Any]) -> Any:
    """Return a module of all layers by name, and {suite's name: (parameter or buffer, conversion)}.

    `weights`: the suite's arrays by name.
    """
    activations = {"sigmoid": torch.nn.Sigmoid, "relu": torch.nn.ReLU, "tanh": torch.nn.Tanh}
    named = {}

    class Network(torch.nn.Module):  # type: ignore[misc]
        scope: Any = None  # context manager around each layer, by name, while tracing

        def forward(self, x: Any) -> Any:
            values = {"input": x}
            for spec, module, activation in steps:
                given = [values[name] for name in spec["after"]]
                if self.scope is None:
                    y = module(*given)
                    values[spec["name"]] = y if activation is None else activation(y)
                    continue
                with self.scope(spec["name"]):
                    y = module(*given)
                if activation is not None:
                    with self.scope(spec["name"] + " activation"):
                        y = activation(y)
                values[spec["name"]] = y
            return values[layers[-1]["name"]]

    net, steps, modules = Network(), [], {}
    for spec in layers:
        module, arrays = KINDS[spec["kind"]](torch, spec)
        modules[spec["name"]] = module
        if spec.get("tied"):
            module.owner = partial(modules.get, spec["tied"])
        _place(torch, net, spec["name"], module)
        activation = activations[spec["activation"]]() if spec["activation"] != "none" else None
        steps.append((spec, module, activation))
        named.update(_arrays(torch, spec, module, arrays))
    with torch.no_grad():
        for name, array in weights.items():
            parameter, form = named[name]
            parameter.copy_(torch.from_numpy(form(array)))
    return net, named


def _arrays(torch: Any, spec: dict[str, Any], module: Any, forms: dict[str, Any]) -> dict[str, Any]:
    """Return {suite's name: (parameter or buffer, conversion)} of a layer."""
    holder = module[-1] if isinstance(module, torch.nn.Sequential) else module
    parameters, buffers = dict(holder.named_parameters(recurse=False)), dict(holder.named_buffers())
    called = NAMES.get(spec["kind"], {})
    named = {name: (parameters.get(called.get(name, name)), form) for name, form in forms.items()}
    named.update((name, (buffers[STATE[name]], same)) for name in spec["state"])
    return {"{}.{}".format(spec["name"], name): x for name, x in named.items() if x[0] is not None}


def _place(torch: Any, parent: Any, name: str, module: Any) -> None:
    """Add a module under its dotted name, creating the enclosing modules."""
    parts = name.split(".")
    for part in parts[:-1]:
        part = _free(torch, part)
        if part not in parent._modules:
            parent.add_module(part, torch.nn.Module())
        parent = parent._modules[part]
    name = _free(torch, parts[-1])
    while name in parent._modules:  # as `type_` beside `type`
        name += "_"
    parent.add_module(name, module)


def _free(torch: Any, name: str) -> Any:
    """Return the name, with `_` appended if torch.nn.Module has an attribute of this name."""
    return name + "_" if hasattr(torch.nn.Module, name) or name in ("scope", "training") else name
