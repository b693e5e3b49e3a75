"""How far an answer is from one in double precision, and which arithmetic has errors of that size."""

from __future__ import annotations

import math
from typing import Any


def error(got: Any, want: Any) -> dict[str, float]:
    """`l2`: the norm of the difference over that of what is wanted; `worst`: the same of the largest element."""
    import numpy as np

    want = np.asarray(want, np.float64)
    gap = np.asarray(got, np.float64) - want
    size, largest = float(np.linalg.norm(want)), float(np.abs(want).max())
    if not size:
        return {"l2": math.nan, "worst": math.nan}
    return {"l2": float(np.linalg.norm(gap)) / size, "worst": float(np.abs(gap).max()) / largest}


def precision(l2: float) -> str:
    """Which arithmetic has an error of this size, for sums of some hundred products."""
    if not math.isfinite(l2):
        return "wrong"
    bounds = ((3e-6, "fp32"), (3e-5, "fp32, a lossy algorithm"), (3e-3, "tf32"), (3e-2, "half"))
    return next((name for bound, name in bounds if l2 < bound), "wrong")
