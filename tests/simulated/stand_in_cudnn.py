"""cuDNN and its frontend in NumPy: as much of them as the probes use, on the problems of `convolutions.SMALL`."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import numpy as np

from kernels.libs import convolutions
from tests.simulated.stand_in import at, cupti_kernels, module


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


class Tensor:
    def __init__(self, name: str = "", dim: Any = (), stride: Any = ()) -> None:
        self.name, self.dim, self.stride = name, tuple(dim), stride

    def set_output(self, yes: bool) -> Tensor:
        return self

    def set_dim(self, dim: list[int]) -> Tensor:
        self.dim = tuple(dim)
        return self

    def set_stride(self, stride: list[int]) -> Tensor:
        self.stride = stride
        return self


class Pygraph:
    """Plans eng0 and eng38, the second of which is not strict; engine 2 is not supported."""

    def __init__(self, **given: Any) -> None:
        self.plans: list[str] = []
        self.strict = False

    def tensor(self, **given: Any) -> Tensor:
        return Tensor(**given)

    def conv_fprop(self, **given: Any) -> Tensor:
        return self._out("y", x=given["image"], w=given["weight"])

    def conv_dgrad(self, **given: Any) -> Tensor:
        return self._out("x", y=given["loss"], w=given["filter"])

    def conv_wgrad(self, **given: Any) -> Tensor:
        return self._out("w", x=given["image"], y=given["loss"])

    def _out(self, name: str, **read: Tensor) -> Tensor:
        self.out = name
        self.tensors = {**read, name: Tensor(name)}
        return self.tensors[name]

    def validate(self) -> None: ...

    def build_operation_graph(self) -> None: ...

    def create_execution_plans(self, modes: list[str]) -> None:
        self.plans += ["eng0", "eng38_k2=0_k13=2"]

    def create_execution_plan(self, engine: int, knobs: dict[Any, int]) -> None:
        if engine == 2:
            raise RuntimeError("[cudnn_frontend] Error: " + "no " * 200 + "CUDNN_STATUS_NOT_SUPPORTED")
        self.plans.append(f"eng{engine}")

    def deselect_numeric_notes(self, notes: list[str]) -> None:
        assert self.plans, "before the plans are made it has no effect"
        self.strict = True

    def build_plan_at_index(self, index: int) -> None:
        if self.strict and self.plans[index].startswith("eng38"):
            raise RuntimeError("Deselecting execution plan")

    def get_engine_count(self) -> int:
        return 4

    def get_execution_plan_count(self) -> int:
        return len(self.plans)

    def get_plan_name_at_index(self, index: int) -> str:
        return self.plans[index]

    def get_workspace_size_plan_at_index(self, index: int) -> int:
        return 64

    def get_behavior_notes_for_plan_at_index(self, index: int) -> list[Any]:
        return [SimpleNamespace(name="RUNTIME_COMPILATION")]

    def execute_plan_at_index(self, places: dict[Tensor, int], space: int, index: int, handle: int) -> None:
        cupti_kernels.append(SimpleNamespace(name="kernel of " + self.plans[index], start=0, end=1500))
        given = {tensor.name: at(place, tensor.dim) for tensor, place in places.items()}
        compute(self.out, given)


def cudnn() -> Any:
    """The frontend's module."""
    made: Any = module("cudnn")
    made.__version__, made.pygraph = "1.26.0", Pygraph
    made.backend_version, made.create_handle = lambda: 91900, lambda: 1
    made.create_device_properties = lambda index: SimpleNamespace(serialize=lambda: '{"deviceVer": 900}')
    made.data_type = SimpleNamespace(FLOAT="FLOAT")
    made.heur_mode = SimpleNamespace(A="A", B="B", FALLBACK="FALLBACK")
    made.numerical_note = SimpleNamespace(TENSOR_CORE="TC", DOWN_CONVERT_INPUTS="DCI")
    return made
