"""cuDNN in NumPy, as much of it as the probes use on the problems of `convolutions.SMALL`; its frontend for them."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np

from kernels.libs import convolutions
from tests.simulated import fake_frontend
from tests.simulated.stand_in import at, cupti_kernels


def compute(output: str, given: dict[str, np.ndarray]) -> None:
    """Write the operand `output` of a convolution, in single precision."""
    for shape in convolutions.SMALL:
        if all(given[name].shape == shape.dims[name] for name in "xwy"):
            given[output][...] = convolutions.reference(output, shape, given)


class Text:
    """A function that answers bytes, as ctypes gives them."""

    restype: Any = None

    def __call__(self, status: Any) -> bytes:
        return b"CUDNN_STATUS_NOT_SUPPORTED"


class Library:
    """libcudnn: descriptors are numbers, calls are kept; algorithm 6 is not supported."""

    def __init__(self, created: int = 0) -> None:
        self.calls: list[tuple[str, int]] = []
        self.dims: dict[int, tuple[int, ...]] = {}
        self.numbers, self.created = itertools.count(1), created
        self.cudnnGetErrorString = Text()

    def __getattr__(self, name: str) -> Any:
        def call(*given: Any) -> int:
            self.calls.append((name, len(given)))
            own = getattr(type(self), name.replace("cudnn", "_", 1), type(self)._any)
            return int(own(self, name, *given) or 0)

        return call

    def _any(self, name: str, *given: Any) -> int:
        if name.endswith("WorkspaceSize"):
            given[-1]._obj.value = 4096
            return 3000 if given[-2].value == 6 else 0
        if name.startswith("cudnnCreate"):
            given[0]._obj.value = next(self.numbers)
        if name.startswith(("cudnnSetTensor", "cudnnSetFilter")):
            self.dims[given[0].value] = tuple(x.value for x in given[3:])
        if name.endswith(("AlgorithmEx", "Algorithm_v7")):
            ex = name.endswith("Ex")
            count, rows = given[9:11] if ex else given[6:8]
            count._obj.value, rows[0].algo, rows[0].mathType = 1, 1, 3
        return 0

    def _Create(self, name: str, handle: Any) -> int:
        handle._obj.value = 1
        return self.created

    def _GetVersion(self, name: str) -> int:
        return 91900

    def _GetLastErrorString(self, name: str, words: Any, size: Any) -> None:
        words.value = b"in\nplain words"

    def _ConvolutionForward(self, name: str, *given: Any) -> int:
        return self._convolve(("x", "w", "y"), given)

    def _ConvolutionBackwardData(self, name: str, *given: Any) -> int:
        return self._convolve(("w", "y", "x"), given)

    def _ConvolutionBackwardFilter(self, name: str, *given: Any) -> int:
        return self._convolve(("x", "y", "w"), given)

    def _convolve(self, names: tuple[str, str, str], given: tuple[Any, ...]) -> int:
        assert (given[1]._obj.value, given[10]._obj.value) == (1.0, 0.0)
        pairs = (given[2:4], given[4:6], given[11:13])
        arrays = {n: at(place.value, self.dims[what.value]) for n, (what, place) in zip(names, pairs, strict=True)}
        compute(names[2], arrays)
        return 0


def cudnn() -> Any:
    """The frontend's module, whose plans are kernels that CUPTI sees."""
    return fake_frontend.module(
        ran=lambda name: cupti_kernels.append(SimpleNamespace(name=f"kernel of {name}", start=0, end=1500))
    )
