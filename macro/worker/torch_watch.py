"""Observation of a PyTorch program's steps: module calls by their paths, and PyTorch's profiler.

Standard library and torch alone, in the style of Python 3.6. Hooks are registered only while spans are requested: any
global hook sends every module through a slower path. They do nothing while a compiler traces the program.
"""

import threading
import warnings

import names  # beside this file
import recorder
import torch_recompute

MODULE, UPDATE = "kg/module/", "kg/update/"  # prefixes of our spans' names
MARKS = 9  # annotations that set the clock; the shortest counts
CALIBRATE = recorder.CALIBRATE


class Spans(object):
    """Profiled spans of operations and module calls."""

    def __init__(self, torch):
        self.torch, self.modules = torch, Modules(torch)
        self.profiler, self.shapes, self.marks = None, False, []
        self._events = None

    def start(self, shapes):
        """Start the profiler; `shapes`: record shapes of every operation's tensors."""
        self.shapes, self.marks = shapes, []
        activities = [self.torch.profiler.ProfilerActivity.CPU]
        self.modules.on()
        self.profiler = self.torch.profiler.profile(activities=activities, record_shapes=shapes)
        self.profiler.start()
        for _ in range(MARKS):
            before = recorder.now()
            with fast(self.torch, CALIBRATE):
                pass
            self.marks.append((recorder.now() - before, before))

    def stop(self):
        """Stop the profiler, also where a step failed: one that is left on crashes the process at its end."""
        self.modules.off()
        if self.profiler is None:
            return
        profiler, self.profiler = self.profiler, None
        profiler.stop()
        self._events = profiler.profiler.kineto_results.events()

    def events(self):
        """Return the events as columns of numbers, with names apart; nanoseconds on the monotonic clock."""
        events, self._events = self._events or [], None
        numbers, columns = (
            {},
            {"name": [], "start": [], "end": [], "thread": [], "sequence": [], "lane": [], "forward": []},
        )
        shapes = [] if self.shapes else None
        shift = self._shift(events)
        for event in events:
            name = event.name()
            if name == CALIBRATE or event.end_ns() <= event.start_ns() < 0:
                continue
            columns["name"].append(numbers.setdefault(name, len(numbers)))
            columns["start"].append(event.start_ns() + shift)
            columns["end"].append(event.end_ns() + shift)
            columns["thread"].append(event.device_resource_id())
            columns["sequence"].append(event.sequence_nr())
            columns["lane"].append(event.start_thread_id())
            columns["forward"].append(event.fwd_thread_id())
            if shapes is not None:
                shapes.append(_shapes(event))
        return {"names": list(numbers), "columns": columns, "shapes": shapes}

    def _shift(self, events):
        """Return nanoseconds from the profiler's clock to the monotonic one."""
        starts = sorted(event.start_ns() for event in events if event.name() == CALIBRATE)
        if len(starts) != len(self.marks):
            return 0
        took, before = min(self.marks)
        return before + took // 4 - starts[self.marks.index((took, before))]


def _shapes(event):
    """Return an event's shapes, strides if recorded, types, and values of inputs that are no tensors."""
    columns = [event.structured_input_shapes() if hasattr(event, "structured_input_shapes") else event.shapes()]
    columns.append(event.structured_input_strides() if hasattr(event, "structured_input_strides") else [])
    columns.append(event.dtypes())
    columns.append(
        [value if isinstance(value, (int, float, bool, str, list)) else None for value in event.concrete_inputs()]
    )
    return columns


def fast(torch, name):
    """Return a span of the profiler, 0.7 µs; without effect while no profiler is on."""
    kind = getattr(torch._C._profiler, "_RecordFunctionFast", None)
    return kind(name) if kind else torch.autograd.profiler.record_function(name)


