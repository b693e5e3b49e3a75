"""Where a step of a user's PyTorch program begins and ends: at an optimizer's step, or at what he names.

Standard library and torch alone, in the style of Python 3.6. `blocks.begin()` and `blocks.end()` are called there, and
`ready(how)` once, when enough steps have warmed up.
"""

import gc
import importlib
import os
import time

import names  # beside this file
import torch_watch

WARM = 3  # steps
MANY = 50  # steps of the others, after which an optimizer that never stepped is not waited for
SOON = 1.0  # seconds of warming up, at least, where steps are short


class Boundary(object):
    """`ready()` answers the driver, and waits for the first block."""

    def __init__(self, blocks, ready):
        self.blocks, self._ready, self.pid = blocks, ready, os.getpid()
        self.calls, self.began, self.is_ready = 0, None, False

    def begin(self):
        if self.is_ready:
            self.blocks.begin()

    def end(self, how):
        """A step has ended."""
        if os.getpid() != self.pid:
            return
        if self.is_ready:
            self.blocks.end()
            return
        self.calls, self.began = self.calls + 1, self.began or time.time()
        if self.calls >= WARM and time.time() - self.began > SOON:
            self.is_ready = True
            self._ready(how)


class Optimizers(object):
    """A step ends with that of an optimizer: of several, the one that steps least often."""

    def __init__(self, torch, boundary):
        self.torch, self.boundary = torch, boundary
        self.library = names.library_folders()
        self.counts, self.objects, self.names, self.spans = {}, {}, {}, {}
        self.chosen, self.depth, self.total, self.stopped = None, 0, 0, False

    def install(self):
        """Raises AttributeError before PyTorch 2.1."""
        kind = importlib.import_module("torch.optim.optimizer")
        self.handles = [
            kind.register_optimizer_step_pre_hook(self.before),
            kind.register_optimizer_step_post_hook(self.after),
        ]

    def remove(self):
        for handle in self.handles:
            handle.remove()

    def before(self, optimizer, args, kwargs):
        self.depth += 1
        if self.depth == 1 and os.getpid() == self.boundary.pid:
            span = torch_watch.fast(self.torch, torch_watch.UPDATE + self.name(optimizer))
            self.spans[id(optimizer)] = span
            span.__enter__()

    def after(self, optimizer, args, kwargs):
        self.depth = max(0, self.depth - 1)
        if self.depth or os.getpid() != self.boundary.pid:
            return
        span = self.spans.pop(id(optimizer), None)
        if span is not None:
            span.__exit__(None, None, None)
        if self.chosen is None:
            self._count(optimizer)
        if self.chosen == id(optimizer):
            self.boundary.end("%s.step()" % self.name(optimizer))
            self.boundary.begin()

    def name(self, optimizer):
        if id(optimizer) not in self.names:
            found = names.in_frames(optimizer, self.library)
            self.names[id(optimizer)] = found or type(optimizer).__name__
        return self.names[id(optimizer)]

    def _count(self, optimizer):
        """Choose when each has stepped, or a long time has passed without."""
        self.counts[id(optimizer)] = self.counts.get(id(optimizer), 0) + 1
        self.objects[id(optimizer)] = optimizer
        self.total += 1
        least = min(self.counts, key=self.counts.get)
        others = self._unstepped() if self.counts[least] == 2 and self.total < MANY else 0
        if self.counts[least] >= 2 and not others:
            self.chosen = least

    def _unstepped(self):
        """Optimizers that are there and have not stepped yet."""
        kind = self.torch.optim.Optimizer
        return sum(1 for one in gc.get_objects() if issubclass(type(one), kind) and id(one) not in self.counts)


class Forward(object):
    """Without an optimizer: a step is from the end of one call of the outermost module to the end of the next."""

    def __init__(self, torch, boundary):
        self.torch, self.boundary, self.handles = torch, boundary, []
        self.depth, self.calls, self.root, self.paths = 0, {}, None, torch_watch.Modules(torch)

    def install(self):
        kind = self.torch.nn.modules.module
        self.handles = [
            kind.register_module_forward_pre_hook(self.before),
            kind.register_module_forward_hook(self.after, always_call=True),
        ]

    def remove(self):
        for handle in self.handles:
            handle.remove()
        self.handles = []

    def before(self, module, args):
        if not self.paths.compiling():
            self.depth += 1

    def after(self, module, args, output):
        if self.paths.compiling():
            return
        self.depth = max(0, self.depth - 1)
        if self.depth or os.getpid() != self.boundary.pid or self.root is not None:
            return
        self.calls[id(module)] = self.calls.get(id(module), 0) + 1
        if self.calls[id(module)] >= 2 and isinstance(module, self.torch.nn.Module) and self._large(module):
            self.root = module
            path = self.paths.path(module, None)
            self.remove()
            module.register_forward_hook(lambda *_: self._step(path), always_call=True)

    def _large(self, module):
        """A loss has no parameters; where nothing has any, whatever is called most often serves."""
        return any(True for _ in module.parameters()) or max(self.calls.values()) > MANY

    def _step(self, path):
        if not self.paths.compiling():
            self.boundary.end("call of %s" % path)
            self.boundary.begin()


def wrapped(function, boundary, name):
    """A function each call of which is a step."""
    import functools

    @functools.wraps(function)
    def call(*args, **kwargs):
        boundary.begin()
        try:
            return function(*args, **kwargs)
        finally:
            boundary.end("call of %s" % name)

    return call
