"""NumPy's adapter with one thing wrong, to be found by `macro explain`: what, where and how much comes with the knobs.

`written(folder, what, layer, share)` writes a file of a user's that runs it, named after nothing that is in it.
"""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

HERE = Path(__file__).resolve()
PLAIN = HERE.parents[2] / "macro/frameworks/numpy.py"
PLUGIN = '''"""A framework of the user's."""
import importlib.util

ROWS = {knobs!r}
RECIPE = {{}}
TUNED = {{}}
spec = importlib.util.spec_from_file_location("injected", {here!r})
made = importlib.util.module_from_spec(spec)
spec.loader.exec_module(made)
available, identity, build = made.available, made.identity, made.build
trace, record = made.trace, made.record
'''


class Expected(NamedTuple):
    """Under which row and columns an injection must be named, and the threads it takes."""

    row: str | None
    columns: tuple[str, ...]
    threads: int = 1


EXPECTED = {
    "sleep": Expected("{layer} wgrad", ("waiting",)),
    "copied twice": Expected("{layer} forward", ("copy",)),
    "transposed copy": Expected("{layer} dgrad", ("copy", "packing")),
    "fresh allocation": Expected("{layer} wgrad", ("OS memory",)),
    "extra dgrad": Expected("{layer} dgrad", ("gemm",)),
    "loop over rows": Expected("{layer} update", ("interpreter", "optimizer")),
    "one layer on one thread": Expected("{layer} wgrad", ("waiting", "spin"), 2),
    "half the threads": Expected(None, ("waiting",), 2),
}


def written(folder: Path, what: str | None, layer: str, share: float) -> Path:
    """An adapter that does it; its path. `what`: None, nothing."""
    path = folder / "plugin.py"
    knobs = {"plugin": {"what": what, "layer": layer, "share": share}}
    path.write_text(PLUGIN.format(knobs=knobs, here=str(HERE)), encoding="utf-8")
    return path


def _plain() -> Any:
    spec = importlib.util.spec_from_file_location("plain_numpy", PLAIN)
    assert spec is not None and spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


INJECTED: dict[str, float] = {}  # seconds of a step, where what is injected is a fixed time
FIXED = ("sleep", "copied twice", "transposed copy", "fresh allocation", "loop over rows")


def available() -> None:
    return None


def identity(job: Any) -> dict[str, Any]:
    return dict(_plain().identity(job), framework="plugin", injected=INJECTED.get("seconds"))


def trace(model: Any, run: Any) -> Any:
    return _plain().trace(model, run)


def record(model: Any, run: Any) -> Any:
    return _plain().record(model, run)


class Injected:
    """What is added to NumPy's model; `plain` is its module."""

    plain: Any
    weights: Any
    grads: Any
    optimizer: Any
    do: Any
    gradient: Any

    def __init__(self, job: Any) -> None:
        import numpy as np
        import threadpoolctl

        self.plain.Model.__init__(self, job)
        self._knobs = job["knobs"]
        self.what, self.layer, self.seconds = None, self._knobs["layer"], 0.0
        self.step()
        start = time.perf_counter()
        self.step()
        self.seconds = self._knobs["share"] * (time.perf_counter() - start)
        self.scratch = np.ones((2, 1 << 22), np.float32)
        with np.load(job["weights"]) as weights:  # as they were before these steps
            for name in weights.files:
                self.weights[name][...] = weights[name]
        for velocity in self.optimizer.v.values():
            velocity[...] = 0
        self.what = self._knobs["what"]
        if self.what in FIXED:
            INJECTED["seconds"] = self.seconds
        self.pools = threadpoolctl.ThreadpoolController()
        if self.what == "half the threads":
            self.pools.limit(limits=1)

    def dot(self, row: list[str], a: Any, b: Any, out: Any, column: str = "gemm") -> None:
        call = self._calls().get((self.what, row[0]))
        if call is None:
            self.plain.Model.dot(self, row, a, b, out, column)
        else:
            self.do(row, column, call, a, b, out)

    def _calls(self) -> dict[tuple[str | None, str], Any]:
        return {
            ("sleep", self.layer + " wgrad"): self._slept,
            ("copied twice", self.layer + " forward"): self._copied,
            ("transposed copy", self.layer + " dgrad"): self._transposed,
            ("fresh allocation", self.layer + " wgrad"): self._fresh,
            ("extra dgrad", self.layer + " dgrad"): self._twice,
            ("one layer on one thread", self.layer + " wgrad"): self._alone,
        }

    def _slept(self, a: Any, b: Any, out: Any) -> None:
        import numpy as np

        np.dot(a, b, out=out)
        time.sleep(self.seconds)

    def _copied(self, a: Any, b: Any, out: Any) -> None:
        import numpy as np

        end = time.process_time() + self.seconds
        while time.process_time() < end:
            np.copyto(self.scratch[0], self.scratch[1])
        np.dot(a, b, out=out)

    def _transposed(self, a: Any, b: Any, out: Any) -> None:
        """Piece by piece: a copy of all of b, a transposed view of the weights, may take longer than it shall."""
        import numpy as np

        end, at = time.process_time() + self.seconds, 0
        while time.process_time() < end:
            np.ascontiguousarray(b[at : at + 16])
            at = (at + 16) % len(b)
        np.dot(a, b, out=out)

    def _twice(self, a: Any, b: Any, out: Any) -> None:
        import numpy as np

        np.dot(a, b, out=out)
        np.dot(a, b, out=out)

    def _fresh(self, a: Any, b: Any, out: Any) -> None:
        import numpy as np

        end = time.process_time() + self.seconds
        while time.process_time() < end:
            np.empty(1 << 23, np.float32)[::1024] = 1  # a number a page
        np.dot(a, b, out=out)

    def _alone(self, a: Any, b: Any, out: Any) -> None:
        import numpy as np

        with self.pools.limit(limits=1):
            np.dot(a, b, out=out)

    def step(self) -> None:
        if self.what != "loop over rows":
            self.plain.Model.step(self)
            return
        self.gradient()
        row = [self.layer + " update"]
        for name, w in self.weights.items():
            at = row if name.startswith(self.layer + ".") else [name.split(".")[0] + " update"]
            call = self._looped if at == row else self._moved
            self.do(at, "update", call, self.optimizer.v[name], self.grads[name], w)

    def _looped(self, v: Any, change: Any, w: Any) -> None:
        """Pieces so small that the loop is the work."""
        self._moved(v, change, w)
        end, some = time.process_time() + self.seconds / 2, change.reshape(-1)  # weights, then bias
        while time.process_time() < end:
            for i in range(200):
                some[i] + some[i]

    def _moved(self, v: Any, change: Any, w: Any) -> None:
        import numpy as np

        v *= self.optimizer.momentum
        v += change
        np.multiply(v, self.optimizer.rate, out=change)
        w -= change


def build(job: Any) -> Any:
    plain = _plain()
    return type("Model", (Injected, plain.Model), {"plain": plain})(job)