class Modules(object):
    """Spans of module calls, named by the module's path."""

    def __init__(self, torch):
        self.torch, self.handles = torch, []
        self.compiling = getattr(getattr(torch, "compiler", None), "is_compiling", lambda: False)
        self.library = names.library_folders()
        self.paths, self.known, self.held, self.spare = {}, {}, {}, {}
        self.local, self.checkpoints = threading.local(), torch_recompute.Checkpoints(self)

    def on(self):
        if self.handles:
            return
        kind = self.torch.nn.modules.module
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.handles.append(kind.register_module_forward_pre_hook(self._enter))
            try:
                self.handles.append(kind.register_module_forward_hook(self._leave, always_call=True))
            except TypeError:  # PyTorch before 2.1
                self.handles.append(kind.register_module_forward_hook(self._leave))
        self.checkpoints.on()

    def off(self):
        self.checkpoints.off()
        for handle in self.handles:
            handle.remove()
        self.handles = []
        for _, span, _ in reversed(self._open()):
            span.__exit__(None, None, None)
        self.local = threading.local()

    def _open(self):
        if not hasattr(self.local, "open"):
            self.local.open = []
        return self.local.open

    def _enter(self, module, _):
        if self.compiling():
            return
        self.enter(module, self.path(module, self.around()))

    def around(self):
        """Return the module that is being called, or None."""
        open_ = self._open()
        return open_[-1][0] if open_ else None

    def enter(self, module, path):
        spare = self.spare.setdefault(path, [])
        span = spare.pop() if spare else fast(self.torch, MODULE + path)
        self._open().append((module, span, spare))
        span.__enter__()

    def _leave(self, module, *_):
        if not self.compiling():
            self.leave(module)

    def mark(self, name):
        """Record a span of no length."""
        with fast(self.torch, name):
            pass

    def leave(self, module):
        open_ = self._open()
        if not any(x[0] is module for x in open_):
            return
        while open_:  # an exception may have skipped the ends of inner modules
            inner, span, spare = open_.pop()
            span.__exit__(None, None, None)
            spare.append(span)
            if inner is module:
                break

    def path(self, module, parent):
        """Return a module's path as the user would write it: below its parent, as before, or a variable."""
        key = id(parent), id(module)
        if key not in self.paths:
            self.paths[key] = names.tidy(self._path(module, parent))
            self.known.setdefault(id(module), (self.paths[key], module))  # held, so that its id stays its own
        return self.paths[key]

    def _path(self, module, parent):
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

    def _holds(self, value):
        if not issubclass(type(value), self.torch.nn.Module):
            return {}
        if id(value) not in self.held:
            self.held[id(value)] = value, dict((id(child), name) for name, child in value.named_modules() if name)
        return self.held[id(value)][1]


def on_gpu(torch, optimizers):
    """Return whether a parameter of the optimizers, or any other tensor, is on a GPU."""
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    if any(p.device.type == "cuda" for group in groups for p in group["params"]):
        return True
    gpus = range(torch.cuda.device_count()) if torch.cuda.is_initialized() else ()
    return any(torch.cuda.memory_allocated(gpu) for gpu in gpus)


def parameters(torch, optimizers):
    """Return [type, number of parameters, their bytes] of each optimizer."""
    rows = []
    for optimizer in optimizers:
        held = [p for group in optimizer.param_groups for p in group["params"]]
        rows.append(
            [type(optimizer).__name__, sum(p.numel() for p in held), sum(p.numel() * p.element_size() for p in held)]
        )
    return rows


def identity(torch):
    """Return PyTorch's version, threads and flags."""
    facts = {"framework": "pytorch", "version": torch.__version__, "threads": torch.get_num_threads()}
    facts["interop_threads"] = torch.get_num_interop_threads()
    backends = getattr(torch.backends, "mkldnn", None)
    facts["flags"] = {"mkldnn": bool(backends and backends.is_available()), "capability": _capability(torch)}
    return facts


def _capability(torch):
    try:
        return torch.backends.cpu.get_cpu_capability()
    except AttributeError:
        return None
