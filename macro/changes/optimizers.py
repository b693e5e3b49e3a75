"""Changes of PyTorch's optimizer: foreach or fused, instead of the default loop over tensors."""

from __future__ import annotations

from kernels.devices import open_device
from kernels.ops.optimizer.libraries import FUSED
from macro.changes import _alone, _parts
from macro.changes.base import BaselineProfile, Change, Effect, Forecast, PredictionInput, ProcessSnapshot, Step

MOST = 4 << 20  # values of all tensors of the benchmark together, unless two tensors exceed it
TIMES, BYTES = 2, 12  # largest operands of a tensor, in last-level caches; bytes of operands for each value


def optimizer(form: str, about: str) -> Change:
    """Return the change to optimizer form `form`, foreach or fused."""

    def applies(step: Step, value: str) -> str | None:
        if why := step.refuses_knob("optimizer", form, compiled=True):
            return why
        if (other := step.knob("optimizer")) not in (None, "default"):
            return f"the optimizer is already {other}"
        if form == "fused" and step.plan.network.rule not in FUSED:
            return f"PyTorch has no fused {step.plan.network.rule}"
        return None if step.plan.phase == "step" else f"a {step.plan.phase} has no optimizer"

    def took(before: BaselineProfile, after: ProcessSnapshot) -> Effect:
        actual = after.flag("optimizer")
        return Effect(actual == form, f"PyTorch's optimizer is {actual}")

    def brings(asked: PredictionInput) -> Forecast:
        """Predict by measuring both forms of the rule in isolation, over tensors of a layer's mean size."""
        before, network = asked.before, asked.unchanged.plan.network
        seconds = before.kinds("optimizer")
        if not seconds:
            return Forecast(why="the step has no row of an optimizer")
        if network.rule == "nesterov" and "foreach" in (form, "foreach" * _foreach(before)):
            return Forecast(why="foreach Nesterov modifies the gradients, so it is not measured by itself")
        sizes = [size for node in network.nodes if (size := node.count)]
        # A pass over a tensor finds in cache what the previous pass left: beyond the cache, sizes make no difference.
        alike = TIMES * open_device("cpu").limits().usable_cache // BYTES
        size = max(1024, min(sum(sizes) // len(sizes), alike))
        options = {
            "rule": network.rule,
            "tensors": min(len(sizes), 16, max(2, MOST // size)),
            "size": size,
            "variant": f"{'torch-foreach' if _foreach(before) else 'torch-loop'},torch-{form}",
            "cold": "all",
            **_parts.alike(asked),
        }
        return Forecast((_parts.part("optimizer", seconds, _alone.measured("optimizer", options, asked.alone)),))

    return Change(
        f"{form}-optimizer",
        about,
        applies,
        lambda step, value: step.with_knob("optimizer", form),
        took,
        brings,
        saves=("optimizer",),
        code=f"torch.optim.*(…, {form}=True)",
        trial=form,
        looks=(),
    )


def _foreach(before: BaselineProfile) -> bool:
    """Return whether the unchanged optimizer uses foreach, by the sampled functions."""
    return any("foreach" in x for x in before.symbols)


CHANGES = (
    optimizer("foreach", "the optimizer's step over all parameters at once (foreach=True)"),
    optimizer("fused", "the optimizer's step in one pass over each parameter (fused=True)"),
)
