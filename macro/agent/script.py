"""Observed run of a user's unchanged script; run by path, in the user's interpreter.

    python script.py JOB READ WRITE PARENT

JOB is a JSON file: `script` (null: the `module` of -m), `arguments`, `step` (MODULE:FUNCTION, `forward`, or null: an
optimizer's step), `stop` (raise, exit, never), `wait`. Messages go to WRITE, in loop.py's format, requests come on
READ. Instruments are set up after the script's import of torch, so that its settings of the environment take effect.
For Python 3.9 or later, with the standard library only, so that it runs with any PyTorch of the user.
"""

from __future__ import annotations

import builtins
import importlib.machinery
import json
import os
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable
from typing import Any

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), "core"))
import as_main  # beside this file
import blocks
import boundary
import knock_out
import loop
import named_step
import names
import recorder
import torch_settings
import torch_watch
import trials

sys.path.pop(1)

HERE = os.path.dirname(os.path.abspath(__file__))
for _name, _module in list(sys.modules.items()):  # a script may have files of the names of those beside this file
    if _name != "__main__" and (getattr(_module, "__file__", None) or "").startswith(HERE):
        _module.__name__ = "kernelgap_" + _name  # the name by which a tracing compiler imports it
        sys.modules[_module.__name__] = sys.modules.pop(_name)
FOREIGN = "the script starts its own torch.profiler.profile while it is watched, but only one can run: remove it"
ON_GPU = (
    "the steps run on a GPU, and CPU time only covers their launches: profile them with "
    "ProfilerActivity.CUDA, export_chrome_trace('trace.json'), then python -m macro explain trace.json"
)
PATIENCE = 10.0  # seconds without an optimizer's step before modules' calls are watched
LOOK = 0.5  # seconds between two checks


