"""NumPy's adapter with one thing changed.

Knobs `what`, `layer` and `amount`, a share of a step: an addition that `macro explain` is to find. Knob `how`: all
products are computed in another way, equal work that `macro run` compares.
"""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROWS = {
    "plain": {},
    "halves": {"how": "halves"},
    "fresh": {"how": "fresh"},
    "packed": {"how": "packed"},
    "scipy": {"how": "scipy"},
    "einsum": {"how": "einsum"},
}
RECIPE: dict[str, Any] = {}
TUNED: dict[str, Any] = {}


class Expected(NamedTuple):
    """The row and columns under which an injection must be named, and the threads it takes."""

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
INJECTED: dict[str, float] = {}  # seconds of a step, where what is injected is a fixed time
FIXED = ("sleep", "copied twice", "transposed copy", "fresh allocation", "loop over rows")


def exported(knobs: dict[str, Any]) -> dict[str, Any]:
    """Return what an adapter defines."""
    return {function.__name__: function for function in (available, identity, trace, record, build)}


def available() -> None:
    return None


def identity(job: Any) -> dict[str, Any]:
    return dict(_plain().identity(job), framework="plugin", injected=INJECTED.get("seconds"))


def trace(model: Any, run: Any) -> Any:
    return _plain().trace(model, run)


def record(model: Any, run: Any) -> Any:
    return _plain().record(model, run)


def build(job: Any) -> Any:
    """Return NumPy's model, changed as the knobs say."""
    plain, knobs = _plain(), job["knobs"]
    if "what" in knobs:
        return type("Model", (Injected, plain.Model), {"plain": plain})(job)
    model: Any = plain.Model
    how = HOW.get(knobs.get("how", ""))

    class Other(model):  # type: ignore[misc]
        def dot(self, row: list[str], a: Any, b: Any, out: Any, column: str = "gemm") -> None:
            self.do(row, column, how, a, b, out)

    return (Other if how else model)(job)


def _plain() -> Any:
    path = Path(__file__).resolve().parents[2] / "macro/frameworks/numpy.py"
    spec = importlib.util.spec_from_file_location("plain_numpy", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def halves(a: Any, b: Any, out: Any) -> None:
    """Multiply in two calls, each half of the rows."""
    middle = len(a) // 2
    np.dot(a[:middle], b, out=out[:middle])
    np.dot(a[middle:], b, out=out[middle:])


def fresh(a: Any, b: Any, out: Any) -> None:
    """Multiply into memory that is allocated for each product."""
    out[...] = np.dot(a, b)


def packed(a: Any, b: Any, out: Any) -> None:
    """Multiply copies of both operands."""
    np.dot(a.copy(order="C"), b.copy(order="C"), out=out)


def scipy(a: Any, b: Any, out: Any) -> None:
    """Multiply by SciPy's library, which computes the transposed product of column-major arrays."""
    from scipy.linalg.blas import sgemm

    out[...] = sgemm(1.0, b.T, a.T).T


def einsum(a: Any, b: Any, out: Any) -> None:
    """Multiply through another layer of Python."""
    np.einsum("ij,jk->ik", a, b, out=out, optimize=True)


HOW = {function.__name__: function for function in (halves, fresh, packed, scipy, einsum)}


class Injected:
    """An addition to NumPy's model; `plain` is its module."""

    plain: Any
    weights: Any
    grads: Any
    optimizer: Any
    do: Any
    gradient: Any

    def __init__(self, job: Any) -> None:
        import threadpoolctl

        self.plain.Model.__init__(self, job)
        knobs = job["knobs"]
        self.what, self.layer = None, knobs["layer"]
        self.step()
        start = time.perf_counter()
        self.step()
        self.seconds = knobs["amount"] * (time.perf_counter() - start)
        self.scratch = np.ones((2, 1 << 22), np.float32)
        with np.load(job["weights"]) as weights:  # as they were before these steps
            for name in weights.files:
                self.weights[name][...] = weights[name]
        for velocity in self.optimizer.v.values():
            velocity[...] = 0
        self.what = knobs["what"]
        if self.what in FIXED:
            INJECTED["seconds"] = self.seconds
        self.pools = threadpoolctl.ThreadpoolController()
        if self.what == "half the threads":
            self.pools.limit(limits=1)

    def dot(self, row: list[str], a: Any, b: Any, out: Any, column: str = "gemm") -> None:
        calls: dict[tuple[str | None, str], Any] = {
            ("sleep", "wgrad"): self._slept,
            ("copied twice", "forward"): self._copied,
            ("transposed copy", "dgrad"): self._transposed,
            ("fresh allocation", "wgrad"): self._fresh,
            ("extra dgrad", "dgrad"): self._twice,
            ("one layer on one thread", "wgrad"): self._alone,
        }
        layer, _, part = row[0].partition(" ")
        call = calls.get((self.what, part)) if layer == self.layer else None
        if call is None:
            self.plain.Model.dot(self, row, a, b, out, column)
        else:
            self.do(row, column, call, a, b, out)

    def _slept(self, a: Any, b: Any, out: Any) -> None:
        np.dot(a, b, out=out)
        time.sleep(self.seconds)

    def _copied(self, a: Any, b: Any, out: Any) -> None:
        end = time.process_time() + self.seconds
        while time.process_time() < end:
            np.copyto(self.scratch[0], self.scratch[1])
        np.dot(a, b, out=out)

    def _transposed(self, a: Any, b: Any, out: Any) -> None:
        """Copy b, a transposed view of the weights, piece by piece: a copy of all of it may take longer than asked."""
        end, at = time.process_time() + self.seconds, 0
        while time.process_time() < end:
            np.ascontiguousarray(b[at : at + 16])
            at = (at + 16) % len(b)
        np.dot(a, b, out=out)

    def _twice(self, a: Any, b: Any, out: Any) -> None:
        np.dot(a, b, out=out)
        np.dot(a, b, out=out)

    def _fresh(self, a: Any, b: Any, out: Any) -> None:
        end = time.process_time() + self.seconds
        while time.process_time() < end:
            np.empty(1 << 23, np.float32)[::1024] = 1  # a number a page
        np.dot(a, b, out=out)

    def _alone(self, a: Any, b: Any, out: Any) -> None:
        with self.pools.limit(limits=1):
            np.dot(a, b, out=out)

    def step(self) -> None:
        if self.what != "loop over rows":
            self.plain.Model.step(self)
            return
        self.gradient()
        for name, w in self.weights.items():
            layer = name.split(".")[0]
            call = self._looped if layer == self.layer else self._moved
            self.do([f"{layer} update"], "update", call, self.optimizer.v[name], self.grads[name], w)

    def _looped(self, v: Any, change: Any, w: Any) -> None:
        """Update in pieces so small that the loop is the work."""
        self._moved(v, change, w)
        end, some = time.process_time() + self.seconds / 2, change.reshape(-1)  # weights, then bias
        while time.process_time() < end:
            for i in range(200):
                some[i] + some[i]

    def _moved(self, v: Any, change: Any, w: Any) -> None:
        v *= self.optimizer.momentum
        v += change
        np.multiply(v, self.optimizer.rate, out=change)
        w -= change
