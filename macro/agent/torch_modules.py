"""Spans of a PyTorch script's module calls, named by the module's path, also during recomputation.

Hooks are registered only while spans are requested: any global hook sends every module through a slower path. Hooks do
nothing while a compiler traces the script.
"""

from __future__ import annotations

import sys
import threading
from typing import Any

import names  # beside this file

MODULE, UPDATE = "kg/module/", "kg/update/"  # prefixes of the suite's spans
CLOSURE = "kg/closure"  # span of a closure that an optimizer calls
STOPPED = "kg/stopped"  # mark of a recomputation that stops early: its last operation only saved its inputs
TEST = "_has_any_global_hook"  # PyTorch's function, and its dicts of hooks by id:
OF_CALLS = ("_global_forward", "_global_backward")
NOWHERE = "(checkpoint)"  # path of a checkpoint outside any module


def fast(torch: Any, name: str) -> Any:
    """Return a low-overhead profiler span (0.7 µs), without effect while no profiler is active."""
    kind = getattr(torch._C._profiler, "_RecordFunctionFast", None)
    return kind(name) if kind else torch.autograd.profiler.record_function(name)


class Hooks:
    """Hooks after, and if wanted before, each call of any module, until `remove`.

    A compiled module warns at each call that there are global hooks. These hooks do nothing there, so PyTorch's test
    for such hooks sees only the script's. Filtering the warning would not do: any change of the filters makes Python
    print the script's warnings again that it had printed once.
    """

    def __init__(self, torch: Any, after: Any, before: Any = None) -> None:
        self.kind = torch.nn.modules.module
        self.handles = [self.kind.register_module_forward_pre_hook(before)] if before else []
        try:
            self.handles.append(self.kind.register_module_forward_hook(after, always_call=True))
        except TypeError:  # PyTorch before 2.1
            self.handles.append(self.kind.register_module_forward_hook(after))
        self.test = getattr(self.kind, TEST, None)
        if self.test:
            setattr(self.kind, TEST, self._others)

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()
        if self.test:
            setattr(self.kind, TEST, self.test)

    def _others(self) -> bool:
        """Return whether there are global hooks of the script."""
        ids = {handle.id for handle in self.handles}
        kinds = [x for name, x in vars(self.kind).items() if name.startswith(OF_CALLS) and isinstance(x, dict)]
        return any(set(x) - ids for x in kinds)


