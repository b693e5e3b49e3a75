"""Every named algorithm of one direction of cuDNN: does it exist, does it run, what arithmetic, how long."""

from __future__ import annotations

from functools import partial
from typing import Any

from kernels.errors import LaunchError
from kernels.libs import convolutions, cudnn
from micro.probing import accuracy, clock
from micro.probing.facts import Facts, need

CAPS = {"0": 0, "8 MiB": 8 << 20, "256 MiB": 256 << 20, "1 GiB": 1 << 30}  # workspaces that Find may use
MOST = 8 << 30  # bytes: an algorithm that asks for more is not run


def ask(name: str) -> dict[str, Any]:
    """Facts of `forward`, `backward data` or `backward filter`."""
    need("cupy", "cuda.pathfinder")
    import cupy

    facts = Facts()
    on = cudnn.open_handle()
    facts.ask("cuDNN", lambda: on.api.cudnnGetVersion())
    facts.ask("warm", lambda: clock.warm(cupy))
    cases = [Case(on, name, shape) for shape in convolutions.SMALL]
    for case in cases:  # what is surest first: Find runs what cuDNN likes, in any order
        for math in ("fma", "default"):
            facts.ask(f"guessed, {math}, {case.shape.name}", partial(case.guessed, math))
            for number, algorithm in enumerate(case.made.direction.algorithms):
                question = partial(case.algorithm, math, number)
                facts.ask(f"{algorithm}, {math}, {case.shape.name}", question)
    for case in cases:
        for math in ("fma", "default"):
            for cap, nbytes in CAPS.items():
                facts.ask(f"found within {cap}, {math}, {case.shape.name}", partial(case.found, math, nbytes))
    return facts.found


class Case:
    """One direction of one shape, its operands on the device and its answer in double precision."""

    def __init__(self, on: cudnn.Cudnn, name: str, shape: convolutions.Shape) -> None:
        import cupy

        self.shape, self.cp = shape, cupy
        self.made = cudnn.convolution(on, name, shape.layer)
        direction = self.made.direction
        given = convolutions.operands(shape)
        self.want = convolutions.reference(direction.writes, shape, given)
        self.read = [cupy.asarray(given[operand]) for operand in direction.reads]
        self.out = cupy.empty(shape.dims[direction.writes], cupy.float32)
        first, second = self.read
        self.places = (first.data.ptr, second.data.ptr, self.out.data.ptr)

    def guessed(self, math: str) -> list[dict[str, Any]]:
        self.made.math(math)
        return self.made.guessed()

    def found(self, math: str, nbytes: int) -> list[dict[str, Any]]:
        self.made.math(math)
        space = self.cp.empty(max(1, nbytes), self.cp.uint8)
        rows = self.made.found(self.places, (space.data.ptr if nbytes else 0, nbytes))
        self.cp.cuda.runtime.deviceSynchronize()
        return rows

    def algorithm(self, math: str, number: int) -> dict[str, Any]:
        """Workspace, error, microseconds; what it raises where it is not for this problem."""
        self.made.math(math)
        nbytes = self.made.workspace(number)
        if nbytes > MOST:
            raise LaunchError(f"asks for a workspace of {nbytes} bytes")
        space = self.cp.empty(max(1, nbytes), self.cp.uint8)
        run = self.made.launch(number, self.places, (space.data.ptr if nbytes else 0, nbytes))
        self.out.fill(self.cp.nan)  # what is not written shows
        try:
            run()
            self.cp.cuda.runtime.deviceSynchronize()
        except Exception as error:
            raise LaunchError(f"workspace {nbytes} bytes, then: {error}") from None
        gap = accuracy.error(self.cp.asnumpy(self.out), self.want)
        micro = clock.microseconds(self.cp, run, 50)
        return {"workspace": nbytes, **gap, "like": accuracy.precision(gap["l2"]), "us": micro}
