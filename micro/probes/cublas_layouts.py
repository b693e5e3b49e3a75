"""cuBLAS products in all four layouts, and the transposition first; by a loop of calls and by a graph."""

from __future__ import annotations

from functools import partial
from typing import Any

from kernels.libs import cublas
from micro.probing import accuracy, clock
from micro.probing.facts import Facts, need

QUESTION = "NN, NT, TN, TT and geam of cuBLAS: with a workspace of ours or its own, TF32 off and on, loop and graph?"
LIMIT = 120.0
PART = 3
RANK = 100
SHAPES = ((1024, 2048, 3344), (128, 128, 128), (4096, 4096, 4096), (8, 2048, 3344))  # m, n, k
MATHS = {"fp32": cublas.DEFAULT_MATH, "pedantic": cublas.PEDANTIC_MATH, "tf32": cublas.TF32_MATH}
ROWS = 8  # of C that are compared with double precision


def ask() -> dict[str, Any]:
    need("cupy", "cuda.pathfinder")
    import cupy

    facts = Facts()
    stream = cupy.cuda.Stream(non_blocking=True)
    facts.ask("warm", partial(clock.warm, cupy))
    space = cupy.empty(cublas.WORKSPACE, cupy.uint8)
    handles = {"32 MiB": cublas.open_handle(stream.ptr, space.data.ptr), "its own": cublas.open_handle(stream.ptr, 0)}
    facts.note("version", handles["its own"].version)
    for mnk in SHAPES:
        case = Case(cupy, stream, mnk)
        for flags in ("nn", "nt", "tn", "tt"):
            for workspace, on in handles.items():
                for math in MATHS:
                    key = f"{mnk} {flags}, {math}, workspace {workspace}"
                    facts.ask(key, partial(case.product, on, flags, math))
        facts.ask(f"{mnk} geam of B", partial(case.transposition, handles["32 MiB"]))
        facts.ask(f"{mnk} geam, then nn", partial(case.both, handles["32 MiB"]))
    return facts.found


class Case:
    """Operands of one row-major product C = op(A)·op(B), m×n of k; each matrix lies ready in both layouts."""

    def __init__(self, cp: Any, stream: Any, mnk: tuple[int, int, int]) -> None:
        import numpy as np

        self.cp, self.stream, (self.m, self.n, self.k) = cp, stream, mnk
        rng = np.random.default_rng(1)
        a = rng.standard_normal((self.m, self.k), np.float32)
        b = rng.standard_normal((self.k, self.n), np.float32)
        self.want = a[:ROWS].astype("f8") @ b.astype("f8")
        self.a = {"n": cp.asarray(a), "t": cp.asarray(np.ascontiguousarray(a.T))}
        self.b = {"n": cp.asarray(b), "t": cp.asarray(np.ascontiguousarray(b.T))}
        self.c = cp.empty((self.m, self.n), cp.float32)
        cp.cuda.runtime.deviceSynchronize()

    def call(self, on: cublas.Handle, flags: str) -> Any:
        """Column-major Cᵀ = op(B)ᵀ·op(A)ᵀ: the operands change places."""
        a, b = self.a[flags[0]], self.b[flags[1]]
        codes = {"n": cublas.N, "t": cublas.T}
        return cublas.sgemm(
            on,
            (codes[flags[1]], codes[flags[0]]),
            (self.n, self.m, self.k),
            (1.0, 0.0),
            (b.data.ptr, b.shape[1]),
            (a.data.ptr, a.shape[1]),
            (self.c.data.ptr, self.n),
        )

    def product(self, on: cublas.Handle, flags: str, math: str) -> dict[str, Any]:
        on.math(MATHS[math])
        return self.measured(self.call(on, flags))

    def transpose(self, on: cublas.Handle) -> Any:
        """B from Bᵀ, row-major k×n: for cuBLAS n×k from k×n."""
        source, target = self.b["t"], self.b["n"]
        return cublas.sgeam_transpose(on, self.n, self.k, (source.data.ptr, self.k), (target.data.ptr, self.n))

    def transposition(self, on: cublas.Handle) -> dict[str, Any]:
        before = self.cp.asnumpy(self.b["n"])
        self.b["n"].fill(self.cp.nan)
        self.cp.cuda.runtime.deviceSynchronize()
        call = self.transpose(on)
        call()
        self.stream.synchronize()
        right = bool((self.cp.asnumpy(self.b["n"]) == before).all())
        return {"right": right, **self.times(call)}

    def both(self, on: cublas.Handle) -> dict[str, Any]:
        on.math(cublas.DEFAULT_MATH)
        transpose, multiply = self.transpose(on), self.call(on, "nn")

        def call() -> None:
            transpose()
            multiply()

        return self.measured(call)

    def measured(self, call: Any) -> dict[str, Any]:
        """Its error on the first rows, and its times."""
        self.c.fill(self.cp.nan)
        self.cp.cuda.runtime.deviceSynchronize()
        call()
        self.stream.synchronize()
        gap = accuracy.error(self.cp.asnumpy(self.c[:ROWS]), self.want)
        return {**gap, "like": accuracy.precision(gap["l2"]), **self.times(call)}

    def times(self, call: Any) -> dict[str, Any]:
        """Microseconds a call by both ways; a graph that cannot be captured says why."""
        count = 20 if self.m * self.n * self.k > 1 << 34 else 50
        times: dict[str, Any] = {"loop us": clock.microseconds(self.cp, call, count, self.stream)}
        try:
            times["graph us"] = clock.replayed(self.cp, call, count, self.stream)
        except Exception as error:
            times["graph us"] = " ".join(str(error).split())[:200]
        return times