class After:
    """Import hook that calls a function right after the script's import of a module."""

    def __init__(self, wanted: dict[str, Callable[[Any], object]]) -> None:
        self.wanted = dict(wanted)  # {module: function to call with it}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name not in self.wanted:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def exec_module(module: Any) -> None:
            load(module)
            then = self.wanted.pop(name, None)  # here, as a program may look for a module before it imports it
            if then:
                then(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


class Watching:
    """Observer inside the script's process: hooks, step boundaries and the driver's channel."""

    def __init__(self, job: dict[str, Any], channel: loop.Channel, requests: Any) -> None:
        self.job, self.channel = job, channel
        self.blocks = blocks.Blocks(channel, requests, job["stop"])
        self.boundary = boundary.Boundary(self.blocks, self.ready, job["short"])
        self.named = named_step.Named(job["step"], self.boundary)
        self.torch: Any = None
        self.optimizers: boundary.Optimizers | None = None
        self.forward: boundary.Forward | None = None
        self.marked = self.reported = False
        self.imports = After({})

    def install(self, folder: str) -> None:
        """Install the hooks before the script begins; `folder`: of the module kernelgap with `step`."""
        wanted: dict[str, Callable[[Any], object]] = {"torch": self.with_torch}
        if self.named.module:
            wanted[self.named.module] = self.named.wrap
        self.imports = After(wanted)
        sys.meta_path.insert(0, self.imports)
        # An editable install of the suite would shadow script modules of the same names.
        sys.meta_path[:] = [x for x in sys.meta_path if "editable___kernelgap" not in getattr(x, "__module__", "")]
        sys.path.append(folder)
        from kernelgap import step

        step.begin, step.end = self.begin, self.end
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self.blocks.pid = self.boundary.pid = -1  # a child of the script has no driver
        self.blocks.undo()
        if self.blocks.talk:
            self.blocks.talk.forked()

    def begin(self) -> None:
        if not self.marked:
            self.marked = True
            if self.optimizers:
                self.optimizers.ends = False
        self.boundary.begin("with step()")

    def end(self) -> None:
        self.boundary.end("with step()")

    def with_torch(self, torch: Any) -> None:
        self.torch, self.blocks.spans = torch, torch_watch.Spans(torch, self.foreign)
        self.boundary.held = self._held
        self.channel.send("torch", version=torch.__version__)
        if self.job["step"] == "forward":
            self._look_at_calls()
        elif self.job["step"] is None:
            self.optimizers = boundary.Optimizers(torch, self.boundary)
            self.optimizers.ends = not self.marked
            try:
                self.optimizers.install()
            except AttributeError:
                self.channel.send("hint", text="this PyTorch has no global optimizer hooks (2.1 has)")
            later = threading.Thread(target=self._later, name="kernelgap")
            later.daemon = True
            later.start()

    def _later(self) -> None:
        """After a while without a step, and outside an optimizer's, take calls of the root module as steps."""
        end = time.time() + min(PATIENCE, self.job["wait"] / 3)
        while time.time() < end or (self.optimizers and self.optimizers.open):
            time.sleep(LOOK)
            if self.boundary.calls or not self._alone():
                return
        self._look_at_calls()

    def _alone(self) -> bool:
        """Return whether no step was marked and no optimizer has stepped."""
        return not (self.marked or (self.optimizers and self.optimizers.total))

    def _look_at_calls(self) -> None:
        if self.forward is None:
            self.forward = boundary.Forward(self.torch, self.boundary, self._alone)
            self.forward.install()

    def _held(self) -> bool:
        """Return whether the script's own profiler is active; report it to the driver once."""
        on = bool(self.torch.autograd._profiler_enabled())
        if on and not self.reported:
            self.reported = True
            self.channel.send("held")
        return on

    def foreign(self) -> None:
        """Stop watching, since the script's own profiler is about to start."""
        if self.boundary.is_ready and not self.blocks.over and os.getpid() == self.blocks.pid:
            self.blocks.give_up("profiler", FOREIGN)

    def ready(self, how: str) -> None:
        """Report the process after warm-up, and wait for the request of the first block."""
        if self.forward is not None:
            self.forward.remove()
        facts = loop.observed()
        facts.update(python=sys.version.split()[0], step=how, framework="python", version=sys.version.split()[0])
        facts["before"] = self.boundary.calls  # steps before watching
        facts["threads"] = recorder.busy(self.boundary.threads)
        if self.torch is not None:
            facts.update(torch_watch.identity(self.torch))
            held = [ref() for ref in self.optimizers.objects.values()] if self.optimizers else []
            optimizers = [x for x in held if x is not None]
            if torch_watch.on_gpu(self.torch, optimizers):
                self.blocks.give_up("profiler", ON_GPU)
                return
            facts["parameters"] = torch_watch.parameters(self.torch, optimizers)
            facts["settings"] = torch_settings.settings(self.torch, optimizers)
            try:
                facts["made"] = trials.make(self.torch, self.job["trials"])
            except knock_out.Refused as error:
                self.blocks.give_up("unseen", str(error))
                return
        self.channel.send("hello", **facts)
        self.blocks.wait()


def run(job: dict[str, Any], watching: Watching) -> None:
    """Execute the script or the module as the interpreter would: with its sys.path, argv and `__main__`."""
    path = job["script"]
    sys.argv[:] = [path or "-m", *job["arguments"]]
    sys.path[0] = os.path.dirname(os.path.abspath(path)) if path else os.getcwd()
    main = as_main.script(path) if path else as_main.module(job["module"])
    job["script"] = sys.argv[0] = main.path
    if watching.named.module and watching.named.is_in(main.name):
        watching.imports.wanted.pop(watching.named.module, None)
    module = types.ModuleType("__main__")
    module.__dict__.update(main.variables, __builtins__=builtins, __annotations__={})
    code = watching.named.code(main)
    sys.modules["__main__"] = module
    exec(code, module.__dict__)


def ended(watching: Watching, job: dict[str, Any], channel: loop.Channel) -> tuple[str, str, int]:
    """Run the script; return the kind of its end, the reason, and the exit code of this process."""
    try:
        run(job, watching)
        return "ended", "", 0
    except blocks.Enough:
        return "enough", "", 0
    except (named_step.NoSuchStep, as_main.NoSuchModule) as error:
        return "usage", str(error), 2
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        return "ended", "" if not code else f"{_where(stop.__traceback__, job)}it exited with {stop.code}", code
    except BaseException as error:
        tried = (watching.blocks.request or {}).get("without")
        watching.blocks.leave()
        kind, value, trace = sys.exc_info()
        while trace is not None and os.path.dirname(os.path.abspath(trace.tb_frame.f_code.co_filename)) == HERE:
            trace = trace.tb_next
        traceback.print_exception(kind, value, trace)
        during = f", while {tried} was tried" if tried else ""
        return "failed", f"{_where(trace, job)}{loop.reason(error)}{during}", 1


def _where(trace: Any, job: dict[str, Any]) -> str:
    """Format the innermost line of the script in a traceback, or else of other files outside libraries."""
    mine, other, library = "", "", names.library_folders()
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename
        place = f"{os.path.basename(path)}:{trace.tb_lineno}: "
        if path == job["script"]:
            mine = place
        elif not path.startswith(library):
            other = place
        trace = trace.tb_next
    return mine or other


def flush() -> None:
    """Flush standard output, if the script has left it open."""
    try:
        sys.stdout.flush()
    except (AttributeError, ValueError, OSError):
        pass


def main(arguments: list[str]) -> None:
    read, write, parent = map(int, arguments[1:4])
    loop.die_with(parent)
    channel = loop.Channel(write)
    channel.send("begun")
    with open(arguments[0]) as stream:
        job = json.load(stream)
    for handle in (read, write):
        os.set_inheritable(handle, False)
    watching = Watching(job, channel, os.fdopen(read, "r"))
    watching.install(os.path.join(HERE, "path"))
    if not watching.blocks.requests.readline():  # perf is attached by then to this thread; new threads inherit it
        sys.exit(1)  # the driver is gone
    how, reason, code = ended(watching, job, channel)
    if watching.blocks.pid != os.getpid():
        sys.exit(code)  # a child that the script has forked
    watching.blocks.leave()
    flush()
    if how != "enough" and not watching.blocks.over:
        channel.send("ended", how=how, reason=reason, code=code, steps=watching.boundary.calls)
        watching.blocks.requests.readline()  # perf resolves symbols while this process exists
    sys.exit(code)


if __name__ == "__main__":
    main(sys.argv[1:])
