"""torch's switch between single precision and TF32 as its releases have it, behind as much of torch as sets it."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

WARNING = "Please use the new API settings to control TF32 behavior"


class Old:
    """Of torch before 2.9: one flag, and no other attribute is set or found."""

    __slots__ = ("allow_tf32",)

    def __init__(self) -> None:
        self.allow_tf32 = False


class New:
    """From torch 2.9 on: a word. The flag is still there, and warns; to ask for it after the word was set fails."""

    __slots__ = ("_flag", "_word")

    def __init__(self) -> None:
        self._flag, self._word = False, "none"

    @property
    def fp32_precision(self) -> str:
        return self._word

    @fp32_precision.setter
    def fp32_precision(self, word: str) -> None:
        assert word in ("none", "ieee", "tf32")
        self._word = word

    @property
    def allow_tf32(self) -> bool:
        if self._flag != (self._word == "tf32"):
            raise RuntimeError("you have used mix of the legacy and new APIs to set the TF32 status")
        warnings.warn(WARNING, UserWarning, stacklevel=2)
        return self._flag

    @allow_tf32.setter
    def allow_tf32(self, flag: bool) -> None:
        warnings.warn(WARNING, UserWarning, stacklevel=2)
        self._flag, self._word = flag, "tf32" if flag else "none"


def cuts(switch: Any) -> bool:
    """Whether products of fp32 are made in TF32: by the new name where there is one, as torch itself looks."""
    if hasattr(switch, "fp32_precision"):
        return bool(switch.fp32_precision == "tf32")
    return bool(switch.allow_tf32)


class Tensor:
    def t(self) -> Tensor:
        return self


class Torch:
    """As much of the module as a product needs; `made` tells of each whether it was cut to TF32."""

    def __init__(self, switch: Any) -> None:
        self.backends = SimpleNamespace(cuda=SimpleNamespace(matmul=switch))
        self.made: list[bool] = []

    def mm(self, a: Tensor, b: Tensor, out: Tensor) -> None:
        self.made.append(cuts(self.backends.cuda.matmul))
