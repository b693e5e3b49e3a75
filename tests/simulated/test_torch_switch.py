"""Rows of torch say at each call in which arithmetic they multiply, by the name that this torch has for it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernels.libs import torch_cuda
from kernels.ops.gemm import Gemm, gpu
from kernels.ops.launch import Calls
from kernels.ops.launch import gpu as launch
from kernels.ops.update import cuda_variants as update
from kernels.ops.update.problem import Update
from tests.simulated.fake_tensors import cuts_products

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


class Tensor:
    def t(self) -> Tensor:
        return self


class Torch:
    """As much of the module as a product needs; `made` tells of each whether it was cut to TF32."""

    def __init__(self, switch: Any) -> None:
        self.backends = SimpleNamespace(cuda=SimpleNamespace(matmul=switch))
        self.made: list[bool] = []

    def mm(self, a: Tensor, b: Tensor, out: Tensor) -> None:
        self.made.append(cuts_products(self.backends.cuda.matmul))


DEVICE: Any = SimpleNamespace(allocate=lambda nbytes: np.zeros(nbytes, np.uint8))


@pytest.fixture(params=[Old, New])
def torch(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Torch:
    """Before the switch was renamed, and after."""
    found = Torch(request.param())
    monkeypatch.setattr(torch_cuda, "load", lambda device: found)
    monkeypatch.setattr(torch_cuda, "tensor", lambda torch, view: Tensor())
    return found


def product(torch: Torch, dtype: str) -> Callable[[], object]:
    return gpu.torch_mm(Gemm(2, 2, 2, dtype=dtype), DEVICE, None)([None] * 3).call


def step(torch: Torch) -> Callable[[], object]:
    """A step of `update` that is a product."""

    def product(problem: Update, x: Any, dy: Any, w: Any, g: Any) -> Callable[[], object]:
        return lambda: torch.mm(x, dy, out=w)

    return update.by_torch(product)(Update(2, 2, 2), DEVICE, None)([None] * 3).call


def rung(torch: Torch) -> Callable[[], object]:
    return launch.torch_call(Calls("gemm", 1), DEVICE, None)([None] * 3).call


def test_each_call_says_it_anew(torch: Torch) -> None:
    """Rows of both kinds are visited in turn in one process."""
    strict, coarse, update = product(torch, "fp32"), product(torch, "tf32"), step(torch)
    for call in (strict, coarse, strict, coarse, update, coarse, coarse, product(torch, "fp16")):
        call()
    assert torch.made == [False, True, False, True, False, True, True, False]


def test_a_rung_is_in_single_precision_whatever_ran_before(torch: Torch) -> None:
    product(torch, "tf32")()
    rung(torch)()
    assert torch.made == [True, False]
