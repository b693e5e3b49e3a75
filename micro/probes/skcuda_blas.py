"""scikit-cuda through the adapter: does its cuBLAS multiply and transpose?"""

from __future__ import annotations

from functools import partial
from typing import Any

from micro.probing import accuracy
from micro.probing.facts import Facts, need, package

QUESTION = "Does scikit-cuda import through the adapter, and are its cublasSgemm and cublasSgeam right?"
LIMIT = 60.0
PART = 3
RANK = 170


def ask() -> dict[str, Any]:
    need("cupy", "skcuda")
    from kernels.libs import skcuda as adapter

    facts = Facts()
    loaded = facts.ask("load()", adapter.load)
    module = next((x for x in (getattr(loaded, "cublas", None), loaded) if hasattr(x, "cublasSgemm")), None)
    cublas = module or package("skcuda.cublas")
    facts.ask("module", lambda: str(cublas))
    handle = cublas.cublasCreate()
    facts.ask("version", lambda: cublas.cublasGetVersion(handle))
    for flags in ("nn", "nt", "tn", "tt"):
        facts.ask(flags, partial(product, cublas, handle, flags))
    facts.ask("geam", partial(transposed, cublas, handle))
    return facts.found


def product(cublas: Any, handle: Any, flags: str) -> dict[str, float]:
    """Column-major C = op(A)·op(B), its error against double precision."""
    import cupy
    import numpy as np

    m, n, k = 65, 129, 257
    shapes = [(m, k) if flags[0] == "n" else (k, m), (k, n) if flags[1] == "n" else (n, k)]
    a, b = (np.random.default_rng(i).standard_normal(dims, np.float32) for i, dims in enumerate(shapes))
    da, db = (cupy.asarray(x.T.ravel()) for x in (a, b))  # columns one after another
    out = cupy.empty(m * n, cupy.float32)
    lda, ldb = a.shape[0], b.shape[0]
    cupy.cuda.runtime.deviceSynchronize()
    cublas.cublasSgemm(
        handle, flags[0], flags[1], m, n, k, 1.0, da.data.ptr, lda, db.data.ptr, ldb, 0.0, out.data.ptr, m
    )
    cupy.cuda.runtime.deviceSynchronize()
    left, right = (x.astype("f8").T if flag == "t" else x.astype("f8") for x, flag in zip((a, b), flags, strict=True))
    return accuracy.error(cupy.asnumpy(out).reshape(n, m).T, left @ right)


def transposed(cublas: Any, handle: Any) -> dict[str, bool]:
    """Column-major C = Aᵀ."""
    import cupy
    import numpy as np

    rows, cols = 33, 65
    a = np.arange(rows * cols, dtype=np.float32)  # cols×rows, column-major
    da, out = cupy.asarray(a), cupy.empty(rows * cols, cupy.float32)
    cupy.cuda.runtime.deviceSynchronize()
    cublas.cublasSgeam(
        handle, "t", "n", rows, cols, 1.0, da.data.ptr, cols, 0.0, out.data.ptr, rows, out.data.ptr, rows
    )
    cupy.cuda.runtime.deviceSynchronize()
    want = a.reshape(rows, cols).T.ravel()
    return {"right": bool((cupy.asnumpy(out) == want).all())}
