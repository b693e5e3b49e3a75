"""Trials of advice: a setting, an optimizer or a layout changed for a block of steps, and changed back after it."""

from __future__ import annotations

import gc
import inspect
import sys
from collections.abc import Callable
from typing import Any, ClassVar

import boundary  # beside this file
import names
import torch_modules
import torch_settings
from knock_out import Refused


def trial(torch: Any, name: str) -> Any:
    """Return a trial by its name, such as `threads=2`, `anomaly=off` or `fused`. Raises Refused."""
    what, _, value = name.partition("=")
    if name not in KEEP_COMPILED and compiled():
        raise Refused(AGAIN)
    if what == "threads":
        return Switch(torch.set_num_threads, torch.get_num_threads(), int(value))
    if name not in TRIALS:
        raise Refused(f"no trial {name}")
    return TRIALS[name](torch)


class Switch:
    """A function that sets a value, and the values before and during the trial."""

    def __init__(self, put: Any, before: Any, during: Any) -> None:
        self.put, self.before, self.during = put, before, during
        self.flags = dict[str, str]()

    def apply(self) -> None:
        self.put(self.during)

    def undo(self) -> None:
        self.put(self.before)


def _deterministic(torch: Any) -> Callable[[bool], None]:
    warns = torch.is_deterministic_algorithms_warn_only_enabled()
    return lambda on: torch.use_deterministic_algorithms(on, warn_only=warns)


class Products(Switch):
    """Matrix products of float32 in bfloat16. Raises Refused if they are, or if this PyTorch cannot say."""

    def __init__(self, torch: Any) -> None:
        before = torch_settings.matmul_precision(torch)
        if before in (None, "medium"):
            raise Refused("products run in bfloat16" if before else "their precision is set by backend")
        super().__init__(torch.set_float32_matmul_precision, before, "medium")
        self.flags = {"products": "bfloat16"}


class Flush(Switch):
    """Denormal numbers as zero, in the thread that calls. Raises Refused with several threads."""

    def __init__(self, torch: Any) -> None:
        super().__init__(torch.set_flush_denormal, False, True)
        if torch.get_num_threads() > 1:
            raise Refused("threads that exist already would not flush")


def make(torch: Any, wanted: list[str]) -> dict[str, str]:
    """Make changes for good; return what the process then is, by flag. Raises Refused."""
    flags: dict[str, str] = {}
    for name in wanted:
        change = trial(torch, name)
        change.apply()
        flags.update(change.flags)
    return flags


