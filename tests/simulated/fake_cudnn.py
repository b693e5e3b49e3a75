"""cuDNN in NumPy behind the names of its C interface: convolutions on host memory, in float64; its other layers beside.

Arguments must have the very C types that the header gives them. A call does its work when the stream comes to it.
Fused Winograd answers that it is not supported, as cuDNN does on Hopper; a workspace must be as large as was asked for.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from ctypes import c_int, c_size_t, c_uint8, c_void_p
from typing import Any

import numpy as np

from kernels.libs import cudnn
from kernels.ops.conv import layouts, truth
from kernels.ops.conv.shape import Shape
from tests.simulated.fake_cublas import REF, Enqueue, Reach, Text, anywhere, at_once, typed
from tests.simulated.fake_cudnn_pointwise import Pointwise

NOT_SUPPORTED, BAD = 3000, 2000
SPACE = {0: 0, 1: 4096, 2: 8192}  # bytes that an algorithm asks for; others LARGE
LARGE = 1 << 16
PASSES = dict(zip(cudnn.DIRECTIONS, ("forward", "dgrad", "wgrad"), strict=True))


class Version:
    """A function that answers a size_t."""

    restype: Any = None

    def __call__(self) -> int:
        assert self.restype is c_size_t
        return 91900


class Words:
    """A function that answers nothing."""

    restype: Any = c_int

    def __call__(self, words: Any, size: c_size_t) -> None:
        assert self.restype is None and len(words) == size.value
        words.value = b"in plain words"


class Library(Pointwise):
    """`enqueue` is given the work of a call and the stream of its handle, `reach` where each operand lies."""

    def __init__(self, created: int = 0, enqueue: Enqueue = at_once, reach: Reach = anywhere) -> None:
        self.created, self.enqueue, self.reach = created, enqueue, reach
        self.stream: int | None = None
        self.made: dict[int, tuple[int, ...]] = {}  # what each descriptor was set to
        self.maths: dict[int, int] = {}
        self.responses, self.dropouts = {}, {}
        self.ran: list[tuple[str, int, int]] = []  # passes, algorithms, arithmetic
        self.numbers = itertools.count(1)
        self.cudnnGetErrorString = Text()
        self.cudnnGetVersion = Version()
        self.cudnnGetLastErrorString = Words()

    @typed
    def cudnnCreate(self, handle: REF) -> int:
        handle._obj.value = 1
        return self.created

    @typed
    def cudnnSetStream(self, handle: c_void_p, streamId: c_void_p) -> int:
        self.stream = streamId.value
        return 0

    def _new(self, place: Any) -> int:
        place._obj.value = next(self.numbers)
        return 0

    @typed
    def cudnnCreateTensorDescriptor(self, tensorDesc: REF) -> int:
        return self._new(tensorDesc)

    @typed
    def cudnnCreateFilterDescriptor(self, filterDesc: REF) -> int:
        return self._new(filterDesc)

    @typed
    def cudnnCreateConvolutionDescriptor(self, convDesc: REF) -> int:
        return self._new(convDesc)

    @typed
    def cudnnSetTensor4dDescriptor(
        self, desc: c_void_p, order: c_int, kind: c_int, n: c_int, c: c_int, h: c_int, w: c_int
    ) -> int:
        assert kind.value == 0
        self.made[desc.value or 0] = (order.value, n.value, c.value, h.value, w.value)
        return 0

    @typed
    def cudnnSetFilter4dDescriptor(
        self, desc: c_void_p, kind: c_int, order: c_int, k: c_int, c: c_int, h: c_int, w: c_int
    ) -> int:
        assert kind.value == 0
        self.made[desc.value or 0] = (order.value, k.value, c.value, h.value, w.value)
        return 0

    @typed
    def cudnnSetConvolution2dDescriptor(
        self,
        desc: c_void_p,
        pad_h: c_int,
        pad_w: c_int,
        u: c_int,
        v: c_int,
        dilation_h: c_int,
        dilation_w: c_int,
        mode: c_int,
        computeType: c_int,
    ) -> int:
        assert (mode.value, computeType.value, u.value, dilation_h.value) == (1, 0, v.value, dilation_w.value)
        self.made[desc.value or 0] = (pad_h.value, pad_w.value, u.value, dilation_h.value, 1)
        return 0

    @typed
    def cudnnSetConvolutionGroupCount(self, desc: c_void_p, count: c_int) -> int:
        self.made[desc.value or 0] = (*self.made[desc.value or 0][:4], count.value)
        return 0

    @typed
    def cudnnSetConvolutionMathType(self, desc: c_void_p, math: c_int) -> int:
        assert 0 <= math.value <= 3
        self.maths[desc.value or 0] = math.value
        return 0

    def __getattr__(self, name: str) -> Any:
        """The functions that three directions share."""
        for word, direction in cudnn.DIRECTIONS.items():
            for field in ("run", "size", "find", "guess"):
                if getattr(direction, field) == name:
                    function: Callable[..., int] = getattr(self, f"_{field}")
                    return lambda *given: function(word, *given)
        raise AttributeError(name)

    def _size(
        self,
        word: str,
        handle: c_void_p,
        first: c_void_p,
        second: c_void_p,
        how: c_void_p,
        out: c_void_p,
        algorithm: c_int,
        size: Any,
    ) -> int:
        name = cudnn.DIRECTIONS[word].algorithms[algorithm.value]
        if name in ("WINOGRAD", "DIRECT") or (self._order(word, first, second, out) and algorithm.value > 1):
            return NOT_SUPPORTED
        size._obj.value = SPACE.get(algorithm.value, LARGE)
        return 0

    def _order(self, word: str, first: c_void_p, second: c_void_p, out: c_void_p) -> int:
        (order,) = {self.made[x.value or 0][0] for x in (first, second, out)}
        return order

    def _run(
        self,
        word: str,
        handle: c_void_p,
        alpha: Any,
        first: c_void_p,
        one: c_void_p,
        second: c_void_p,
        other: c_void_p,
        how: c_void_p,
        algorithm: c_int,
        space: c_void_p,
        nbytes: c_size_t,
        beta: Any,
        out: c_void_p,
        result: c_void_p,
    ) -> int:
        assert (alpha._obj.value, beta._obj.value) == (1.0, 0.0)
        wanted = SPACE.get(algorithm.value, LARGE)
        if nbytes.value < wanted:
            return BAD
        if wanted:
            self.reach(space.value or 0, wanted)
        direction = cudnn.DIRECTIONS[word]
        descriptors = dict(zip((*direction.reads, direction.writes), (first, second, out), strict=True))
        places = dict(zip((*direction.reads, direction.writes), (one, other, result), strict=True))
        order = self._order(word, first, second, out)
        dims = {name: self.made[x.value or 0][1:] for name, x in descriptors.items()}
        shape = self._shape(PASSES[word], dims, self.made[how.value or 0])
        arrays = {name: self._at(places[name], order, dims[name]) for name in "xwy"}
        given = [arrays[x.name[-1]] for x in shape.operands()[:2]]
        self.ran.append((word, algorithm.value, self.maths.get(how.value or 0, 0)))

        def step() -> None:
            plain = [layouts.plain("nhwc" if order else "nchw", x).astype(np.float64) for x in given]
            answer = truth.output(shape, *plain)
            out_name = direction.writes
            arrays[out_name][...] = layouts.laid("nhwc" if order else "nchw", answer, of_filters=out_name == "w")

        self.enqueue(step, self.stream)
        return 0

    def _shape(self, direction: str, dims: dict[str, tuple[int, ...]], how: tuple[int, ...]) -> Shape:
        n, c, h, w = dims["x"]
        k, _, r, s = dims["w"]
        top, left, stride, dilation, groups = how
        sides = {"pad_top": top, "pad_bottom": top, "pad_left": left, "pad_right": left}
        shape = Shape(n, c, h, w, k, r, s, stride, dilation=dilation, groups=groups, direction=direction, **sides)
        assert (shape.n, shape.k, *(line.outputs for line in shape.lines)) == dims["y"], "cuDNN refuses such sizes"
        return shape

    def _at(self, place: c_void_p, order: int, dims: tuple[int, ...]) -> np.ndarray:
        lying = (dims[0], *dims[2:], dims[1]) if order else dims
        nbytes = 4 * int(np.prod(dims))
        self.reach(place.value or 0, nbytes)
        raw = (c_uint8 * nbytes).from_address(place.value or 0)
        found: np.ndarray = np.ctypeslib.as_array(raw).view(np.float32).reshape(lying)
        return found

    def _guess(
        self,
        word: str,
        handle: c_void_p,
        first: c_void_p,
        second: c_void_p,
        how: c_void_p,
        out: c_void_p,
        most: c_int,
        count: Any,
        rows: Any,
    ) -> int:
        """Its second algorithm first, which works in some bytes, then the first, in none."""
        for row, number in zip(rows, (1, 0), strict=False):
            row.algo, row.memory, row.mathType = number, SPACE[number], self.maths.get(how.value or 0, 0)
        count._obj.value = 2
        return 0

    def _find(
        self,
        word: str,
        handle: c_void_p,
        first: c_void_p,
        one: c_void_p,
        second: c_void_p,
        other: c_void_p,
        how: c_void_p,
        out: c_void_p,
        result: c_void_p,
        most: c_int,
        count: Any,
        rows: Any,
        space: c_void_p,
        nbytes: c_size_t,
    ) -> int:
        """The same, as measured; it writes to the result."""
        self.reach(result.value or 0, 4)
        if nbytes.value:
            self.reach(space.value or 0, nbytes.value)
        return self._guess(word, handle, first, second, how, out, most, count, rows)
