"""PyTorch's adapter with a hook on the model's largest layer, for `macro explain` to find the cause of.

It is a framework's file as a user writes one, named by its path: the process of the framework runs it, in PyTorch's
environment. What the hook computes is thrown away, so the work is equal.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

ROWS = {"twice": {"hook": "twice"}, "copied": {"hook": "copied"}}
RECIPE = {"environment": "pytorch", "python": "3.11"}
TUNED: dict[str, Any] = {}

PLAIN = Path(__file__).resolve().parents[2] / "macro/frameworks/pytorch.py"


def _plain() -> Any:
    spec = importlib.util.spec_from_file_location("plain_pytorch", PLAIN)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


plain = _plain()
configure, available, identity = plain.configure, plain.available, plain.identity
trace, record = plain.trace, plain.record


def twice(layer: Any, inputs: Any, output: Any) -> None:
    """The layer's product once more."""
    import torch

    with torch.no_grad():
        torch.nn.functional.linear(inputs[0], layer.weight, layer.bias)


def copied(layer: Any, inputs: Any, output: Any) -> None:
    """A copy of its weights."""
    layer.weight.detach().clone()


HOOKS = {"twice": twice, "copied": copied}


def build(job: Any) -> Any:
    """PyTorch's model; after its largest layer's forward pass the hook of this row is called."""
    import torch

    model = plain.build(job)
    dense = [module for module in model.net.modules() if isinstance(module, torch.nn.Linear)]
    largest = max(dense, key=lambda layer: layer.weight.numel())
    largest.register_forward_hook(HOOKS[job["knobs"]["hook"]])
    return model
