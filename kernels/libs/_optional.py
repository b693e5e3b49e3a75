"""Optional Python packages, which may be missing or half-installed."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

from kernels.errors import Unavailable, summary


def missing(name: str, hint: str = "") -> str | None:
    """Return why a package is missing, or None if it is installed; import nothing."""
    return None if importlib.util.find_spec(name) else f"{name} is not installed: pip install {name}{hint}"


def load(name: str, probe: Callable[[Any], object]) -> Any:
    """Import a module and call `probe` on it, which a half-removed package fails. Raises Unavailable."""
    try:
        module: Any = importlib.import_module(name)
        probe(module)
    except Exception as error:  # whatever a broken installation raises
        raise Unavailable(
            f"{name} is installed but cannot be used ({summary(error)}): pip install --force-reinstall {name}"
        ) from None
    return module
