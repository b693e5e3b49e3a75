"""cuDNN's convolutions in NumPy, on host memory and in float64; its other layers are those of the base classes.

Fused Winograd answers that it is not supported, as cuDNN does on Hopper; a workspace must be as large as was asked for.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from kernels.libs import cudnn
from kernels.ops.conv import layouts, truth
from kernels.ops.conv.shape import Shape
from tests.simulated.fake_c import array
from tests.simulated.fake_cudnn_rnn import Recurrences

NOT_SUPPORTED, BAD = 3000, 2000
SPACE = {0: 0, 1: 4096, 2: 8192}  # bytes that an algorithm asks for; others LARGE
LARGE = 1 << 16
PASSES = dict(zip(cudnn.DIRECTIONS, ("forward", "dgrad", "wgrad"), strict=True))
DIRECTED = {  # functions that three directions have, with the method here and the direction
    getattr(direction, field): (field, word)
    for word, direction in cudnn.DIRECTIONS.items()
    for field in ("run", "size", "find", "guess")
}
ARGUMENTS = {  # of them, alike in three directions whose names differ
    "run": "handle alpha first first_place second second_place how algorithm space nbytes beta out out_place",
    "size": "handle first second how out algorithm size",
    "find": "handle first first_place second second_place how out out_place most count rows space nbytes",
    "guess": "handle first second how out most count rows",
}


class Cudnn(Recurrences):
    """cuDNN. A descriptor's `order` and `dims` are those it was set to."""

    def __init__(self, *how: Any, **more: Any) -> None:
        super().__init__(*how, **more)
        self.ran: list[tuple[str, int, int]] = []  # passes, algorithms, arithmetic

    def perform(self, symbol: str, x: Any) -> Any:
        if symbol not in DIRECTED:
            return super().perform(symbol, x)
        field, word = DIRECTED[symbol]
        named = dict(zip(ARGUMENTS[field].split(), vars(x).values(), strict=True))
        return getattr(self, f"_{field}")(word, SimpleNamespace(**named))

    def GetErrorString(self, x: Any) -> bytes:
        return f"CUDNN_STATUS_{x.status}".encode()

    def GetVersion(self, x: Any) -> int:
        return 91900

    def GetLastErrorString(self, x: Any) -> None:
        assert len(x.message) == x.max_size
        x.message.value = b"in plain words"

    def SetFilter4dDescriptor(self, x: Any) -> None:
        assert x.dataType == 0
        self.alive[x.filterDesc].order, self.alive[x.filterDesc].dims = x.format, (x.k, x.c, x.h, x.w)

    def SetConvolution2dDescriptor(self, x: Any) -> None:
        assert (x.mode, x.computeType, x.u, x.dilation_h) == (1, 0, x.v, x.dilation_w)
        sides = {"pad_top": x.pad_h, "pad_bottom": x.pad_h, "pad_left": x.pad_w, "pad_right": x.pad_w}
        how = self.alive[x.convDesc]
        how.sizes, how.math = {"stride": x.u, "dilation": x.dilation_h, **sides}, 0

    def SetConvolutionGroupCount(self, x: Any) -> None:
        self.alive[x.convDesc].sizes["groups"] = x.groupCount

    def SetConvolutionMathType(self, x: Any) -> None:
        assert 0 <= x.mathType <= 3
        self.alive[x.convDesc].math = x.mathType

    def _size(self, word: str, x: Any) -> int:
        name = cudnn.DIRECTIONS[word].algorithms[x.algorithm]
        if name in ("WINOGRAD", "DIRECT") or (self._order(x.first, x.second, x.out) and x.algorithm > 1):
            return NOT_SUPPORTED
        x.size.value = SPACE.get(x.algorithm, LARGE)
        return 0

    def _order(self, *descriptors: int) -> int:
        (order,) = {self.alive[x].order for x in descriptors}
        return int(order)

    def _run(self, word: str, x: Any) -> int:
        assert (x.alpha.value, x.beta.value) == (1.0, 0.0)
        wanted = SPACE.get(x.algorithm, LARGE)
        if x.nbytes < wanted:
            return BAD
        if wanted:
            self.reach(x.space, wanted)
        direction = cudnn.DIRECTIONS[word]
        names = (*direction.reads, direction.writes)
        layout = "nhwc" if self._order(x.first, x.second, x.out) else "nchw"
        dims = {name: self.alive[made].dims for name, made in zip(names, (x.first, x.second, x.out), strict=True)}
        shape = self._shape(PASSES[word], dims, self.alive[x.how].sizes)
        arrays = {
            name: array(self.reach, place, np.float32, _lying(layout, dims[name]))
            for name, place in zip(names, (x.first_place, x.second_place, x.out_place), strict=True)
        }
        given = [arrays[x.name[-1]] for x in shape.operands()[:2]]
        self.ran.append((word, x.algorithm, self.alive[x.how].math))

        def step() -> None:
            plain = [layouts.plain(layout, x).astype(np.float64) for x in given]
            answer = truth.output(shape, *plain)
            arrays[direction.writes][...] = layouts.laid(layout, answer, of_filters=direction.writes == "w")

        self.enqueue(step, self.alive[x.handle].stream)
        return 0

    def _shape(self, direction: str, dims: dict[str, tuple[int, ...]], how: dict[str, int]) -> Shape:
        k, _, r, s = dims["w"]
        shape = Shape(*dims["x"], k, r, s, direction=direction, **how)  # type: ignore[arg-type]
        assert (shape.n, shape.k, *(line.outputs for line in shape.lines)) == dims["y"], "cuDNN refuses such sizes"
        return shape

    def _guess(self, word: str, x: Any) -> int:
        """Its second algorithm first, which works in some bytes, then the first, in none."""
        for row, number in zip(x.rows, (1, 0), strict=False):
            row.algo, row.memory, row.mathType = number, SPACE[number], self.alive[x.how].math
        x.count.value = 2
        return 0

    def _find(self, word: str, x: Any) -> int:
        """The same, as measured; it writes to the result."""
        self.reach(x.out_place, 4)
        if x.nbytes:
            self.reach(x.space, x.nbytes)
        return self._guess(word, x)


def _lying(layout: str, dims: tuple[int, ...]) -> tuple[int, ...]:
    return dims if layout == "nchw" else (dims[0], *dims[2:], dims[1])
