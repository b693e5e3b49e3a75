"""Knock-outs: one parameter frozen or one module skipped for a block of steps, to save its row's time.

The change is undone after the block; only a few steps of training differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Refused(Exception):
    """Refusal of a knock-out or a trial; the text is the reason."""


class KnockOut:
    """A module or parameter to leave out; `path`: its name in rows; `known`: {id: (path, module)}."""

    def __init__(self, torch: Any, known: dict[int, tuple[str, Any]], path: str) -> None:
        """Find the module or parameter that `path` names. Raises Refused."""
        self.torch, self.path = torch, path
        self.undone: Any = None
        by_path = dict(known.values())
        holder, _, name = path.rpartition(".")
        self.module: Any = by_path.get(path)
        self.parameter: Any = None
        if self.module is None and holder in by_path:
            self.parameter = dict(by_path[holder].named_parameters(recurse=False)).get(name)
        if self.module is None and self.parameter is None:
            near = ", ".join(sorted(by_path)[:6])
            raise Refused(f"no module or parameter has this name; modules: {near} …")

    @property
    def what(self) -> str:
        return "module" if self.parameter is None else "parameter"

    def count(self) -> Any:
        """Return the number of trained parameters that are left out."""
        parameters = [self.parameter] if self.parameter is not None else list(self.module.parameters())
        return sum(p.numel() for p in parameters if p.requires_grad)

    def shape(self) -> list[Any]:
        return [] if self.parameter is None else list(self.parameter.shape)

    def try_out(self, done: Callable[[str | None], None]) -> None:
        """Check at the module's next call that output and input are alike; pass `done` None or the reason."""
        handle: list[Any] = []

        def hook(module: Any, args: Any, output: Any) -> None:
            handle.pop().remove()
            given: Any = args[0] if args else None
            alike = isinstance(output, self.torch.Tensor) and isinstance(given, self.torch.Tensor)
            done(None if alike and output.shape == given.shape else "its output is not a tensor of its input's shape")

        handle.append(self.module.register_forward_hook(hook))

    def apply(self) -> None:
        if self.parameter is not None:
            self.parameter.requires_grad_(False)
            self.parameter.grad = None
        else:
            self.undone = self.module.__dict__.get("forward")
            self.module.forward = lambda given, *args, **kwargs: given

    def undo(self) -> None:
        if self.parameter is not None:
            self.parameter.requires_grad_(True)
        elif self.undone is None:
            self.module.__dict__.pop("forward", None)
        else:
            self.module.forward = self.undone
