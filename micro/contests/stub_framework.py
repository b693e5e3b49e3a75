"""Stand-in frameworks for the self-test: the NumPy adapter, its products made in other ways by the knob `how`.

`macro run` takes its rows by this file's name; it runs in a framework's process and is never imported.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

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


def _borrowed() -> Any:
    path = Path(__file__).parents[2] / "macro/frameworks/numpy.py"
    spec = importlib.util.spec_from_file_location("borrowed", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def halves(a: Any, b: Any, out: Any) -> None:
    """In two calls, each half of the rows."""
    import numpy as np

    middle = len(a) // 2
    np.dot(a[:middle], b, out=out[:middle])
    np.dot(a[middle:], b, out=out[middle:])


def fresh(a: Any, b: Any, out: Any) -> None:
    """Into memory that is allocated for each product."""
    import numpy as np

    out[...] = np.dot(a, b)


def packed(a: Any, b: Any, out: Any) -> None:
    """On copies of both operands."""
    import numpy as np

    np.dot(a.copy(order="C"), b.copy(order="C"), out=out)


def scipy(a: Any, b: Any, out: Any) -> None:
    """By SciPy's library, which computes the transposed product of column-major arrays."""
    from scipy.linalg.blas import sgemm

    out[...] = sgemm(1.0, b.T, a.T).T


def einsum(a: Any, b: Any, out: Any) -> None:
    """Through another layer of Python."""
    import numpy as np

    np.einsum("ij,jk->ik", a, b, out=out, optimize=True)


HOW = {"halves": halves, "fresh": fresh, "packed": packed, "scipy": scipy, "einsum": einsum}


def available() -> None:
    """Always here."""


def identity(job: Any) -> dict[str, Any]:
    import numpy as np

    return {"framework": "stub", "version": np.__version__}


def build(job: dict[str, Any]) -> Any:
    """NumPy's model, with its products made as the knob says."""
    model: Any = _borrowed().Model
    how = HOW.get(job["knobs"].get("how", ""))

    class Other(model):  # type: ignore[misc]
        def dot(self, row: list[str], a: Any, b: Any, out: Any, column: str = "gemm") -> None:
            self.do(row, column, how, a, b, out)

    return (Other if how else model)(job)
