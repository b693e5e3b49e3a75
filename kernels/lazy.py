"""NumPy as `np`, imported at its first use: a command's help and its plans start without it."""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING, Any

__all__ = ["np"]


class _Lazy(ModuleType):
    """A stand-in for a package, which imports the package when an attribute is first read."""

    def __getattr__(self, name: str) -> Any:
        package = importlib.import_module(self.__name__)
        vars(self).update(vars(package))
        self.__class__ = ModuleType  # type: ignore[assignment]  # from here on as fast as the package
        return getattr(package, name)


if TYPE_CHECKING:
    import numpy as np
else:
    np = _Lazy("numpy")
