"""cuDNN's frontend in NumPy: graphs of one convolution, with engines of four kinds. `module()` is imported as `cudnn`.

Engine 0 sums, 3, 4 and 18 transform, 6 multiplies tiles, 38 rounds factors to TF32, 22 to half precision; no other is
supported. Plans of a note that is deselected do not build; what was deselected before there were plans is not.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from kernels.ops.conv import truth
from kernels.ops.conv.shape import Shape
from tests.simulated.fake_c import Enqueue, Reach, anywhere, array, at_once

NOTES: dict[int, set[str]] = {
    0: set(),
    **{engine: {"FFT"} for engine in (3, 4, 18)},
    6: {"WINOGRAD", "WINOGRAD_TILE_4x4"},
    22: {"TENSOR_CORE", "DOWN_CONVERT_INPUTS"},
    38: {"TENSOR_CORE"},
}
SPACE = {0: 0, 3: 8192, 4: 4096, 18: 8192, 6: 4096, 22: 64, 38: 64}  # bytes that an engine asks for
RANKED = {"A": ("eng38_k2=0_k13=2", "eng3_k11=2", "eng0"), "B": ("eng3_k11=2", "eng0"), "FALLBACK": ("eng0",)}
ALL_NOTES = ("TENSOR_CORE", "DOWN_CONVERT_INPUTS", "FFT", "WINOGRAD", "WINOGRAD_TILE_4x4", "WINOGRAD_TILE_13x13")
COUNT = {"forward": 81, "dgrad": 85, "wgrad": 75}  # of engines, as cuDNN 9.19 has them


def half(x: np.ndarray) -> np.ndarray:
    """Rounded to 11 bits of mantissa and 5 of exponent."""
    return x.astype(np.float16)


def tf32(x: np.ndarray) -> np.ndarray:
    """Rounded to 11 bits of mantissa."""
    return ((np.ascontiguousarray(x).view(np.uint32) + np.uint32(1 << 12)) & np.uint32(~0x1FFF & 0xFFFFFFFF)).view("f4")


class NotSupported(RuntimeError):
    """cudnnGraphNotSupportedError."""


class Tensor:
    """Strides are of NCHW, or of the same in the order of NHWC."""

    def __init__(self, name: str = "", dim: Any = (), stride: Any = ()) -> None:
        self.name, self.dim, self.stride = name, tuple(dim), tuple(stride)

    def set_output(self, yes: bool) -> Tensor:
        assert yes
        return self

    def set_dim(self, dim: list[int]) -> Tensor:
        self.dim = tuple(dim)
        return self

    def set_stride(self, stride: list[int]) -> Tensor:
        self.stride = tuple(stride)
        return self

    def array(self, place: int, reach: Reach) -> np.ndarray:
        """Its numbers at an address, in the order of NCHW."""
        raw = array(reach, place, np.float32, (int(np.prod(self.dim)),))
        return np.lib.stride_tricks.as_strided(raw, self.dim, [4 * x for x in self.stride])


class Pygraph:
    """One convolution. `how` are the module's ways to work."""

    def __init__(self, how: Any, **given: Any) -> None:
        kinds = {given[f"{what}_data_type"] for what in ("io", "intermediate", "compute")}
        assert kinds == {"FLOAT"} and given["handle"] == how.handles
        self.how, self.plans, self.without, self.built = how, list[str](), set[str](), set[int]()

    def tensor(self, **given: Any) -> Tensor:
        return Tensor(**given)

    def conv_fprop(self, image: Tensor, weight: Tensor, **sizes: Any) -> Tensor:
        return self._made("forward", "y", {"x": image, "w": weight}, sizes)

    def conv_dgrad(self, loss: Tensor, filter: Tensor, **sizes: Any) -> Tensor:  # noqa: A002 (the frontend's name)
        return self._made("dgrad", "x", {"y": loss, "w": filter}, sizes)

    def conv_wgrad(self, image: Tensor, loss: Tensor, **sizes: Any) -> Tensor:
        return self._made("wgrad", "w", {"x": image, "y": loss}, sizes)

    def _made(self, direction: str, out: str, read: dict[str, Tensor], sizes: dict[str, Any]) -> Tensor:
        assert sizes["pre_padding"] == sizes["post_padding"] and len(set(sizes["stride"])) == 1
        self.direction, self.out, self.sizes = direction, out, sizes
        self.tensors = {**read, out: Tensor(out)}
        return self.tensors[out]

    def validate(self) -> None:
        self.shape = self._shape()

    def _shape(self) -> Shape:
        """Refuses sizes that are those of no convolution."""
        dims = {name: tensor.dim for name, tensor in self.tensors.items()}
        (n, c, h, w), (k, own, r, s) = dims["x"], dims["w"]
        (top, left), stride, dilation = self.sizes["pre_padding"], self.sizes["stride"][0], self.sizes["dilation"][0]
        sides = {"pad_top": top, "pad_bottom": top, "pad_left": left, "pad_right": left}
        how: dict[str, Any] = {"dilation": dilation, "groups": c // own, "direction": self.direction, **sides}
        shape = Shape(n, c, h, w, k, r, s, stride, **how)
        assert (n, k, *(line.outputs for line in shape.lines)) == dims["y"]
        return shape

    def build_operation_graph(self) -> None: ...

    def create_execution_plans(self, modes: list[str]) -> None:
        self.plans += [name for mode in modes for name in RANKED[mode]]

    def create_execution_plan(self, engine: int, knobs: dict[Any, int]) -> None:
        if engine >= COUNT[self.direction]:
            raise RuntimeError("CUDNN_STATUS_BAD_PARAM")
        if engine not in NOTES:
            text = "detail::finalize(engine.get_ptr()) failed with message: , and code: "
            raise NotSupported(text + "no " * 200 + "CUDNN_STATUS_NOT_SUPPORTED")
        self.plans.append(f"eng{engine}")

    def deselect_numeric_notes(self, notes: list[str]) -> None:
        assert self.plans, "before the plans are made it has no effect"
        self.without |= set(notes)

    def _engine(self, index: int) -> int:
        return int(re.findall(r"\d+", self.plans[index])[0])

    def build_plan_at_index(self, index: int) -> None:
        wide = {"WINOGRAD_TILE_13x13"} if self._engine(index) == 6 and self.shape.r == 5 else set()
        if (NOTES[self._engine(index)] | wide) & self.without:
            raise NotSupported("Deselecting execution plan")
        self.built.add(index)

    def get_engine_count(self) -> int:
        return COUNT[self.direction]

    def get_execution_plan_count(self) -> int:
        return len(self.plans)

    def get_plan_name_at_index(self, index: int) -> str:
        return self.plans[index]

    def get_workspace_size_plan_at_index(self, index: int) -> int:
        assert index in self.built, "of what is not built it says nothing"
        return SPACE[self._engine(index)]

    def get_behavior_notes_for_plan_at_index(self, index: int) -> list[Any]:
        return [SimpleNamespace(name="RUNTIME_COMPILATION")] if self._engine(index) == 38 else []

    def execute_plan_at_index(self, places: dict[Tensor, int], space: int, index: int, handle: int) -> None:
        assert index in self.built and handle == self.how.handles
        if nbytes := SPACE[self._engine(index)]:
            self.how.reach(space, nbytes)
        arrays = {tensor.name: tensor.array(place, self.how.reach) for tensor, place in places.items()}
        given = [arrays[x.name[-1]] for x in self.shape.operands()[:2]]
        self.how.ran(self.plans[index])

        rounded = {22: half, 38: tf32}.get(self._engine(index), np.float64)

        def step() -> None:
            arrays[self.out][...] = truth.output(self.shape, *(rounded(x).astype(np.float64) for x in given))

        self.how.enqueue(step, self.how.stream)


def module(enqueue: Enqueue = at_once, reach: Reach = anywhere, ran: Callable[[str], None] = lambda name: None) -> Any:
    """The frontend's module. `ran` is told each plan that is executed."""
    made: Any = ModuleType("cudnn")
    made.__spec__ = ModuleSpec("cudnn", None)
    how = SimpleNamespace(enqueue=enqueue, reach=reach, ran=ran, stream=None, handles=0)

    def create_handle() -> int:
        how.handles += 1
        return int(how.handles)

    def set_stream(handle: int, stream: int) -> None:
        assert handle == how.handles
        how.stream = stream

    made.__version__, made.pygraph = "1.26.0", lambda **given: Pygraph(how, **given)
    made.backend_version, made.create_handle, made.set_stream = lambda: 91900, create_handle, set_stream
    made.create_device_properties = lambda index: SimpleNamespace(serialize=lambda: '{"deviceVer": 900}')
    made.cudnnGraphNotSupportedError = NotSupported
    made.data_type = SimpleNamespace(FLOAT="FLOAT")
    made.heur_mode = SimpleNamespace(**{mode: mode for mode in RANKED})
    made.numerical_note = SimpleNamespace(**{note: note for note in ALL_NOTES})
    return made
