"""Boundaries of a PyTorch script's steps: an optimizer's step, a call, or the user's marks.

At boundaries `blocks.begin()` and `blocks.end()` are called, and `ready(how)` once, after WARM steps.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any

import names  # beside this file
import recorder
import torch_modules

WARM = 3  # steps
PATIENT = 5.0  # seconds of an optimizer's step from which on each call of its closure is a step
MANY, LONG = 50, 10.0  # steps of other optimizers, or seconds, until an optimizer without a step is ignored
SOON = 1.0  # minimum seconds of warming up


def untraced(function: Any) -> Any:
    """Return the function, marked so that torch.compile calls it and does not trace it."""
    function._torchdynamo_disable = True
    function._torchdynamo_disable_msg = "kernelgap observes this call"
    return function


class Boundary:
    """Begin and end of steps; the first kind of boundary (`how`) with WARM steps alone counts afterwards.

    `ready(how)` reports to the driver and waits for the request of the first block. A `short` script has one step of
    warm-up.
    """

    def __init__(self, blocks: Any, ready: Callable[[str], None], short: bool = False) -> None:
        self.blocks, self._ready, self.pid = blocks, ready, os.getpid()
        self.warm, self.soon = (1, 0.0) if short else (WARM, SOON)
        self.counts: dict[str, int] = {}
        self.began: float | None = None
        self.how: str | None = None
        self.held: Callable[[], bool] = lambda: False  # returns whether the script's own profiler is active
        self.threads: dict[str, Any] = {}  # recorder.by_thread() at the end of the first step

    @property
    def is_ready(self) -> bool:
        return self.how is not None

    @property
    def calls(self) -> int:
        """Number of steps so far, by the most frequent kind of boundary."""
        return max(self.counts.values()) if self.counts else 0

    def begin(self, how: str) -> None:
        if self.how == how:
            self.blocks.begin()

    def end(self, how: str) -> None:
        """End a step; an error in the observer stops the watching with its reason."""
        if os.getpid() != self.pid or self.how not in (None, how):
            return
        try:
            self._end(how)
        except Exception as error:
            self.blocks.give_up("unseen", "{}: {}".format(type(error).__name__, " ".join(str(error).split())))

    def _end(self, how: str) -> None:
        if self.is_ready:
            self.blocks.end()
            return
        self.counts[how], self.began = self.counts.get(how, 0) + 1, self.began or time.time()
        self.threads = self.threads or recorder.by_thread()
        if self.counts[how] >= self.warm and time.time() - self.began >= self.soon and not self.held():
            self.how = how
            self._ready(how)


class Optimizers:
    """Hooks that end a step after an optimizer's step; of several optimizers the least frequent counts."""

    def __init__(self, torch: Any, boundary: Boundary) -> None:
        self.torch, self.boundary = torch, boundary
        self.library = names.library_folders()
        self.counts, self.objects = dict[int, int](), dict[int, Any]()
        self.names, self.spans = dict[int, str](), dict[int, Any]()
        self.chosen: int | None = None
        self.how: str | None = None
        self.open, self.total = list[int](), 0
        self.others: set[int] | None = None  # ids of all optimizers
        self.began = time.time()  # of the first step
        self.ends = True  # False where the script marks its steps

    def install(self) -> None:
        """Register the hooks. Raises AttributeError before PyTorch 2.1."""
        kind = importlib.import_module("torch.optim.optimizer")
        kind.register_optimizer_step_pre_hook(self.before)
        kind.register_optimizer_step_post_hook(self.after)

    @untraced
    def before(self, optimizer: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Open a span of the update; return the arguments of the step, with its closure in a span of its own."""
        if os.getpid() != self.boundary.pid:
            return None
        self._leave(optimizer)  # in case its last step raised
        self.open.append(id(optimizer))
        if len(self.open) > 1:
            return None
        self._enter(optimizer)
        if len(args) > 1 and self._is_closure(args[1]):
            return (args[0], self._closure(args[1], optimizer), *args[2:]), kwargs
        if self._is_closure(kwargs.get("closure")):
            return args, {**kwargs, "closure": self._closure(kwargs["closure"], optimizer)}
        return None

    def _is_closure(self, value: Any) -> bool:
        return callable(value) and not isinstance(value, self.torch.nn.Module)  # some optimizers take a module

    def _closure(self, function: Any, optimizer: Any) -> Any:
        """Return an optimizer's closure in a span; where its step is long, each call but the first ends a step."""
        began, called = time.time(), [0]
        how = f"call of {self.name(optimizer)}'s closure"

        @functools.wraps(function)
        def closure(*args: Any, **kwargs: Any) -> Any:
            called[0] += 1
            if self.boundary.how == how or (called[0] > 1 and time.time() - began > PATIENT and self._alone(optimizer)):
                self._exit(optimizer)  # a span must end under the profiler under which it began
                self.boundary.end(how)
                self.boundary.begin(how)
                self._enter(optimizer)
            with torch_modules.fast(self.torch, torch_modules.CLOSURE):
                return function(*args, **kwargs)

        return untraced(closure)

    def _alone(self, optimizer: Any) -> bool:
        """Return whether calls of this optimizer's closure may be steps: none are marked, no step has ended."""
        return self.ends and not self.total and self.boundary.how is None and self.open[:1] == [id(optimizer)]

    @untraced
    def after(self, optimizer: Any, args: Any, kwargs: dict[str, Any]) -> None:
        if os.getpid() != self.boundary.pid:
            return
        self._leave(optimizer)
        if self.open:
            return
        if self.chosen is None:
            self._count(optimizer)
        elif self.objects[self.chosen]() is None:  # the script creates a new optimizer for each epoch or fold
            self.chosen, self.objects[id(optimizer)] = id(optimizer), weakref.ref(optimizer)
        if self.chosen == id(optimizer) and self.ends:
            self.how = self.how or f"{self.name(optimizer)}.step()"
            self.boundary.end(self.how)
            self.boundary.begin(self.how)

    def _leave(self, optimizer: Any) -> None:
        """Close the span of an optimizer's step, and forget optimizers that were called inside the step."""
        if id(optimizer) in self.open:
            del self.open[self.open.index(id(optimizer)) :]
        self._exit(optimizer)

    def _enter(self, optimizer: Any) -> None:
        span = self.spans[id(optimizer)] = torch_modules.fast(self.torch, torch_modules.UPDATE + self.name(optimizer))
        span.__enter__()

    def _exit(self, optimizer: Any) -> None:
        span = self.spans.pop(id(optimizer), None)
        if span is not None:
            span.__exit__(None, None, None)

    def name(self, optimizer: Any) -> str:
        if id(optimizer) not in self.names:
            variable = names.in_frames(optimizer, self.library)
            self.names[id(optimizer)] = variable or type(optimizer).__name__
        return self.names[id(optimizer)]

    def _count(self, optimizer: Any) -> None:
        """Count a step; choose the least frequent optimizer once all have stepped, or after MANY or LONG."""
        if not self.total:
            self.began = time.time()
        self.counts[id(optimizer)] = self.counts.get(id(optimizer), 0) + 1
        self.objects[id(optimizer)] = weakref.ref(optimizer)
        self.total += 1
        least = min(self.counts, key=lambda key: self.counts[key])
        if self.counts[least] < 2:
            return
        if self.others is None:
            self.others = self._all()
        waits = self.total < MANY and time.time() < self.began + LONG
        if not waits or not self.others - set(self.counts):
            self.chosen = least

    def _all(self) -> set[int]:
        """Return the ids of all optimizers that exist."""
        return {id(x) for x in names.instances(self.torch.optim.Optimizer)}


class Forward:
    """Hooks for a script without an optimizer: a step ends with each call of the root module.

    `alone()` returns whether no other kind of boundary has ended a step so far.
    """

    def __init__(self, torch: Any, boundary: Boundary, alone: Callable[[], bool]) -> None:
        self.torch, self.boundary, self.alone = torch, boundary, alone
        self.hooks: torch_modules.Hooks | None = None
        self.calls, self.paths = dict[int, int](), torch_modules.Modules(torch)
        self.root: Any = None

    def install(self) -> None:
        self.hooks = torch_modules.Hooks(self.torch, self.after)

    def remove(self) -> None:
        if self.hooks:
            self.hooks.remove()
        self.hooks = None

    def after(self, module: Any, args: Any, output: Any) -> None:
        if self.paths.compiling() or os.getpid() != self.boundary.pid or self.root is not None or nested():
            return
        self.calls[id(module)] = self.calls.get(id(module), 0) + 1
        if self.calls[id(module)] >= 2 and isinstance(module, self.torch.nn.Module) and self._large(module):
            self.root = module
            path = self.paths.path(module, None)
            self.remove()
            module.register_forward_hook(lambda *_: self._step(path), always_call=True)

    def _large(self, module: Any) -> bool:
        """Return whether a module has parameters, unlike a loss, or some module was called often without any."""
        return any(True for _ in module.parameters()) or max(self.calls.values()) > MANY

    def _step(self, path: str) -> None:
        if not self.paths.compiling() and self.alone():
            self.boundary.end(f"call of {path}")
            self.boundary.begin(f"call of {path}")


def nested() -> bool:
    """Return whether the module whose hook calls this was itself called by a module."""
    frame, calls = sys._getframe(1), 0
    while frame.f_back is not None and calls < 2:
        frame = frame.f_back
        calls += frame.f_code.co_name == "_call_impl"
    return calls > 1


def wrapped(function: Any, boundary: Boundary, name: str) -> Any:
    """Return the function, wrapped so that each call is a step."""
    if isinstance(function, (staticmethod, classmethod)):
        return type(function)(wrapped(function.__func__, boundary, name))
    if inspect.iscoroutinefunction(function):
        return _awaited(function, boundary, name)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        boundary.begin(f"call of {name}")
        try:
            return function(*args, **kwargs)
        finally:
            boundary.end(f"call of {name}")

    return call


def _awaited(function: Any, boundary: Boundary, name: str) -> Callable[..., Any]:
    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        boundary.begin(f"call of {name}")
        try:
            return await function(*args, **kwargs)
        finally:
            boundary.end(f"call of {name}")

    return call
