"""numba.cuda as far as it configures, compiles and launches a kernel: it warns, refuses and counts as the real one.

Kernels do nothing; what they compute is told by Numba's own simulator (test_numba.py).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from math import prod
from types import ModuleType
from typing import Any

import numpy as np

from tests.simulated.fake_array import DeviceArray
from tests.simulated.fake_cupy import FakeCupy
from tests.simulated.fake_cupy_objects import STREAM

FEW = 128  # blocks, below which it warns


class NumbaPerformanceWarning(Warning):
    pass


class FakeNumba:
    """Behind the modules `numba` and `numba.cuda`. `refuses` is what the import, `fails` what a compilation raises."""

    def __init__(self, fake: FakeCupy) -> None:
        self.fake = fake
        self.refuses: Exception | None = None
        self.fails: Exception | None = None
        self.jitted: list[str] = []
        self.compiled: list[tuple[str, str]] = []  # kernels, each with the layouts of its arrays
        self.warns = True

    def package(self) -> ModuleType:
        made: Any = ModuleType("numba")
        made.njit, made.float32, made.__version__ = lambda function: function, np.float32, "0"
        return made  # type: ignore[no-any-return]

    def import_module(self, name: str) -> Any:
        """It reads the environment when it is imported, and never again."""
        assert name == "numba.cuda"
        if self.refuses:
            raise self.refuses
        self.warns = os.environ.get("NUMBA_CUDA_LOW_OCCUPANCY_WARNINGS", "1") != "0"
        return self

    def external_stream(self, place: int) -> int:
        assert place == STREAM
        return place

    def as_cuda_array(self, array: Any) -> Any:
        return array

    def jit(self, function: Callable[..., None]) -> Dispatcher:
        self.jitted.append(function.__name__)
        return Dispatcher(self, function.__name__)


class Dispatcher:
    """A kernel, which is compiled for the layouts it is called with, once each."""

    def __init__(self, numba: FakeNumba, name: str) -> None:
        self.numba, self.name = numba, name
        self.known: set[str] = set()

    def __getitem__(self, how: tuple[Any, ...]) -> Callable[..., None]:
        blocks, _, stream = how
        assert stream == STREAM
        size = prod(np.atleast_1d(blocks).tolist())
        if self.numba.warns and size < FEW:
            told = f"Grid size {size} will likely result in GPU under-utilization due to low occupancy."
            warnings.warn(told, NumbaPerformanceWarning, stacklevel=2)
        return lambda *arguments: self.launch(arguments)

    def launch(self, arguments: tuple[Any, ...]) -> None:
        layouts = "".join(layout(x) for x in arguments if isinstance(x, DeviceArray))
        if layouts not in self.known:
            if self.numba.fails:
                raise self.numba.fails
            self.known.add(layouts)
            self.numba.compiled.append((self.name, layouts))
        self.numba.fake.launch(self.name, 1e-6)


def layout(array: DeviceArray) -> str:
    """Rows one after another, columns, or neither."""
    return "C" if array.flags.c_contiguous else "F" if array.flags.f_contiguous else "A"
