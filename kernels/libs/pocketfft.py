"""pocketfft, of which SciPy and NumPy each compile a copy; neither reports its vector instructions."""

from __future__ import annotations


def scipy_kernel() -> tuple[str | None, str | None]:
    """Return SciPy's version."""
    import scipy

    return f"scipy {scipy.__version__}, pocketfft", None


def numpy_kernel() -> tuple[str | None, str | None]:
    """Return NumPy's version."""
    import numpy as np

    return f"numpy {np.__version__}, pocketfft", None
