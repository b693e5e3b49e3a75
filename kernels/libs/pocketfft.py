"""pocketfft, which SciPy and NumPy have inside, each a copy of its own, compiled for vectors that it does not tell."""

from __future__ import annotations


def scipy_kernel() -> tuple[str | None, str | None]:
    """SciPy's version."""
    import scipy

    return f"scipy {scipy.__version__}, pocketfft", None


def numpy_kernel() -> tuple[str | None, str | None]:
    """NumPy's version."""
    import numpy as np

    return f"numpy {np.__version__}, pocketfft", None
