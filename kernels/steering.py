"""The environment variables that steer libraries from outside a command line, by how their names begin."""

from __future__ import annotations

import os
from collections.abc import Mapping

MALLOC = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD", "TCMALLOC_", "MIMALLOC_")
TUNING = ("OPENBLAS_", "GOTO_", "MKL_", "OMP_", "GOMP_", "KMP_", "BLIS_", "NPY_", "NUMBA_")
STEERING = MALLOC + TUNING


def variables(prefixes: tuple[str, ...], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Those that are set and begin so."""
    return {key: environment[key] for key in sorted(environment) if key.startswith(prefixes)}
