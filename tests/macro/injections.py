"""NumPy's adapter with one thing wrong, to be found by `explain`: what, where and how much comes with the knobs.

A file of the user's: `injected(folder, what, layer, share)` writes one, named after nothing that is in it.
"""

import importlib.util
import time
from pathlib import Path

import numpy as np
import threadpoolctl

HERE = Path(__file__).resolve()
PLAIN = HERE.parents[2] / "macro/frameworks/numpy.py"
# By injection: the row and the columns under which it must be named, and the threads it takes.
EXPECTED = {
    "sleep": ("{layer} wgrad", ("idle",), 1),
    "copied twice": ("{layer} forward", ("copy",), 1),
    "transposed copy": ("{layer} dgrad", ("copy", "packing"), 1),
    "fresh allocation": ("{layer} wgrad", ("OS memory",), 1),
    "extra dgrad": ("{layer} dgrad", ("gemm",), 1),
    "loop over rows": ("{layer} update", ("interpreter", "update"), 1),
    "one layer on one thread": ("{layer} wgrad", ("idle", "barrier and spin"), 2),
    "half the threads": (None, ("idle",), 2),
}


def injected(folder, what, layer, share):
    """An adapter that does it; its path."""
    path = Path(folder) / "plugin.py"
    knobs = {"plugin": {"what": what, "layer": layer, "share": share}}
    path.write_text(
        f'''"""A framework of the user's."""
import importlib.util

ROWS = {knobs!r}
RECIPE = {{}}
TUNED = {{}}
spec = importlib.util.spec_from_file_location("injections", {str(HERE)!r})
made = importlib.util.module_from_spec(spec)
spec.loader.exec_module(made)
available, identity, build = made.available, made.identity, made.build
trace, record = made.trace, made.record
'''
    )
    return path


def _plain():
    spec = importlib.util.spec_from_file_location("plain_numpy", PLAIN)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


INJECTED = {}  # seconds of a step, where what is injected is a fixed time
FIXED = ("sleep", "copied twice", "transposed copy", "fresh allocation", "loop over rows")


def available():
    return None


def identity(job):
    return dict(_plain().identity(job), framework="plugin", injected=INJECTED.get("seconds"))


def trace(model, run):
    return model.do.trace(run)


def record(model, run):
    return model.do.record(run)


def build(job):
    plain = _plain()
    knobs = job["knobs"]

    class Injected(plain.Model):
        def __init__(self, job):
            plain.Model.__init__(self, job)
            self.what, self.layer, self.seconds = None, knobs["layer"], 0.0
            self.step()
            start = time.perf_counter()
            self.step()
            self.seconds = knobs["share"] * (time.perf_counter() - start)
            self.scratch = np.ones((2, 1 << 22), np.float32)
            with np.load(job["weights"]) as weights:  # as they were before these steps
                for name in weights.files:
                    self.weights[name][...] = weights[name]
            for velocity in self.velocity.values():
                velocity[...] = 0
            self.what = knobs["what"]
            if self.what in FIXED:
                INJECTED["seconds"] = self.seconds
            self.pools = threadpoolctl.ThreadpoolController()
            if self.what == "half the threads":
                self.pools.limit(limits=1)

        def _dot(self, row, a, b, out):
            call = self._calls().get((self.what, row))
            if call is None:
                plain.Model._dot(self, row, a, b, out)
            else:
                self.do([row], "gemm", call, a, b, out)

        def _calls(self):
            return {
                ("sleep", self.layer + " wgrad"): self._slept,
                ("copied twice", self.layer + " forward"): self._copied,
                ("transposed copy", self.layer + " dgrad"): self._transposed,
                ("fresh allocation", self.layer + " wgrad"): self._fresh,
                ("extra dgrad", self.layer + " dgrad"): self._twice,
                ("one layer on one thread", self.layer + " wgrad"): self._alone,
            }

        def _slept(self, a, b, out):
            np.dot(a, b, out=out)
            time.sleep(self.seconds)

        def _copied(self, a, b, out):
            end = time.process_time() + self.seconds
            while time.process_time() < end:
                np.copyto(self.scratch[0], self.scratch[1])
            np.dot(a, b, out=out)

        def _transposed(self, a, b, out):
            """Piece by piece: a copy of all of b, a transposed view of the weights, may take longer than it shall."""
            end, at = time.process_time() + self.seconds, 0
            while time.process_time() < end:
                np.ascontiguousarray(b[at : at + 16])
                at = (at + 16) % len(b)
            np.dot(a, b, out=out)

        def _twice(self, a, b, out):
            np.dot(a, b, out=out)
            np.dot(a, b, out=out)

        def _fresh(self, a, b, out):
            end = time.process_time() + self.seconds
            while time.process_time() < end:
                np.empty(1 << 23, np.float32)[::1024] = 1  # a number a page
            np.dot(a, b, out=out)

        def _alone(self, a, b, out):
            with self.pools.limit(limits=1):
                np.dot(a, b, out=out)

        def step(self):
            if self.what != "loop over rows":
                plain.Model.step(self)
                return
            self.gradient()
            row = [self.layer + " update"]
            for name, w in self.weights.items():
                at = row if name.startswith(self.layer + ".") else [name.split(".")[0] + " update"]
                call = self._looped if at == row else self._moved
                self.do(at, "update", call, self.velocity[name], self.grads[name], w)

        def _looped(self, v, change, w):
            """Pieces so small that the loop is the work."""
            self._moved(v, change, w)
            end, some = time.process_time() + self.seconds / 2, change.reshape(-1)  # weights, then bias
            while time.process_time() < end:
                for i in range(200):
                    some[i] + some[i]

        def _moved(self, v, change, w):
            v *= self.momentum
            v += change
            np.multiply(v, self.rate, out=change)
            w -= change

    return Injected(job)
