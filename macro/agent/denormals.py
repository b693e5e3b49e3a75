"""Count of denormal numbers in a step: outputs of modules, parameters, gradients and optimizer states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import names  # beside this file
import torch_modules


class Denormals:
    """A counter of denormal numbers, from `start` to `stop`."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.hooks: Any = None
        self.counts: dict[str, list[int]] = {}  # denormal numbers and all, by what holds them

    def start(self) -> None:
        """Begin to count the outputs of modules that have no module below them."""
        self.hooks = torch_modules.Hooks(self.torch, self._output)

    def stop(self) -> dict[str, list[int]]:
        """Return the counts, with those of what optimizers hold."""
        self.hooks.remove()
        for optimizer in names.instances(self.torch.optim.Optimizer):
            for what, x in _held(optimizer):
                self._count(what, x)
        return self.counts

    def _output(self, module: Any, _: Any, output: Any) -> None:
        if isinstance(output, self.torch.Tensor) and not any(True for _ in module.children()):
            self._count("activations", output)

    def _count(self, what: str, x: Any) -> None:
        try:
            if x.is_floating_point() and x.layout is self.torch.strided and x.device.type == "cpu":
                size, kept = x.detach().abs(), self.counts.setdefault(what, [0, 0])
                kept[0] += int(((size < self.torch.finfo(x.dtype).tiny) & (size > 0)).sum())
                kept[1] += x.numel()
        except Exception:  # under vmap, of fake tensors, of types without arithmetic
            return


def _held(optimizer: Any) -> Iterator[tuple[str, Any]]:
    """Yield an optimizer's parameters, their gradients and its states."""
    for x in (x for group in optimizer.param_groups for x in group["params"]):
        yield "weights", x
        if x.grad is not None:
            yield "gradients", x.grad
        for state in optimizer.state.get(x, {}).values():
            if hasattr(state, "is_floating_point") and state.dim():
                yield "optimizer states", state
