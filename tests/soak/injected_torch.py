"""PyTorch's adapter with a hook on the model's largest layer, for `macro explain` to find the cause of.

It is a framework's file as a user writes it, named by its path. The hook's result is thrown away: the work is equal.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

ROWS = {"twice": {"hook": "twice"}, "copied": {"hook": "copied"}}
RECIPE = {"environment": "pytorch", "python": "3.11"}
TUNED: dict[str, Any] = {}

_spec = importlib.util.spec_from_file_location(
    "plain_pytorch", Path(__file__).resolve().parents[2] / "macro/frameworks/pytorch.py"
)
assert _spec is not None and _spec.loader is not None
plain: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(plain)
configure, available, identity = plain.configure, plain.available, plain.identity
trace, record = plain.trace, plain.record


def twice(layer: Any, inputs: Any, output: Any) -> None:
    """Compute the layer's product once more."""
    import torch

    with torch.no_grad():
        torch.nn.functional.linear(inputs[0], layer.weight, layer.bias)


def copied(layer: Any, inputs: Any, output: Any) -> None:
    """Copy its weights."""
    layer.weight.detach().clone()


HOOKS = {"twice": twice, "copied": copied}


def build(job: Any) -> Any:
    """Return PyTorch's model with this row's hook after the forward pass of its largest layer."""
    import torch

    model = plain.build(job)
    dense = [module for module in model.net.modules() if isinstance(module, torch.nn.Linear)]
    largest = max(dense, key=lambda layer: layer.weight.numel())
    largest.register_forward_hook(HOOKS[job["knobs"]["hook"]])
    return model