def compiled() -> bool:
    """Return whether the script has compiled code."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return bool(dynamo and dynamo.counters.get("frames"))


class Frozen:
    """Objects that exist, left out of garbage collections. Raises Refused where the script has frozen some."""

    flags: ClassVar[dict[str, str]] = {"gc": "frozen"}

    def __init__(self, torch: Any) -> None:
        if gc.get_freeze_count():
            raise Refused("the script freezes objects itself")

    def apply(self) -> None:
        gc.collect()
        gc.freeze()

    def undo(self) -> None:
        gc.unfreeze()


class Form:
    """All optimizers that have a form (fused or foreach), with it. Raises Refused if none can take it."""

    def __init__(self, torch: Any, form: str) -> None:
        self.form, self.flags = form, {"optimizer": form}
        every = [(x, group) for x in names.instances(torch.optim.Optimizer) for group in x.param_groups]
        pairs = [(x, group) for x, group in every if form in group and not group[form] and group["params"]]
        if not pairs:
            raise Refused(f"no optimizer has a {form} form that it does not use")
        self.groups = [group for _, group in pairs]
        self.before = [{name: group[name] for name in FORMS if name in group} for group in self.groups]
        for optimizer, group in pairs:
            _check(torch, optimizer, group, form)

    def apply(self) -> None:
        for group, before in zip(self.groups, self.before):
            group.update({name: name == self.form for name in before})

    def undo(self) -> None:
        for group, before in zip(self.groups, self.before):
            group.update(before)


class ChannelsLast:
    """Filters, their gradients and optimizer states as NHWC, and images where convolutions take them."""

    flags: ClassVar[dict[str, str]] = {"layout": "channels_last"}

    def __init__(self, torch: Any) -> None:
        self.torch, self.handles = torch, list[Any]()
        self.layers = names.instances(torch.nn.Conv2d)
        self.filters = [x.weight for x in self.layers]
        self.states = [x.state for x in names.instances(torch.optim.Optimizer)]
        last = torch.channels_last
        if not all(x.is_contiguous() for x in self.filters):
            raise Refused("filters are stored as NHWC")
        if all(x.is_contiguous(memory_format=last) for x in self.filters):
            raise Refused("no filter is stored as NCHW")
        if any(x.is_shared() for x in self.filters):
            raise Refused("filters are shared with other processes")

    def apply(self) -> None:
        self._store(self.torch.channels_last)
        self.handles = [layer.register_forward_pre_hook(self._images) for layer in self.layers]

    def undo(self) -> None:
        for handle in self.handles:
            handle.remove()
        self._store(self.torch.contiguous_format)

    def _images(self, layer: Any, args: Any) -> Any:
        if not args or args[0].dim() != 4:
            return None
        return (args[0].contiguous(memory_format=self.torch.channels_last), *args[1:])

    def _store(self, layout: Any) -> None:
        for x in self.filters:
            x.data = x.data.contiguous(memory_format=layout)
            if x.grad is not None:
                x.grad = x.grad.contiguous(memory_format=layout)
            for state in (of[x] for of in self.states if x in of):
                for name, value in state.items():
                    if getattr(value, "shape", None) == x.shape:
                        state[name] = value.contiguous(memory_format=layout)


class Bfloat16:
    """Calls of outermost modules under autocast, and their outputs in the type that they had."""

    flags: ClassVar[dict[str, str]] = {"autocast": "bfloat16"}

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.hooks: Any = None
        self.open: Any = None
        try:
            torch.is_autocast_enabled("cpu")
        except TypeError:
            raise Refused("this PyTorch reports no autocast of a CPU") from None

    def apply(self) -> None:
        self.hooks = torch_modules.Hooks(self.torch, self._leave, self._enter)

    def undo(self) -> None:
        self.hooks.remove()
        if self.open is not None:  # a call was left by an exception
            self.open[1].__exit__(None, None, None)
            self.open = None

    def _enter(self, module: Any, args: Any) -> None:
        if self.open is None and not self.torch.is_autocast_enabled("cpu"):
            self.open = module, self.torch.autocast("cpu", self.torch.bfloat16)
            self.open[1].__enter__()

    def _leave(self, module: Any, args: Any, output: Any) -> Any:
        if self.open is None or self.open[0] is not module or boundary.nested():
            return None
        self.open[1].__exit__(None, None, None)
        self.open = None
        return self.torch.utils._pytree.tree_map(self._single, output)

    def _single(self, x: Any) -> Any:
        return x.float() if getattr(x, "dtype", None) is self.torch.bfloat16 else x


class WholeBatches:
    """Batches of a data set of tensors in memory, by one index each. Raises Refused where there is no such loader."""

    flags: ClassVar[dict[str, str]] = {"batches": "whole"}

    def __init__(self, torch: Any) -> None:
        data = torch.utils.data
        self.kind, self.dataset = data._utils.fetch._MapDatasetFetcher, data.TensorDataset
        self.collate, self.fetch = data.default_collate, data._utils.fetch._MapDatasetFetcher.fetch
        if not any(x["in_memory"] and not x["workers"] for x in torch_settings.loaders(torch)):
            raise Refused("no loader without workers has a data set of tensors")

    def apply(self) -> None:
        fetch, kind, collate = self.fetch, self.dataset, self.collate

        def whole_batch(fetcher: Any, indices: Any) -> Any:
            plain = type(fetcher.dataset) is kind and fetcher.auto_collation and fetcher.collate_fn is collate
            return [x[indices] for x in fetcher.dataset.tensors] if plain else fetch(fetcher, indices)

        self.kind.fetch = whole_batch

    def undo(self) -> None:
        self.kind.fetch = self.fetch


def _check(torch: Any, optimizer: Any, group: dict[str, Any], form: str) -> None:
    """Check that an optimizer of one small parameter takes this form. Raises Refused if it does not."""
    if any(x.grad is not None and x.grad.is_sparse for x in group["params"]):
        raise Refused("a gradient is sparse")
    taken = inspect.signature(type(optimizer)).parameters
    options = {name: x for name, x in group.items() if name in optimizer.defaults and name in taken}
    like = torch.nn.Parameter(torch.ones(2, dtype=group["params"][0].dtype))
    try:
        type(optimizer)([like], **{**options, **{name: name == form for name in FORMS if name in group}})
    except Exception as error:  # whatever the optimizer raises
        raise Refused(f"{type(error).__name__}: {error}") from None


FORMS = ("fused", "foreach")  # keys of a group of parameters
AGAIN = "compiled code would be compiled again"
KEEP_COMPILED = ("gc", "flush", "batches")  # trials that change nothing for which a compiler has a guard
TRIALS: dict[str, Callable[[Any], Any]] = {
    "anomaly=off": lambda torch: Switch(
        lambda on: torch.autograd.set_detect_anomaly(on, torch.is_anomaly_check_nan_enabled()), True, False
    ),
    "deterministic=off": lambda torch: Switch(_deterministic(torch), True, False),
    "flush": lambda torch: Flush(torch),
    "gc": Frozen,
    "fused": lambda torch: Form(torch, "fused"),
    "foreach": lambda torch: Form(torch, "foreach"),
    "batches": WholeBatches,
    "channels_last": ChannelsLast,
    "bf16": Bfloat16,
    "products": Products,
}