class Modules:
    """Hooks that put each module call into a span named by the module's path."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.hooks: Hooks | None = None
        self.compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)
        self.library = names.library_folders()
        self.paths: dict[tuple[int, int], str] = {}
        self.known: dict[int, tuple[str, Any]] = {}
        self.held: dict[int, tuple[Any, dict[int, str]]] = {}
        self.spare: dict[str, list[Any]] = {}
        self.local, self.checkpoints = threading.local(), Checkpoints(self)
        self.trained, self.evaluated, self.backward = set[int](), set[int](), set[int]()  # ids, see `_note_mode`

    def on(self) -> None:
        if self.hooks:
            return
        self.hooks = Hooks(self.torch, self._leave, self._enter)
        self.checkpoints.on()

    def off(self) -> None:
        self.checkpoints.off()
        if self.hooks:
            self.hooks.remove()
        self.hooks = None
        for _, span, _ in reversed(self._open()):
            span.__exit__(None, None, None)
        self.local = threading.local()

    def _open(self) -> Any:
        if not hasattr(self.local, "open"):
            self.local.open = []
        return self.local.open

    def _enter(self, module: Any, _: Any) -> None:
        if self.compiling():
            return
        self.enter(module, self.path(module, self.around()))

    def around(self) -> Any:
        """Return the innermost module that is being called, or None."""
        open_ = self._open()
        return open_[-1][0] if open_ else None

    def enter(self, module: Any, path: str) -> None:
        spare = self.spare.setdefault(path, [])
        span = spare.pop() if spare else fast(self.torch, MODULE + path)
        self._open().append((module, span, spare))
        span.__enter__()

    def _leave(self, module: Any, args: Any = None, output: Any = None) -> None:
        if self.compiling():
            return
        if [x[0] for x in self._open()] == [module]:
            self._note_mode(module, output)
        self.leave(module)

    def _note_mode(self, module: Any, output: Any) -> None:
        """Note an outermost module called for training, or for evaluation with gradients recorded, and their use."""
        outputs = output.values() if isinstance(output, dict) else output if isinstance(output, tuple) else [output]
        if module.training:
            self.trained.add(id(module))
            return
        for x in outputs:
            if getattr(x, "requires_grad", False):
                self.evaluated.add(id(module))
                x.register_hook(lambda _: self.backward.add(id(module)))

    def records_evaluation(self) -> str:
        """Return the path of a module that is trained, and evaluated with gradients recorded for nothing, or ""."""
        unused = self.trained & self.evaluated - self.backward
        return next((self.known[x][0] for x in unused if x in self.known), "")

    def mark(self, name: str) -> None:
        """Record an empty span, as a mark."""
        with fast(self.torch, name):
            pass

    def leave(self, module: Any) -> None:
        open_ = self._open()
        if not any(x[0] is module for x in open_):
            return
        while open_:  # an exception may have skipped the ends of inner modules
            inner, span, spare = open_.pop()
            span.__exit__(None, None, None)
            spare.append(span)
            if inner is module:
                break

    def path(self, module: Any, parent: Any) -> str:
        """Return a module's path as the user would write it: by its parent, an earlier path, or a variable."""
        key = id(parent), id(module)
        if key not in self.paths:
            self.paths[key] = names.tidy(self._path(module, parent))
            self.known.setdefault(id(module), (self.paths[key], module))  # referenced, so that its id is not reused
        return self.paths[key]

    def _path(self, module: Any, parent: Any) -> str:
        if parent is not None:
            above = self.known[id(parent)][0] if id(parent) in self.known else type(parent).__name__
            below = next((name for name, child in parent.named_modules() if child is module and name), None)
            below = "." + below if below else names.inside(parent, module)
            if below:
                return above + below
        if id(module) in self.known:
            return self.known[id(module)][0]
        variable = names.in_frames(module, self.library, self._holds)
        return variable or type(module).__name__

    def _holds(self, value: Any) -> dict[int, str]:
        if not issubclass(type(value), self.torch.nn.Module):
            return {}
        if id(value) not in self.held:
            self.held[id(value)] = value, {id(child): name for name, child in value.named_modules() if name}
        return self.held[id(value)][1]


class Checkpoints:
    """Hooks that put a recomputation by torch.utils.checkpoint into a span of the module that called it.

    Plain functions have no spans and do not appear in the paths of modules that they call. Reentrant checkpoints are
    recognized by the names of their autograd nodes.
    """

    def __init__(self, modules: Modules) -> None:
        self.modules = modules
        self.kind: Any = None
        self.init: Any = None

    def on(self) -> None:
        kind = getattr(sys.modules.get("torch.utils.checkpoint"), "_CheckpointFrame", None)
        if kind is None or self.kind:
            return
        init, again = kind.__init__, self._again
        self.kind, self.init = kind, init

        def noted(frame: Any, recompute: Any, *args: Any, **kwargs: Any) -> None:
            init(frame, again(recompute), *args, **kwargs)

        kind.__init__ = noted

    def off(self) -> None:
        if self.kind:
            self.kind.__init__ = self.init
        self.kind = None

    def _again(self, recompute: Any) -> Any:
        modules = self.modules
        if modules.compiling():
            return recompute
        asked = modules.around()
        path = modules.known[id(asked)][0] if id(asked) in modules.known else NOWHERE

        def run(*args: Any, **kwargs: Any) -> Any:
            if not self.kind or modules.compiling():
                return recompute(*args, **kwargs)
            modules.enter(asked, path)
            try:
                return recompute(*args, **kwargs)
            except Exception as error:
                if type(error).__name__ == "_StopRecomputationError":
                    modules.mark(STOPPED)
                raise
            finally:
                modules.leave(asked)

        return run
