"""Trials of advice: a setting or an optimizer changed for a block of steps, and changed back after it."""

from __future__ import annotations

from typing import Any

import names  # beside this file
from knock_out import Refused


def trial(torch: Any, name: str) -> Any:
    """Return a trial by its name: `threads=2`, `anomaly=off`, `deterministic=off` or `fused`. Raises Refused."""
    what, _, value = name.partition("=")
    if what == "threads":
        return Switch(torch.set_num_threads, torch.get_num_threads(), int(value))
    if what == "anomaly":
        return Switch(torch.autograd.set_detect_anomaly, True, False)
    if what == "deterministic":
        return Switch(torch.use_deterministic_algorithms, True, False)
    if what == "fused":
        return Fused(torch)
    raise Refused(f"no trial {name}")


class Switch:
    """A function that sets a value, and the values before and during the trial."""

    def __init__(self, put: Any, before: Any, during: Any) -> None:
        self.put, self.before, self.during = put, before, during

    def apply(self) -> None:
        self.put(self.during)

    def undo(self) -> None:
        self.put(self.before)


class Fused:
    """All optimizers that have a fused form, with it. Raises Refused if none can be fused."""

    def __init__(self, torch: Any) -> None:
        every = [(x, group) for x in names.instances(torch.optim.Optimizer) for group in x.param_groups]
        pairs = [(x, group) for x, group in every if "fused" in group and not group["fused"]]
        self.groups = [group for _, group in pairs]
        self.before = [(group.get("fused"), group.get("foreach")) for group in self.groups]
        if not self.groups:
            raise Refused("no optimizer has a fused form that it does not use")
        for optimizer, group in pairs:
            _check(torch, optimizer, group)

    def apply(self) -> None:
        for group in self.groups:
            group["fused"], group["foreach"] = True, False

    def undo(self) -> None:
        for group, (fused, foreach) in zip(self.groups, self.before):
            group["fused"], group["foreach"] = fused, foreach


def _check(torch: Any, optimizer: Any, group: dict[str, Any]) -> None:
    """Step a like optimizer of one small parameter in its fused form. Raises Refused if that fails."""
    if any(x.grad is not None and x.grad.is_sparse for x in group["params"]):
        raise Refused("a gradient is sparse")
    options = {name: x for name, x in group.items() if name in optimizer.defaults}
    like = torch.nn.Parameter(torch.ones(2, dtype=group["params"][0].dtype))
    like.grad = torch.ones_like(like)
    try:
        type(optimizer)([like], **{**options, "fused": True, "foreach": False}).step()
    except Exception as error:  # whatever the optimizer raises
        raise Refused(f"{type(error).__name__}: {error}") from None
